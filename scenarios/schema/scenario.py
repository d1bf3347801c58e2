"""Schema of a scenario file.  Unknown keys are rejected; units are part of the keys."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from scenarios.schema.entries import Entry
from scenarios.schema.hardware import Boards, Group, Presence, Server
from scenarios.schema.keys import BelowOne, Count, Name, NotNegative, Part, Positive, Seconds, Seed, Share, Value, says
from scenarios.schema.link_keys import NetworkModel, Shared, Transport
from scenarios.schema.model import Model
from scenarios.schema.study import Protocol
from scenarios.schema.task import OF_MAIN, Metric, Task
from scenarios.schema.training import Evaluate, Rounds, Training, own_rounds
from scenarios.schema.tuning import Tune
from scenarios.text.yaml_source import YamlSource


class Split(Part):
    """Division of the training set among the devices, in equal shares unless the data have owners or `sizes_sigma` is
    given."""

    kind: Literal["iid", "dirichlet", "shards", "classes", "natural", "draw", "file"] = says(
        "Rule of the split. iid: at random. dirichlet: each device draws its class shares from Dir(alpha, ..., "
        "alpha). shards: sorted by label, cut, and dealt (McMahan et al. 2017). classes: each device has the same "
        "number of classes, and all examples are dealt (other tools' pathological split). natural: each device is one "
        "of the data's owners, such as a writer. draw: each device draws its examples independently, so that devices "
        "share some. file: as `path` says.",
        "dirichlet",
        default="iid",
    )
    alpha: Positive | None = says(
        "Concentration of a dirichlet split: 0.1 is very uneven, 100 nearly even.", 0.5, default=None
    )
    each: Count | None = says(
        "Shards per device in a shards split (2 by default), classes per device in a classes split, or examples per "
        "device in a draw split.",
        2,
        default=None,
    )
    pure: bool | None = says(
        "Give each shard of a shards split a single label, as FedCurv's blocks have.", True, default=None
    )
    path: str | None = says(
        "File of a file split: the indices of each device's training examples, which devices may share. JSON with a "
        "list of lists, or an object of lists by device or owner; or npz with an array for each.",
        "split.json",
        default=None,
    )
    owners: str | None = says(
        "Owners that a natural split uses, as a pattern with * for their names.", "census-*", default=None
    )
    least: Count | None = says(
        "Fewest training examples that an owner of a natural split must have (10 by default).", 20, default=None
    )
    sizes_sigma: NotNegative | None = says(
        "Standard deviation of the logarithm of a device's number of examples, which is drawn from a lognormal "
        "distribution in an iid, dirichlet or classes split; all devices together have as many as without. 0 is equal.",
        0.7,
        default=None,
    )

    @model_validator(mode="after")
    def _keys_go_with_the_kind(self) -> Split:
        if self.kind == "dirichlet" and self.alpha is None:
            raise ValueError("a dirichlet split needs alpha, for example {kind: dirichlet, alpha: 0.5}")
        if self.kind == "draw" and self.each is None:
            raise ValueError("a draw needs `each`, for example {kind: draw, each: 50}")
        if self.kind == "classes" and self.each is None:
            raise ValueError("a classes split needs `each`, for example {kind: classes, each: 2}")
        if self.kind == "file" and self.path is None:
            raise ValueError("a file split needs path, for example {kind: file, path: split.json}")
        kinds = {
            "alpha": "dirichlet",
            "each": "shards classes draw",
            "pure": "shards",
            "path": "file",
            "owners": "natural",
            "least": "natural",
            "sizes_sigma": "iid dirichlet classes",
        }
        for key, allowed in kinds.items():
            if getattr(self, key) is not None and self.kind not in allowed.split():
                article = "an" if allowed[0] in "aeiou" else "a"
                raise ValueError(
                    f"{key} belongs to {article} {allowed.replace(' ', ' or ')} split; this one is {self.kind}"
                )
        return self


class Proxy(Part):
    """The server's own examples, on which FedCL estimates which weights matter."""

    fraction: Share = says(
        "Share of the training set that the server has; it takes at least 64 examples.", 0.05, default=0.05
    )
    overlap: bool = says("Let devices hold the server's examples too.", True, default=True)
    owners: Count | None = says(
        "Number of owners whose examples the server has, for natural splits; the test set is then theirs. By "
        "default all owners.",
        100,
        default=None,
    )
    shared_owners: Annotated[float, Field(ge=0, le=1)] = says(
        "Share of the server's owners that are also devices.", 0.5, default=1.0
    )


class Columns(Part):
    """Names of the columns of a table, the arrays of an npz file, or the keys of each example. By default they are
    found by their usual names."""

    x: str | tuple[str, ...] | None = says(
        "Column of the inputs, or several, as names or patterns with *, each a feature. By default image, img, x or "
        "another usual name, or else all columns but those of labels and owners.",
        "image",
        ["temperature", "sensor_*"],
        default=None,
    )
    y: str | None = says(
        "Column of the labels. By default label, target, y or another usual name.", "class", default=None
    )
    owner: str | None = says(
        "Column that names whose example it is, for natural splits. By default owner, if there is one.",
        "writer_id",
        default=None,
    )


# A transform: its name, or {name: arguments}
Step = Annotated[
    Annotated[str, Tag("<word>")] | Annotated[dict[str, Any], Field(min_length=1, max_length=1), Tag("<mapping>")],
    Discriminator(lambda value: "<word>" if isinstance(value, str) else "<mapping>"),
]


class Data(Part):
    """The data set, and its division among the devices."""

    set: str = says(
        "Name of the data set. digits (8 x 8 images) and babble (generated text that drifts) come with fedlapse; "
        "mnist, fashion-mnist, cifar10, qmnist (by writer), femnist, shakespeare, leaf-shakespeare, reddit and "
        "leaf-reddit are read from files. torchvision:CIFAR100 is a class of torchvision.datasets, folder:PATH has a "
        "folder of images for each class, file:PATH is npz, CSV or Parquet. Your own is package.module:function, which "
        "may return arrays, or a data set of PyTorch, Hugging Face or Flower.",
        "digits",
        "mnist",
        "torchvision:CIFAR100",
        "folder:birds",
        "file:readings.csv",
        "my_package.data:readings",
        default="digits",
    )
    options: dict[str, Any] = says("Options that the reader of the data set takes.", {"batches": 1}, default={})
    root: str | None = says(
        "Folder with the files of the data set. By default $FEDLAPSE_DATA, or else ./data.", "~/data", default=None
    )
    columns: Columns = says("Names of columns, if they are not the usual ones.", {"y": "class"}, default=Columns())
    test: BelowOne = says(
        "Share of the examples set aside for tests, at random, if the data have no test examples of their own. Sets "
        "that come with fedlapse, and a `Dataset` that your own function returns, stay as they are.",
        0.1,
        default=0.2,
    )
    transform: tuple[Step, ...] = says(
        "Transforms of every example, applied once as it is read, by their names in torchvision.transforms.v2.",
        [{"Resize": [64, 64]}, {"Normalize": {"mean": [0.5], "std": [0.25]}}],
        default=(),
    )
    augment: tuple[Step, ...] = says(
        "Random transforms of the training examples, drawn anew in each step, by their names in "
        "torchvision.transforms.v2; they cost no virtual time. A Normalize that ends `transform` comes after them.",
        [{"RandomCrop": {"size": 32, "padding": 4}}, "RandomHorizontalFlip"],
        default=(),
    )
    download: bool = says("Download missing files into `root`.", False, default=False)
    split: Split = says(
        "Division of the training set among the devices.", {"kind": "dirichlet", "alpha": 0.5}, default=Split()
    )
    proxy: Proxy = says(
        "Examples that the server itself has, also if this is left out.", {"fraction": 0.05}, default=Proxy()
    )
    validation: BelowOne = says(
        "Share of each device's examples that is held out for decisions such as stopping.", 0.1, default=0.1
    )


class Published(Part):
    """A number that a paper states for a setting like this one. Results show it next to the measured number; a
    difference never fails a run."""

    label: str = says("Name of one of the algorithms.", "fedavg")
    metric: Metric = says("Metric that the published number is about.", "accuracy", default="accuracy")
    final: Value | None = says("Value of the metric at the end of the run.", 0.81, default=None)
    over: str | None = says(
        "Name of an algorithm, if `final` is by how much the metric lies above that algorithm's.",
        "fedavg",
        default=None,
    )
    value: Value | None = says("Value of the metric that was reached after `rounds` or `ratio`.", 0.9, default=None)
    rounds: Annotated[float, Field(gt=0, le=1e6)] | None = says(
        "Rounds after which `value` was reached.", 30, default=None
    )
    ratio: Annotated[float, Field(gt=0, le=1e6)] | None = says(
        "Rounds after which `value` was reached, as a multiple of the first algorithm's.", 0.528, default=None
    )
    source: str = says("Place of the number in the paper.", "Table 1", default="")

    @model_validator(mode="after")
    def _one_of_them(self) -> Published:
        given = (self.final, self.rounds, self.ratio)
        if sum(one is not None for one in given) != 1 or (self.final is None) == (self.value is None):
            raise ValueError("a published number is `final:`, or `value:` with `rounds:` or `ratio:`")
        if self.over and self.final is None:
            raise ValueError("a published number has `over:` only with `final:`")
        return self


class Expect(Part):
    """A result that must come out, as the median over seeds; otherwise the exit code is 3."""

    label: str = says("Name of one of the algorithms.", "fedavg")
    metric: Metric = says("Metric that the expectation is about.", "accuracy", default="accuracy")
    reach: Value | None = says(
        "Value that the metric must reach. Without a limit on time, rounds or MB, every seed must reach it.",
        0.9,
        default=None,
    )
    hold: Count = says("Consecutive evaluated rounds in which `reach` must hold.", 1, default=1)
    time_s: Seconds | None = says("Virtual seconds within which `reach` must be reached.", 60, default=None)
    rounds: Count | None = says("Rounds within which `reach` must be reached.", 20, default=None)
    mb: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] | None = says(
        "MB, both directions together, within which `reach` must be reached.", 50, default=None
    )
    final: Value | None = says(
        "Least value that the metric must have at the end, or greatest if lower is better.", 0.93, default=None
    )

    @model_validator(mode="after")
    def _says_something(self) -> Expect:
        limits = [name for name in ("time_s", "rounds", "mb") if getattr(self, name) is not None]
        if limits and self.reach is None:
            raise ValueError(f"{limits[0]} is a limit to `reach:` a value within; give reach")
        if self.reach is None and self.final is None:
            raise ValueError(
                "an expectation needs `reach:` or `final:`, for example {label: fedavg, reach: 0.9, time_s: 60}"
            )
        return self


Selection = Annotated[
    Annotated[str, Tag("<name>")] | Annotated[dict[str, dict[str, Any] | None], Tag("<name and options>")],
    Discriminator(lambda value: "<name>" if isinstance(value, str) else "<name and options>"),
]
DEEPEST = 6  # shared links on a device's way that windows support, at most


class Scenario(Part):
    """A fleet, data, a model, and the algorithms to compare on them."""

    name: Name = says("Name of the scenario, which also names the folder of results.", "campus")
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=1000)] = says(
        "Random seeds. Every algorithm is run once with each; with 5 or more, ratios come with an interval; with "
        "6 one comparison can be significant, with 8 any number.",
        [1, 2, 3, 4, 5],
        default=(1,),
    )
    data: Data = says("Data set, and its division among the devices.", {"set": "digits"}, default=Data())
    model: Model = says(
        "Neural network to train, by its name, or with what of it is trained.",
        "digits-cnn",
        {"name": "my_package.nets:resnet", "weights": "resnet.safetensors", "train": "fc.*"},
        default=Model(),
    )
    task: Task = says("What the model is trained for.", "regression", {"metrics": ["f1"]}, default=Task())
    training: Training = says(
        "Local training on the devices.", {"epochs": 5, "batch": 10, "lr": 0.05}, default=Training()
    )
    rounds: Rounds = says("Number of rounds, and the rules of each.", {"max": 30, "fraction": 0.3}, default=Rounds())
    selection: Selection = says(
        "Rule that selects the devices of a round: random, power_of_choice (Cho et al. 2020, rpow-d), oort (Lai et al. "
        "2021), or your own class as package.module:Class; with options as {oort: {alpha: 1}}. An algorithm may have "
        "its own `selection`.",
        "power_of_choice",
        {"oort": {"alpha": 1.0, "preferred_s": 60}},
        default="random",
    )
    evaluate: Evaluate = says("Evaluation of the models during a run.", {"every": 1}, default=Evaluate())
    keep_models: Literal["last", "none"] = says(
        "Models that the record keeps: each run's last one, or none.", "none", default="last"
    )
    network: Transport = says("Transport of bytes on all links.", {"model": "ideal"}, default=Transport())
    topology: dict[Name, Shared] = says(
        "Access points, cells and backhauls that devices share, by name. Without any, each device is connected "
        "directly to the server's link.",
        {"home-wifi": {"airtime": True, "behind": "dsl"}, "dsl": {"up_mbit_s": 10, "down_mbit_s": 50}},
        default={},
    )
    profiles: Boards = says(
        "Hardware profiles of your own: a file that `fedlapse calibrate` wrote, or the numbers themselves.",
        "mine.csv",
        {"my-board": {"speed_gflop_s": 4, "memory_bandwidth_gb_s": 3, "overhead_ms": 2, "memory_mb": 4000}},
        default={},
    )
    server: Server = says("Hardware and link of the server.", {"profile": "workstation"}, default=Server())
    fleet: Annotated[tuple[Group, ...], Field(min_length=1, max_length=1000)] = says(
        "Groups of devices that take part.",
        [{"profile": "phone-mid", "count": 6, "link": {"up_mbit_s": 2, "down_mbit_s": 10, "latency_ms": 40}}],
    )
    fleet_seed: Seed = says(
        "Random seed of the values that groups of devices draw; the fleet is the same for all seeds and algorithms.",
        0,
        default=0,
    )
    algorithms: Annotated[tuple[Entry, ...], Field(min_length=1, max_length=1000)] = says(
        "Algorithms to compare; the first is the baseline.",
        ["fedavg", {"fedcl": {"strength": 0.5, "interval": 10}, "name": "fedcl-n10"}],
        default=(Entry(key="fedavg", options={}, name="fedavg"),),
    )
    published: tuple[Published, ...] = says(
        "Numbers that a paper states, shown with the results.",
        [{"label": "fedcl", "metric": "initial", "final": 0.8405, "source": "Table 1"}],
        default=(),
    )
    tune: Tune | None = says(
        "Search for the best settings of the algorithms, which `fedlapse tune` makes.",
        {"grid": {"training.lr": [0.01, 0.1]}, "budget": 6},
        default=None,
    )
    tuned: dict[Name, str] = says(
        "Origin of the algorithms' settings, by name, for readers of the results; `fedlapse tune` writes it.",
        {"fedcl": "best of 6, validation accuracy 0.9 under seeds 101, 102"},
        default={},
    )
    study: Protocol | None = says(
        "Protocol of a study, which `fedlapse study` follows.", {"shares": [0.95], "map": {}}, default=None
    )
    protocol: str | None = says(
        "SHA-256 of the study's protocol that these runs belong to; `fedlapse study` writes it into records.",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        default=None,
    )
    small: dict[str, Any] = says(
        "Changes that make a quick version of the scenario, as PATH: VALUE; the option `--small` applies them.",
        {"rounds.max": 8, "data.set": "digits"},
        default={},
    )
    expect: tuple[Expect, ...] = says(
        "Results that must come out; otherwise the exit code is 3.",
        [{"label": "fedavg", "reach": 0.9, "time_s": 60}],
        default=(),
    )

    @cached_property
    def source(self) -> YamlSource | None:
        """The text of the scenario, with the place of each value; None if it was built from plain values."""
        return None

    @property
    def network_model(self) -> NetworkModel:
        """The network model of the scenario.  `auto` stands for windows if all parts of the scenario support that, and
        for tcp otherwise."""
        if self.network.model != "auto":
            return self.network.model
        air = any(link.airtime for link in self.topology.values())
        own = any(group.link.model not in (None, "tcp") for group in self.fleet)
        return "tcp" if air or own or self.depth > DEEPEST else "windows"

    @property
    def depth(self) -> int:
        """The largest number of shared links between a device and the server, without the server's own.  Links that
        form a circle are rejected elsewhere."""

        def above(name: Name | None) -> int:
            seen: list[Name] = []
            while name in self.topology and name not in seen:
                seen.append(name)
                name = self.topology[name].behind
            return len(seen)

        return max(map(above, self.topology), default=0)

    @property
    def time_decides(self) -> bool:
        """True if the times at which rounds end may decide which devices are asked or counted.  Then an algorithm that
        sends more bytes learns from other devices, even if its penalty has no effect."""
        away = any(group.presence != Presence() for group in self.fleet)
        choices = [self.selection, *(entry.options.get("selection", "random") for entry in self.algorithms)]
        return (
            away
            or any(choice != "random" for choice in choices)
            or any(
                rounds.mode == "async"
                or rounds.deadline_s is not None
                or rounds.ask is not None
                or rounds.cycle_s is not None
                for rounds in (self.under(entry.name).rounds for entry in self.algorithms)
            )
        )

    def under(self, label: str) -> Scenario:
        """Returns the scenario with the rounds of the algorithm `label`, which may have rules of its own.

        Raises ValidationError or ValueError if these are wrong.
        """
        own = next((entry.options.get("rounds") for entry in self.algorithms if entry.name == label), None)
        return self.model_copy(update={"rounds": own_rounds(self.rounds, own)}) if own else self

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that runs measure on test examples, besides the loss; the one that decides is the first."""
        rounds = self.rounds
        said = [each.metric for each in rounds.targets] + [each.metric for each in self.expect]
        said += [each.metric for each in self.published] + ([rounds.stop_at.metric] if rounds.stop_at else [])
        wanted = [metric for metric in said if metric not in (*OF_MAIN, "loss")]
        return tuple(dict.fromkeys([*self.task.measured, *wanted]))

    @property
    def devices(self) -> int:
        return sum(group.count for group in self.fleet)

    @property
    def needed(self) -> int:
        """The number of replies that close a round: max(C·K, 1), with C = `fraction` and K devices, as in McMahan et
        al. 2017, rounded half up; in asynchronous rounds `buffer`."""
        return self.rounds.buffer or max(1, int(self.rounds.fraction * self.devices + 0.5))

    @property
    def asked(self) -> int:
        """The number of devices that a round asks, if so many are online; in asynchronous rounds those at work."""
        return self.rounds.in_flight or self.rounds.ask or self.needed

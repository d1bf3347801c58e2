"""A scenario, as its file says it.  Unknown keys are refused; units are in the keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from scenarios.schema.hardware import Boards, Group, Server
from scenarios.schema.keys import BelowOne, Count, Name, NotNegative, Part, Positive, Seconds, Seed, Share, says
from scenarios.schema.links import Shared, Transport

Metric = Literal["accuracy", "initial", "personalised", "validation"]


class Split(Part):
    """How the training set is divided among the devices, in equal shares."""

    kind: Literal["iid", "dirichlet", "shards", "natural", "draw"] = says(
        "iid: drawn blindly. dirichlet: each device draws its class shares from Dir(alpha, ..., alpha). shards: sorted "
        "by label, cut, and dealt (McMahan et al. 2017). natural: each device is one of the data's owners, a writer "
        "say. draw: each device draws its examples anew, so that devices share some.",
        "dirichlet",
        default="iid",
    )
    alpha: Positive | None = says("dirichlet: 0.1 is very uneven, 100 nearly even.", 0.5, default=None)
    each: Count | None = says("shards: so many for a device (2). draw: so many examples for a device.", 2, default=None)
    pure: bool | None = says("shards: none of them has two labels, as FedCurv's blocks.", True, default=None)
    owners: str | None = says("natural: only owners whose names this glob matches.", "census-*", default=None)
    least: Count | None = says("natural: only owners with so many training examples (10).", 20, default=None)

    @model_validator(mode="after")
    def _keys_go_with_the_kind(self) -> Split:
        if self.kind == "dirichlet" and self.alpha is None:
            raise ValueError("a dirichlet split needs alpha, as {kind: dirichlet, alpha: 0.5}")
        if self.kind == "draw" and self.each is None:
            raise ValueError("a draw needs `each`, as {kind: draw, each: 50}")
        kinds = {"alpha": "dirichlet", "each": "shards draw", "pure": "shards", "owners": "natural", "least": "natural"}
        for key, allowed in kinds.items():
            if getattr(self, key) is not None and self.kind not in allowed.split():
                raise ValueError(f"{key} belongs to a {allowed.replace(' ', ' or ')} split; this one is {self.kind}")
        return self


class Proxy(Part):
    """The server's own examples, on which FedCL estimates importance."""

    fraction: Share = says("Share of the training set; at least 64 examples are taken.", 0.05, default=0.05)
    overlap: bool = says("Whether devices may hold them too.", True, default=True)
    owners: Count | None = says(
        "natural splits: they are examples of so many owners, and the test set is these owners'. Default: of all.",
        100,
        default=None,
    )
    shared_owners: Annotated[float, Field(ge=0, le=1)] = says(
        "owners: such a share of them are devices; the others are owners whom no device is.", 0.5, default=1.0
    )


class Data(Part):
    """What is learnt, and who holds which part of it."""

    set: str = says(
        "digits (8 x 8) and babble (generated text that drifts) come with fedlapse; mnist, fashion-mnist, cifar10, "
        "qmnist (by writer), femnist, shakespeare, leaf-shakespeare, reddit and leaf-reddit are read from files; or "
        "your own as package.module:function.",
        "digits",
        "mnist",
        "my_package.data:readings",
        default="digits",
    )
    options: dict[str, Any] = says("Of the set: what its reader takes.", {"batches": 1}, default={})
    root: str | None = says("Where the files lie; else $FEDLAPSE_DATA, else ./data.", "~/data", default=None)
    download: bool = says("Fetch what is missing into root.", False, default=False)
    split: Split = says("How it is divided.", {"kind": "dirichlet", "alpha": 0.5}, default=Split())
    proxy: Proxy = says("The server's own examples.", {"fraction": 0.05}, default=Proxy())
    validation: BelowOne = says("Share of each device's examples that is held out, for choices.", 0.1, default=0.1)


class Training(Part):
    """Local training by SGD.  An algorithm may override any of these in its own `training:`."""

    epochs: Count = says("Passes over a device's examples in a round (E).", 1, 5, default=5)
    batch: Count = says("Examples in a step (B).", 10, 64, default=10)
    lr: Positive = says("Learning rate of the first round.", 0.05, default=0.05)
    lr_decay: Share = says("Factor by which it shrinks each round.", 0.99, default=1.0)
    lr_schedule: Literal["exponential", "cosine"] = says(
        "exponential: by lr_decay. cosine: half a wave from lr to lr_end, in lr_rounds.",
        "cosine",
        default="exponential",
    )
    lr_end: NotNegative = says("cosine: the learning rate that it ends with.", 0.0001, default=0.0)
    lr_rounds: Annotated[int, Field(ge=0, le=1_000_000)] = says("cosine: rounds until then.", 500, default=0)
    momentum: BelowOne = says("Of SGD, within a round.", 0.9, default=0.0)
    weight_decay: NotNegative = says("Of SGD.", 0.0001, default=0.0)

    @model_validator(mode="after")
    def _a_cosine_takes_rounds(self) -> Training:
        if self.lr_schedule == "cosine" and not self.lr_rounds:
            raise ValueError("a cosine needs lr_rounds, as {lr_schedule: cosine, lr_rounds: 500}")
        return self


class Target(Part):
    """A value that a metric shall reach; the time until then is the result."""

    metric: Metric = says("What is looked at, after each evaluated round.", "accuracy", default="accuracy")
    value: Share = says("From 0 to 1.", 0.9)
    hold: Count = says("In so many evaluated rounds in a row.", 3, default=1)


class Stop(Target):
    """A target at which a run ends."""

    metric: Metric = says("A choice, so it is made on held-out examples.", "validation", default="validation")


class Rounds(Part):
    """How rounds are played, and until when."""

    max: Count = says("A run ends after so many rounds.", 60, default=60)
    per_cycle: Annotated[int, Field(ge=0, le=1_000_000)] = says(
        "Data that drift: so many rounds on each time slice of them, as on a month; 0: all slices at once.",
        20,
        default=0,
    )
    cycle_s: Seconds | None = says(
        "Data that drift: a new time slice comes every so many seconds, and the clock jumps there. Default: as soon as "
        "it is wanted.",
        3600,
        default=None,
    )
    fraction: Share = says("Of the fleet: so many replies close a round.", 0.3, default=0.3)
    ask: Count | None = says(
        "Devices asked in a round; more than the fraction is over-selection. Default: just as many.", 8, default=None
    )
    deadline_s: Seconds | None = says("A round closes so long after it opened.", 120, default=None)
    min_replies: Count = says("With fewer replies the model stays as it was.", 2, default=1)
    stragglers: Literal["stop", "finish"] = says(
        "What becomes of devices that are still at it when a round closes.", "finish", default="stop"
    )
    when_off: Literal["lose", "pause", "restart"] = says(
        "What becomes of computing when its device goes off line: it is lost, or goes on when the device is back, or "
        "starts again then.",
        "pause",
        default="lose",
    )
    transfers: Literal["lose", "restart", "resume"] = says(
        "The same of a transfer; resume: from the byte that was reached.", "resume", default="lose"
    )
    targets: tuple[Target, ...] = says(
        "Time, rounds and bytes until these are reported.", [{"metric": "accuracy", "value": 0.9}], default=()
    )
    stop_at: Stop | None = says("Ends a run early.", {"value": 0.95, "hold": 3}, default=None)


def _word_or_number(value: Any) -> str:
    return "<word>" if isinstance(value, str) else "<rounds>"


PersonaliseEvery = Annotated[
    Annotated[Literal["never"], Tag("<word>")] | Annotated[int, Field(ge=0, le=1_000_000), Tag("<rounds>")],
    Discriminator(_word_or_number),
]


class Evaluate(Part):
    """When models are evaluated; it costs no virtual time."""

    every: Annotated[int, Field(ge=0, le=1_000_000)] = says("Rounds; 0: never.", 1, default=1)
    personalise_every: PersonaliseEvery = says(
        "Rounds; 0: at the end only; never. Trains every device once more, so it takes real time.",
        10,
        "never",
        default=0,
    )


def entry_of(entry: Any) -> Any:
    """The short forms of an algorithm, written out."""
    if isinstance(entry, str):
        return {"key": entry, "options": {}, "name": name_of(entry)}
    if not isinstance(entry, dict) or set(entry) == {"key", "options", "name"}:
        return entry
    if "algorithm" in entry:  # {algorithm: my_package.mine:Mine, options: {...}, name: mine}
        said = entry["algorithm"]
        rest = {key: value for key, value in entry.items() if key != "algorithm"}
        return {"key": said, "options": {}, "name": name_of(said), **rest}
    keys = [key for key in entry if key != "name"]
    if len(keys) != 1:
        raise ValueError(f"an entry names one algorithm, as {{fedcl: {{strength: 0.5}}, name: mine}}, not {keys}")
    options = {} if entry[keys[0]] is None else entry[keys[0]]
    if not isinstance(options, dict):
        raise ValueError(f"{keys[0]} has {options!r}; its options are a mapping, as {{fedcl: {{strength: 0.5}}}}")
    return {"key": keys[0], "options": options, "name": entry.get("name", name_of(keys[0]))}


def name_of(key: Any) -> Any:
    """What results call an algorithm that is given no name: `fedcl`, or of `my_package.mine:Mine` `mine`."""
    return key.rpartition(":")[2].rpartition(".")[2].lower() if isinstance(key, str) else key


class Entry(Part):
    """An algorithm to run: `fedavg`, or `{fedcl: {strength: 0.5}, name: mine}`."""

    key: str = says("One that `fedlapse algorithms` lists, or package.module:Class.", "fedcl", "my_package.mine:Mine")
    options: dict[str, Any] = says("Its options.", {"strength": 0.5}, default={})
    name: Name = says("What results call it. Default: the algorithm's name.", "fedcl-n10")

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, said: Any) -> Any:
        return entry_of(said)


class Encoding(Part):
    """How an algorithm's tensors travel, kind by kind, where not as they are: float16, bfloat16, int8, int8-sqrt,
    sparse, or top-0.01 for the largest hundredth.  What is lost is lost: the other side gets what it decodes."""

    up: dict[str, str] = says("Of uploads.", {"weights": "int8", "fisher": "bfloat16"}, default={})
    down: dict[str, str] = says("Of downloads.", {"weights": "float16"}, default={})


class Published(Part):
    """A number that a paper states for a setting like this; it is shown beside ours and never judged."""

    label: str = says("The name of one of the algorithms.", "fedavg")
    metric: Metric = says("What is looked at.", "accuracy", default="accuracy")
    final: Share | None = says("Its value at the end ...", 0.81, default=None)
    value: Share | None = says("... or a value, ...", 0.9, default=None)
    rounds: Annotated[float, Field(gt=0, le=1e6)] | None = says("... reached in so many rounds ...", 30, default=None)
    ratio: Annotated[float, Field(gt=0, le=1e6)] | None = says(
        "... or in such a part of the rounds of the first algorithm.", 0.528, default=None
    )
    source: str = says("Where it stands.", "Table 1", default="")

    @model_validator(mode="after")
    def _one_of_them(self) -> Published:
        given = (self.final, self.rounds, self.ratio)
        if sum(one is not None for one in given) != 1 or (self.final is None) == (self.value is None):
            raise ValueError("a published number is `final:`, or `value:` with `rounds:` or `ratio:`")
        return self


class Expect(Part):
    """What must come out of it, as the median over seeds; else the exit code is 3."""

    label: str = says("The name of one of the algorithms.", "fedavg")
    metric: Metric = says("What is looked at.", "accuracy", default="accuracy")
    reach: Share | None = says("A value that it must get to; without a limit, in every seed ...", 0.9, default=None)
    hold: Count = says("... in so many evaluated rounds in a row,", 1, default=1)
    time_s: Seconds | None = says("... within so many virtual seconds,", 60, default=None)
    rounds: Count | None = says("... or rounds,", 20, default=None)
    mb: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] | None = says(
        "... or MB both ways.", 50, default=None
    )
    final: Share | None = says("The least value at the end.", 0.93, default=None)

    @model_validator(mode="after")
    def _says_something(self) -> Expect:
        limits = [name for name in ("time_s", "rounds", "mb") if getattr(self, name) is not None]
        if limits and self.reach is None:
            raise ValueError(f"{limits[0]} is a limit to `reach:` a value within; give reach")
        if self.reach is None and self.final is None:
            raise ValueError("an expectation needs `reach:` or `final:`, as {label: fedavg, reach: 0.9, time_s: 60}")
        return self


class Scenario(Part):
    """What is run: a fleet, data, a model, and the algorithms that are compared."""

    name: Name = says("Names the folder of results.", "campus")
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=1000)] = says(
        "Each is one run of every algorithm; from 5 on, ratios come with an interval.", [1, 2, 3, 4, 5], default=(1,)
    )
    data: Data = says("What is learnt.", {"set": "digits"}, default=Data())
    model: str = says(
        "digits-cnn, mlp, mnist-cnn, or your own as package.module:function.",
        "digits-cnn",
        "my_package.nets:tiny",
        default="digits-cnn",
    )
    training: Training = says("How devices train.", {"epochs": 5, "batch": 10, "lr": 0.05}, default=Training())
    rounds: Rounds = says("How rounds are played.", {"max": 30, "fraction": 0.3}, default=Rounds())
    evaluate: Evaluate = says("When models are evaluated.", {"every": 1}, default=Evaluate())
    network: Transport = says("How bytes travel on all links.", {"model": "ideal"}, default=Transport())
    topology: dict[Name, Shared] = says(
        "Access points, cells and backhauls that devices share, by name; without any each device has a way of its own "
        "to the server's link.",
        {"home-wifi": {"airtime": True, "behind": "dsl"}, "dsl": {"up_mbit_s": 10, "down_mbit_s": 50}},
        default={},
    )
    profiles: Boards = says(
        "Kinds of hardware of your own: a file as `fedlapse calibrate` prints it, or their numbers.",
        "mine.csv",
        {"my-board": {"speed_gflop_s": 4, "memory_bandwidth_gb_s": 3, "overhead_ms": 2, "memory_mb": 4000}},
        default={},
    )
    server: Server = says("The server and its link.", {"profile": "workstation"}, default=Server())
    fleet: Annotated[tuple[Group, ...], Field(min_length=1, max_length=1000)] = says(
        "Groups of devices.",
        [{"profile": "phone-mid", "count": 6, "link": {"up_mbit_s": 2, "down_mbit_s": 10, "latency_ms": 40}}],
    )
    fleet_seed: Seed = says("Of what groups draw: the same fleet for all seeds and algorithms.", 0, default=0)
    algorithms: Annotated[tuple[Entry, ...], Field(min_length=1, max_length=100)] = says(
        "What is compared; the first is the baseline.",
        ["fedavg", {"fedcl": {"strength": 0.5, "interval": 10}, "name": "fedcl-n10"}],
        default=(Entry(key="fedavg", options={}, name="fedavg"),),
    )
    published: tuple[Published, ...] = says(
        "What a paper states, to be shown beside ours.",
        [{"label": "fedcl", "metric": "initial", "final": 0.8405, "source": "Table 1"}],
        default=(),
    )
    small: dict[str, Any] = says(
        "Changes that make it quick, PATH: VALUE as on the command line; `--small` makes them.",
        {"rounds.max": 8, "data.set": "digits"},
        default={},
    )
    expect: tuple[Expect, ...] = says(
        "What must come out of it, else the exit code is 3.",
        [{"label": "fedavg", "reach": 0.9, "time_s": 60}],
        default=(),
    )

    @property
    def devices(self) -> int:
        return sum(group.count for group in self.fleet)

    @property
    def needed(self) -> int:
        """How many replies close a round: max(C·K, 1) as in McMahan et al. 2017, rounded half up."""
        return max(1, int(self.rounds.fraction * self.devices + 0.5))

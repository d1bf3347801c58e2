"""The objects of a scenario: data and shards, algorithms, fleet.  Jobs only read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy import bincount, ndarray

from algorithms.algorithm import Algorithm, Tensors, Training
from algorithms.networks import Network
from algorithms.selection.past import Pasts, Selection
from devices.data.dataset import Dataset, Form
from devices.device import Device
from emulator.lab.links import LinksAtOffsets, places
from emulator.lab.seeds import seed as derive
from emulator.messages.codec import arrays_of
from emulator.messages.forms import UploadForm
from emulator.record.call import turn
from network.links.link import Link
from network.sharing.flow import Topology
from network.wire import payload
from network.wire.encoding import parse
from scenarios.builders.own_code import kept_for_a_call
from scenarios.builders.roster import all_names, sample
from scenarios.builders.transforms import Augmentation

if TYPE_CHECKING:
    from torch import Tensor, nn

    from algorithms.tasks.task import Task

CPU = "cpu"
Held = Mapping[str, tuple[ndarray, ...]]  # device -> its examples of each time slice; one slice if they never change
Encodings = Mapping[str, str]  # kind -> its encoding (network/wire/encoding.py)


@dataclass(frozen=True)
class Division:
    """The division of examples under one seed: indices into the training set, and `tests` into the test set."""

    train: Held
    validation: Held
    tests: Held
    proxy: ndarray  # the server's
    owners: Mapping[str, str] = field(default_factory=dict)  # device -> whose examples it has, if they have names
    test: ndarray | None = None  # tests the global model; None: all test examples


def in_cycle(held: Held, name: str, cycle: int) -> ndarray:
    """Returns the device's examples in this time slice; after the last slice, those of the last one."""
    slices = held[name]
    return slices[min(cycle, len(slices) - 1)]


@dataclass(frozen=True)
class Lab:
    model: Network
    dataset: Dataset | None  # None only while it is sent to a worker
    splits: Mapping[int, Division]  # by seed
    algorithms: Mapping[str, Algorithm]  # by label
    fleet: Mapping[str, Device]  # by name, sorted
    links: Mapping[str, Link]  # by device name
    server: Device
    server_link: Link
    topology: Topology = field(default_factory=dict)  # access points and cells, by direction
    asked: Mapping[str, int] = field(default_factory=dict)  # by label: devices asked per round; asynchronous: at work
    buffer: Mapping[str, int] = field(default_factory=dict)  # by label: replies that make a version; 0: synchronous
    up: Mapping[str, Encodings] = field(default_factory=dict)  # by label: encodings of uploads
    down: Mapping[str, Encodings] = field(default_factory=dict)  # by label: encodings of downloads
    selections: Mapping[str, Selection] = field(default_factory=dict)  # by label: choices of devices; others draw
    always_on: bool = False  # no device ever goes offline
    stack: Mapping[str, int] = field(default_factory=dict)  # by label: devices in a stack, at most; default 1
    over_sockets: bool = False  # uploads are sent as bytes, with their tensors' names
    draw: int = 0  # number of TCP's chances on full links that a run has; 0 is the record's, others are for comparison
    augment: Augmentation | None = None  # of training examples
    task_name: str = "classification"  # or that of a user's own: package.module:Task
    metrics: Sequence[str] = ("accuracy",)  # of the task, measured in evaluated rounds; the first decides
    preloaded: bool = False  # frozen weights are on the devices already
    trains_on: Sequence[str] = ("cpu",)  # where torch computes the devices' halves: or GPUs, each worker's in turn

    @property
    def data(self) -> Dataset:
        """The data set.  Raises ValueError in a worker before the data has arrived."""
        if self.dataset is None:
            raise ValueError("the lab travelled without its data; executors hand it over")
        return self.dataset

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all devices, sorted."""
        return all_names(self.fleet)

    @property
    def task(self) -> Task:
        """The task of the network: loss and metrics."""
        return task_named(self.task_name)

    def network(self, seed: int) -> nn.Module:
        """Returns a new network with initial weights drawn from this seed."""
        return _built(self.model, seed, self.data.form)

    @property
    def frozen(self) -> Tensors:
        """The tensors that are brought to each device once, with their bytes in place of a dtype that messages lack."""
        from torch import uint8

        from algorithms.training.tensors import frozen_of

        found = {} if self.preloaded else frozen_of(self.module)
        known = {name: str(value.dtype).removeprefix("torch.") in payload.DTYPES for name, value in found.items()}
        return {name: value if known[name] else value.reshape(-1).view(uint8) for name, value in found.items()}

    @property
    def brings_frozen(self) -> bool:
        """True if the first message to a device brings the tensors that never change."""
        return bool(self.model.train) and not self.preloaded

    def kept(self, seed: int) -> Tensors:
        """Returns the tensors that never leave a device, as each has them at the beginning of a run with this seed."""
        if self.model.keep and seed not in self._kept:
            from algorithms.training.tensors import kept_of

            found = kept_of(self.network(derive(seed, "weights")))
            self._kept[seed] = {name: value.to(self.on, copy=True) for name, value in found.items()}
        return self._kept.get(seed, {})

    def lossy(self, label: str) -> dict[str, str]:
        """Returns the lossy encodings of the algorithm `label` by direction and kind, such as {"up fisher":
        "bfloat16"}."""
        ways = {"up": self.up.get(label, {}), "down": self.down.get(label, {})}
        return {f"{way} {kind}": how for way, of in ways.items() for kind, how in of.items() if parse(how).lossy}

    @property
    def module(self) -> nn.Module:
        """The network that this process shares on the CPU; callers load their own values into it first
        (training/tensors.py)."""
        return _module(self.model, self.data.form, CPU)

    def upload_form(self, label: str, round: int, seed: int = 0) -> UploadForm:
        """Returns the form of this round's uploads.  The last one of each label and seed is cached."""
        round = self.turn(label, round)
        known, form = self._forms.get((label, seed), (None, None))
        if form is None or known != round:
            form = UploadForm(partial(self._shapes, label, round), partial(self.constants, seed))
            self._forms[label, seed] = round, form
        return form

    def constants(self, seed: int) -> Mapping[str, ndarray]:
        """Returns the buffers of a run's first model that are not finite, such as a mask of -inf; in messages, too,
        they may be so."""
        if ":" not in self.model.name:
            return {}
        if seed not in self._constants:
            model = self.network(derive(seed, "weights"))
            trained = dict(model.named_parameters())
            buffers = {name: value for name, value in model.state_dict().items() if name not in trained}
            self._constants[seed] = {name: b.numpy().copy() for name, b in buffers.items() if not b.isfinite().all()}
        return self._constants[seed]

    def _shapes(self, label: str, round: int) -> payload.Shapes:
        return payload.manifest(arrays_of(self.algorithms[label].upload_form(round, self.module)))

    @property
    def on(self) -> str:
        """The device of torch on which this process trains the emulated devices, such as "cpu" or "cuda:0"."""
        return self.trains_on[0]

    def module_on(self, place: str) -> nn.Module:
        """Returns the network that this process shares on the device `place` of torch."""
        return _module(self.model, self.data.form, place)

    def examples(self, part: str, indices: ndarray, place: str = CPU) -> tuple[Tensor, Tensor]:
        """Returns examples and labels at these indices: of the test set if `part` is "test", otherwise of the training
        set.  They are on the device `place` of torch."""
        import torch

        from algorithms.training.tensors import as_input

        if place == CPU:
            x, y = self._part(part)
            return as_input(torch.from_numpy(x[indices])), torch.from_numpy(y[indices])
        from algorithms.training.transfers import sent

        chosen = sent(torch.from_numpy(indices), torch.device(place))
        all_x, all_y = self._resident["test" if part == "test" else "train"]
        return as_input(all_x[chosen]), all_y[chosen]

    def shards(self, part: str, held: Sequence[ndarray], place: str = CPU) -> list[tuple[Tensor, Tensor]]:
        """Returns the examples and labels of several devices, a pair for each, from `part` as in `examples`; a GPU
        gathers them in one operation."""
        if place == CPU:
            return [self.examples(part, indices) for indices in held]
        sizes = [len(indices) for indices in held]
        x, y = self.examples(part, np.concatenate(held), place)
        return list(zip(x.split_with_sizes(sizes), y.split_with_sizes(sizes), strict=True))

    def proxy(self, seed: int) -> tuple[Tensor, Tensor]:
        """Returns a private copy of the server's examples and labels."""
        return self.examples("train", self.splits[seed].proxy)

    def _part(self, part: str) -> tuple[ndarray, ndarray]:
        return (self.data.x_test, self.data.y_test) if part == "test" else (self.data.x, self.data.y)

    @cached_property
    def _trainings(self) -> dict[str, Training]:
        return {}

    @cached_property
    def _kept(self) -> dict[int, Tensors]:
        return {}

    @cached_property
    def _constants(self) -> dict[int, Mapping[str, ndarray]]:
        return {}

    @cached_property
    def _forms(self) -> dict[tuple[str, int], tuple[int, UploadForm]]:
        """By label and seed: the last requested round, and its form."""
        return {}

    @cached_property
    def _resident(self) -> Mapping[str, tuple[Tensor, Tensor]]:
        """Training and test set in the memory of this process's GPU, copied once."""
        from torch import tensor

        parts = {part: self._part(part) for part in ("train", "test")}
        return {part: (tensor(x, device=self.on), tensor(y, device=self.on)) for part, (x, y) in parts.items()}

    def placed(self, seed: int) -> LinksAtOffsets:
        """Returns the links of a run with this seed, each at its offset into its trace."""
        return LinksAtOffsets(self.server_link, self.links, self.topology, places(seed), self.draw)

    def cycle(self, label: str, round: int) -> int:
        """Returns the number of the data's time slice in this round, for the algorithm `label`."""
        return self._training(label).cycle(self.turn(label, round))

    def tells_steps(self, label: str) -> bool:
        """Returns true if the algorithm's devices train for `seconds`, and tell in how many steps."""
        return self._training(label).seconds > 0

    def _training(self, label: str) -> Training:
        if label not in self._trainings:
            self._trainings[label] = self.algorithms[label].training  # cached, because a guarded algorithm takes 5 us
        return self._trainings[label]

    def turn(self, label: str, round: int) -> int:
        """Returns the number of this round of the algorithm `label` as algorithms and schedules count rounds."""
        return turn(round, self.buffer.get(label, 0), self.asked.get(label, 1))

    def ahead(self, label: str, round: int) -> int:
        """Returns how many rounds, as this algorithm counts them, are from this one to that of the next model: 1 in
        synchronous rounds."""
        return self.turn(label, round + 1) - self.turn(label, round)

    def held(self, seed: int, name: str, cycle: int = 0) -> ndarray:
        """Returns the device's training examples in this time slice."""
        return in_cycle(self.splits[seed].train, name, cycle)

    def loss_power(self, label: str) -> int:
        """Returns the power of the losses that replies carry (selection/past.py); 0: they carry none."""
        return self.selections[label].loss_power if label in self.selections else 0

    def pasts(self, seed: int) -> Pasts:
        """Returns what the server knows of the devices before a run with this seed."""
        return Pasts(lambda name: sum(map(len, self.splits[seed].train[name])))

    def stacks(self, label: str, names: Sequence[str]) -> list[Sequence[str]]:
        """Splits the names, in order, into as few stacks as possible, of nearly equal sizes."""
        count = -(-len(names) // self.stack.get(label, 1))
        ends = [len(names) * k // count for k in range(count + 1)]
        return [names[start:end] for start, end in pairwise(ends)]

    @property
    def kinds(self) -> int:
        """The number of classes, or of strata if examples have no class."""
        return kinds(self.data)

    def label_counts(self, seed: int) -> dict[str, list[int]]:
        """Returns `counts_by_class` of the devices' training examples under one seed."""
        return counts_by_class(self.data, self.splits[seed].train)


def kinds(data: Dataset) -> int:
    """Returns the number of classes, or of strata if examples have no class."""
    return data.classes if data.labels is not None or data.strata is None else int(data.strata.max()) + 1


def counts_by_class(data: Dataset, train: Held) -> dict[str, list[int]]:
    """Returns, by device, the number of its training examples of each class; for texts, and data without classes, of
    each time slice.

    For a large fleet that draws its examples, only a sample of the devices.
    """
    shards = {name: train[name] for name in sample(train)}
    labels = data.groups if data.labels is None else data.labels
    if labels is None or data.text:
        return {name: [len(part) for part in slices] for name, slices in shards.items()}
    counts = {name: np.concatenate(slices) for name, slices in shards.items()}
    return {name: bincount(labels[held], minlength=kinds(data)).tolist() for name, held in counts.items()}


@kept_for_a_call(maxsize=4)
def _module(said: Network, form: Form, place: str) -> nn.Module:
    from algorithms.training.as_built import remember

    module = _built(said, 0, form)
    if place == CPU:
        return remember(module)
    from algorithms.training.dropout import counter_based
    from algorithms.training.tensors import retied

    return remember(counter_based(retied(module.to(place), _built(said, 0, form))))


@kept_for_a_call(maxsize=4)
def task_named(name: str) -> Task:
    """Returns the task of this name, the same object in all of a process; see algorithms.tasks.task.named."""
    from algorithms.tasks.task import named

    return named(name)


def _built(said: Network, seed: int, form: Form) -> nn.Module:
    from algorithms import models  # imports torch; a lab for replays has no model

    return models.build(said, seed, *form)

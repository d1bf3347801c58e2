"""The interface of an algorithm, and the data that it works on.

An algorithm is pure: tensors and numbers in, tensors and numbers out.  It does not know the time, the world in which it
runs, or the transport of its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import cos, inf, pi
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, get_args

from algorithms import option_checks

if TYPE_CHECKING:  # a replay reads these types and computes nothing, so it need not import torch
    from numpy import ndarray
    from torch import Tensor, nn

    from algorithms.cohort import CohortRule

Tensors = dict[str, "Tensor"]  # parameter name -> tensor
Message = dict[str, Tensors]  # kind -> tensors, such as {"weights": ..., "importance": ...}
Loss = Callable[["Tensor", "Tensor"], "Tensor"]  # (outputs, y) -> loss of each example, (n,)
Precision = Literal["float32", "tf32", "bf16"]
Augment = Callable[["Tensor"], "Tensor"]  # (one example) -> the example, changed at random
Send = Callable[[str, Tensors], Tensors]  # (kind, tensors) -> the tensors that the receiver decodes


MOST_STEPS = 1_000_000  # of a round on one device
OPTIMIZERS = ("sgd", "adam", "adamw")
Schedule = Literal["exponential", "cosine", "step", "linear_warmup", "constant"]
LENGTHS = {"cosine": "a cosine", "step": "a step", "linear_warmup": "a warm-up"}  # schedules that have lr_rounds


@dataclass(frozen=True)
class Training:
    """Local training: a fresh optimiser each round (docs/design/algorithms.md §1)."""

    # Passes over the device's examples in a round (E); of a fraction, its steps are rounded up. Whole ones are an int.
    epochs: int | float = 5
    batch: int = 10  # examples per step (B); the last batch of an epoch may be shorter
    lr: float = 0.05  # learning rate of round 0
    lr_decay: float = 1.0  # lr of round t is lr * lr_decay**t, t counted globally
    lr_schedule: Schedule = "exponential"
    lr_end: float = 0.0  # last learning rate of the cosine schedule, from round lr_rounds on
    lr_rounds: int = 0  # length in rounds of the cosine, of each step, or of the warm-up
    momentum: float = 0.0
    weight_decay: float = 0.0
    optimizer: str = "sgd"  # one of OPTIMIZERS, or a user's own, package.module:factory (training/optimizers.py)
    nesterov: bool = False  # Nesterov's momentum
    clip_norm: float = 0.0  # largest norm of a step's gradient, with penalties; 0: no limit
    precision: Precision = "float32"  # precision of products in a step (algorithms/training/precision.py)
    steps: int = 0  # steps of a round, instead of epochs; 0: by epochs
    seconds: float = 0.0  # instead: as many whole steps as the device's profile says that fit, and 1 at least; 0: not
    weigh_by: Literal["examples", "steps"] = "examples"  # weights of replies in means
    per_cycle: int = 0  # rounds per time slice of the data; 0: the data do not change

    def __post_init__(self) -> None:
        option_checks.check(self, clip_norm=(0, inf), steps=(0, MOST_STEPS), seconds=(0, inf))
        if self.steps and self.seconds:
            raise ValueError(f"steps is {self.steps} and seconds {self.seconds:g}; it must be one of the two")
        if self.lr_schedule in LENGTHS and self.lr_rounds < 1:
            example = f"{{lr_schedule: {self.lr_schedule}, lr_rounds: 50}}"
            raise ValueError(
                f"lr_rounds is {self.lr_rounds}; {LENGTHS[self.lr_schedule]} takes 1 or more, as {example}"
            )
        name, words = self.optimizer, option_checks.either(OPTIMIZERS)
        if name not in OPTIMIZERS and ":" not in name:
            raise ValueError(f"optimizer is {name!r}; it must be {words}, or your own as package.module:factory")
        if name in ("adam", "adamw") and self.momentum:
            raise ValueError(f"momentum is {self.momentum}; {name} has none, so it must be 0")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov is true and momentum is 0; it must be above 0, for example 0.9")

    def cycle(self, round: int) -> int:
        """Returns the number of the data's time slice in global round `round`; both count from 0."""
        return round // self.per_cycle if self.per_cycle else 0

    def rate(self, round: int) -> float:
        """Returns the learning rate in global round `round`, counted from 0.

        exponential: lr * lr_decay**t; cosine: Loshchilov and Hutter 2017, Eq. 5; step: multiplied by lr_decay after
        each lr_rounds rounds; linear_warmup: lr (t + 1) / lr_rounds, and lr after these rounds; constant: lr.
        """
        match self.lr_schedule:
            case "cosine":
                gone = min(1.0, round / self.lr_rounds)
                return self.lr_end + (self.lr - self.lr_end) * (1 + cos(pi * gone)) / 2
            case "step":
                return self.lr * self.lr_decay ** (round // self.lr_rounds)
            case "linear_warmup":
                return self.lr * min(1.0, (round + 1) / self.lr_rounds)
            case "constant":
                return self.lr
        return self.lr * self.lr_decay**round


def matches(name: str, globs: str) -> bool:
    """Returns true if the parameter's name matches one of the globs (separated by spaces) and none of those that begin
    with !.

    So "* !fc2.*" matches all but the last layer.
    """
    listed = globs.split()
    if any(fnmatchcase(name, glob[1:]) for glob in listed if glob[0] == "!"):
        return False
    return any(fnmatchcase(name, glob) for glob in listed)


def unharmed(kind: str, tensors: Tensors) -> Tensors:  # noqa: ARG001
    """Returns the tensors unchanged: the `send` of a Party whose messages the receiver decodes exactly."""
    return tensors


@dataclass
class Losses:
    """The mean of a power of the losses that training computes on its way, which a server's choice of devices may ask
    for (selection/past.py)."""

    power: int
    total: Tensor | float = 0.0  # sum over all examples of all steps
    examples: int = 0

    def note(self, losses: Tensor) -> None:
        """Adds the losses (n,) of a step's examples."""
        self.add((losses.detach().double() ** self.power).sum(), len(losses))

    def add(self, total: Tensor, examples: int) -> None:
        """Adds the sum of the powers of so many examples' losses."""
        self.total, self.examples = self.total + total, self.examples + examples

    @property
    def mean(self) -> float | None:
        """(mean of loss^p)^(1/p); None if no training has noted its losses."""
        return float(self.total / self.examples) ** (1 / self.power) if self.examples else None


@dataclass(frozen=True)
class Party:
    """The server or a device in one round, as the algorithm's code on that side sees it: its name, network, examples
    and memory.  It is never sent."""

    name: str
    devices: int  # size of the fleet
    model: nn.Module  # structure only: its values on entry are undefined
    loss: Loss
    x: Tensor  # (n, *input); the device's training examples, or the server's proxy set
    y: Tensor  # (n,)
    round: int  # global, from 0
    cycle: int
    seed: int  # seed of this party's draws in this round, derived from names
    memory: Message = field(default_factory=dict)  # state that this party has kept; {} at first
    # Tensors of the network that never leave this party, if the scenario keeps some: their values now, which training
    # replaces. All that loads the network's weights for it adds them.
    own: Tensors = field(default_factory=dict)
    fleet: Sequence[str] = ()  # names of all devices, sorted; the server's only
    # The server's: rounds to that of the next model; an asynchronous round makes several models, so 0 is usual.
    ahead: int = 1
    lossy: Mapping[str, str] = field(default_factory=dict)  # lossy encodings, such as {"up fisher": "bfloat16"}
    constants: Mapping[str, ndarray] = field(default_factory=dict)  # the server's: buffers that are not finite at first
    # A device's: its memory as of its last reply that the model which it received has; None: that is `memory`.
    # Otherwise a later reply waits in the buffer of an open round (docs/design/async.md §8).
    combined: Message | None = None
    augment: Augment | None = None  # for training steps only (training/augmenting.py); draws from torch's generator
    steps: int = 0  # steps of its local training in this round; 0: as many as Training says
    trial: bool = False  # true if only the metric `personalised` is measured: nothing is sent, kept or charged
    losses: Losses | None = None  # a device's: where training notes its losses, if the server asks for them
    # Returns these tensors, sent as this kind in this round, as the receiver decodes them. An algorithm that needs the
    # result of a lossy encoding (FedCurv's own part) calls it, and puts the returned object itself into its upload.
    send: Send = unharmed


@dataclass(frozen=True)
class Request:
    """The messages with which the server opens a round."""

    download: Message  # for the whole cohort
    extra: Mapping[str, Message] = field(default_factory=dict)  # additional messages, by device


@dataclass(frozen=True)
class Reply:
    """A device's upload, and the state that it keeps."""

    upload: Message
    examples: int
    memory: Message = field(default_factory=dict)  # kept in any case
    if_counted: Message = field(default_factory=dict)  # kept only once the server has counted the upload
    model: Tensors = field(default_factory=dict)  # after local training; never sent; {}: it is upload["weights"]
    leverage: Mapping[str, float] = field(default_factory=dict)  # leverage of the penalty (local.leverage); never sent
    numbers: Mapping[str, float] = field(default_factory=dict)  # others for the report, as {"drift": 0.3}; never sent
    staleness: int = 0  # in `combine`: versions of the model since the one from which the device started
    asked: int | None = None  # in `combine`: round in which the device was asked, as Party.round; None: in this one
    steps: int = 0  # in `combine`: the steps of its local training
    weight: float = 0  # in `combine`: its weight in means; 0: its examples


Pass = Literal["forward", "batch", "each", "each_label"]  # computation for each example: see Phase


@dataclass(frozen=True)
class Phase:
    """A stretch of computing: `epochs` passes over `examples`, in batches. counting/cost.py prices it.

    `kind` is the computation for each batch: "forward": outputs only, no gradients; "batch": one gradient of the
    batch's mean loss, as in training; "each": the gradient of each single example's loss, squared and summed, as for a
    Fisher diagonal; "each_label": "each" for every label that the model knows.

    The name is for the record and the reports and does not affect the price.  A phase without examples has the kind
    "forward" and only moves numbers (`traffic`).  Raises ValueError for another kind.
    """

    name: str
    kind: Pass
    examples: float = 0.0  # in one pass
    batch: int = 1
    epochs: int = 1
    backward: str = "*"  # globs of the parameters that need gradients, separated by spaces
    second_order: float = 0.0  # examples of all Hessian-vector products in the phase
    traffic: float = 0.0  # further floats read or written per step: optimiser, penalties, importance sums
    per_parameter: float = 0.0  # further floats per step for each parameter that `backward` names

    def __post_init__(self) -> None:
        if self.kind not in get_args(Pass):
            known = ", ".join(map(repr, get_args(Pass)))
            raise ValueError(f"kind of phase {self.name!r} is {self.kind!r}; it must be one of {known}")


Work = tuple[Phase, ...]


@dataclass(frozen=True)
class Load:
    """The sizes and the kinds of messages from which an algorithm declares its work and memory; it has no values of
    tensors."""

    round: int
    examples: int  # number of examples: the device's training examples, or the server's proxy set
    parameters: int  # |θ|
    kinds: Collection[str] = ()  # kinds in the device's download, or in the server's state
    memory: Collection[str] = ()  # kinds in the device's memory
    replies: int = 0  # number of combined replies
    proxy: int = 0  # size of the server's proxy set, for a device that was given some of it
    devices: int = 1  # size of the fleet
    asked: int = 1  # devices asked in this round
    first: bool = True  # of a request: no earlier one is in this round; an asynchronous round has several
    ahead: int = 1  # of a combination: as in Party
    lossy: Mapping[str, str] = field(default_factory=dict)  # as in Party
    steps: int = 0  # as in Party


class Algorithm(Protocol):
    """Both halves of an algorithm: the server's (start, cohort, request, combine) and the device's (train).

    Each new member also needs a row in INTERFACE.
    """

    downloads: ClassVar[Collection[str]]  # all possible kinds of downloads
    uploads: ClassVar[Collection[str]]  # all possible kinds of uploads
    squares: ClassVar[Collection[str]]  # kinds with the wide range of values of squared gradients
    # Options on which only `train` depends, and only while it is `penalised`, such as the strength of a penalty: until
    # then all values share the same trainings. Inherited values are ignored.
    penalty_options: ClassVar[Collection[str]]

    @property
    def sums_only(self) -> bool:
        """True if the server needs only sums of the uploads, which secure aggregation can provide."""

    @property
    def keeps_uncounted(self) -> bool:
        """True if a device may keep state (`Reply.memory`) even if its reply is not counted."""

    cohort_rule: ClassVar[CohortRule]  # the rule by which `cohort` chooses

    @property
    def synchronous(self) -> str:
        """Reason why all replies of a round must have started from one model, so that rounds cannot be asynchronous and
        late replies cannot count; "" if stale replies may be combined."""

    @property
    def any_cohort_will_do(self) -> bool:
        """True if `cohort` also works on a random sample of the online devices, so that a large fleet is not searched
        each round."""

    @property
    def encodings(self) -> Mapping[str, str]:
        """The encodings of kinds that are not sent as plain tensors, such as {"fisher": "sparse"}; the scenario's
        `encoding` overrides them."""

    def download_form(self, server: Party) -> Message:
        """Returns a message with the kinds, names, dtypes and shapes of the largest download; its values are
        ignored."""

    def upload_form(self, round: int, model: nn.Module) -> Message:
        """Returns an upload of this round with the right kinds, names, dtypes and shapes; values are ignored.  The
        server refuses any other form."""

    @property
    def training(self) -> Training:
        """The settings of the devices' training."""

    def start(self, weights: Tensors, server: Party) -> Message:
        """Returns the server's state before round 0; it always holds the kind "weights"."""

    def round_kind(self, round: int) -> str:
        """Returns a name, in any words, for this kind of round: rounds of one kind send the same kinds of messages and
        do the same work.  `check` plays at least one round of each kind and weights it by its frequency."""

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        """Returns the devices that this round asks, usually `count` of `names` (online and idle now, sorted).

        The round then closes with the number of replies that the scenario sets, or with the replies of all asked
        devices if they are more than `count`, for example to retrain the whole fleet.
        """

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:
        """Opens a round: returns the messages for the devices `names`."""

    def train(self, download: Message, device: Party) -> Reply:
        """Returns the device's reply to a download.  It must be a pure function, because it runs in a worker
        process."""

    def penalised(self, round: int, kinds: Collection[str], memory: Collection[str]) -> bool:
        """Returns true if the result of `train` may depend on the `penalty_options`, on a device that received the
        kinds `kinds` in this round and has the kinds `memory` in its memory."""

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Closes a round: returns the new state. Must not depend on the order of `replies`."""

    def request_work(self, load: Load) -> Work:
        """Returns the work of `request` on the server; () if it computes nothing."""

    def device_work(self, load: Load) -> Work:
        """Returns the work of `train` on a device."""

    def device_floats(self, load: Load) -> float:
        """Returns how many floats (4 bytes each) `train` holds at the same time, in addition to the model, gradients,
        momentum, messages and activations."""

    def combine_work(self, load: Load) -> Work:
        """Returns the work of `combine` on the server."""


Answer = Literal["fact", "form", "state", "names", "request", "reply", "work", "number", "word", "truth"]

# Each member of Algorithm, and the kind of its result: a fact is an attribute, all others are methods. This table
# defines the check that a class is an algorithm (scenarios/builders/plugins.py) and the guard of every call
# (emulator/lab/).
INTERFACE: Mapping[str, Answer] = {
    "downloads": "fact",
    "uploads": "fact",
    "squares": "fact",
    "penalty_options": "fact",
    "sums_only": "fact",
    "keeps_uncounted": "fact",
    "cohort_rule": "fact",
    "synchronous": "fact",
    "any_cohort_will_do": "fact",
    "encodings": "fact",
    "training": "fact",
    "download_form": "form",
    "upload_form": "form",
    "start": "state",
    "round_kind": "word",
    "cohort": "names",
    "request": "request",
    "train": "reply",
    "penalised": "truth",
    "combine": "state",
    "request_work": "work",
    "device_work": "work",
    "combine_work": "work",
    "device_floats": "number",
}

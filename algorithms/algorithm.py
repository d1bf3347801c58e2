"""The interface of an algorithm, and the data it works on.

An algorithm is pure: tensors and numbers in, tensors and numbers out.  It never learns what time it is,
which world it runs in, or how its messages travel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from torch import Tensor, nn

Tensors = dict[str, Tensor]  # parameter name -> tensor
Message = dict[str, Tensors]  # kind -> tensors, as {"weights": ..., "importance": ...}
Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, y) -> loss of each example, (n,)


@dataclass(frozen=True)
class Training:
    """Local training: plain SGD, a fresh optimiser each round (algorithms.md §0)."""

    epochs: int = 1  # passes over the device's examples in a round (E)
    batch: int = 32  # examples a step (B); the last batch of an epoch may be shorter
    lr: float = 0.1  # of round 0
    lr_decay: float = 1.0  # lr of round t is lr * lr_decay**t, t counted globally
    momentum: float = 0.0
    weight_decay: float = 0.0

    def rate(self, round: int) -> float:
        """The learning rate in global round `round`, counted from 0."""
        return self.lr * self.lr_decay**round


@dataclass(frozen=True)
class Party:
    """One side of the conversation, built where its job runs; never sent."""

    name: str
    devices: int  # size of the fleet
    model: nn.Module  # structure only: its values on entry mean nothing
    loss: Loss
    x: Tensor  # (n, *input); the device's training examples, or the server's proxy set
    y: Tensor  # (n,)
    round: int  # global, from 0
    cycle: int
    seed: int  # derived from names: what this party draws in this round
    memory: Message = field(default_factory=dict)  # what this party kept; {} at first


@dataclass(frozen=True)
class Request:
    """What a round opens with."""

    download: Message  # to the whole cohort
    extra: Mapping[str, Message] = field(default_factory=dict)  # and more to single devices


@dataclass(frozen=True)
class Reply:
    """What a device answers, and what it keeps."""

    upload: Message
    examples: int
    memory: Message = field(default_factory=dict)  # kept whatever becomes of the upload
    if_counted: Message = field(default_factory=dict)  # kept only once the server has counted the upload
    model: Tensors = field(default_factory=dict)  # after local training; never sent; {}: upload["weights"]
    leverage: Mapping[str, float] = field(default_factory=dict)  # of the penalty (local.leverage); never sent


@dataclass(frozen=True)
class Phase:
    """One stretch of computing: `epochs` passes over `examples`, in batches; cost.py prices it in FLOPs and floats."""

    name: str  # train | fisher | omega | combine ...
    examples: float  # in one pass
    batch: int
    epochs: int = 1
    backward: str = "*"  # glob of the parameters that need gradients; "" for none
    second_order: float = 0.0  # Hessian-vector passes, in examples
    traffic: float = 0.0  # further floats read or written in each step: optimiser, penalties, importance sums


Work = tuple[Phase, ...]


@dataclass(frozen=True)
class Load:
    """What a declared Work may depend on: sizes and kinds, never values."""

    round: int
    examples: int  # of the party: a device's training examples, or the server's proxy set
    parameters: int  # |θ|
    kinds: Collection[str] = ()  # of the download that the device has received, or of the server's state
    memory: Collection[str] = ()  # kinds that the device has kept
    replies: int = 0  # how many are combined


class Algorithm(Protocol):
    """Both halves of an algorithm: the server's (start, cohort, request, combine) and the device's (train)."""

    downloads: ClassVar[Collection[str]]  # all kinds that may go down
    uploads: ClassVar[Collection[str]]  # the kinds that go up; the server refuses any other

    @property
    def training(self) -> Training:
        """How devices train."""

    def start(self, weights: Tensors, server: Party) -> Message:
        """The server's state before round 0; it always holds the kind "weights"."""

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        """At most `count` of `names` (on line and idle now, sorted), to be asked in this round."""

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:
        """Opens a round: what goes down to the devices `names`."""

    def train(self, download: Message, device: Party) -> Reply:
        """The device's half; pure, runs in a worker."""

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Closes a round: the new state. Must not depend on the order of `replies`."""

    def request_work(self, load: Load) -> Work:
        """What `request` computes on the server; () if it computes nothing."""

    def device_work(self, load: Load) -> Work:
        """What `train` computes on a device."""

    def combine_work(self, load: Load) -> Work:
        """What `combine` computes on the server."""

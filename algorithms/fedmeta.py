"""FedMeta (Yao et al. 2019): after each round the server takes a step on its own examples."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from torch import nn

from algorithms import option_checks
from algorithms.algorithm import Load, Message, Party, Phase, Reply, Tensors, Training, Work
from algorithms.counting.cost import sgd_traffic
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.keeptrace import keep_trace
from algorithms.training.local import sgd
from algorithms.uga import UGA, check_rate, descended


@dataclass(frozen=True)
class FedMeta(FedAvg):
    """After aggregation the server takes a step on its own examples, ω^meta = ω_{t+1} - η_meta ∇L(ω_{t+1}; D_meta), and
    broadcasts and evaluates ω^meta (Yao et al. 2019, Alg. 2 and Eq. 20).  D_meta is the scenario's proxy set.

    Clients are FedAvg's, with the plain mean of their models (η_g = 1 for the pseudo-gradient ω_t - ω^k), or UGA's,
    with UGA's options; bytes are those of the clients' algorithm.  Choices that the paper leaves open
    (docs/design/algorithms.md §9): η_meta is the devices' rate η_t, decayed; `one_step` is Eq. 20; `epoch` and
    `E_epochs` are that many passes over D_meta in batches of B; `sum` is one step with the sum of the losses
    (docs/design/algorithms.md §8: one step with their mean cannot reach the paper's table); the model is in train mode.
    Steps on D_meta have neither momentum nor weight decay.  Raises ValueError if a field is out of its range.
    """

    uploads: ClassVar[Collection[str]] = ("weights", "gradient", "buffers")
    synchronous: ClassVar[str] = "its gradients belong to the model of their round"

    clients: Literal["fedavg", "uga"] = "fedavg"
    """Local training on the devices: FedAvg's (fedavg), or UGA's keep-trace gradient (uga)."""
    meta: Literal["one_step", "epoch", "E_epochs", "sum"] = "one_step"
    """Training on the server: one step with the mean of the losses (one_step), one step with their sum (sum), or one
    epoch (epoch) or E epochs (E_epochs) in batches."""
    eta_meta: Literal["matched"] | float = "matched"
    """Learning rate η_meta of the server's training: a number, constant over all rounds, or the devices' learning
    rate of the round (matched)."""
    eta_g: Literal["matched"] | float = 1.0
    """Step size η_g of the server with UGA's clients: a number, constant over all rounds, or what FedAvg's local
    steps add up to (matched)."""
    loss: Literal["mean", "sum", "batch_accumulate"] = "mean"
    """Loss that UGA's clients differentiate: the mean over a device's examples (mean), their sum (sum), or the sum of
    the batches' means (batch_accumulate)."""
    first_order: bool = False
    """Leave out second derivatives in UGA's clients."""
    budget_mb: float = 256.0
    """Memory in MB that UGA's clients use for the intermediate weights."""
    clip_norm: float = 0.0
    """Largest norm that the gradient of one of UGA's clients may have; 0 means no limit."""
    mu: float = 0.0
    """Weight μ of FedProx's penalty in the local loss of UGA's clients; 0 means none."""

    def __post_init__(self) -> None:
        option_checks.check(self)
        check_rate("eta_meta", self.eta_meta)
        if self._uga != UGA(self.training) and self.clients == "fedavg":
            raise ValueError("clients is 'fedavg', which takes none of UGA's options; with those it must be 'uga'")

    @property
    def _uga(self) -> UGA:  # all of UGA's options are also options here
        return UGA(**{option.name: getattr(self, option.name) for option in fields(UGA)})

    @property
    def base(self) -> FedAvg:
        """The algorithm of the clients, to which this one adds the meta step."""
        return FedAvg(self.training) if self.clients == "fedavg" else self._uga

    def upload_form(self, round: int, model: nn.Module) -> Message:
        """Returns the form of the clients' uploads, which is FedAvg's or UGA's."""
        return self.base.upload_form(round, model)

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains by the clients' own algorithm: FedAvg's course, or UGA's training, which is no part of a stack."""
        if self.clients == "uga":
            return self._uga.train(download, device)
        return (yield from super().course(download, device))

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the base algorithm's model, trained on D_meta."""
        state = self.base.combine(state, replies, server)
        rate = self._rate(server.round)
        return {**state, "weights": self._updated(state["weights"], server, rate)} if rate else state

    def _updated(self, weights: Tensors, server: Party, rate: float) -> Tensors:
        """Returns ω^meta: the weights after the server's training on its own examples at this learning rate.  Raises
        ValueError if it has no examples."""
        n = len(server.y)
        if n == 0:
            raise ValueError("the server holds 0 examples; FedMeta's step needs at least 1 in its proxy set")
        plain = Training(self._epochs, self.training.batch, rate)
        if self.meta in ("epoch", "E_epochs"):
            return sgd(server, weights, plain)
        traced = keep_trace(server, weights, plain)  # a single epoch: the gradient over all examples
        return descended(traced.weights, traced.gradient, rate * (n if self.meta == "sum" else 1))

    @property
    def _epochs(self) -> int:
        return int(self.training.epochs) if self.meta == "E_epochs" else 1

    def _rate(self, round: int) -> float:
        return self.training.rate(round) if self.eta_meta == "matched" else self.eta_meta

    def device_work(self, load: Load) -> Work:
        """Returns the work of the clients' own algorithm."""
        return self.base.device_work(load)

    def device_floats(self, load: Load) -> float:
        """Returns the floats of the clients' own algorithm."""
        return self.base.device_floats(load)

    def combine_work(self, load: Load) -> Work:
        """Returns the base algorithm's work, and the passes over D_meta."""
        work = self.base.combine_work(load)
        if not self._rate(load.round):
            return work
        batch = max(1, min(self.training.batch, load.examples))
        moved = sgd_traffic(load.parameters, momentum=0.0)
        return (*work, Phase("meta", "batch", load.examples, batch, self._epochs, traffic=moved))

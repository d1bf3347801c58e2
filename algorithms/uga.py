"""UGA (Yao et al. 2019): devices send the gradient of their trained model's loss with respect to the broadcast
model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import ClassVar, Literal

from torch import nn

from algorithms import keeptrace, option_checks
from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Load, Message, Party, Reply, Tensors, Work
from algorithms.counting.cost import PULL_PLAIN
from algorithms.fedavg import FedAvg
from algorithms.training.local import STRONGEST, Quadratic, forms


@dataclass(frozen=True)
class UGA(FedAvg):
    """Devices upload g_k = ∇_{ω_t} L(ω^(T)(ω_t); D_k), the gradient with respect to the broadcast model through E - 1
    epochs of local training, and the server steps along their mean (Yao et al. 2019, Eq. 11-13).

    The server steps ω_{t+1} = ω_t - η_g Σ (n_k / n) g_k (Eq. 14).  Bytes: |θ| down and up, plus the buffers up, if
    there are any, of which the server takes the mean.  The gradient is exact (algorithms/keeptrace.py).  Personalised
    accuracy is that of ω^(T).

    Choices that the paper leaves open (docs/design/algorithms.md §9): the loss is a mean, and η_g = 1, because the
    text's 0.002 then hardly moves the model, or η_t E ⌈n̄/B⌉, FedAvg's rate times its steps (`matched`); a number for
    η_g is not decayed; the last gradient is exact over all data, in micro-batches weighted by size, or added up
    unweighted (`batch_accumulate`); gradients are taken in train mode, with the same dropout whenever a step is
    repeated; momentum and weight decay are the scenario's and differentiated exactly; the rate does not depend on B.
    Raises ValueError if a field is out of its range.
    """

    uploads: ClassVar[Collection[str]] = ("gradient", "buffers")
    synchronous: ClassVar[str] = "its gradients belong to the model of their round"

    eta_g: Literal["matched"] | float = 1.0
    """Step size of the server, η_g: a number, constant over all rounds, or what FedAvg's local steps add up to
    (matched)."""
    loss: Literal["mean", "sum", "batch_accumulate"] = "mean"
    """Loss whose gradient is taken: the mean over a device's examples (mean), their sum, as the paper's text says
    literally (sum), or the sum of the batches' means (batch_accumulate)."""
    first_order: bool = False
    """Leave out second derivatives, so that the gradient at the trained model stands for that at the
    broadcast model."""
    budget_mb: float = 256.0
    """Memory in MB for the intermediate weights; if those of all T steps do not fit, every √T-th is kept and the
    others are recomputed."""
    clip_norm: float = 0.0
    """Largest norm that a device's gradient may have (of the mean loss, or of its batches' mean); 0 means no limit."""
    mu: float = 0.0
    """Weight μ of FedProx's penalty in the local loss; 0 means none."""

    def __post_init__(self) -> None:
        check_rate("eta_g", self.eta_g)
        if self.training.precision != "float32":
            raise ValueError(f"precision is {self.training.precision!r}; gradients through training need 'float32'")
        option_checks.plain_sgd(self.training, "gradients through training")
        option_checks.whole_epochs(self.training, "gradients through training")
        option_checks.check(self, **dict.fromkeys(("budget_mb", "clip_norm", "mu"), (0, STRONGEST)))
        if self.loss != "mean" and self.eta_g == "matched":
            raise ValueError(f"eta_g is 'matched'; with loss {self.loss!r} it must be a number")

    def upload_form(self, round: int, model: nn.Module) -> Message:  # noqa: ARG002
        """Returns the form of an upload: a gradient for each parameter, and the buffers if the model has any."""
        return forms(["gradient"], model) | _buffers(model, forms(["weights"], model)["weights"])

    def penalty(self, download: Message, device: Party) -> Quadratic | None:  # noqa: ARG002
        """Returns FedProx's penalty, or None if μ is 0.  The gradient is also taken with respect to its anchor, the
        broadcast model."""
        return Quadratic(download["weights"], self.mu / 2) if self.mu else None

    def train(self, download: Message, device: Party) -> Reply:
        """Returns the reply with the keep-trace gradient: trains for E - 1 epochs, then takes the gradient of the loss
        over all examples with respect to the broadcast model (Alg. 1, ClientUpdate)."""
        n = len(device.y)
        every = self._every(n, sum(p.numel() for p in device.model.parameters() if p.requires_grad))
        given = (device, download["weights"], self.training, every, self.penalty(download, device), self.first_order)
        accumulate = self.loss == "batch_accumulate"
        traced = keeptrace.keep_trace(*given, accumulate)
        times = ceil(n / self.training.batch) if accumulate else 1
        gradient, most = traced.gradient, times * self.clip_norm
        if most and (length := _length(gradient)) > most:
            gradient = {name: g * (most / length) for name, g in gradient.items()}
        if self.loss == "sum":
            gradient = {name: n * g for name, g in gradient.items()}
        buffers = _buffers(device.model, traced.weights)
        numbers = overshoot(self._rate(device.round, n), gradient, traced.weights, download["weights"])
        return Reply({"gradient": gradient, **buffers}, n, model=traced.weights, numbers=numbers)

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the model after one step against the mean of the gradients (Eq. 14), with the mean of the buffers."""
        n = sum(reply.examples for reply in replies.values()) / len(replies)
        weights = descended(state["weights"], weighted_mean(replies, "gradient"), self._rate(server.round, n))
        if any("buffers" in reply.upload for reply in replies.values()):
            weights |= weighted_mean(replies, "buffers")
        return {"weights": weights}

    def penalty_traffic(self, load: Load) -> float:  # noqa: ARG002
        """Returns the floats that the penalty moves for each parameter and step (parameter, anchor and gradient); 0 if
        μ is 0."""
        return PULL_PLAIN if self.mu else 0.0

    def device_work(self, load: Load) -> Work:
        """Returns the work of E - 1 epochs of SGD and one gradient over all examples, and of the backward pass through
        training: repeated steps and Hessian-vector products."""
        (train,) = super().device_work(load)
        return keeptrace.work(
            train, load.parameters, self.training, self._every_of(load), self.first_order, self.mu > 0
        )

    def device_floats(self, load: Load) -> float:
        """Returns the floats of the weights that are kept along the T steps of training, T |θ|, or (T/c + c) |θ| if
        every c-th is kept, and of two more copies of the parameters in the backward pass."""
        held = keeptrace.held(load.examples, self.training, self._every_of(load), self.first_order, self.mu > 0)
        return held * load.parameters

    def combine_traffic(self, load: Load) -> float:  # noqa: ARG002
        """Returns how many floats the server's step moves for each parameter: weights and mean are read, weights are
        written."""
        return 3.0

    def _every(self, n: int, parameters: int) -> int:
        return keeptrace.spacing(keeptrace.traced_steps(n, self.training), parameters, 1e6 * self.budget_mb)

    def _every_of(self, load: Load) -> int:
        return self._every(load.examples, load.parameters)

    def _rate(self, round: int, n: float) -> float:
        """Returns η_g; matched: η_t E ⌈n/B⌉, with the replies' mean number of examples `n`."""
        if self.eta_g != "matched":
            return self.eta_g
        return self.training.rate(round) * self.training.epochs * ceil(n / self.training.batch)


def check_rate(name: str, value: str | float) -> None:
    """Raises ValueError unless the value is "matched" or a number of at least 0."""
    if value != "matched" and (isinstance(value, str) or not 0 <= value <= STRONGEST):
        raise ValueError(f"{name} is {value!r}; it must be 'matched', or a number from 0 to {STRONGEST:g}")


def overshoot(rate: float, gradient: Tensors, trained: Tensors, weights: Tensors) -> dict[str, float]:
    """Returns {"server_step": η ‖g‖ / ‖ω^(T) - ω‖}, the server's step along this gradient over the distance that
    training moved.

    On a quadratic loss whose minimum training has reached, gradient descent is stable below 2: the step then ends
    closer to the minimum than it began. {} if training moved nothing, as with a single epoch.
    """
    moved = _length({name: trained[name] - weights[name] for name in gradient})
    return {"server_step": rate * _length(gradient) / moved} if moved else {}


def descended(weights: Tensors, gradient: Tensors, rate: float) -> Tensors:
    """Returns ω - η g; tensors without a gradient do not change."""
    return {name: w.sub(gradient[name], alpha=rate) if name in gradient else w for name, w in weights.items()}


def _length(tensors: Tensors) -> float:
    return sqrt(sum(float(value.double().square().sum()) for value in tensors.values()))


def _buffers(model: nn.Module, weights: Tensors) -> Message:
    """Returns the buffers among `weights` as the kind "buffers"; {} if the model has none."""
    parameters = dict(model.named_parameters())
    found = {name: value for name, value in weights.items() if name not in parameters}
    return {"buffers": found} if found else {}

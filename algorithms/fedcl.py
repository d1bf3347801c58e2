"""FedCL (Yao and Sun 2020): the server estimates the importance of weights, and a penalty holds devices to important
ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Literal, cast

from algorithms import fedcl_omega, option_checks
from algorithms.algorithm import Load, Message, Party, Reply, Request, Tensors, Work
from algorithms.counting.estimation import HELD, estimation
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.importance.importance import Kind
from algorithms.importance.placebo import Placebo
from algorithms.training.local import STRONGEST, Quadratic

PRESETS = {
    "paper_text": {"importance": "abs", "fallback": "identity"},
    "author_code": {"importance": "tensor_scalar", "fallback": "local_estimate"},
}

TRAININGS: dict[str, dict[str, Any]] = {
    "paper_text": {"lr": 0.005, "lr_schedule": "exponential", "lr_decay": 0.99, "momentum": 0.0, "weight_decay": 0.0},
    "author_code": {"lr": 0.005, "lr_schedule": "cosine", "lr_end": 0.0001, "lr_rounds": 500}
    | {"momentum": 0.9, "weight_decay": 0.0001},
}


@dataclass(frozen=True)
class FedCL(FedAvg):
    """Devices add the penalty λ Σ Ω (θ - θ_t)² to their loss; the server estimates the importance Ω of each weight on a
    proxy set (Yao and Sun 2020, Eq. 1-3).

    Bytes: |θ| down, plus |Ω| in every `interval`-th round; |θ| up. Ω is the mean over the proxy examples of |g| (`abs`)
    or g² (`sq`) in each coordinate; `tensor_scalar`, one number for each parameter tensor, 4 bytes each, of squared
    batch gradients as in the authors' code; `mas`, mean |∂‖f(x)‖²/∂θ|, without labels (Aljundi et al. 2018); `si`, the
    proxy loss that a weight's moves have removed so far, over ξ + their square (Zenke et al. 2017; 0 in round 0).  It
    is estimated in eval mode, in the rounds in which it is sent.

    In a round without a fresh Ω, a device uses the last one that it received (`keep_last`; before the first see
    `first`), 1 (`identity`, the paper's text), the current one, which the server sends to every device that lacks it
    (`catch_up`), one from its own examples (`local_estimate`, the authors' code), or no penalty (`none`).  The server
    infers which devices lack Ω from the replies that it has counted; for `catch_up` it keeps Ω (fedcl_omega.py).  In
    asynchronous rounds each version of a round with a fresh Ω has one of its own model; all of them count as one.

    The default differs from the paper's text.  With `identity` the penalty of most rounds is FedProx's with μ = 2λ: an
    equal spring on all weights, hundreds of times stiffer than with a typical Ω at the same λ.  With N = 10 such a run
    measures FedProx, and almost nothing of Ω.  The presets and the papers' scenarios keep `identity`.

    The proxy set, the split, dropout and, without a preset, lr and momentum are the scenario's
    (docs/design/algorithms.md §9).  A preset also sets the training of the text or the code, whatever the scenario's
    `training` says; the algorithm's own `training` overrides both.  No preset augments images.  Raises ValueError if a
    field is out of its range, or two contradict each other.
    """

    downloads: ClassVar[Collection[str]] = ("weights", "importance")
    penalty_options: ClassVar[Collection[str]] = ("strength",)
    trainings: ClassVar[Mapping[str, Mapping[str, float | str]]] = TRAININGS

    importance: fedcl_omega.Importance = "abs"
    """Estimate of a weight's importance: mean absolute gradient (abs), mean squared gradient (sq), one
    number per tensor (tensor_scalar), without labels (mas), or from the weight's path (si)."""
    interval: int = 1
    """Rounds between two estimates of importance, N: it is estimated and sent in every N-th round."""
    fallback: fedcl_omega.Fallback = "keep_last"
    """Importance that a device uses in the rounds between: its last one (keep_last), 1 for all weights (identity, which
    is the paper's text and FedProx with μ = 2λ), the server's current one, sent to devices that lack it (catch_up), its
    own estimate (local_estimate), or none."""
    first: fedcl_omega.First = "none"
    """Importance that keep_last uses on a device that has not received any yet: no penalty (none), 1 for all weights
    (identity), or the server sends it one (send)."""
    strength: float = 0.5
    """Weight of the penalty, λ; 0 makes it FedAvg."""
    damping: float = 0.001
    """Damping ξ of si, which keeps the importance of a weight that has hardly moved finite."""
    placebo: Placebo = "none"
    """Control that takes the place of each estimated importance: its values in a random order within each tensor
    (shuffled), or their mean (mean). Declared work stays that of the original."""
    preset: Literal["none", "paper_text", "author_code"] = "none"
    """Settings of the paper's text (paper_text: abs, identity, lr 0.005 decayed by 0.99) or of its authors' code
    (author_code: tensor_scalar, local_estimate, momentum 0.9, weight decay 1e-4, a cosine from lr 0.005 to 0.0001 in
    500 rounds)."""

    def __post_init__(self) -> None:
        option_checks.check(self, interval=(1, inf), strength=(0, STRONGEST), damping=(1e-12, inf))
        option_checks.preset(self, self.preset, **PRESETS.get(self.preset, {}))
        if (self.importance, self.fallback) == ("si", "local_estimate"):
            raise ValueError(
                "fallback is 'local_estimate'; with importance si it must be another: paths are the server's"
            )
        if self.importance == "tensor_scalar" and self.placebo != "none":
            raise ValueError(
                f"placebo is {self.placebo!r}; with importance tensor_scalar it must be 'none': either placebo leaves "
                "one number for each tensor as it is"
            )

    @property
    def source(self) -> fedcl_omega.OmegaSource:
        """The server's rules for the importance Ω: how and when it is estimated, kept and sent."""
        return fedcl_omega.OmegaSource(self.importance, self.interval, self.holder.sent, self.damping, self.placebo)

    @property
    def holder(self) -> fedcl_omega.OmegaHolder:
        """The device's rules for the importance Ω: which one it uses in a round, and whether it keeps it."""
        used = self.strength > 0
        return fedcl_omega.OmegaHolder(self.importance, self.interval, self.fallback, self.first, used, self.placebo)

    @property
    def keeps_uncounted(self) -> bool:
        """True if devices keep Ω for a later round."""
        return self.holder.remembers

    def download_form(self, server: Party) -> Message:
        """Returns the form of the largest download: the model, and Ω with one number for each parameter, or for each
        parameter tensor."""
        form = super().download_form(server)
        return form | {"importance": fedcl_omega.form(self.importance, form["importance"])}

    def round_kind(self, round: int) -> str:
        """Returns "with Ω" for every `interval`-th round, "before Ω" for the round before it, in which a server that
        keeps Ω estimates it, and otherwise "without Ω"."""
        return {self.interval - 1: "before Ω", 0: "with Ω"}.get(round % self.interval, "without Ω")

    def start(self, weights: Tensors, server: Party) -> Message:
        """Returns the model, and the state from which Ω is computed."""
        return {"weights": weights} | self.source.begun(weights, server)

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:
        """Sends the model to all, with Ω in every `interval`-th round (Alg. 1, lines 4 and 5); in other rounds Ω only
        to devices that lack it."""
        model, source = {"weights": state["weights"]}, self.source
        if source.due(server.round):
            return Request(model | {"importance": source.current(state, server)})
        lacking = source.lacking(state, names, self.fallback == "catch_up") if source.kept else ()
        return Request(model, {name: {"importance": state["importance"]} for name in lacking})

    def penalty(self, download: Message, device: Party) -> Quadratic | None:
        """Returns the penalty that pulls each coordinate to the broadcast model, the more strongly the larger its
        importance Ω is; None at strength 0, and for a device without an Ω that does not use 1 instead."""
        weights, known = download["weights"], self.holder.known(download, device)
        if self.strength == 0 or (known is None and not self.holder.ones):
            return None
        return Quadratic(weights, self.strength, known and fedcl_omega.spread(known, weights))

    def penalised(self, round: int, kinds: Collection[str], memory: Collection[str]) -> bool:  # noqa: ARG002
        """Returns true if the device has an Ω or uses 1 for it.  At strength 0 always true: such a device does not
        report a missing Ω, so its reply differs from the replies at other strengths."""
        return self.strength == 0 or self.holder.pulls(kinds, memory)

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains as FedAvg does, reports on Ω, and keeps Ω and the round of its estimate if a later round may need
        them."""
        known, number = (yield from self.holder.knowing(download, device)), self.holder.stand_in
        if known is None:
            return fedcl_omega.without((yield from super().course(download, device)), number, self.strength)
        reply = yield from super().course(download | {"importance": known}, device)
        told = fedcl_omega.statistics(known, download["weights"]) | ({number: 0.0} if number else {})
        reply = replace(reply, numbers={**reply.numbers, **told})
        if not self.holder.remembers:
            return reply
        since = device.round - device.round % self.interval if "importance" in download else None
        return fedcl_omega.remembering(reply, known, device, since)

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the mean of the models, and the state from which Ω is computed."""
        new = super().combine(state, replies, server)
        return new | self.source.closed(state, new["weights"], replies, server)

    def request_work(self, load: Load) -> Work:
        """Returns the work of one gradient for each proxy example, if Ω is due."""
        return self.source.request_work(load)

    def combine_work(self, load: Load) -> Work:
        """Returns FedAvg's work, and the work on Ω."""
        return (*super().combine_work(load), *self.source.combine_work(load))

    def penalty_traffic(self, load: Load) -> float:
        """Returns the floats that the penalty moves for each parameter and step, with the Ω that the device uses."""
        return self.holder.traffic(load)

    def device_work(self, load: Load) -> Work:
        """Returns FedAvg's work, after the device's own estimate of Ω if it needs one."""
        own = estimation("omega", cast(Kind, self.importance), load.examples, load.parameters)
        return (*(own if self.holder.estimates(load) else ()), *super().device_work(load))

    def device_floats(self, load: Load) -> float:
        """Returns the floats that the device's own estimate of Ω holds."""
        return HELD * load.parameters if self.holder.estimates(load) else 0.0

"""Importance from agents (Kim et al. 2020): devices report how important each weight is to them, and the server
averages accordingly."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, Literal

import torch
from torch import nn

from algorithms import agentimportance_walk, option_checks
from algorithms.aggregation import importance_weighted_mean, plain_mean, weighted_mean
from algorithms.algorithm import Load, Message, Party, Reply, Request, Tensors, Work
from algorithms.counting.cost import PULL
from algorithms.counting.estimation import HELD, estimation
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.importance import fisher
from algorithms.importance.importance import Kind, estimating
from algorithms.importance.placebo import Placebo, replaced
from algorithms.training.local import STRONGEST, Quadratic, fitting, forms

FISHERS: dict[str, Kind] = {"empirical": "sq", "mean_squared": "mean_squared"}


@dataclass(frozen=True)
class AgentImportance(FedAvg):
    """Devices add the penalty (λ/2) Σ F_t (θ - θ_t)² to their loss, and the server averages models coordinate by
    coordinate, weighted by each device's importance F^k (Kim et al. 2020).

    F^k is the Fisher diagonal of a device's examples at its trained model (Kim et al. 2020, Eq. 1, in eval mode; of the
    kind `fisher`); the device returns F^k_{t+1} = γ F_t + (1 - γ) F^k (Eq. 4), with the F_t that it received.  The
    server sends F_{t+1}, the mean of these, and aggregates with their normalised values F̄^k (Eq. 2).  Bytes: 2 |θ|
    down and up; |θ| down until a reply has been counted.  Devices keep nothing.  The server needs each single upload,
    so secure aggregation is impossible.  If neither `ewc` nor `weighted` is on, the algorithm is FedAvg, bytes
    included.

    Choices that the paper leaves open (docs/design/algorithms.md §9): F̄ is F divided by its sum over the layer, then
    in each coordinate by the sum over the devices, so that Σ_k F̄^k = 1 without a further 1/m; buffers, and coordinates
    in which all F are 0, are averaged by examples.  F̄ comes from F after Eq. 4 (`ema`), or from F^k, and the server
    applies Eq. 4 (`raw`).  There is no F_0: round 1 has no penalty and skips Eq. 4; with `from_zero` F_0 is 0, travels,
    and is mixed in.  With `importance` rwalk, F plus RWalk's path scores s replaces F (docs/design/algorithms.md §7).
    Negative F, which a lossy encoding may produce, counts as 0.  Raises ValueError if a field is out of its range.
    """

    downloads: ClassVar[Collection[str]] = ("weights", "fisher")
    uploads: ClassVar[Collection[str]] = ("weights", "fisher")
    squares: ClassVar[Collection[str]] = ("fisher",)
    penalty_options: ClassVar[Collection[str]] = ("strength",)
    synchronous: ClassVar[str] = "it weighs the importances of one round against one another"

    strength: float = 10.0
    """Weight of the penalty, λ, with ½ before it; 0 means no penalty. The paper takes 10 for the CNN and 1e5 for the
    MLP."""
    ewc: bool = True
    """Hold devices to the broadcast model by importance (the paper's EWC)."""
    weighted: bool = True
    """Weight each coordinate by importance on the server (the paper's weighted average) instead of whole models by
    examples."""
    gamma: float = 0.9
    """Decay γ of importance: the share of the last round's importance that stays in the next round's."""
    importance: Literal["ewc", "rwalk"] = "ewc"
    """Kind of importance: the Fisher diagonal (ewc), or the Fisher diagonal plus path scores collected during
    training (rwalk)."""
    fisher: Literal["empirical", "mean_squared"] = "empirical"
    """Estimate of the Fisher diagonal: the mean of the squared gradients of each example's loss (empirical), or the
    squared gradient of the mean loss over all of a device's examples (mean_squared), which is far smaller."""
    from_zero: bool = False
    """Start with an importance of 0, so that the first estimates are mixed with it; they are then smaller by
    the factor 1 - gamma."""
    placebo: Placebo = "none"
    """Placebo in place of the importance that a device finds: its values in a random order in each tensor (shuffled),
    or their mean (mean)."""
    weigh_by: Literal["ema", "raw"] = "ema"
    """Importance by which the server weights models: mixed with the last round's (ema), or the device's own (raw)."""
    threshold: float = 0.0
    """Importance below this fraction of the largest value in its layer is not sent in either direction and counts as
    0; with 0 all of it is sent."""
    window: int = 10
    """Steps Δt after which rwalk scores a path."""
    damping: float = 1.0
    """Damping ξ of rwalk's scores; the smaller it is, the larger the scores. RWalk's own 0.001 needs a strength 1000
    times smaller."""
    normalise: bool = False
    """Divide importance and scores by their largest values before rwalk adds them; strength is then 0.1 to 100."""

    def __post_init__(self) -> None:
        shares = dict.fromkeys(("gamma", "threshold"), (0, 1))
        option_checks.check(self, strength=(0, STRONGEST), **shares, window=(1, inf), damping=(1e-12, inf))

    @property
    def sums_only(self) -> bool:
        """True if the server needs only sums of the uploads; false with `weighted`, because it then normalises each
        device's importance separately."""
        return not self.weighted

    @property
    def encodings(self) -> Mapping[str, str]:
        """The encoding of importance: sparse if there is a `threshold`, otherwise none ({})."""
        return {"fisher": "sparse"} if self.threshold else {}

    @property
    def _up(self) -> bool:  # F is uploaded, because it is used
        return self.ewc or self.weighted

    @property
    def _walks(self) -> bool:  # paths are recorded, because their scores are uploaded
        return self._up and self.importance == "rwalk"

    @property
    def _down(self) -> bool:  # F is downloaded, for the devices' penalty or their moving mean
        return self.ewc or (self.weighted and self.weigh_by == "ema")

    def download_form(self, server: Party) -> Message:
        """Returns the form of the largest download: the model, and the importance F_t if devices use it."""
        return forms(self.downloads if self._down else ("weights",), server.model)

    def upload_form(self, round: int, model: nn.Module) -> Message:  # noqa: ARG002
        """Returns the form of an upload: the model, and the device's importance F^k if devices or the server use it."""
        return forms(self.uploads if self._up else ("weights",), model)

    def start(self, weights: Tensors, server: Party) -> Message:
        """Returns the model and, with `from_zero`, an importance F_0 of 0."""
        state = super().start(weights, server)
        if not (self.from_zero and self._up):
            return state
        form = forms(("fisher",), server.model)["fisher"]
        return state | {"fisher": {name: torch.zeros_like(value) for name, value in form.items()}}

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:  # noqa: ARG002
        """Returns the message for all devices: the model, and the importance F_t if devices use it and there is one
        yet."""
        more = {"fisher": fisher.cut(state["fisher"], self.threshold)} if self._down and "fisher" in state else {}
        return Request({"weights": state["weights"]} | more)

    def penalty(self, download: Message, device: Party) -> Quadratic | None:  # noqa: ARG002
        """Returns the penalty that pulls each coordinate to the broadcast model, the more strongly the larger its
        importance F_t is (Eq. 3); None if the penalty is off, or if there is no F_t yet."""
        held = self.ewc and self.strength and "fisher" in download
        return Quadratic(download["weights"], self.strength / 2, fisher.positive(download["fisher"])) if held else None

    def penalised(self, round: int, kinds: Collection[str], memory: Collection[str]) -> bool:  # noqa: ARG002
        """Returns true if the penalty is on (`ewc`) and the download has an importance F_t."""
        return self.ewc and "fisher" in kinds

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains under the penalty, then estimates the device's own importance; uploads the model
        and the importance."""
        walk = agentimportance_walk.Walk(self.window, self.damping) if self._walks else None
        pulls = (walk,) if walk else ()
        reply = yield from fitting(device, download["weights"], self.training, self.penalty(download, device), pulls)
        if not self._up:
            return reply
        scores = walk.scores(reply.upload["weights"]) if walk else {}
        found = yield from estimating(device, reply.upload["weights"], FISHERS[self.fisher])
        found, share = fisher.joined(found, scores, self.normalise)
        found = replaced(found, self.placebo, device.seed, device.round)
        known = download.get("fisher") if self.weigh_by == "ema" else None
        sent, left = fisher.prepared(found, known, self.gamma, self.threshold)
        return replace(reply, upload=reply.upload | {"fisher": sent}, numbers={**reply.numbers, **share, **left})

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the models averaged by importance (Eq. 2), and the mean importance."""
        if not self._up:
            return super().combine(state, replies, server)
        seen = fisher.received(replies)
        weights = importance_weighted_mean(seen, "fisher") if self.weighted else weighted_mean(seen)
        old = state.get("fisher") if self.weigh_by == "raw" else None
        return {"weights": weights, "fisher": fisher.mixed(old, plain_mean(seen, "fisher"), self.gamma)}

    def penalty_traffic(self, load: Load) -> float:
        """Returns the floats that the penalty moves for each parameter and step (parameter, anchor, gradient and F; 0
        before there is an F), plus those of RWalk's path scores."""
        pulled = PULL if self.ewc and self.strength and "fisher" in load.kinds else 0.0
        return pulled + (agentimportance_walk.traffic(self.window) if self._walks else 0.0)

    def device_work(self, load: Load) -> Work:
        """Returns the work of training and, if importance is uploaded, of the pass that estimates it."""
        each = estimation("fisher", FISHERS[self.fisher], load.examples, load.parameters)
        return super().device_work(load) + (each if self._up else ())

    def device_floats(self, load: Load) -> float:
        """Returns the larger of two amounts of floats: those that rwalk keeps of the path during training, or its
        scores plus the estimate of F afterwards."""
        most = max(agentimportance_walk.HELD, agentimportance_walk.SCORE + HELD) if self._walks else HELD
        return most * load.parameters if self._up else 0.0

    def combine_traffic(self, load: Load) -> float:
        """Returns the floats that importance adds to the work of `combine`, for each parameter: F of each reply is
        read, twice if the mean is weighted by it (first for the layers' sums); the mean of F is written."""
        return (2 if self.weighted else 1) * load.replies + 1.0 if self._up else 0.0

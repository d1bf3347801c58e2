"""FedCL (Yao and Sun 2020): the server estimates which weights matter, the devices hold on to those."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from algorithms.algorithm import Load, Message, Party, Phase, Reply, Request, Tensors, Work
from algorithms.cost import PULL, PULL_PLAIN, SQUARES
from algorithms.fedavg import FedAvg
from algorithms.importance import CHUNK, Kind
from algorithms.importance import importance as estimated
from algorithms.local import STRONGEST, Quadratic


@dataclass(frozen=True)
class FedCL(FedAvg):
    """Local loss L_k(θ) + λ Σ Ω (θ - θ_t)², with Ω from a proxy set on the server (Yao and Sun 2020, Eq. 1-3).

    Down |θ|, and |Ω| too in every `interval`-th round; up |θ|.  A device without a fresh Ω uses 1 instead
    (`identity`, the text; FedProx with μ = 2λ) or the last one it received (`keep_last`; none before the
    first).  Readings of algorithms.md §7: row 1 the mean over examples of |g| in each coordinate (`sq`: of
    g²), row 2 `identity`, row 3 estimated in the rounds in which it is sent, row 4 lr, momentum and dropout
    as the scenario says, row 5 eval mode, rows 6 and 7 (proxy set and split) are the scenario's.
    Raises ValueError if a field is out of its range.
    """

    downloads: ClassVar[Collection[str]] = ("weights", "importance")

    importance: Kind = "abs"
    """How much a weight matters: mean over the proxy examples of |gradient| (abs) or of its square (sq)."""
    interval: int = 1
    """N: importance is estimated and sent in every N-th round."""
    fallback: Literal["identity", "keep_last"] = "identity"
    """What a device uses in the rounds between: 1 for all weights (identity), or the last it received (keep_last)."""
    strength: float = 0.5
    """λ, the weight of the penalty; 0 is FedAvg."""

    def __post_init__(self) -> None:
        if self.importance not in ("abs", "sq"):
            raise ValueError(f"importance is {self.importance!r}; it must be 'abs' or 'sq'")
        if self.fallback not in ("identity", "keep_last"):
            raise ValueError(f"fallback is {self.fallback!r}; it must be 'identity' or 'keep_last'")
        if self.interval < 1:
            raise ValueError(f"interval is {self.interval}; it must be 1 (every round) or more")
        if not 0 <= self.strength <= STRONGEST:
            raise ValueError(f"strength is {self.strength}; it must be from 0 (no penalty) to {STRONGEST:g}")

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:
        """The model to all, with a fresh Ω in every `interval`-th round (Alg. 1, lines 4 and 5)."""
        if not self._due(server.round):
            return super().request(state, names, server)
        server.model.load_state_dict(state["weights"])
        omega = estimated(server.model, server.loss, server.x, server.y, self.importance)
        return Request({"weights": state["weights"], "importance": omega})

    def penalty(self, download: Message, device: Party) -> Quadratic | None:
        """A spring to the broadcast model in each coordinate, as stiff as the coordinate is important."""
        omega = self._omega(download, device)
        if self.strength == 0 or (omega is None and self.fallback == "keep_last"):
            return None
        return Quadratic(download["weights"], self.strength, omega)

    def train(self, download: Message, device: Party) -> Reply:
        """As FedAvg's; `keep_last` remembers Ω and its round whatever becomes of the upload, and tells its age."""
        reply = super().train(download, device)
        omega = self._omega(download, device)
        if self.fallback == "identity" or omega is None:
            return reply
        fresh = {"round": torch.tensor(device.round)}
        since = fresh if "importance" in download else device.memory["importance_round"]
        age = {"age": float(device.round - int(since["round"]))}  # in rounds (algorithms.md §7b)
        return replace(
            reply, memory={"importance": omega, "importance_round": since}, leverage={**reply.leverage, **age}
        )

    def request_work(self, load: Load) -> Work:
        """One gradient of each proxy example, when Ω is due."""
        if not self._due(load.round):
            return ()
        return (Phase("omega", load.examples, CHUNK, traffic=SQUARES * load.parameters),)

    def penalty_traffic(self, load: Load) -> float:
        """Parameter, anchor, gradient, and Ω where there is one."""
        received = "importance" in load.kinds
        if self.strength == 0:
            return 0.0
        if self.fallback == "identity":
            return PULL if received else PULL_PLAIN
        return PULL if received or "importance" in load.memory else 0.0

    def _due(self, round: int) -> bool:
        return round % self.interval == 0

    def _omega(self, download: Message, device: Party) -> Tensors | None:
        if "importance" in download:
            return download["importance"]
        return device.memory.get("importance") if self.fallback == "keep_last" else None

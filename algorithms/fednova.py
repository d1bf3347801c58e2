"""FedNova (Wang et al. 2020): changes of the model are divided by the steps that made them before they are averaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from algorithms import option_checks
from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Load, Message, Party, Reply
from algorithms.fedavg import FedAvg
from algorithms.pseudogradient import FROM_THE_CURRENT, change, gradients, stepped
from algorithms.training.local import steps

MOVED = 3.0  # floats per parameter: model and mean read, model written


@dataclass(frozen=True)
class FedNova(FedAvg):
    """The server steps θ ← θ - τ_eff Σ p_i (θ - θ_i) / ‖a_i‖₁ with τ_eff = Σ p_i ‖a_i‖₁ (Wang et al. 2020, Eq. 6, 7).

    p_i is the share of a device's examples, and ‖a_i‖₁ says how far its steps have moved it, in gradients: the number
    of steps τ_i, or with momentum ρ (τ_i - ρ (1 - ρ^τ_i) / (1 - ρ)) / (1 - ρ).  So devices that take more steps do not
    pull the optimum to theirs.  With equal steps it is FedAvg, up to rounding.  Bytes as FedAvg.  Buffers are averaged
    by p_i / ‖a_i‖₁.  Raises ValueError for another optimiser than SGD, and for `weigh_by: steps`.
    """

    synchronous: ClassVar[str] = FROM_THE_CURRENT

    def __post_init__(self) -> None:
        option_checks.plain_sgd(self.training, "changes per step")
        if self.training.weigh_by != "examples":
            raise ValueError("weigh_by is 'steps'; fednova weighs by examples and divides by steps: leave it out")

    @property
    def sums_only(self) -> bool:
        """False: the server divides each model's change by its own steps."""
        return False

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the model after the step along the normalised changes."""
        reach = {name: self._reach(reply) for name, reply in replies.items() if reply.examples}
        mean = weighted_mean({k: replace(replies[k], weight=replies[k].examples / a) for k, a in reach.items()})
        n = sum(replies[name].examples for name in reach)
        effective = sum(replies[name].examples * a for name, a in sorted(reach.items())) / n
        whole = effective * sum(replies[name].examples / a for name, a in sorted(reach.items())) / n
        delta = change(server.model, state["weights"], mean)
        return {"weights": stepped(mean, delta, {name: whole * value for name, value in delta.items()})}

    def _reach(self, reply: Reply) -> float:
        """Returns ‖a_i‖₁."""
        taken = reply.steps or steps(reply.examples, self.training)
        return gradients(taken, self.training.momentum)

    def combine_traffic(self, load: Load) -> float:  # noqa: ARG002
        """Returns how many floats the server's step reads from memory or writes to it, for each parameter."""
        return MOVED

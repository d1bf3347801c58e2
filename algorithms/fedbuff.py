"""FedBuff (Nguyen et al. 2022): buffered asynchronous aggregation of the changes that devices upload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum, inf
from typing import Literal

from algorithms import option_checks
from algorithms.aggregation import plain_mean
from algorithms.algorithm import Message, Party, Reply
from algorithms.staleness import Stale
from algorithms.training.tensors import travelling
from algorithms.uploaded_changes import Changes


@dataclass(frozen=True)
class FedBuff(Stale, Changes):
    """The server steps along the K changes in its buffer: x ← x + η_g (1/K) Σ w(s_i) Δ_i, where Δ_i is the difference
    from the model that device i started from to the one that it trained (Nguyen et al. 2022, Alg. 1 and 2; there the
    difference has the other sign).

    Replies are not weighted by examples.  Buffers of the model, which the upload holds as they are, become their mean.
    Bytes: the model down, a change of the same size up.  Raises ValueError if a field is out of its range.
    """

    server_lr: float = 1.0
    """Learning rate of the server, η_g; 1 is untuned."""
    divisor: Literal["replies", "weights"] = "replies"
    """Divisor of the sum: the number K of replies, as in the paper, or the sum of their weights."""

    def __post_init__(self) -> None:
        Stale.__post_init__(self)
        option_checks.check(self, server_lr=(0, inf))

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the model after a step along the changes, summed in float64 and in the order of names."""
        weights = {name: self.weight(reply.staleness) for name, reply in sorted(replies.items())}
        over = len(weights) if self.divisor == "replies" else fsum(weights.values())
        model = plain_mean(replies, "update")  # of which only the buffers stay
        for name in travelling(server.model):
            moved = state["weights"][name].double()
            for sender, weight in weights.items():
                moved = moved.add(replies[sender].upload["update"][name].double(), alpha=self.server_lr * weight / over)
            model[name] = moved.to(state["weights"][name].dtype)
        return {"weights": model}

"""FedCL's importance Ω: the server's estimate, and the Ω that devices use in the rounds between estimates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch

from algorithms import fedcl_si
from algorithms.algorithm import Load, Message, Party, Phase, Reply, Tensors, Work
from algorithms.counting.cost import PULL, PULL_PLAIN
from algorithms.counting.estimation import estimation
from algorithms.course import Course, alone
from algorithms.importance.fisher import positive
from algorithms.importance.importance import Kind, estimating
from algorithms.importance.placebo import Placebo, replaced
from algorithms.staleness import newest

Importance = Literal["abs", "sq", "tensor_scalar", "mas", "si"]
Fallback = Literal["identity", "keep_last", "catch_up", "local_estimate", "none"]
First = Literal["none", "identity", "send"]
IDENTITY = "identity"  # reported number: the share of devices that used 1 for Ω
LACKING = "no_importance"  # reported number: the share of devices without Ω, and so without a penalty


@dataclass(frozen=True)
class OmegaSource:
    """The server's estimate of the importance Ω, by the method `kind`, anew for every `interval`-th round.

    If Ω is `kept`, the server's state holds it (kind "importance"), the round for which it was estimated
    ("importance_round"), and for each device the round that asked for its last counted reply ("sent").  The server then
    estimates Ω as soon as it has the model of such a round: before round 0, or at the end of the round before.  If that
    round does not close, the state still has the previous Ω.
    """

    kind: Importance
    interval: int  # N
    kept: bool
    damping: float  # ξ of si
    placebo: Placebo = "none"

    def due(self, round: int) -> bool:
        return round % self.interval == 0

    def begun(self, weights: Tensors, server: Party) -> Message:
        """Returns what the server's state before round 0 has in addition to the weights: the path of si, and Ω if it is
        kept."""
        state = fedcl_si.begun(weights, server.model) if self.kind == "si" else {}
        return state | (self._kept({"weights": weights} | state, server, 0) if self.kept else {})

    def current(self, state: Message, server: Party) -> Tensors:
        """Returns the kept Ω, or if none is kept an estimate at the state's model."""
        return state["importance"] if "importance" in state else self._made(state, server, server.round)

    def lacking(self, state: Message, names: Sequence[str], newest: bool) -> list[str]:
        """Returns the devices of `names` that may have no Ω, because none of their replies was ever counted; with
        `newest` also those without a counted reply since the last estimate."""
        since = int(state["importance_round"]["round"]) if newest else 0
        sent = state.get("sent", {})
        return [name for name in names if name not in sent or int(sent[name]) < since]

    def closed(self, state: Message, weights: Tensors, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns what the next state has in addition to the new model `weights`, after a round in which these replies
        were combined."""
        new = fedcl_si.extended(state, weights, server) if self.kind == "si" else {}
        if not self.kept:
            return new
        sent = state.get("sent", {}) | {
            name: torch.tensor(server.round if reply.asked is None else reply.asked)
            for name, reply in newest(replies).items()
        }
        last, following = int(state["importance_round"]["round"]), server.round + server.ahead
        if last // self.interval == following // self.interval and not self.due(following):
            old = {kind: state[kind] for kind in ("importance", "importance_round")}
        else:
            old = self._kept({"weights": weights} | new, server, following)
        return new | old | {"sent": sent}

    def request_work(self, load: Load) -> Work:
        """Returns the work of estimating Ω when a round opens; () if none is due.  If Ω is kept, this is only round 0,
        for which `begun` estimates it."""
        if not self.due(load.round) or (self.kept and (load.round > 0 or not load.first)):
            return ()
        return self._work(load)

    def combine_work(self, load: Load) -> Work:
        """Returns the work on Ω when a round closes: si's gradient of the proxy set, and if Ω is kept, its estimate for
        the next round."""
        walk = fedcl_si.work(load) if self.kind == "si" else ()
        following = load.round + load.ahead
        fresh = self.due(following) or load.round // self.interval < following // self.interval
        return (*walk, *(self._work(load) if self.kept and fresh else ()))

    def _work(self, load: Load) -> Work:
        if self.kind == "si":
            return (Phase("omega", "forward", traffic=fedcl_si.SCORE * load.parameters),)
        return estimation("omega", self.kind, load.examples, load.parameters)

    def _kept(self, state: Message, server: Party, round: int) -> Message:
        return {"importance": self._made(state, server, round), "importance_round": {"round": torch.tensor(round)}}

    def _made(self, state: Message, server: Party, round: int) -> Tensors:
        """Returns Ω at the state's model, for this round, or its placebo."""
        if self.kind == "si":
            omega = fedcl_si.scored(state["path"], state["start"], state["weights"], self.damping)
        else:
            omega = estimated(self.kind, state["weights"], server)
        return replaced(omega, self.placebo, server.seed, round)


@dataclass(frozen=True)
class OmegaHolder:
    """The rules by which a device chooses its importance Ω, also in rounds without a fresh one; see
    algorithms.fedcl.FedCL for the fields."""

    kind: Importance
    interval: int  # N
    fallback: Fallback
    first: First
    used: bool  # there is a penalty
    placebo: Placebo = "none"

    @property
    def sent(self) -> bool:
        """True if the server sends Ω, in rounds without a fresh one, to the devices that lack it."""
        return self.fallback == "catch_up" or (self.fallback, self.first) == ("keep_last", "send")

    @property
    def remembers(self) -> bool:
        """True if some rounds have no fresh Ω and the device keeps its last one for them."""
        return self.interval > 1 and self.fallback in ("keep_last", "catch_up")

    @property
    def ones(self) -> bool:
        """True if a device without an Ω uses 1 for all weights."""
        return self.fallback == "identity" or (self.fallback, self.first) == ("keep_last", "identity")

    @property
    def stand_in(self) -> str | None:
        """The name under which devices report that they have no Ω, IDENTITY or LACKING; None if Ω is never missing, or
        if there is no penalty."""
        if not self.used or self.interval == 1:
            return None
        if self.ones:
            return IDENTITY
        return LACKING if self.fallback == "none" or (self.fallback, self.first) == ("keep_last", "none") else None

    def estimates(self, load: Load) -> bool:
        """Returns true if the device estimates Ω on its own examples in this round."""
        return self._own and not self.has(load.kinds, load.memory)

    def has(self, kinds: Collection[str], memory: Collection[str]) -> bool:
        """Returns true if the device has received Ω, or keeps one."""
        return "importance" in kinds or (self.remembers and "importance" in memory)

    def pulls(self, kinds: Collection[str], memory: Collection[str]) -> bool:
        """Returns true if a device that received `kinds`, and keeps `memory`, has a penalty."""
        return self.used and (self.has(kinds, memory) or self._own or self.ones)

    def known(self, download: Message, device: Party) -> Tensors | None:
        """Returns the Ω that the device received, kept, or estimates itself; None if it has none."""
        return alone(self.knowing(download, device))

    def knowing(self, download: Message, device: Party) -> Course[Tensors | None]:
        """Returns the same Ω as `known`, as a course (course.py)."""
        held = (device.memory if self.remembers else {}) | download
        if "importance" in held:
            return positive(held["importance"])
        if not self._own:
            return None
        omega = yield from estimating(device, download["weights"], cast(Kind, self.kind))
        return replaced(omega, self.placebo, device.seed, device.round)

    def traffic(self, load: Load) -> float:
        """Returns the floats that the penalty moves for each parameter and step: parameter, anchor, gradient, and Ω
        unless it is one number per tensor; 0 without a penalty."""
        if not self.pulls(load.kinds, load.memory):
            return 0.0
        known = self.has(load.kinds, load.memory) or self._own
        return PULL if known and self.kind != "tensor_scalar" else PULL_PLAIN

    @property
    def _own(self) -> bool:
        return self.fallback == "local_estimate" and self.used


def estimated(kind: Importance, weights: Tensors, party: Party) -> Tensors:
    """Returns Ω of the party's examples at these weights, for any kind except si, which needs a path."""
    return alone(estimating(party, weights, cast(Kind, kind)))


def remembering(reply: Reply, omega: Tensors, device: Party, since: int | None) -> Reply:
    """Returns the reply with Ω and its round in the memory, which the device keeps whether or not the reply is counted,
    and with the age of Ω in the report.

    `since`: the round of a fresh Ω; None if the device used the one in its memory.  The age is in rounds
    (docs/design/algorithms.md §4).
    """
    fresh = device.memory["importance_round"] if since is None else {"round": torch.tensor(since)}
    age = float(device.round - int(fresh["round"]))
    memory = {"importance": omega, "importance_round": fresh}
    return replace(reply, memory=memory, leverage={**reply.leverage, "age": age})


def without(reply: Reply, number: str | None, strength: float) -> Reply:
    """Returns the reply of a device without Ω, which reports 1 under the name `number` (nothing if None).  If 1
    replaced Ω, it also reports μ = 2λ of the equivalent FedProx penalty; `strength` is λ."""
    if number is None:
        return reply
    mu = {"mu": 2 * strength} if number == IDENTITY else {}
    return replace(reply, numbers={**reply.numbers, number: 1.0}, leverage={**reply.leverage, **mu})


def form(kind: Importance, parameters: Tensors) -> Tensors:
    """Returns blank tensors like Ω: one number for each parameter, or for each parameter tensor."""
    if kind != "tensor_scalar":
        return parameters
    return {name: torch.zeros((), dtype=value.dtype) for name, value in parameters.items()}


def spread(omega: Tensors, weights: Tensors) -> Tensors:
    """Returns Ω for each coordinate; one number for a whole tensor is expanded as a view, without memory of its own."""
    return {name: value.expand_as(weights[name]) for name, value in omega.items()}


def statistics(omega: Tensors, weights: Tensors) -> dict[str, float]:
    """Returns the mean and the largest Ω over all coordinates."""
    sizes = {name: weights[name].numel() for name in omega}
    total = sum(float(value.mean(dtype=torch.float64)) * sizes[name] for name, value in omega.items())
    largest = max(float(value.max()) for value in omega.values())
    return {"omega_mean": total / sum(sizes.values()), "omega_max": largest}

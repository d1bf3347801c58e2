"""FedCurv's penalty, and the sums over devices from which it is computed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from algorithms.algorithm import Message, Reply, Send, Tensors
from algorithms.training.local import pull

SUMS = ("fisher", "fisher_theta")  # kinds: of a device Î and Î⊙(θ̂ - centre); of the server their sums U and V
KEPT = "of "  # prefix of kinds of the server's state: a device's last upload, by the device's name

# ---- the penalty


@dataclass(frozen=True)
class Curvature:
    """The penalty λ Σ_j (θ - θ̂_j)ᵀ diag(Î_j) (θ - θ̂_j) over the other devices j (Eq. 3, rearranged)."""

    coordinatewise: ClassVar[bool] = True

    strength: float  # λ
    importance: Tensors  # u = Σ_j Î_j
    target: Tensors  # v = Σ_j Î_j⊙(θ̂_j - centre)
    centre: Tensors | None = None  # origin of θ in v; None: 0
    clamped: int = field(default=0, compare=False)  # coordinates with a negative u before clamping

    def __call__(self, name: str, parameter: Tensor, grad: Tensor) -> None:
        at = parameter if self.centre is None else parameter - self.centre[name]
        behind = torch.addcmul(self.target[name], self.importance[name], at, value=-1)  # v - u⊙(θ - centre)
        pull(grad, behind, -self.strength)

    def value(self, weights: Tensors) -> float:
        """Returns λ Σ u (θ - centre - v/u)²: the penalty above its minimum, because the sums leave out a constant."""
        total = 0.0
        for name, u in self.importance.items():
            at = weights[name].double() if self.centre is None else weights[name].double() - self.centre[name]
            off = u.double() * at - self.target[name].double()
            total += float(off.square_().div_(u.double()).nan_to_num_(0.0, 0.0, 0.0).sum())
        return self.strength * total


def of_others(strength: float, sums: Message, own: Message, centre: Tensors | None) -> Curvature:
    """Returns the curvature of the downloaded sums, minus the device's own part of them ({} if there is none).

    The own part is rounded as the sums are before the subtraction, so rounding errors cancel.  Where the others have no
    curvature, or a negative one through lossy encodings and rounding, u and v are 0: a penalty with u < 0 has no
    minimum, and neither has one with u = 0 and v ≠ 0 (docs/design/algorithms.md §11).
    """
    u, v = (_without(sums[kind], own.get(kind)) for kind in SUMS)
    held = {name: value > 0 for name, value in u.items()}
    clamped = sum(int((value < 0).sum()) for value in u.values())
    return Curvature(strength, _where(held, u), _where(held, v), centre, clamped)


def _without(total: Tensors, own: Tensors | None) -> Tensors:
    """Returns the sums `total` without the device's `own` part, in the precision of the sums."""
    return total if own is None else {name: value - own[name].to(value.dtype) for name, value in total.items()}


# ---- a device's part of the sums


def term(fisher: Tensors, theta: Tensors, centre: Tensors | None) -> Message:
    """Returns a device's part of the sums U and V, which is Î and Î⊙(θ̂ - centre), in float64; `centre` None means
    0."""
    u = {name: value.double() for name, value in fisher.items()}
    at = {name: theta[name].double() if centre is None else theta[name].double() - centre[name] for name in u}
    # + 0.0: a coordinate without Î is 0 and not -0.0, which sparse encodings would send.
    return {"fisher": u, "fisher_theta": {name: (value * at[name]).add_(0.0) for name, value in u.items()}}


def recentred(sums: Mapping[str, Tensors], old: Tensors, new: Tensors) -> Message:
    """Returns the sums about another centre: Σ Î_j⊙(θ̂_j - new) = V - U⊙(new - old)."""
    u, v = (sums[kind] for kind in SUMS)
    return {"fisher": u, "fisher_theta": {name: v[name] - u[name] * (new[name].double() - old[name]) for name in u}}


def own_part(kept: Message, sums: Message, centre: Tensors | None, max_age: int = 0) -> Message:
    """Returns the device's own part of the downloaded sums, about `centre`; {} if the sums do not contain it.  `kept`:
    the device's memory."""
    dates = [int(message["formed"]["round"]) for message in (sums, kept) if "formed" in message]
    if "fisher" not in kept or (dates and dates[0] - dates[-1] > max_age):
        return {}
    if "theta" in kept:
        return term(kept["fisher"], kept["theta"], centre)
    return kept if centre is None else recentred(kept, kept["centre"], centre)


def whole(fisher: Tensors, theta: Tensors, send: Send) -> tuple[Message, Message]:
    """Returns a lean device's upload of its part of the sums, which is Î alone, and what the device keeps of that part:
    Î as decoded, and θ̂.  All else is computed from these two."""
    arrived = send("fisher", fisher)
    return {"fisher": arrived}, {"fisher": arrived, "theta": {name: theta[name] for name in fisher}}


def changed(
    before: Message, fisher: Tensors, theta: Tensors, centre: Tensors | None, send: Send
) -> tuple[Message, Message]:
    """Returns the upload that replaces a device's part `before` ({} for none) by its new one, and the new part as
    decoded.

    The decoded part is what the server will have counted, whatever the encoding loses: v is computed from Î and θ̂ as
    decoded, and the error of this change is included in the next one (docs/design/algorithms.md §11).
    """
    fisher_change = send("fisher", rounded(_minus(fisher, before.get("fisher")), theta))
    u = _plus(fisher_change, before.get("fisher"))
    v = term(u, theta, centre)["fisher_theta"]
    theta_change = send("fisher_theta", rounded(_minus(v, before.get("fisher_theta")), theta))
    about: Message = {} if centre is None else {"centre": {name: centre[name] for name in u}}
    own = {"fisher": u, "fisher_theta": _plus(theta_change, before.get("fisher_theta"))}
    return {"fisher": fisher_change, "fisher_theta": theta_change}, own | about


def strongest(fisher: Tensors, share: float) -> Tensors:
    """Returns Î with 0 everywhere except in the largest `share` of the coordinates of the whole model.  Coordinates
    that equal the smallest of these are kept, too."""
    if share == 1:
        return fisher
    values = torch.cat([value.flatten() for value in fisher.values()]).cpu().numpy()
    last = len(values) - ceil(share * len(values))
    least = float(np.partition(values, last)[last])
    return _where({name: value >= least for name, value in fisher.items()}, fisher)


def rounded(values: Tensors, weights: Tensors) -> Tensors:
    """Returns the values rounded to the precision in which the parameters are sent."""
    return {name: value.to(weights[name].dtype) for name, value in values.items()}


def _where(held: Tensors, values: Tensors) -> Tensors:
    return {name: torch.where(held[name], value, 0) for name, value in values.items()}


def _minus(new: Tensors, old: Tensors | None) -> Tensors:
    return new if old is None else {name: value.double() - old[name] for name, value in new.items()}


def _plus(change: Tensors, old: Tensors | None) -> Tensors:
    return {name: value.double() if old is None else old[name] + value.double() for name, value in change.items()}


# ---- the server's sums


def summed(before: Mapping[str, Tensors], parts: Iterable[Message]) -> Message:
    """Returns the sums `before` (zeros if there are none) plus all parts, in float64 and in their order."""
    sums = {kind: {name: value.clone() for name, value in before[kind].items()} for kind in SUMS if kind in before}
    for part in parts:
        for kind in SUMS:
            held = sums.setdefault(kind, {})
            for name, value in part[kind].items():
                held[name] = held[name].add_(value) if name in held else 0.0 + value.double()
    return sums


def last_sent(state: Message, replies: Mapping[str, Reply], round: int, max_age: int) -> Message:
    """Returns each device's last counted upload, Î, θ̂ and the round that asked for it, as kinds of the server's state.

    `replies`: those that count in this `round`, one of each device.  Uploads more than `max_age` rounds old are left
    out; with `max_age` 0 none is too old.
    """
    kept = {kind: kept for kind, kept in state.items() if kind.startswith(KEPT)}
    for name, reply in replies.items():
        kept[KEPT + name] = _packed(reply.upload, round if reply.asked is None else reply.asked)
    return {kind: each for kind, each in kept.items() if not max_age or round - int(each["round"]) <= max_age}


def sums_of(kept: Message, centre: Tensors | None) -> Message:
    """Returns U and V of the devices' last uploads, added in the order of the names."""
    parts = ((_unpacked(kept[kind], part) for part in ("fisher", "weights")) for kind in sorted(kept))
    return summed({}, (term(fisher, theta, centre) for fisher, theta in parts))


def _packed(upload: Message, round: int) -> Tensors:
    parts = {f"{kind} {name}": upload[kind][name] for kind in ("fisher", "weights") for name in upload["fisher"]}
    return parts | {"round": torch.tensor(round)}


def _unpacked(kept: Tensors, kind: str) -> Tensors:
    return {name.removeprefix(f"{kind} "): value for name, value in kept.items() if name.startswith(f"{kind} ")}


# ---- what this moves, in floats per parameter: each operand is read and each result written once, float64 counts two


def moved_by_device(lean: bool, centred: bool, knows: bool, kept: Collection[str], counted: bool) -> float:
    """Returns the floats per parameter that a device moves in addition to its training: for u, v and the reported
    counts, if it `knows` sums, and for its upload.  `kept`: the kinds in its memory."""
    own = "fisher" in kept
    found = (16.0 + 5 * centred if lean else 20.0 * centred) if own else 0.0  # the own part, about today's centre
    taken = (9.0 + (12 + found) * own) if knows else 0.0  # without it; two comparisons, two cuts, two counts
    if lean:
        return taken
    changes = 52.0 + found if own and counted else 22.0  # against the own part; or all of it anew
    return taken + changes + 5 * centred


def moved_by_server(lean: bool, centred: bool, parts: int, new: bool) -> float:
    """Returns the floats per parameter that the server moves in addition to the mean of the models: it adds the parts
    of `parts` devices, to zeros if `new` and otherwise to the old sums, and rounds the result."""
    each = (28.0 + 5 * centred) if lean else 10.0
    return (4.0 if new or lean else 8.0) + each * parts + (20.0 if centred and not lean else 0.0) + 6.0

"""FedCurv (Shoham et al. 2019): each device holds on to what mattered to all the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import nn

from algorithms import curvature
from algorithms.algorithm import Load, Message, Party, Phase, Reply, Request, Tensors, Work
from algorithms.cost import PULL
from algorithms.curvature import SUMS, Curvature, rounded
from algorithms.estimation import estimation
from algorithms.fedavg import FedAvg
from algorithms.fisher import density
from algorithms.importance import Kind, importance
from algorithms.local import STRONGEST, fit, forms

FISHERS: dict[str, Kind] = {"empirical": "sq", "true": "true", "sampled": "sampled", "batch_squared": "batch_squared"}
CHOICES = {"upload": ("paper", "lean"), "fisher": tuple(FISHERS), "participation": ("counted", "last_round")}


@dataclass(frozen=True)
class FedCurv(FedAvg):
    """Local loss L_s(θ) + λ Σ_{j≠s} (θ - θ̂_j)ᵀ diag(Î_j) (θ - θ̂_j), Î_j the Fisher diagonal of device j's data
    at its own trained θ̂_j (Shoham et al. 2019, Eq. 3; §3.1 for the sums that travel).

    Down and up 3 |θ|; down |θ| until a reply has been counted.  The server keeps only U = Σ Î_j and
    V = Σ Î_j⊙θ̂_j over the last counted upload of every device, lost or late ones leave no trace: up go
    changes against the device's own part of the sums, which the device advances, by the values as they arrive,
    once they are counted.  Readings of algorithms.md §7: row 8 sum, λ without ½, unweighted; row 9 `fisher`, in
    eval mode; row 10 mean; row 11 θ by examples; row 12 `participation`; row 13 no penalty and 1 |θ| down at
    first; row 14 `centred`; row 15 lr and λ are the scenario's.

    Lean, a device sends θ̂ and Î, and the server forms Î⊙θ̂: 2 |θ| up.  Then the server must see individual
    uploads, and sums alone (secure aggregation) will not do; and it keeps the last one of every device, 2 |θ|
    each.  Where all devices answer in every round, `last_round` has the same sums to the bit, and keeps nothing.
    As only the lean server knows whose part is how old, it alone can drop those of devices that left (`max_age`).

    Whatever the encodings (§7b): the own part is what the server has decoded and counted, v is formed of Î and
    θ̂ as decoded, the own part is subtracted before any cut, and u is clamped at 0.  The report shows how many
    coordinates are `clamped`, and the `density` of U that came down: the share of it that is not 0.

    Numerics: sums are float64 on both sides and travel in the precision of the parameters.  U and the own
    part are rounded alike before they are subtracted, so a lone device has u = v = 0 exactly.  Centred sums of
    changes need the model to come down without loss: both sides count from it.
    Raises ValueError for options out of their range, and for options that exclude each other.
    """

    downloads: ClassVar[Collection[str]] = ("weights", *SUMS, "formed")
    uploads: ClassVar[Collection[str]] = ("weights", *SUMS, "centred")

    strength: float = 1.0
    """λ, the weight of the penalty; 0 is FedAvg."""
    upload: Literal["paper", "lean"] = "paper"
    """What goes up: θ̂, Î and Î⊙θ̂ (paper); or θ̂ and Î, which the server multiplies, as it sees each device's (lean)."""
    fisher: Literal["empirical", "true", "sampled", "batch_squared"] = "empirical"
    """Î, squared gradients: of the examples' labels, expected over the model's labels, of drawn ones, or of batches."""
    participation: Literal["counted", "last_round"] = "counted"
    """Who is in the sums: all devices, each with its last counted upload, or only those of the last round."""
    centred: bool | Literal["auto"] = False
    """Send Î⊙(θ̂ - broadcast θ) instead of Î⊙θ̂, of which few bits leave more; auto: where an upload's encoding loses."""
    keep: float = 1.0
    """The share of coordinates, those of the largest Î of the whole model, that a device sends of Î and Î⊙θ̂."""
    max_age: int = 0
    """Rounds after which the part of a device that has not been counted again is dropped (lean); 0: never."""

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= STRONGEST:
            raise ValueError(f"strength is {self.strength}; it must be from 0 (no penalty) to {STRONGEST:g}")
        for option, known in (CHOICES | {"centred": (True, False, "auto")}).items():
            if getattr(self, option) not in known:
                said = ", ".join(map(repr, known))
                raise ValueError(f"{option} is {getattr(self, option)!r}; it must be one of {said}")
        if not 0 < self.keep <= 1:
            raise ValueError(f"keep is {self.keep}; it must be above 0, and at most 1 (all coordinates)")
        if self.max_age < 0 or (self.max_age and (self.upload, self.participation) != ("lean", "counted")):
            raise ValueError(
                f"max_age is {self.max_age}; it must be 0, or rounds with upload 'lean' and participation 'counted': "
                "only then does the server know whose part of its sums is how old"
            )

    @property
    def sums_only(self) -> bool:
        """Not if the server multiplies each device's own Î and θ̂."""
        return self.upload == "paper"

    @property
    def encodings(self) -> Mapping[str, str]:
        """Of sums of few coordinates, only these."""
        return {} if self.keep == 1 else dict.fromkeys(SUMS, "sparse")

    def download_form(self, server: Party) -> Message:
        """The model, U and V; and the round that these were formed in, where parts leave them again."""
        return forms(("weights", *SUMS), server.model) | self._date(0)

    def upload_form(self, round: int, model: nn.Module) -> Message:  # noqa: ARG002
        """θ̂, Î and, unless lean, Î⊙θ̂; and with `auto` whether that is centred."""
        return forms(("weights", "fisher") if self.upload == "lean" else ("weights", *SUMS), model) | self._told(None)

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:  # noqa: ARG002
        """The model, U and V, to all."""
        sums = {kind: rounded(state[kind], state["weights"]) for kind in SUMS if kind in state}
        return Request({kind: state[kind] for kind in ("weights", "formed") if kind in state} | sums)

    def penalty(self, download: Message, device: Party) -> Curvature | None:
        """The curvature of the others: u and v are U and V without the device's own part."""
        if self.strength == 0 or "fisher" not in download:
            return None
        centre = self._centre(download, device)
        own = curvature.own_part(device.memory, download, centre, self.max_age)
        return curvature.of_others(self.strength, download, own, centre)

    def train(self, download: Message, device: Party) -> Reply:
        """As FedAvg's, then the Fisher diagonal on the device's own examples; up go θ̂, and Î and v or their changes."""
        penalty = self.penalty(download, device)
        reply = fit(device, download["weights"], self.training, penalty)
        trained, numbers = reply.upload["weights"], dict(reply.numbers)
        if penalty is not None:
            numbers |= {"clamped": float(penalty.clamped), "density": density(download["fisher"])}
        kind, batch = FISHERS[self.fisher], self.training.batch
        fisher = importance(device.model, device.loss, device.x, device.y, kind, seed=device.seed, batch=batch)
        theta, fisher = device.send("weights", trained), curvature.strongest(fisher, self.keep)
        centre = self._centre(download, device)
        if self.upload == "lean":
            upload, own = curvature.whole(fisher, theta, device.send)
        else:
            before = curvature.own_part(device.memory, download, centre) if self.participation == "counted" else {}
            upload, own = curvature.changed(before, fisher, theta, centre, device.send)
        upload, own = {"weights": theta} | upload | self._told(centre), own | self._date(device.round)
        return replace(reply, upload=upload, if_counted=own, model=trained, numbers=numbers)

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """The mean of the models; U and V with what came, or formed anew of what each device sent last."""
        new = super().combine(state, replies, server) | self._date(server.round)
        uploads = {name: replies[name].upload for name in sorted(replies)}
        told = [bool(upload["centred"]["centred"]) for upload in uploads.values() if "centred" in upload]
        centred = all(told) if self.centred == "auto" else self.centred
        old = state if self.participation == "counted" else {}
        if self.upload == "lean":
            kept = curvature.last_sent(old, uploads, server.round, self.max_age)
            sums = curvature.sums_of(kept, new["weights"] if centred else None)
            return new | sums | (kept if self.participation == "counted" else {})
        sums = curvature.summed(old, uploads.values())
        return new | (curvature.recentred(sums, state["weights"], new["weights"]) if centred else sums)

    def penalty_traffic(self, load: Load) -> float:
        """Parameter, u, v and gradient, once there is a curvature; and where θ is counted from."""
        return PULL + 3 * bool(self.centred) if self.strength and "fisher" in load.kinds else 0.0

    def device_work(self, load: Load) -> Work:
        """Training, the Fisher pass, and the sums: the own part is taken out of them, and a new one made."""
        fisher = estimation("fisher", FISHERS[self.fisher], load.examples, load.parameters, self.training.batch)
        knows, counted = self.strength > 0 and "fisher" in load.kinds, self.participation == "counted"
        moved = curvature.moved_by_device(self.upload == "lean", bool(self.centred), knows, load.memory, counted)
        moved += 8 * (self.keep < 1)  # all Î in one piece, copied, partitioned, compared, cut
        sums = Phase("sums", examples=0, batch=1, backward="", traffic=moved * load.parameters)
        return (*super().device_work(load), *fisher, *((sums,) if moved else ()))

    def device_floats(self, load: Load) -> float:
        """Before training the own part and u and v (lean); after it the part as it was and as it is, and the change."""
        before = 3.0 + 2 * bool(self.centred) if self.participation == "counted" else 0.0
        return (7.0 if self.upload == "lean" else 7.0 + before + (self.keep < 1)) * load.parameters

    def combine_work(self, load: Load) -> Work:
        """As FedAvg's, and the sums; lean, of all devices, as when each has been counted."""
        lean, anew = self.upload == "lean", self.participation == "last_round"
        parts = load.devices if lean and not anew else load.replies
        moved = curvature.moved_by_server(lean, bool(self.centred), parts, anew) * load.parameters
        return tuple(replace(phase, traffic=phase.traffic + moved) for phase in super().combine_work(load))

    def _date(self, round: int) -> Message:
        """The round in which sums are formed, where parts leave them again."""
        return {"formed": {"round": torch.tensor(round)}} if self.max_age or self.participation != "counted" else {}

    def _told(self, centre: Tensors | None) -> Message:
        return {"centred": {"centred": torch.tensor(centre is not None)}} if self.centred == "auto" else {}

    def _centre(self, download: Message, device: Party) -> Tensors | None:
        """Where θ is counted from; None: from 0."""
        up = SUMS[:1] if self.upload == "lean" else SUMS
        centred = curvature.loses(device.send, up) if self.centred == "auto" else self.centred
        return download["weights"] if centred else None

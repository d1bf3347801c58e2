"""How FedCurv's sums are kept and sent: what options say of that, on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from algorithms import curvature
from algorithms.algorithm import Load, Message, Party, Reply, Tensors
from algorithms.curvature import SUMS


@dataclass(frozen=True)
class Sums:
    """U = Σ Î_j and V = Σ Î_j⊙θ̂_j over the devices; see algorithms.fedcurv.FedCurv for the fields."""

    lean: bool
    counted: bool  # over all devices that were ever counted, not only those of the last round
    centred: bool | Literal["auto"]
    keep: float
    max_age: int

    def check(self) -> None:
        """Raises ValueError if nobody knows whose part is how old, and parts shall leave."""
        if self.max_age and not (self.lean and self.counted):
            raise ValueError(
                f"max_age is {self.max_age}; it must be 0, or rounds with upload 'lean' and participation 'counted': "
                "only then does the server know whose part of its sums is how old"
            )

    def centre(self, download: Message, device: Party) -> Tensors | None:
        """Where θ is counted from; None: from 0."""
        up = SUMS[:1] if self.lean else SUMS
        centred = curvature.loses(device.send, up) if self.centred == "auto" else self.centred
        return download["weights"] if centred else None

    def date(self, round: int) -> Message:
        """The round in which sums are formed, where parts leave them again."""
        return {"formed": {"round": torch.tensor(round)}} if self.max_age or not self.counted else {}

    def told(self, centre: Tensors | None) -> Message:
        """Whether an upload is centred, where it may be or not."""
        return {"centred": {"centred": torch.tensor(centre is not None)}} if self.centred == "auto" else {}

    def closed(self, state: Message, new: Message, replies: Mapping[str, Reply], round: int) -> Message:
        """The `new` state with U and V: with what came, or formed anew of what each device sent last."""
        uploads = {name: replies[name].upload for name in sorted(replies)}
        told = [bool(upload["centred"]["centred"]) for upload in uploads.values() if "centred" in upload]
        centred = all(told) if self.centred == "auto" else self.centred
        old = state if self.counted else {}
        new = new | self.date(round)
        if self.lean:
            kept = curvature.last_sent(old, uploads, round, self.max_age)
            sums = curvature.sums_of(kept, new["weights"] if centred else None)
            return new | sums | (kept if self.counted else {})
        sums = curvature.summed(old, uploads.values())
        return new | (curvature.recentred(sums, state["weights"], new["weights"]) if centred else sums)

    def moved_by_device(self, load: Load, knows: bool) -> float:
        """Floats for each parameter: the own part is taken out of the sums that it `knows`, and a new one made."""
        moved = curvature.moved_by_device(self.lean, bool(self.centred), knows, load.memory, self.counted)
        return moved + 8 * (self.keep < 1)  # all Î in one piece, copied, partitioned, compared, cut

    def moved_by_server(self, load: Load) -> float:
        """Likewise; lean, of all devices, as when each has been counted."""
        parts = load.devices if self.lean and self.counted else load.replies
        return curvature.moved_by_server(self.lean, bool(self.centred), parts, not self.counted)

    def held(self) -> float:
        """Floats for each parameter on a device: before training the own part and u and v (lean); after it the part as
        it was and as it is, and the change."""
        before = 3.0 + 2 * bool(self.centred) if self.counted else 0.0
        return 7.0 if self.lean else 7.0 + before + (self.keep < 1)

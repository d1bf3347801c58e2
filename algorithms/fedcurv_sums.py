"""The rules for keeping and sending FedCurv's sums, on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from algorithms import fedcurv_penalty
from algorithms.algorithm import Load, Message, Party, Reply, Tensors
from algorithms.fedcurv_penalty import SUMS
from algorithms.staleness import newest


@dataclass(frozen=True)
class Sums:
    """The rules for the sums U = Σ Î_j and V = Σ Î_j⊙θ̂_j over the devices; see algorithms.fedcurv.FedCurv for the
    fields."""

    lean: bool
    counted: bool  # over all devices ever counted, not only those of the last round
    centred: bool | Literal["auto"]
    keep: float
    max_age: int

    def check(self) -> None:
        """Raises ValueError if `max_age` is set but the server does not know how old each device's part of its sums
        is."""
        if self.max_age and not (self.lean and self.counted):
            raise ValueError(
                f"max_age is {self.max_age}; it must be 0, or rounds with upload 'lean' and participation 'counted': "
                "only then does the server know whose part of its sums is how old"
            )

    def check_encodings(self, lossy: Mapping[str, str]) -> None:
        """Raises ValueError for downlink encodings with which a device cannot identify its own part of the sums."""
        if self.centred is True and "down weights" in lossy:
            raise ValueError(
                f"encoding.down.weights is {lossy['down weights']!r}; centred sums are counted from the model that "
                "came down, so it must be float32"
            )
        for kind in SUMS:
            if (how := lossy.get(f"down {kind}", "")).startswith("top-"):
                raise ValueError(
                    f"encoding.down.{kind} is {how!r}; a device takes its own part out of the sums before any cut, so "
                    "it must be another; `keep` sends fewer coordinates"
                )

    def about(self, lossy: Mapping[str, str]) -> bool:
        """Returns true if the origin of θ̂ in V is the broadcast model (centred sums) and not 0; with "auto", if
        uploads of the sums are lossy and the download of the model is exact."""
        if self.centred != "auto":
            return self.centred
        up = SUMS[:1] if self.lean else SUMS
        return "down weights" not in lossy and any(f"up {kind}" in lossy for kind in up)

    def centre(self, download: Message, device: Party) -> Tensors | None:
        """Returns the origin of θ in v: the downloaded model, or None for 0."""
        return download["weights"] if self.about(device.lossy) else None

    def sent(self, fisher: Tensors, theta: Tensors, download: Message, device: Party) -> tuple[Message, Message]:
        """Returns the upload of a device's part of the sums, and the state that it keeps once this upload is counted;
        `fisher` is Î, and `theta` is θ̂ as the server decodes it."""
        if self.lean:
            upload, own = fedcurv_penalty.whole(fisher, theta, device.send)
        else:
            centre = self.centre(download, device)
            before = fedcurv_penalty.own_part(device.memory, download, centre) if self.counted else {}
            upload, own = fedcurv_penalty.changed(before, fisher, theta, centre, device.send)
        return upload, own | self.date(device.round)

    def date(self, round: int) -> Message:
        """Returns the kind "formed" with this round, in which sums are formed, if a device's part can later be dropped
        from the sums; {} otherwise."""
        return {"formed": {"round": torch.tensor(round)}} if self.max_age or not self.counted else {}

    def closed(self, state: Message, new: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the `new` state with U and V: the old sums plus the uploaded changes, or the sums of the last uploads
        (with `lean` or without `counted`)."""
        centred, round = self.about(server.lossy), server.round
        if centred and not self.lean and any(reply.staleness for reply in replies.values()):
            raise ValueError("centred sums combine no stale replies; set centred: false, or upload: lean")
        old = state if self.counted else {}
        new = new | self.date(round)
        if self.lean:
            kept = fedcurv_penalty.last_sent(old, newest(replies), round, self.max_age)
            sums = fedcurv_penalty.sums_of(kept, new["weights"] if centred else None)
            return new | sums | (kept if self.counted else {})
        sums = fedcurv_penalty.summed(old, (replies[name].upload for name in sorted(replies)))
        return new | (fedcurv_penalty.recentred(sums, state["weights"], new["weights"]) if centred else sums)

    def moved_by_device(self, load: Load, knows: bool) -> float:
        """Returns the floats per parameter that a device moves to remove its own part from the sums, if it `knows`
        them, and to compute its new part."""
        moved = fedcurv_penalty.moved_by_device(self.lean, self.about(load.lossy), knows, load.memory, self.counted)
        return moved + 8 * (self.keep < 1)  # all Î in one piece: copied, partitioned, compared, cut

    def moved_by_server(self, load: Load) -> float:
        """Returns the floats per parameter that the server moves for its sums.  With `lean` it adds the parts of all
        devices, as it does once each has been counted."""
        parts = load.devices if self.lean and self.counted else load.replies
        return fedcurv_penalty.moved_by_server(self.lean, self.about(load.lossy), parts, not self.counted)

    def held(self, load: Load) -> float:
        """Returns the floats per parameter that a device holds for the sums: with `lean`, its own part and u and v
        before training; otherwise its part before and after training, and the change."""
        before = 3.0 + 2 * self.about(load.lossy) if self.counted else 0.0
        return 7.0 if self.lean else 7.0 + before + (self.keep < 1)

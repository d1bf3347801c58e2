"""FedCurv (Shoham et al. 2019): a penalty holds each device to the weights that matter to all others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, Literal

from torch import nn

from algorithms import fedcurv_penalty, option_checks
from algorithms.algorithm import Load, Message, Party, Phase, Reply, Request, Tensors, Work
from algorithms.counting.cost import PULL
from algorithms.counting.estimation import estimation
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.fedcurv_penalty import SUMS, Curvature, rounded
from algorithms.fedcurv_sums import Sums
from algorithms.importance.fisher import density
from algorithms.importance.importance import Kind, estimating
from algorithms.importance.placebo import Placebo, replaced
from algorithms.training.local import STRONGEST, fitting, forms

FISHERS: dict[str, Kind] = {"empirical": "sq", "exact": "true", "sampled": "sampled", "batch_squared": "batch_squared"}


@dataclass(frozen=True)
class FedCurv(FedAvg):
    """Devices add the penalty λ Σ_{j≠s} (θ - θ̂_j)ᵀ diag(Î_j) (θ - θ̂_j) to their loss, where Î_j is the Fisher
    diagonal of device j's data at its own trained model θ̂_j (Shoham et al. 2019, Eq. 3; §3.1 for the sums that are
    sent).

    Bytes: 3 |θ| down and up; |θ| down until a reply has been counted.  The server keeps only U = Σ Î_j and V = Σ
    Î_j⊙θ̂_j over the last counted upload of every device.  Lost or late uploads have no effect: devices upload changes
    against their own part of the sums, and update that part, by the values as the server decodes them, once they are
    counted.

    Choices that the paper leaves open (docs/design/algorithms.md §9): the penalty is a sum over the other devices,
    unweighted, with λ and not λ/2; Î is a mean over the device's examples, taken in eval mode, of the kind `fisher`;
    models are averaged by examples; `participation` selects the devices whose curvature is in the sums; round 0 has no
    penalty and sends 1 |θ| down; `centred` sets the origin of v; lr and λ are the scenario's.

    With upload `lean`, a device sends θ̂ and Î, and the server computes Î⊙θ̂: 2 |θ| up.  Then the server needs
    individual uploads, so secure aggregation is impossible; and it keeps the last one of every device, 2 |θ| each.  If
    all devices answer in every round, `last_round` has the same sums to the bit, and keeps nothing.  Only the lean
    server knows the age of each device's part, so only it can drop those of devices that left (`max_age`).

    In asynchronous rounds a device may be asked again while its last reply waits in a buffer.  It then takes out of the
    sums the part that they have, and uploads the change against its newest one.

    Encodings (docs/design/algorithms.md §11): a device's own part is always what the server has decoded and counted, v
    is computed from Î and θ̂ as decoded, the own part is subtracted before any cut, and u is clamped at 0.  The report
    shows the number of `clamped` coordinates, and the `density` of the downloaded U: its share of non-zero coordinates.

    Numerics: sums are float64 on both sides and sent in the precision of the parameters.  U and the own part are
    rounded alike before the subtraction, so a single device has u = v = 0 exactly.  Centred sums of changes need a
    lossless download of the model, because both sides use it as the origin.  Raises ValueError for options out of their
    range, and for options that exclude each other.
    """

    downloads: ClassVar[Collection[str]] = ("weights", *SUMS, "formed")
    uploads: ClassVar[Collection[str]] = ("weights", *SUMS)
    squares: ClassVar[Collection[str]] = SUMS
    penalty_options: ClassVar[Collection[str]] = ("strength",)

    strength: float = 1.0
    """Weight of the penalty, λ; 0 makes it FedAvg."""
    upload: Literal["paper", "lean"] = "paper"
    """Upload of a device: θ̂, Î and their product Î⊙θ̂ (paper), or only θ̂ and Î (lean), which the server
    multiplies, so that it has to see each upload."""
    fisher: Literal["empirical", "exact", "sampled", "batch_squared"] = "empirical"
    """Estimate of the Fisher diagonal Î from squared gradients: with the examples' labels (empirical), expected
    over the model's labels (exact), with labels drawn from the model (sampled), or of whole batches (batch_squared)."""
    participation: Literal["counted", "last_round"] = "counted"
    """Devices whose curvature enters the sums: all devices, each with its last counted upload (counted), or only
    those of the last round (last_round)."""
    centred: bool | Literal["auto"] = "auto"
    """Send Î⊙(θ̂ - broadcast θ) instead of Î⊙θ̂, which loses less in a low-precision encoding; auto does so if an
    upload's encoding is lossy."""
    keep: float = 1.0
    """Share of coordinates of Î and Î⊙θ̂ that a device sends: those with the largest Î of the whole model."""
    max_age: int = 0
    """Rounds after which the lean server drops the curvature of a device that has not been counted again; with 0 it
    never does."""
    placebo: Placebo = "none"
    """Control that takes the place of each device's Fisher diagonal Î, also in Î⊙θ̂: its values in a random order within
    each tensor (shuffled), or their mean (mean). Declared work stays that of the original."""

    def __post_init__(self) -> None:
        option_checks.check(self, strength=(0, STRONGEST), keep=(1e-9, 1), max_age=(0, inf))
        if self.centred not in (True, False, "auto"):
            raise ValueError(f"centred is {self.centred!r}; it must be True, False or 'auto'")
        if self.placebo == "mean" and self.keep < 1:
            raise ValueError(
                f"placebo is 'mean'; with keep {self.keep} it must be 'shuffled': equal values have no largest"
            )
        self.sums.check()

    @property
    def sums(self) -> Sums:
        """The rules for keeping and sending U and V."""
        lean, counted = self.upload == "lean", self.participation == "counted"
        return Sums(lean, counted, self.centred, self.keep, self.max_age)

    @property
    def sums_only(self) -> bool:
        """True if the server needs only sums of the uploads; false with upload `lean`, because it then multiplies each
        device's own Î and θ̂."""
        return self.upload == "paper"

    @property
    def synchronous(self) -> str:
        """Reason why all replies of a round must have started from one model; "" if stale replies may be combined."""
        if self.participation == "last_round":
            return "with participation 'last_round' its sums have the replies to one round"
        if self.centred is True and self.upload == "paper":
            return "centred sums are counted from the model of one round (upload 'lean' has no such sums)"
        return ""

    @property
    def encodings(self) -> Mapping[str, str]:
        """The encoding of the sums: sparse if `keep` is below 1, otherwise none ({})."""
        return {} if self.keep == 1 else dict.fromkeys(SUMS, "sparse")

    def download_form(self, server: Party) -> Message:
        """Returns the form of the largest download: the model, U and V, and the round of U and V if a device's part can
        later be dropped from them."""
        return forms(("weights", *SUMS), server.model) | self.sums.date(0)

    def upload_form(self, round: int, model: nn.Module) -> Message:  # noqa: ARG002
        """Returns the form of an upload: θ̂, Î and, unless upload is `lean`, Î⊙θ̂."""
        return forms(("weights", "fisher") if self.upload == "lean" else ("weights", *SUMS), model)

    def start(self, weights: Tensors, server: Party) -> Message:
        """Returns the model; there are no sums yet."""
        self.sums.check_encodings(server.lossy)
        return super().start(weights, server)

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:  # noqa: ARG002
        """Returns the message for all devices: the model and, once there are sums, U and V."""
        sums = {kind: rounded(state[kind], state["weights"]) for kind in SUMS if kind in state}
        return Request({kind: state[kind] for kind in ("weights", "formed") if kind in state} | sums)

    def penalty(self, download: Message, device: Party) -> Curvature | None:
        """Returns the penalty of the other devices' curvature: its u and v are U and V without the device's own part.
        None at strength 0, or while there are no sums."""
        if self.strength == 0 or "fisher" not in download:
            return None
        centre = self.sums.centre(download, device)
        held = device.memory if device.combined is None else device.combined
        own = fedcurv_penalty.own_part(held, download, centre, self.max_age)
        return fedcurv_penalty.of_others(self.strength, download, own, centre)

    def penalised(self, round: int, kinds: Collection[str], memory: Collection[str]) -> bool:  # noqa: ARG002
        """Returns true if the download has the sums U and V, which give the penalty."""
        return "fisher" in kinds

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains, then estimates the Fisher diagonal Î on the device's examples; uploads θ̂, and the device's part of
        the sums or the change of it (with `lean` only Î)."""
        penalty = self.penalty(download, device)
        reply = yield from fitting(device, download["weights"], self.training, penalty)
        trained, numbers = reply.upload["weights"], dict(reply.numbers)
        if penalty is not None:
            numbers |= {"clamped": float(penalty.clamped), "density": density(download["fisher"])}
        fisher = yield from estimating(device, trained, FISHERS[self.fisher], device.seed, self.training.batch)
        fisher = replaced(fisher, self.placebo, device.seed, device.round)
        theta, fisher = device.send("weights", trained), fedcurv_penalty.strongest(fisher, self.keep)
        upload, own = self.sums.sent(fisher, theta, download, device)
        upload = {"weights": theta} | upload
        return replace(reply, upload=upload, if_counted=own, model=trained, numbers=numbers)

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the mean of the models, and the new U and V: the old ones plus the uploaded changes, or the sums of
        the last uploads (with `lean` or `last_round`)."""
        return self.sums.closed(state, super().combine(state, replies, server), replies, server)

    def penalty_traffic(self, load: Load) -> float:
        """Returns the floats that the penalty moves for each parameter and step: parameter, u, v, gradient and, if
        centred, the origin of θ; 0 while there are no sums."""
        return PULL + 3 * self.sums.about(load.lossy) if self.strength and "fisher" in load.kinds else 0.0

    def device_work(self, load: Load) -> Work:
        """Returns the work of training, of the Fisher pass, and of the sums: removing the own part, and computing a new
        one."""
        fisher = estimation("fisher", FISHERS[self.fisher], load.examples, load.parameters, self.training.batch)
        moved = self.sums.moved_by_device(load, knows=self.strength > 0 and "fisher" in load.kinds)
        sums = Phase("sums", "forward", traffic=moved * load.parameters)
        return (*super().device_work(load), *fisher, *((sums,) if moved else ()))

    def device_floats(self, load: Load) -> float:
        """Returns the floats that the sums hold in addition to the model."""
        return self.sums.held(load) * load.parameters

    def combine_traffic(self, load: Load) -> float:
        """Returns the floats per parameter that adding up the sums moves."""
        return self.sums.moved_by_server(load)

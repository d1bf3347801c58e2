"""Continual federated learning (An Bian 2018): the data drift in time slices, and part of the model may be personal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, Literal

import torch
from torch import nn

from algorithms import option_checks
from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Load, Message, Party, Phase, Reply, Request, Tensors, Work
from algorithms.cohort import CohortRule
from algorithms.continual_turns import CycleSchedule, Variant, part
from algorithms.counting.cost import optimizer_traffic
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.training.local import Sgd, sgd
from algorithms.training.tensors import tensors_of, travelling

KEPT = "personal"  # kind: the parameters that a device of Algorithm 2 never sends again


@dataclass(frozen=True)
class Continual(FedAvg):
    """FedAvg on drifting data in cycles; each device may retrain at the end of a cycle (An Bian 2018, Algorithms 0 to
    2).

    The metric `personalised` is that of the model that each device would use: the one it received, with its own θ^pe if
    it has one, retrained in the rounds in which the fleet retrains, which are charged.

    A cycle is the `per_cycle` rounds on one time slice.  Its last round asks the whole fleet: the final model of FedAvg
    is sent to all, each device retrains (Alg. 0 all parameters, Alg. 1 and 2 only the personal ones, θ^pe), and the
    next cycle begins with the mean of their uploads.  From cycle 1 on Algorithm 2 sends, trains and averages only the
    shared parameters θ^sh in FedAvg, and consists of `inner` blocks that each end with such a retraining; θ^pe never
    leaves the device after cycle 0.

    Bytes: |θ| down and up in each round, with Alg. 2 |θ^sh| from cycle 1 on.  Up in the last round of a cycle: |θ^pe|
    with Alg. 1 and nothing with Alg. 2, because the server already has all θ^sh (docs/design/algorithms.md §6;
    `literal`: |θ| and |θ^sh|, as in the text); nothing up in the other retrainings of Alg. 2.  Buffers are sent with
    the parameters that `personal` names beside them; shared buffers do not change when a device retrains.

    Choices that the paper leaves open (docs/design/algorithms.md §9): the options `personal`, `inner` and
    `retrain_epochs` are the user's choice, the mean weighs devices by the examples of the finished cycle, and all
    devices receive the final model and retrain.  A device that was never reached in cycle 0 has no θ^pe, and never
    receives any: it begins with zeros, and the report counts such devices as `without_personal`.  The server's model
    keeps the θ^pe of the end of cycle 0.  Raises ValueError if a field is out of its range or does not divide the
    cycle; `start` also if the data have no cycles, or if `personal` names no parameter of the model or, with Alg. 2,
    leaves none to share.
    """

    cohort_rule: ClassVar[CohortRule] = "own"
    synchronous: ClassVar[str] = "it selects the whole fleet in some rounds"

    variant: Variant = "baseline"
    """Retraining at the end of a cycle: none, only FedAvg (baseline), retraining of all parameters (alg0), or
    retraining of the personal parameters (alg1, alg2)."""
    personal: str = "softmax.*"
    """Names of the personal parameters, as patterns with * separated by spaces. In the text models softmax.* is the
    final layer."""
    inner: int = 1
    """Number m of alternations of FedAvg and retraining in a cycle of alg2, each of `per_cycle` / m rounds, from
    cycle 1 on."""
    retrain_epochs: int = 1
    """Passes over a device's examples when it retrains."""
    upload: Literal["minimal", "literal"] = "minimal"
    """Upload of every device after retraining: only the part that the server does not know yet (minimal), or what the
    paper's text says (literal)."""
    pretrain: int = 0
    """Epochs of SGD on the server's proxy set before round 0; all devices start from the result. With 0 there is no
    pretraining."""
    average: bool = False
    """In the baseline, ask the whole fleet in the last round of a cycle, so that the next cycle starts from the mean of
    all devices."""

    def __post_init__(self) -> None:
        option_checks.whole_epochs(self.training, "rounds that also retrain")
        option_checks.check(self, inner=(1, inf), retrain_epochs=(0, inf), pretrain=(0, inf))
        if "!" in {glob[0] for glob in self.personal.split()}:
            raise ValueError(f"personal is {self.personal!r}; it must be what is personal, without a '!'")
        self.turns.check()

    @property
    def turns(self) -> CycleSchedule:
        """The schedule of rounds for these options."""
        literal = self.upload == "literal"
        given = (self.variant, self.personal, self.inner, self.retrain_epochs, literal, self.average, self.training)
        return CycleSchedule(*given)

    @property
    def keeps_uncounted(self) -> bool:
        """True with Algorithm 2, in which devices keep their personal parameters."""
        return self.variant == "alg2"

    def round_kind(self, round: int) -> str:
        """Returns a name for the round that tells which parameters it sends, trains and uploads, and whether the server
        pretrains before it."""
        turn = self.turns.of(round)
        sent = f"{turn.name}: {turn.down} down, {turn.trained or 'nothing'} trained, {turn.up or 'nothing'} up"
        return sent if round or not self.pretrain else f"pretrain, {sent}"

    def start(self, weights: Tensors, server: Party) -> Message:
        """Returns the model, after `pretrain` epochs.  Until the end of cycle 0 its personal part is shared like the
        rest."""
        self.turns.check_names([*travelling(server.model)])
        if self.pretrain and not len(server.y):
            raise ValueError(f"pretrain is {self.pretrain}; it must be 0, for the server's proxy set has no examples")
        trained = sgd(server, weights, replace(self.training, epochs=self.pretrain)) if self.pretrain else weights
        return super().start(trained, server)

    def upload_form(self, round: int, model: nn.Module) -> Message:
        """Returns the part of the weights that is uploaded in this round; in some rounds of Alg. 2 it is empty."""
        return {"weights": part(super().upload_form(round, model)["weights"], self.turns.of(round).up)}

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        """Returns the devices that FedAvg draws; in a round in which the whole fleet retrains, all of `names`."""
        return names if self.turns.of(round).name == "retrain" else super().cohort(round, names, count, seed)

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:  # noqa: ARG002
        """Sends the model, or its shared part, to all asked devices."""
        return Request({"weights": part(state["weights"], self.turns.of(server.round).down)})

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains or retrains the parameters of this round; all others keep the values received."""
        turn, kept = self.turns.of(device.round), device.memory.get(KEPT, {})
        blank = {name: torch.zeros_like(value) for name, value in tensors_of(device.model).items()}
        model = blank | kept | download["weights"]
        # In a trial the device has what it would use: the model received, retrained only if all retrain and pay for it.
        if turn.trained and turn.epochs and (turn.name == "retrain" or not device.trial):
            after = yield Sgd(device, model, replace(self.training, epochs=turn.epochs), only=turn.trained)
            model |= part(after, turn.trained)
        upload = {"weights": part(model, turn.up)}
        if self.variant != "alg2":
            return Reply(upload, len(device.y), model=model)
        learnt = turn.down == "*" or turn.name == "retrain"
        memory = {KEPT: part(model, self.personal)} if learnt else {}
        numbers = {} if turn.down == "*" else {"without_personal": float(not kept)}
        return Reply(upload, len(device.y), memory, model=model, numbers=numbers)

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:  # noqa: ARG002
        """Returns the mean of the uploaded parameters; the rest of the model does not change."""
        return {"weights": state["weights"] | weighted_mean(replies)}

    def request_work(self, load: Load) -> Work:
        """Returns the work of pretraining on the proxy set, in round 0; () in other rounds, and without pretraining."""
        if load.round or not self.pretrain:
            return ()
        (train,) = super().device_work(load)
        return (replace(train, name="pretrain", epochs=self.pretrain),)

    def device_work(self, load: Load) -> Work:
        """Returns the work of the passes over the device's examples, with gradients of the parameters that this round
        trains; () if it trains none."""
        turn, batch = self.turns.of(load.round), max(1, min(self.training.batch, load.examples))
        if not (turn.trained and turn.epochs):
            return ()
        moved = optimizer_traffic(1, self.training)
        return (Phase(turn.name, "batch", load.examples, batch, turn.epochs, turn.trained, per_parameter=moved),)

    def combine_work(self, load: Load) -> Work:
        """Returns the work of the mean: each uploaded part is read once, and the mean is written."""
        globs = self.turns.of(load.round).up
        return (Phase("combine", "forward", backward=globs, per_parameter=load.replies + 1.0),) if globs else ()

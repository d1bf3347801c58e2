"""Federated averaging (McMahan et al. 2017)."""
# ruff: noqa: ARG002 - the interface names every argument, and not each algorithm needs all of them

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Load, Message, Party, Phase, Reply, Request, Tensors, Training, Work
from algorithms.cohort import CohortRule, draw
from algorithms.counting.cost import optimizer_traffic
from algorithms.course import Course, alone
from algorithms.training.local import Penalty, fitting, forms, passes, steps


@dataclass(frozen=True)
class FedAvg:
    """Devices train the broadcast model, and the server averages their models by examples (McMahan et al. 2017, Alg.
    1).

    Bytes: the model, |θ|, down to each device and up again.  Other algorithms override `penalty`, `course`, and the
    messages.
    """

    downloads: ClassVar[Collection[str]] = ("weights",)
    uploads: ClassVar[Collection[str]] = ("weights",)
    squares: ClassVar[Collection[str]] = ()
    penalty_options: ClassVar[Collection[str]] = ()
    cohort_rule: ClassVar[CohortRule] = "drawn"

    training: Training

    @property
    def sums_only(self) -> bool:
        """True: the server needs only sums of the uploads, which secure aggregation can provide."""
        return True

    @property
    def keeps_uncounted(self) -> bool:
        """False: devices keep nothing."""
        return False

    @property
    def synchronous(self) -> str:
        """Reason why all replies of a round must have started from one model; "" if stale replies may be combined."""
        return ""

    @property
    def any_cohort_will_do(self) -> bool:
        """True if `cohort` draws devices at random."""
        return self.cohort_rule == "drawn"

    @property
    def encodings(self) -> Mapping[str, str]:
        """Returns {}: no kind is encoded."""
        return {}

    def download_form(self, server: Party) -> Message:
        """Returns blank tensors: weights like the model's, all other kinds like its parameters."""
        return forms(self.downloads, server.model)

    def upload_form(self, round: int, model: nn.Module) -> Message:
        """Returns blank tensors: weights like the model's, all other kinds like its parameters."""
        return forms(self.uploads, model)

    def start(self, weights: Tensors, server: Party) -> Message:
        """Returns the server's state: the model and nothing else."""
        return {"weights": weights}

    def round_kind(self, round: int) -> str:
        """Returns one name, because all rounds are of one kind."""
        return "train"

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        """Returns `count` of `names`, drawn without replacement and in the order of `names`; all names if there are at
        most `count`."""
        return draw(names, count, seed)

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:
        """Sends the model to all asked devices."""
        return Request({"weights": state["weights"]})

    def penalty(self, download: Message, device: Party) -> Penalty | None:
        """Returns the penalty to add to the local loss; None for no penalty."""
        return None

    def train(self, download: Message, device: Party) -> Reply:
        """Returns the device's reply, by running its course (course.py) for this device alone."""
        return alone(self.course(download, device))

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains for E epochs from the broadcast model and uploads the result.  A class that overrides `train`
        instead has each device trained separately."""
        return fitting(device, download["weights"], self.training, self.penalty(download, device))

    def penalised(self, round: int, kinds: Collection[str], memory: Collection[str]) -> bool:
        """Returns true: without knowledge of a subclass's penalty, any round may have one."""
        return True

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the mean of the uploaded models."""
        return {"weights": weighted_mean(replies)}

    def request_work(self, load: Load) -> Work:
        """Returns (): the server computes nothing before a round."""
        return ()

    def penalty_traffic(self, load: Load) -> float:
        """Returns how many floats the penalty reads from memory or writes to it, for each parameter and step."""
        return 0.0

    def device_work(self, load: Load) -> Work:
        """Returns the work of the steps on the device's examples."""
        moved = optimizer_traffic(load.parameters, self.training)
        moved += self.penalty_traffic(load) * load.parameters
        batch = max(1, min(self.training.batch, load.examples))
        count = steps(load.examples, self.training, load.steps)
        return passes(Phase("train", "batch", load.examples, batch, traffic=moved), count)

    def device_floats(self, load: Load) -> float:
        """Returns 0: plain training holds no floats in addition to the model, gradients and the optimiser's state."""
        return 0.0

    def combine_traffic(self, load: Load) -> float:
        """Returns how many floats `combine` reads from memory or writes to it for each parameter, in addition to the
        mean of the models."""
        return 0.0

    def combine_work(self, load: Load) -> Work:
        """Returns the work of the mean: each reply is read once, and the mean is written."""
        moved = (load.replies + 1 + self.combine_traffic(load)) * load.parameters
        return (Phase("combine", "forward", traffic=moved),)


def stackable(algorithm: object) -> bool:
    """Returns true if devices can train in stacks (stack.py) under an algorithm, or a class of algorithms: if its
    `train` is FedAvg's, which only runs the course, and so is that of its clients (`base`, as FedMeta has)."""
    if isinstance(algorithm, type):
        return getattr(algorithm, "train", None) is FedAvg.train
    return stackable(type(algorithm)) and stackable(type(getattr(algorithm, "base", algorithm)))

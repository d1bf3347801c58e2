"""Each member of an algorithm is asked through a guard, which says in one line what is wrong with the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pytest

from algorithms import models
from algorithms.algorithm import INTERFACE, Algorithm, Message, Party, Reply, Training
from algorithms.cohort import draw
from algorithms.continual import Continual
from algorithms.fedavg import FedAvg
from emulator.lab.faulty import Faulty
from emulator.lab.guarded import Guarded, facts_of
from emulator.record.run import AlgorithmFacts
from tests.runs.test_work import party

TRAINING = Training(lr=0.1, epochs=1, batch=3)


@dataclass(frozen=True)
class Rememberer(FedAvg):
    """FedAvg whose devices keep the model that they received."""

    admits: bool = False

    @property
    def keeps_uncounted(self) -> bool:
        return self.admits

    def train(self, download: Message, device: Party) -> Reply:
        return replace(super().train(download, device), memory=download)


@dataclass(frozen=True)
class Broken(FedAvg):
    @property
    def encodings(self) -> Any:
        return {}["up"]


@dataclass(frozen=True)
class Chooser(FedAvg):
    """FedAvg that asks who comes first, though any others would do."""

    cohort_rule: ClassVar[Literal["drawn", "own"]] = "own"

    @property
    def any_cohort_will_do(self) -> bool:
        return True

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        return names[:count]


@dataclass(frozen=True)
class Watcher(FedAvg):
    """FedAvg that looks at whom it asks, and changes nothing."""

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        return list(super().cohort(round, names, count, seed))


@dataclass(frozen=True)
class Undeclared(Watcher):
    """Asks others than FedAvg would, and does not say so."""

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        return super().cohort(round, names, count, seed + 1)


@pytest.mark.parametrize(
    ("algorithm", "facts"),
    [
        (Watcher(TRAINING), AlgorithmFacts(False, True, "drawn")),
        (FedAvg(TRAINING), AlgorithmFacts(False, True, "drawn")),
        (Rememberer(TRAINING, admits=True), AlgorithmFacts(True, True, "drawn")),
        (Chooser(TRAINING), AlgorithmFacts(False, True, "own")),
        (Continual(replace(TRAINING, per_cycle=2), "alg1", "*"), AlgorithmFacts(False, False, "own")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_record_says_whether_an_algorithm_draws_whom_it_asks(algorithm: FedAvg, facts: AlgorithmFacts) -> None:
    assert facts_of(Guarded("mine", algorithm)) == facts_of(algorithm) == facts


def test_an_algorithm_that_does_not_draw_as_it_says_is_told_what_to_write() -> None:
    names = [f"d-{number:02}" for number in range(50)]
    assert Guarded("mine", Watcher(TRAINING)).cohort(0, names, 3, 7) == list(draw(names, 3, 7))
    with pytest.raises(Faulty, match=r"mine, round 0: cohort\(\) chose others than .* set cohort_rule = \"own\""):
        Guarded("mine", Undeclared(TRAINING)).cohort(0, names, 3, 7)


def train(algorithm: FedAvg) -> Any:
    guarded: Any = Guarded("mine", algorithm)
    weights = models.build("digits-cnn", 0).state_dict()
    return guarded.train({"weights": weights}, party("a", "digits-cnn", 3, 0, {}))


def test_the_table_of_the_interface_names_each_of_its_members() -> None:
    members = {name for name in vars(Algorithm) if not name.startswith("_")} | set(Algorithm.__annotations__)
    assert INTERFACE.keys() == members


def test_a_guarded_algorithm_has_each_member_of_the_interface() -> None:
    assert vars(Guarded).keys() >= INTERFACE.keys()


def test_what_an_algorithm_says_of_itself_passes_through() -> None:
    guarded: Any = Guarded("mine", FedAvg(TRAINING))
    assert guarded.training is TRAINING
    assert (guarded.uploads, guarded.keeps_uncounted, guarded.any_cohort_will_do) == (("weights",), False, True)


def test_a_device_may_keep_only_what_its_algorithm_says_that_it_may() -> None:
    assert "weights" in train(Rememberer(TRAINING, admits=True)).memory
    said = r"^mine, round 0, device a: train\(\) keeps weights in `memory`, but `keeps_uncounted` is False"
    with pytest.raises(Faulty, match=said):
        train(Rememberer(TRAINING))


def test_what_a_property_raises_is_told_as_what_a_method_raises() -> None:
    guarded: Any = Guarded("mine", Broken(TRAINING))
    with pytest.raises(Faulty, match=r"^mine: encodings raised KeyError: 'up' \(test_guarded\.py:\d+\)$"):
        _ = guarded.encodings

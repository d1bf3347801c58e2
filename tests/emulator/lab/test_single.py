"""A batch of one example: refused before anything trains where the model takes none, by the sizes of the shards."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from algorithms.algorithm import Load, Work
from algorithms.fedavg import FedAvg
from algorithms.networks import Network
from emulator.lab import single
from emulator.lab.build import lab_of
from emulator.lab.lab import Division
from scenarios.load import build
from scenarios.text.faults import BadScenario
from tests.conftest import SMALL, merged
from tests.runs import nets

UNTRACKED, SQUEEZED = (f"{nets.__name__}:{name}" for name in ("batch_normed", "Squeezed"))


def checked(model: str, train: int, tests: int = 0, proxy: int = 0, **changes: Any) -> None:
    """A fleet of which one device has so many examples of its own."""
    lab = lab_of(build(merged(SMALL, changes | {"model": nets.DENSE})))
    own = {name: {"a": (np.arange(size),)} for name, size in (("train", train), ("tests", tests), ("validation", 0))}
    split = Division(**own, proxy=np.arange(proxy), test=np.arange(200))
    lab = replace(lab, model=Network(model), splits={1: split}, fleet={"a": next(iter(lab.fleet.values()))})
    single.check(build(merged(SMALL, changes | {"model": model})), lab)


@pytest.mark.parametrize(("train", "batch"), [(11, 10), (1, 10), (7, 1)])
@pytest.mark.parametrize("model", [UNTRACKED, SQUEEZED])
def test_a_last_batch_of_one_example_is_refused_with_the_device(model: str, train: int, batch: int) -> None:
    last = rf"the last one of a \({train} examples, batch {min(batch, train)}\)"
    with pytest.raises(BadScenario, match=rf"{model} must take a batch of one example, as {last} is"):
        checked(model, train, training={"batch": batch})


FEW = {"epochs": 0.1}  # 1 step of 3


@pytest.mark.parametrize("few", [{"steps": 2}, FEW, FEW | {"seconds": 1e-9}, {"epochs": 5, "seconds": 1e-9}])
def test_one_that_no_step_reaches_is_taken(few: dict[str, Any]) -> None:
    """21 examples in batches of 10: the third step has one; within a nanosecond there is one step."""
    checked(UNTRACKED, 21, training=few | {"batch": 10})


@pytest.mark.parametrize("many", [{"steps": 3}, {"epochs": 0.7}, FEW | {"seconds": 100.0}])
def test_one_that_a_step_reaches_is_refused(many: dict[str, Any]) -> None:
    with pytest.raises(BadScenario, match=r"the last one of a \(21 examples, batch 10\)"):
        checked(UNTRACKED, 21, training=many | {"batch": 10})


@pytest.mark.parametrize("model", [UNTRACKED, SQUEEZED])
def test_other_batches_are_taken(model: str) -> None:
    checked(model, train=12, tests=100)


def test_so_is_one_that_would_be_evaluated_unless_it_never_is() -> None:
    with pytest.raises(
        BadScenario, match=r"as the last one of the test examples of a \(101, evaluated 100 at a time\)"
    ):
        checked(UNTRACKED, train=12, tests=101)
    checked(UNTRACKED, train=12, tests=101, evaluate={"personalise_every": "never"})


@pytest.mark.parametrize("model", [nets.NORMED, nets.DENSE])
def test_running_statistics_take_one(model: str) -> None:
    checked(model, train=11, tests=101)


SHARED: dict[str, Any] = {"training": {"batch": 10}, "algorithms": [{"fedshare": {"split": "whole"}}]}


@pytest.mark.parametrize(("own", "proxy"), [(6, 5), (20, 1)])
def test_what_a_device_trains_on_beside_its_own_examples_counts(own: int, proxy: int) -> None:
    """FedShare's devices train on their own examples and on the shared ones together."""
    with pytest.raises(BadScenario, match=rf"last one of a \({own + proxy} examples, batch 10\)"):
        checked(UNTRACKED, own, proxy=proxy, **SHARED)


@pytest.mark.parametrize(("own", "proxy"), [(10, 12), (11, 9)])
def test_neither_part_counts_alone(own: int, proxy: int) -> None:
    checked(UNTRACKED, own, proxy=proxy, **SHARED)


@pytest.mark.parametrize("meta", ["one_step", "epoch"])
def test_the_servers_own_training_counts(meta: str) -> None:
    """FedMeta's server takes its step over its proxy set in batches of B."""
    changes: dict[str, Any] = {"training": {"batch": 10}, "algorithms": [{"fedmeta": {"meta": meta}}]}
    with pytest.raises(BadScenario, match=r"last one of the server \(21 examples, batch 10\)"):
        checked(UNTRACKED, 20, proxy=21, **changes)
    checked(UNTRACKED, 20, proxy=22, **changes)


@dataclass(frozen=True)
class Unsaid(FedAvg):
    """Does not say what it does."""

    def device_work(self, load: Load) -> Work:
        raise RuntimeError("who knows")


def test_an_algorithm_that_cannot_say_what_it_does_fails_in_its_own_runs() -> None:
    checked(UNTRACKED, 11, algorithms=[f"{__name__}:Unsaid"])

"""A batch of one example: refused before anything trains where the model takes none, by the sizes of the shards."""

import numpy as np
import pytest

from emulator.lab import single
from emulator.lab.lab import Split
from scenarios.builders import sets
from scenarios.load import build
from scenarios.text.faults import BadScenario
from tests.conftest import SMALL, merged
from tests.runs import nets

UNTRACKED, SQUEEZED = (f"{nets.__name__}:{name}" for name in ("batch_normed", "Squeezed"))


def checked(model: str, train: int, tests: int = 0, batch: int = 10, **evaluate: object) -> None:
    """A fleet of one device with so many examples of its own."""
    scenario = build(merged(SMALL, {"model": model, "training": {"batch": batch}, "evaluate": evaluate}))
    own = {name: {"a": (np.arange(size),)} for name, size in (("train", train), ("tests", tests), ("validation", 0))}
    split = Split(**own, proxy=np.arange(0), test=np.arange(200))
    single.check(scenario, sets.dataset(scenario.data), {1: split})


@pytest.mark.parametrize(("train", "batch"), [(11, 10), (1, 10), (7, 1)])
@pytest.mark.parametrize("model", [UNTRACKED, SQUEEZED])
def test_a_last_batch_of_one_example_is_refused_with_the_device(model: str, train: int, batch: int) -> None:
    said = rf"{model} must take a batch of one example, as the last one of a \({train} examples, batch {batch}\) is"
    with pytest.raises(BadScenario, match=said):
        checked(model, train, batch=batch)


@pytest.mark.parametrize("model", [UNTRACKED, SQUEEZED])
def test_other_batches_are_taken(model: str) -> None:
    checked(model, train=12, tests=100)


def test_so_is_one_that_would_be_evaluated_unless_it_never_is() -> None:
    with pytest.raises(
        BadScenario, match=r"as the last one of the test examples of a \(101, evaluated 100 at a time\)"
    ):
        checked(UNTRACKED, train=12, tests=101)
    checked(UNTRACKED, train=12, tests=101, personalise_every="never")


@pytest.mark.parametrize("model", [nets.NORMED, nets.DENSE])
def test_running_statistics_take_one(model: str) -> None:
    checked(model, train=11, tests=101)

"""A stack for which a GPU has no memory is trained in halves, and the record says so."""

import pytest
import torch

from algorithms import stack
from algorithms.training.local import Sgd
from emulator.results import divergence
from tests.runs.nets import DENSE

pytestmark = pytest.mark.slow

FOUR = {"model": DENSE, "training": {"stack": 4}, "rounds": {"max": 1}}
SI = {"fedcl": {"importance": "si"}}  # which watches each step


def full(_tasks):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


@pytest.fixture
def little(monkeypatch):
    """Memory for two devices at once; for more it runs out in the midst of a round."""
    joint = stack.JOINT[Sgd]

    def trained(tasks):
        found = joint(tasks)
        return found if len(tasks) <= 2 else full(tasks)

    monkeypatch.setattr(stack, "JOINT", {**stack.JOINT, Sgd: trained})


def numbers(run):
    return [row["numbers"].get("stack") for row in run.rounds]


@pytest.mark.parametrize("algorithm", ["fedavg", SI], ids=["fedavg", "si"])
def test_halves_are_stacks_of_that_size(play, little, algorithm):
    """Nothing of the attempt is left: the bits are those of a scenario that asks for two at once."""
    halved, two = play(algorithm, **FOUR), play(algorithm, **{**FOUR, "training": {"stack": 2}})
    assert halved.model == two.model
    assert (numbers(halved), numbers(two)) == ([2.0], [None])


def test_a_warning_names_the_size(play, little):
    told = [each for each in divergence.warnings({1: play(**FOUR).rounds}) if each.kind == "halved"]
    assert len(told) == 1
    assert "in 1 of 1 rounds" in told[0].text
    assert "training.stack=2" in told[0].text


def test_where_there_is_no_memory_for_one_device_the_run_fails_in_torchs_words(play, monkeypatch):
    monkeypatch.setattr(stack, "JOINT", {**stack.JOINT, Sgd: full})
    monkeypatch.setattr(Sgd, "alone", lambda self: full([self]))
    failure = play(**FOUR).outcome.failure
    assert "train() raised OutOfMemoryError: CUDA out of memory. Tried to allocate 20" in failure
    assert failure.startswith("fedavg, seed 1, round 0, device ")

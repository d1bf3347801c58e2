"""A kept result has all its bits, in few bytes."""

import msgpack
import numpy as np
import pytest

from emulator.lab.jobs import evaluate
from emulator.lab.scoring import Scores
from emulator.ledger.results import FORMS

PLAIN, READ = FORMS[evaluate]


def bits(scores):
    arrays = (*scores.rows.values(), scores.counted, scores.loss)
    return [(array.dtype.str, array.tobytes()) for array in arrays]


def scores(correct, counted, loss):
    return Scores(
        {"accuracy": np.array(correct, "<f8").reshape(-1, 1)}, np.array(counted, "<i8"), np.array(loss, "<f8")
    )


@pytest.mark.parametrize("count", [0, 1, 255, 256, 65_535, 65_536, 2**62])
@pytest.mark.parametrize("loss", [0.0, -0.0, 0.5, 0.1, 1e300, 1e-300, float("inf"), float("nan")])
def test_scores_come_back_with_the_same_bits(count, loss):
    made = scores([0, count], [1, count], [0.25, loss])
    assert bits(READ(msgpack.unpackb(msgpack.packb(PLAIN(made))))) == bits(made)


def test_scores_of_no_example_come_back():
    made = scores([], [], [])
    assert bits(READ(PLAIN(made))) == bits(made)


def test_an_example_with_one_label_takes_six_bytes():
    """Two counts of a byte, and a loss that torch has computed in 32 bits."""
    losses = np.random.default_rng(1).random(1000, dtype=np.float32)
    made = scores([1] * 1000, [1] * 1000, losses)
    assert 6000 <= len(msgpack.packb(PLAIN(made))) < 6100

import tracemalloc

import numpy as np
import pytest

from devices.data import finite
from devices.data.dataset import Dataset


def made(x: np.ndarray, x_test: np.ndarray) -> Dataset:
    return Dataset("mine", x, np.arange(len(x)) % 2, x_test, np.arange(len(x_test)) % 2, classes=2)


def zeros(n: int) -> np.ndarray:
    return np.zeros((n, 1, 2, 3), np.float32)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 22])
def test_a_value_that_is_no_number_is_named_with_its_array_and_example(value, chunk, monkeypatch):
    monkeypatch.setattr(finite, "CHUNK", chunk)
    x, x_test = zeros(9), zeros(5)
    finite.check_finite(made(x, x_test))
    x_test[3, 0, 1, 2] = x_test[4, 0, 0, 0] = value
    with pytest.raises(
        ValueError, match=rf"^mine: x_test\[3, 0, 1, 2\] is {value}, in example 3 of 5; all values must"
    ):
        finite.check_finite(made(x, x_test))
    x[7, 0, 0, 1] = value
    with pytest.raises(ValueError, match=rf"^mine: x\[7, 0, 0, 1\] is {value}, in example 7 of 9"):
        finite.check_finite(made(x, x_test))


def test_texts_need_no_look(monkeypatch):
    monkeypatch.setattr(finite.np, "isfinite", lambda *_: pytest.fail("integers are finite"))
    tokens = np.ones((4, 3), np.int64)
    finite.check_finite(Dataset("texts", tokens, tokens, tokens, tokens, classes=2))


def test_a_large_array_is_looked_at_in_parts(monkeypatch):
    """A part takes a byte for each of its values, as whether it is finite."""
    monkeypatch.setattr(finite, "CHUNK", 1 << 16)
    data = made(zeros(1 << 18), zeros(2))
    tracemalloc.start()
    finite.check_finite(data)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 3 * finite.CHUNK  # two parts overlap

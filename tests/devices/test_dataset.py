import numpy as np
import pytest

from devices.data.dataset import Dataset

X = np.zeros((4, 1, 2, 2), np.float32)
Y = np.array([0, 1, 2, 0])


def test_arrays_that_fit_are_kept_as_they_are():
    data = Dataset("toy", X, Y, X[:1], Y[:1], classes=3)
    assert data.x is X
    assert data.y is Y


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        (X.astype(np.float64), Y, "toy: x is float64"),
        (X[:, 0], Y, "toy: x is float32 of shape"),
        (X, Y.astype(np.int32), "labels of x are int32"),
        (X, Y[:3], "labels of x are int64 of shape"),
        (X, Y[:, None], "labels of x are int64 of shape"),
        (X, Y + 1, "run from 1 to 3"),
        (X, Y - 1, "run from -1 to 1"),
        (X[..., :1], Y, "must be alike"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(x, y, reason):
    with pytest.raises(ValueError, match=reason):
        Dataset("toy", x, y, X, Y, classes=3)


def test_test_arrays_are_checked_too():
    with pytest.raises(ValueError, match="x_test is float64"):
        Dataset("toy", X, Y, X.astype(np.float64), Y, classes=3)


def test_a_data_set_without_classes_is_refused():
    with pytest.raises(ValueError, match="classes is 0"):
        Dataset("toy", X, Y, X, Y, classes=0)

import hashlib

import numpy as np
import pytest

from devices.data.digits import digits


@pytest.mark.slow  # the import of scikit-learn takes about a second
def test_training_and_test_examples_are_together_the_digits_of_scikit_learn():
    from sklearn.datasets import load_digits

    data = digits()
    pixels, labels = load_digits(return_X_y=True)
    theirs = np.c_[pixels, labels]
    ours = np.c_[np.concatenate([data.x, data.x_test]).reshape(-1, 64) * 16, np.r_[data.y, data.y_test]]
    assert ours.shape == (1797, 65)
    assert sorted(map(tuple, ours)) == sorted(map(tuple, theirs))


def test_it_has_1437_to_train_on_and_360_to_test_from_0_to_1():
    data = digits()
    assert data.x.shape == (1437, 1, 8, 8)
    assert data.x_test.shape == (360, 1, 8, 8)
    assert (data.x.min(), data.x.max(), data.classes) == (0, 1, 10)


def test_the_split_is_the_same_for_every_user():
    # golden: no law says which split it is, only that it must never change
    labels = digits().y_test.astype(np.uint8).tobytes()
    assert hashlib.sha256(labels).hexdigest() == "2690bb731c1412805a765406efebc8b1f40967d7020cd1f92e8ac20463ecaa35"

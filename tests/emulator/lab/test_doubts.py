from types import SimpleNamespace

import numpy as np
import pytest

from devices.data.dataset import Dataset
from emulator.lab.doubts import about_data
from scenarios.schema.scenario import Split


def lab(labels, tests, held=None):
    y, y_test = np.array(labels), np.array(tests)
    x, x_test = (np.zeros((len(part), 1), np.float32) for part in (y, y_test))
    train = {f"d{number}": (np.array(own),) for number, own in enumerate(held or [range(len(y))])}
    data = Dataset("mine", x, y, x_test, y_test, classes=10)
    return SimpleNamespace(data=data, splits={1: SimpleNamespace(train=train)}, fleet=train)


IID, SMALL = Split(), Split(kind="dirichlet", alpha=0.001)


def test_of_ordinary_data_there_is_nothing_to_say():
    assert list(about_data(lab([0, 1, 2], [2, 1, 0, 5]), IID)) == []


def test_training_data_of_one_class_are_told():
    assert list(about_data(lab([3, 3], [3, 1]), IID)) == [
        "all training examples of mine have the label 3: there is nothing to tell apart"
    ]


def test_classes_without_a_test_example_are_told_and_the_first_are_named():
    (told,) = about_data(lab(range(10), [0, 1, 9]), IID)
    assert told.startswith("7 of 10 classes of mine have no test example (2, 3, 4, 5, 6, ...): ")
    assert list(about_data(lab(range(10), np.zeros(0, np.int64)), IID)) == []  # nothing is tested at all


def test_texts_have_tokens_and_no_classes():
    tokens = np.zeros((4, 3), np.int64)
    texts = Dataset("texts", tokens, tokens, tokens, tokens, classes=9)
    assert list(about_data(SimpleNamespace(data=texts), SMALL)) == []


@pytest.mark.parametrize(("alpha", "told"), [(0.001, True), (0.04, True), (0.05, False), (1.0, False)])
def test_a_split_that_is_evener_than_its_law_is_told_with_both_numbers(alpha, told):
    """Each device has two classes by halves: 1 / (1/4 + 1/4) = 2.  At 0.04 the law has 1.4/1.04 = 1.35."""
    found = list(
        about_data(lab([*range(10)] * 2, range(10), [[0, 1], [2, 3], [4, 5]]), Split(kind="dirichlet", alpha=alpha))
    )
    law = {0.001: "1.0", 0.04: "1.3"}.get(alpha)
    assert [
        f"holds 2.0 effective classes, while the distribution has {law}, because 3 devices" in each for each in found
    ] == ([True] if told else [])
    assert [each.endswith("split: {kind: classes, each: 4} gives each as few as can be") for each in found] == (
        [True] if told else []
    )


def test_a_split_that_is_as_its_law_is_not_told():
    assert list(about_data(lab([*range(10)] * 2, range(10), [[0, 10], [1, 11], [2, 12]]), SMALL)) == []

import pickle
from dataclasses import fields

import numpy as np
import pytest
import torch

from algorithms.training.tensors import as_input
from devices.data.dataset import UNLABELLED, Dataset

X = np.zeros((4, 1, 2, 2), np.float32)
Y = np.array([0, 1, 2, 0])
TOKENS = np.array([[0, 1, 2], [2, 1, 0]])
NEXT = np.array([[1, 2, UNLABELLED], [1, 0, UNLABELLED]])


def toy(**changed):
    return Dataset(**{"name": "toy", "x": X, "y": Y, "x_test": X[:2], "y_test": Y[:2], "classes": 3, **changed})


def texts(x=TOKENS, y=NEXT):
    return Dataset("texts", x, y, TOKENS, y[:2], classes=3)


def test_arrays_that_fit_are_kept_as_they_are():
    data = Dataset("toy", X, Y, X[:1], Y[:1], classes=3)
    assert data.x is X
    assert data.y is Y
    assert not data.text


def test_examples_that_are_no_images_may_have_any_shape_of_one_dimension_or_more():
    flat = X.reshape(4, 4)
    assert Dataset("flat", flat, Y, flat, Y, classes=3).x is flat


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        (X.astype(np.float64), Y, "toy: x is float64"),
        (X[:, 0, 0, 0], Y, "toy: x is float32 of shape"),
        (X.astype(np.int64), Y, "toy: x is int64 of shape"),
        (X, Y.astype(np.complex64), "labels of x are complex64"),
        (X.astype(np.int32), Y, "toy: x is int32 of shape"),
        (X, Y[:3], "labels of x are int64 of shape"),
        (X, Y[:, None], "labels have shape"),
        (X, Y + 1, "run from 1 to 3"),
        (X, Y - 1, "run from -1 to 1"),
        (X[..., :1], Y, "must be alike"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(x, y, reason):
    with pytest.raises(ValueError, match=reason):
        Dataset("toy", x, y, X, Y, classes=3)


PIXELS = np.array([0, 51, 102, 255], np.uint8).reshape(1, 1, 2, 2).repeat(4, 0)


@pytest.mark.parametrize("given", [PIXELS, torch.from_numpy(PIXELS), torch.from_numpy(PIXELS).requires_grad_(False)])
def test_pixels_stay_bytes_in_memory_and_become_numbers_from_0_to_1_for_the_network(given):
    data = toy(x=given, x_test=given[:2])
    assert data.x.dtype == data.x_test.dtype == np.uint8
    assert data.x_test.shape == (2, 1, 2, 2)
    every = np.arange(256, dtype=np.uint8)
    found = as_input(torch.from_numpy(every)).numpy()
    assert found.tobytes() == np.divide(every, 255, dtype=np.float32).tobytes()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.bool_])
def test_targets_that_are_no_classes_keep_their_dtype_and_shape(kind):
    y = np.array([[0, 1], [1, 1], [0, 0], [1, 0]]).astype(kind)
    data = toy(y=y, y_test=y[:2])
    assert (data.y.dtype, data.target) == (kind, ((2,), np.dtype(kind).name))
    assert data.groups is None
    assert toy(y=y, y_test=y[:2], strata=Y).groups.tolist() == Y.tolist()
    assert toy().groups is Y
    with pytest.raises(ValueError, match=r"strata are int64 of shape \(3,\); they must be int64 \(4,\)"):
        toy(y=y, y_test=y[:2], strata=Y[:3])


@pytest.mark.parametrize("kind", [np.int32, np.int16, np.uint8, np.int64, torch.int32, torch.int64, torch.uint8])
def test_labels_owners_and_slices_may_be_any_integers(kind):
    def of(values):
        return torch.tensor(values, dtype=kind) if isinstance(kind, torch.dtype) else np.array(values, kind)

    owned = {"owners": ("a", "b"), "owner": of([0, 1, 1, 0]), "owner_test": of([0, 1])}
    data = toy(y=of([0, 1, 2, 0]), y_test=of([0, 1]), cycles=2, cycle=of([0, 1, 1, 0]), cycle_test=of([1, 0]), **owned)
    assert [data.y.tolist(), data.owner.tolist(), data.cycle.tolist()] == [[0, 1, 2, 0], [0, 1, 1, 0], [0, 1, 1, 0]]
    parts = (data.y, data.y_test, data.owner, data.owner_test, data.cycle, data.cycle_test)
    assert {part.dtype for part in parts} == {np.dtype(np.int64)}


def test_tensors_of_torch_are_taken_for_arrays():
    data = toy(x=torch.from_numpy(X).requires_grad_(), x_test=torch.from_numpy(X[:2]))
    assert type(data.x) is np.ndarray
    assert np.shares_memory(data.x, X)


def test_bfloat16_becomes_float32_which_holds_it():
    """2^-7 is the last digit of a bfloat16 from 1 to 2; NumPy has none."""
    halves = torch.tensor([[1.0], [1 + 2**-7], [-(2.0**100)], [0.0]]).bfloat16()
    for data in (toy(x=halves, x_test=halves[:2]), toy(x={"a": halves}, x_test={"a": halves[:2]})):
        assert data.x.dtype == np.float32
        assert data.x.tolist() == [[1.0], [1 + 2**-7], [-(2.0**100)], [0.0]]


@pytest.mark.parametrize("tokens", [TOKENS.astype(np.int32), torch.from_numpy(TOKENS).int()])
def test_tokens_may_be_any_integers_but_bytes(tokens):
    data = Dataset("texts", tokens, tokens, TOKENS, TOKENS, classes=3)
    assert data.text
    assert data.x.tolist() == data.y.tolist() == TOKENS.tolist()


def test_test_arrays_are_checked_too():
    with pytest.raises(ValueError, match="x_test is float64"):
        Dataset("toy", X, Y, X.astype(np.float64), Y, classes=3)


def test_a_data_set_without_classes_is_refused():
    with pytest.raises(ValueError, match="classes is 0"):
        Dataset("toy", X, Y, X, Y, classes=0)


def test_a_text_has_a_label_for_each_position_or_one_for_each_sequence():
    assert texts().text
    assert texts(y=np.array([0, 2])).text


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        (TOKENS + 1, NEXT, "the tokens of x run from 1 to 3; they must lie in 0 to 2"),
        (TOKENS - 1, NEXT, "the tokens of x run from -1 to 1"),  # only labels may be missing
        (TOKENS, NEXT - 1, "the labels of x run from -2 to 1"),
        (TOKENS, NEXT + 1, "the labels of x run from 0 to 3"),
        (TOKENS, np.array([0, UNLABELLED]), "the labels of x run from -1 to 0"),  # a sequence has one, or is none
        (TOKENS.astype(np.float64), NEXT, "x is float64"),
    ],
)
def test_texts_that_do_not_fit_are_refused(x, y, reason):
    with pytest.raises(ValueError, match=reason):
        texts(x, y)


def test_one_label_a_position_in_training_and_one_a_sequence_in_the_test_are_refused():
    with pytest.raises(ValueError, match="must be alike"):
        Dataset("texts", TOKENS, NEXT, TOKENS, np.array([0, 1]), classes=3)


def test_owners_and_cycles_are_kept_with_their_examples():
    owner, cycle = np.array([0, 1, 1, 0]), np.array([0, 0, 1, 2])
    data = toy(owners=("anna", "bert"), owner=owner, owner_test=owner[:2], cycles=3, cycle=cycle, cycle_test=cycle[:2])
    assert data.owner is owner
    assert data.cycle is cycle


@pytest.mark.parametrize(("what", "count"), [("owner", {"owners": ("anna", "bert")}), ("cycle", {"cycles": 2})])
@pytest.mark.parametrize(
    ("numbers", "numbers_test", "reason"),
    [
        (None, None, "{} is missing"),
        (None, [0, 1], "{} is missing"),
        ([0, 1, 1], [0, 1], "{} is int64 of shape"),
        ([0, 1, 1, 0], [0, 1, 1, 0], "{}_test is int64 of shape"),
        ([0.0, 1.0, 1.0, 0.0], [0, 1], "{} is float64"),
        ([0, 1, 2, 0], [0, 1], "{} run from 0 to 2; they must lie in 0 to 1"),
        ([0, 1, 1, 0], [-1, 1], "{}_test run from -1 to 1"),
    ],
)
def test_owners_and_cycles_that_do_not_fit_are_refused(what, count, numbers, numbers_test, reason):
    arrays = [None if given is None else np.array(given) for given in (numbers, numbers_test)]
    with pytest.raises(ValueError, match="toy: " + reason.format(what)):
        toy(**count, **{what: arrays[0], f"{what}_test": arrays[1]})


def test_test_examples_may_be_nobodys():
    given = toy(owners=("anna", "bert"), owner=np.array([0, 1, 1, 0]))
    assert given.owner_test is None


def test_time_slices_of_the_training_examples_alone_are_refused():
    with pytest.raises(ValueError, match="cycle_test is missing"):
        toy(cycles=2, cycle=np.array([0, 1, 1, 0]))


def test_owners_without_names_are_refused():
    with pytest.raises(ValueError, match="owner run from 0 to 1"):
        toy(owner=np.array([0, 1, 1, 0]), owner_test=np.array([0, 1]))


def test_a_data_set_that_was_put_away_is_the_same_here_and_in_another_process(tmp_path):
    before = toy(owners=("a", "b"), owner=Y % 2, owner_test=Y[:2] % 2)
    arrays = {field.name: getattr(before, field.name) for field in fields(before)}
    shelf = before.put_away(tmp_path)
    there = Dataset.taken_down(pickle.loads(pickle.dumps(shelf)))
    for name, value in arrays.items():
        for found in (getattr(before, name), getattr(there, name)):
            if isinstance(value, np.ndarray):
                assert isinstance(found, np.memmap)  # one copy in memory for all
                assert (found.dtype, found.tolist()) == (value.dtype, value.tolist())
            else:
                assert found == value


def test_what_one_process_writes_into_a_data_set_stays_there(tmp_path):
    here = toy()
    there = Dataset.taken_down(here.put_away(tmp_path))
    there.x[0] = 7
    assert not (here.x == 7).any()

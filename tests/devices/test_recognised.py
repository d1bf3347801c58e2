"""Data in others' forms: arrays, tables, PyTorch's classes, and stubs with Hugging Face's and Flower's methods."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Subset, TensorDataset

from devices.data.dataset import Mapped
from devices.data.recognised import recognised
from tests.all_of import all_of

rng = np.random.default_rng(3)
X = rng.random((10, 1, 4, 4), np.float32)
Y = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
X_TEST, Y_TEST = X[:3] / 2, Y[:3]


def made(found, columns=None, share=0.0, transform=None):
    return recognised("mine", found, columns or {}, share, transform)


class Stub:
    """A Hugging Face data set: rows are dicts, and `features` says how many classes a label has."""

    def __init__(self, rows, classes=None):
        self.rows, self.column_names = rows, list(rows[0])
        self.features = {"label": type("ClassLabel", (), {"num_classes": classes})()} if classes else {}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        return self.rows[k]


def rows(x, y):
    return [{"image": a, "label": int(b)} for a, b in zip(x, y, strict=True)]


TENSORS = TensorDataset(torch.tensor(X), torch.tensor(Y)), TensorDataset(torch.tensor(X_TEST), torch.tensor(Y_TEST))
FORMS = {
    "four arrays": (X, Y, X_TEST, Y_TEST),
    "two pairs": ((X, Y), (X_TEST, Y_TEST)),
    "a dict of arrays": {"x": X, "y": Y, "x_test": X_TEST, "y_test": Y_TEST},
    "torch's tensors": tuple(map(torch.tensor, (X, Y, X_TEST, Y_TEST))),
    "torch's data sets": TENSORS,
    "loaders": tuple(DataLoader(each, batch_size=4, shuffle=True) for each in TENSORS),
    "Hugging Face's": {"train": Stub(rows(X, Y)), "test": Stub(rows(X_TEST, Y_TEST))},
    "Hugging Face's without a test set": {"train": Stub(rows(X, Y)), "validation": Stub(rows(X_TEST, Y_TEST))},
}


@pytest.mark.parametrize("kind", ["tensors", "a data set"])
def test_bfloat16_becomes_float32(kind):
    (x, y), (x_test, y_test) = ((torch.tensor(a).bfloat16(), torch.tensor(b)) for a, b in ((X, Y), (X_TEST, Y_TEST)))
    pairs = TensorDataset(x, y), TensorDataset(x_test, y_test)
    data = made((x, y, x_test, y_test) if kind == "tensors" else pairs)
    assert data.x.dtype == np.float32
    assert data.x.tolist() == x.tolist()


@pytest.mark.parametrize("found", FORMS.values(), ids=FORMS)
def test_each_form_gives_the_same_data_set(found):
    data = made(found)
    for name, wanted in (("x", X), ("y", Y), ("x_test", X_TEST), ("y_test", Y_TEST)):
        held = getattr(data, name)
        np.testing.assert_array_equal(held, wanted)
        assert held.dtype == wanted.dtype
    assert (data.name, data.classes, data.owners) == ("mine", 3, ())


def test_without_test_examples_a_share_is_drawn_and_nothing_is_lost():
    for found in ((X, Y), TENSORS[0], {"x": X, "y": Y}):
        data = made(found, share=0.3)
        assert (len(data.y), len(data.y_test)) == (7, 3)
        whole = np.concatenate([data.x, data.x_test])
        assert sorted(map(np.ndarray.tobytes, whole)) == sorted(map(np.ndarray.tobytes, X))
        assert all_of(  # each image keeps its label
            Y[np.flatnonzero((image == X).all((1, 2, 3)))[0]] == label
            for image, label in zip(whole, np.concatenate([data.y, data.y_test]), strict=True)
        )
        assert made(found, share=0.3).y_test.tolist() == data.y_test.tolist()


def test_an_empty_test_part_is_one():
    data = made({"train": Stub(rows(X, Y)), "test": []}, share=0.5)
    assert (len(data.y), data.x_test.shape, data.y_test.dtype) == (10, (0, 1, 4, 4), np.int64)


def test_test_examples_of_ones_own_leave_all_others_to_training():
    assert len(made((X, Y, X_TEST, Y_TEST), share=0.5).y) == len(Y)


def test_words_as_labels_are_numbered_in_sorted_order_over_both_parts():
    data = made((X, np.array(list("cbcbcbcbcb")), X_TEST, np.array(["b", "a", "c"])))
    assert (data.y[:2].tolist(), data.y_test.tolist(), data.classes) == ([2, 1], [1, 0, 2], 3)


def test_classes_that_no_example_has_count_if_they_are_declared():
    assert made(Stub(rows(X, Y), classes=7)).classes == 7
    named = Subset(TENSORS[0], range(10))
    named.classes = list("abcde")
    assert made(named).classes == 5


def test_images_become_channels_first():
    pixels = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)
    rgb, grey = Image.fromarray(pixels), Image.fromarray(pixels[..., 0])
    data = made([(rgb, 0), (rgb.convert("P").convert("RGB"), 1)])
    np.testing.assert_array_equal(data.x[0], np.moveaxis(pixels, -1, 0))
    assert made([(grey, 0), (grey, 1)]).x.shape == (2, 1, 4, 5)
    assert made([(rgb.convert("P"), 0)]).x.shape == (1, 3, 4, 5)  # a palette's indices are no colours


def test_columns_of_numbers_become_features_and_owners_keep_their_names():
    table = {"warm": np.arange(4), "wet": np.arange(4.0) / 2, "owner": np.array(["z", "a", "z", "b"]), "label": Y[:4]}
    data = made(table)
    np.testing.assert_array_equal(data.x, np.stack([np.arange(4), np.arange(4) / 2], 1).astype(np.float32))
    assert [data.owners[k] for k in data.owner] == ["z", "a", "z", "b"]
    named = made(
        {**table, "who": table["owner"][::-1]}, {"x": ["w?*", "!"], "y": "label", "owner": "who"} | {"x": ["warm"]}
    )
    assert (named.x[:, 0].tolist(), [named.owners[k] for k in named.owner]) == ([0, 1, 2, 3], ["b", "z", "a", "z"])


def test_columns_of_rows_may_be_named():
    data = made(
        Stub([{"a": [1.0, 2.0], "kind": 1, "hand": "x"}, {"a": [3.0, 4.0], "kind": 0, "hand": "y"}]),
        {
            "x": "a",
            "y": "kind",
            "owner": "hand",
        },
    )
    assert (data.x.tolist(), data.y.tolist(), data.owners) == ([[1, 2], [3, 4]], [1, 0], ("x", "y"))


def test_tokens_are_a_text():
    data = made((np.array([[1, 2, 3], [3, 2, 9]]), np.array([[2, 3, -1], [2, 9, 1]])))
    assert (data.text, data.classes) == (True, 10)


class Partitioner:
    """As flwr_datasets.partitioner.Partitioner; `load_partition` of a federated data set hands it its data first."""

    def __init__(self, names=None):
        self.held = None
        if names:
            self.partition_id_to_natural_id = dict(enumerate(names))

    num_partitions = property(lambda self: len(self.held))

    def load_partition(self, partition):
        return self.held[partition]


class Federated:
    """As flwr_datasets.FederatedDataset: it prepares its partitioners when a partition is first loaded."""

    def __init__(self, partitioners, held, whole):
        self.partitioners, self.held, self.whole = partitioners, held, whole

    def load_partition(self, partition, split=None):
        self.partitioners[split].held = self.held[split]
        return self.partitioners[split].load_partition(partition)

    def load_split(self, split):
        if split not in self.whole:
            raise ValueError(f"The given split: '{split}' is not present")
        return self.whole[split]


PARTS = [Stub(rows(X[:6], Y[:6])), Stub(rows(X[6:], Y[6:]))]


def test_each_partition_is_an_owner():
    partitioner = Partitioner()
    partitioner.held = PARTS
    data = made(partitioner, share=0.2)
    assert data.owners == ("0", "1")
    whole = np.concatenate([data.x, data.x_test])
    owner = np.concatenate([data.owner, data.owner_test])
    assert all_of(
        (np.flatnonzero((image == X).all((1, 2, 3)))[0] >= 6) == mine for image, mine in zip(whole, owner, strict=True)
    )


def test_a_federated_data_set_has_its_natural_ids_and_the_whole_test_split_which_is_nobodys():
    data = made(
        Federated({"train": Partitioner(["anna", "bert"])}, {"train": PARTS}, {"test": Stub(rows(X_TEST, Y_TEST))})
    )
    assert (data.owners, data.owner.tolist(), data.owner_test) == (("anna", "bert"), [0] * 6 + [1] * 4, None)
    np.testing.assert_array_equal(data.x_test, X_TEST)


def test_partitions_of_the_test_split_belong_to_the_same_owners():
    both = {"train": PARTS, "test": [Stub(rows(X[:1], Y[:1])), Stub(rows(X[1:3], Y[1:3]))]}
    data = made(Federated({"train": Partitioner(), "test": Partitioner()}, both, {}))
    assert data.owner_test.tolist() == [0, 1, 1]


def test_without_a_test_split_a_share_of_the_partitions_is_one():
    data = made(Federated({"train": Partitioner()}, {"train": PARTS}, {}), share=0.5)
    assert len(data.y_test) == len(data.owner_test) == 5


def test_a_map_stays_one(tmp_path):
    np.save(tmp_path / "x.npy", X)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert Mapped.of(made((x, Y, x[:2], Y[:2])).x)
    with pytest.raises(ValueError, match="mapped from a file, so give x_test and y_test too, or set data.test to 0"):
        made((x, Y), share=0.2)
    assert Mapped.of(made((x, Y)).x)


def test_a_transform_is_of_each_example_before_they_are_joined():
    data = made([(X[0], 0), (X[1, :, :2], 1)], transform=lambda example: example[:, :2] * 2)
    np.testing.assert_array_equal(data.x, X[:2, :, :2] * 2)


@pytest.mark.parametrize(
    ("found", "columns", "said"),
    [
        ("text", {}, "it is a str; it must be a devices.data.dataset.Dataset, arrays"),
        (iter([1]), {}, "it is a list_iterator; it must be"),
        (None, {}, "it is a NoneType; it must be"),
        ([], {}, "it has no examples"),
        ([3, 4, 5], {}, "example 0 is a int; it must be .x, y., or a dict of them"),
        ([(X[0], 0), (X[1, :, :2], 1)], {}, r"example 1 has shape \(1, 2, 4\) and the first one \(1, 4, 4\); .*Resize"),
        ({"x": X}, {}, "it has no column of y; it has x: name them in data.columns"),
        ({"x": X, "y": Y}, {"y": "kind"}, "it has no column 'kind'; it has x, y"),
        ({"x": X, "y": Y}, {"x": "z*"}, "it has no column 'z\\*'; it has x, y"),
        ({"x": X, "y": Y}, {"owner": "who"}, "it has no column 'who'; it has x, y"),
        ({"x": X, "y": Y[:4]}, {}, "column 'x' has 10 rows, and 'y' has 4"),
        ({"a": X[:, 0], "b": Y, "y": Y}, {}, "column 'a' has float32 of shape .*; a feature is one number a row"),
        ({"train": (X, Y), "test": 3}, {}, "it is a int; it must be"),
    ],
)
def test_what_is_refused_says_what_would_be_right(found, columns, said):
    with pytest.raises(ValueError, match=said):
        made(found, columns)

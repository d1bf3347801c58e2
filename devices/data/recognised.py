"""Makes a Dataset of what other libraries and plain code hold data in, which is recognised by its methods: arrays,
tables, data sets of PyTorch and Hugging Face, and partitioners of Flower.  None of these libraries is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

import numpy as np
from numpy import ndarray

from devices.data.dataset import Dataset, Mapped
from devices.data.several import of_tensor

USUAL = {  # names of columns, in the order in which they are tried
    "x": ("x", "image", "img", "images", "pixel_values", "input_ids", "features", "data"),
    "y": ("y", "label", "labels", "target", "targets", "class", "fine_label"),
    "owner": ("owner",),
}
TEST = ("test", "validation", "valid", "val")  # names of the part that tests, the same
KINDS = (
    "a devices.data.dataset.Dataset, arrays (x, y) or (x, y, x_test, y_test), a dict of arrays, a data set of PyTorch "
    "or Hugging Face, a pair (train, test) of these, or a partitioner of flwr_datasets"
)
Change = Callable[[Any], Any]  # of one example, a tensor
Columns = Mapping[str, Any]  # names of columns by "x", "y" and "owner"; None: the usual one


@dataclass(frozen=True)
class Examples:
    """Examples as they were found: their labels may be words, and their owners any values."""

    x: ndarray
    y: ndarray
    owner: Sequence[Any] | None = None
    classes: int = 0  # at least so many

    def __getitem__(self, some: ndarray) -> Examples:
        owner = None if self.owner is None else [self.owner[k] for k in some]
        return replace(self, x=self.x[some], y=self.y[some], owner=owner)


def recognised(name: str, found: Any, columns: Columns, share: float, transform: Change | None = None) -> Dataset:
    """Returns what was `found`, one of KINDS, as a data set.

    Words as labels become their number in sorted order; integers from 0 stay.  If there are no test examples, a
    `share` of all examples, drawn at random, becomes them.  `transform` changes each example.  Raises ValueError for
    anything else, and for examples that differ in shape.
    """
    train, test = _both(found, columns, transform)
    if not len(train.y):
        raise ValueError("it has no examples")
    if test is None:
        train, test = _held_out(train, share)
    y, classes = _numbered(np.concatenate([part.y for part in (train, test) if len(part.y)]))
    owners = {str(owner): None for owner in chain(train.owner or (), test.owner or ())}
    places = {owner: place for place, owner in enumerate(owners)}
    of_train, of_test = (
        None if part.owner is None else np.array([places[str(owner)] for owner in part.owner], np.int64)
        for part in (train, test)
    )
    x_test = test.x if len(test.y) else np.zeros((0, *train.x.shape[1:]), train.x.dtype)
    classes = max(classes, train.classes, *([int(train.x.max()) + 1] if train.x.dtype == np.int64 else []))
    return Dataset(
        *(name, train.x, y[: len(train.y)], x_test, y[len(train.y) :], classes),
        owners=tuple(owners),
        owner=of_train,
        owner_test=of_test if of_train is not None else None,
    )


def _held_out(part: Examples, share: float) -> tuple[Examples, Examples]:
    """Returns the examples without a random share of them, and this share."""
    count = int(share * len(part.y))
    if not count:
        return part, part[np.zeros(0, np.int64)]
    if Mapped.of(part.x):
        raise ValueError("its x is mapped from a file, so give x_test and y_test too, or set data.test to 0")
    order = np.random.default_rng(0).permutation(len(part.y))
    return part[np.sort(order[count:])], part[np.sort(order[:count])]


def _numbered(y: ndarray) -> tuple[ndarray, int]:
    """Returns the labels as numbers, and how many classes they name; labels that are no whole numbers stay as they
    are."""
    if y.dtype.kind == "b" or (y.dtype.kind in "iu" and (y.ndim > 1 or y.min() >= 0)):
        return y.astype(np.int64), int(y.max()) + 1
    if y.dtype.kind == "f":
        return y, 1
    if y.ndim > 1:
        raise ValueError(f"its labels are {y.dtype} of shape {y.shape}; each must be a number or a word")
    kinds, numbers = np.unique(y, return_inverse=True)
    return numbers.astype(np.int64), len(kinds)


def _both(found: Any, columns: Columns, transform: Change | None) -> tuple[Examples, Examples | None]:
    """Returns the training and the test examples; None if there is no test part."""
    if hasattr(found, "load_partition"):
        return _partitioned(found, columns, transform)
    if isinstance(found, tuple) and len(found) == 4 and all(map(_is_array, found)):
        found = found[:2], found[2:]
    elif isinstance(found, Mapping) and "train" in found:
        found = found["train"], next((found[name] for name in TEST if name in found), None)
    elif isinstance(found, Mapping):
        names = [name for name in found if name.endswith("_test")]
        test = {name.removesuffix("_test"): found[name] for name in names}
        found = {name: found[name] for name in found if name not in names}, test or None
    elif not isinstance(found, tuple) or len(found) != 2 or all(map(_is_array, found)):
        found = found, None
    train, test = found
    return _examples(train, columns, transform), None if test is None else _examples(test, columns, transform)


def _partitioned(found: Any, columns: Columns, transform: Change | None) -> tuple[Examples, Examples | None]:
    """Returns the examples of a Partitioner or a FederatedDataset of flwr_datasets; each partition is an owner."""

    def joined(split: str) -> Examples:
        found.load_partition(0, split)  # downloads the data, and hands them to the partitioner
        return _joined(found.partitioners[split], lambda part: found.load_partition(part, split), columns, transform)

    if not hasattr(found, "partitioners"):
        return _joined(found, found.load_partition, columns, transform), None
    train = next((split for split in found.partitioners if split not in TEST), None)
    if train is None:
        raise ValueError("it has no partitioner of training examples, as partitioners={'train': 10} makes one")
    for split in TEST:
        if split in found.partitioners:
            return joined(train), joined(split)
        try:
            whole = found.load_split(split)
        except ValueError:  # there is none of this name
            continue
        return joined(train), _examples(whole, columns, transform)
    return joined(train), None


def _joined(partitioner: Any, load: Callable[[int], Any], columns: Columns, transform: Change | None) -> Examples:
    """Returns the examples of all partitions, owned by them: by their natural ids if they have some, else by number."""
    parts = [_examples(load(part), columns, transform) for part in range(partitioner.num_partitions)]
    called = getattr(partitioner, "partition_id_to_natural_id", {})
    owner = [called.get(number, number) for number, part in enumerate(parts) for _ in part.y]
    x, y = (np.concatenate([getattr(part, axis) for part in parts]) for axis in "xy")
    return Examples(x, y, owner, max(part.classes for part in parts))


def _examples(found: Any, columns: Columns, transform: Change | None) -> Examples:
    """Returns one part, the training or the test examples."""
    if hasattr(found, "dataset") and hasattr(found, "batch_size"):  # a DataLoader
        found = found.dataset
    if isinstance(found, tuple) and len(found) in (2, 3) and all(map(_is_array, found)):
        found = dict(zip(("x", "y", "owner"), found, strict=False))
    if isinstance(found, Mapping):
        return _table(found, columns, transform)
    if isinstance(found, str | bytes) or not (hasattr(found, "__getitem__") and hasattr(found, "__len__")):
        raise ValueError(f"it is a {type(found).__name__}; it must be {KINDS}")
    return _items(found, columns, transform)


def _table(found: Mapping[str, Any], columns: Columns, transform: Change | None) -> Examples:
    """Returns the examples of columns that are equally long."""
    held = {name: values for name, value in found.items() if (values := _array(value)).ndim}
    of_x, of_y, of_owner = _names(list(held), columns)
    y = held[of_y]
    if strange := [name for name in (*of_x, of_owner or of_y) if len(held[name]) != len(y)]:
        raise ValueError(f"column {strange[0]!r} has {len(held[strange[0]])} rows, and {of_y!r} has {len(y)}")
    x = held[of_x[0]]
    if x.dtype == object:  # a column of lists
        x = _filled(x, len(x), None)
    if len(of_x) > 1 or x.ndim == 1:
        x = np.stack([_numbers(name, held[name]) for name in of_x], 1)
    owner = None if of_owner is None else held[of_owner].tolist()
    return Examples(_plain(x) if transform is None else changed(x, transform), y, owner)


def _numbers(name: str, column: ndarray) -> ndarray:
    if column.ndim != 1 or column.dtype.kind not in "biuf":
        raise ValueError(f"column {name!r} has {column.dtype} of shape {column.shape}; a feature is one number a row")
    return column.astype(np.float32)


def _items(found: Any, columns: Columns, transform: Change | None) -> Examples:
    """Returns the examples of a map-style data set: each is (x, y), or a dict by column."""
    labels, owners, names = list[Any](), list[Any](), None
    declared = getattr(found, "classes", ())
    classes = len(declared) if isinstance(declared, Sequence) else 0

    def inputs() -> Iterable[Any]:
        nonlocal names, classes
        for k in range(len(found)):
            item = found[k]
            if isinstance(item, Mapping):
                if names is None:
                    names = _names(list(item), columns)
                    declares = (getattr(found, "features", None) or {}).get(names[1])
                    classes = getattr(declares, "num_classes", classes)
                of_x, of_y, of_owner = names
                labels.append(_array(item[of_y]))
                owners.extend([] if of_owner is None else [item[of_owner]])
                yield item[of_x[0]] if len(of_x) == 1 else np.array([item[name] for name in of_x], np.float32)
            elif isinstance(item, tuple | list) and len(item) in (2, 3):
                labels.append(_array(item[1]))
                owners.extend(item[2:])
                yield item[0]
            else:
                raise ValueError(f"example {k} is a {type(item).__name__}; it must be (x, y), or a dict of them")

    x = _filled(inputs(), len(found), transform)
    return Examples(_plain(x), np.array(labels), owners or None, classes)


def _names(known: Sequence[str], columns: Columns) -> tuple[list[str], str, str | None]:
    """Returns the names of the columns of inputs, labels and owners (None: there is none).  Raises ValueError if one is
    missing."""
    usual = {what: next((name for name in names if name in known), None) for what, names in USUAL.items()}
    said: dict[str, Any] = {what: columns.get(what) or usual[what] for what in USUAL}
    of_y, of_owner = said["y"], said["owner"]
    if columns.get("x") is None and said["x"] is None:
        said["x"] = [name for name in known if name not in (of_y, of_owner)]
    globs = [said["x"]] if isinstance(said["x"], str) else list(said["x"])
    of_x = [name for name in known if any(fnmatchcase(name, glob) for glob in globs)]
    for what, name in (("y", of_y), ("owner", of_owner), ("x", of_x and of_x[0])):
        if not (name is None and what == "owner") and name not in known:
            wanted = repr(columns[what]) if columns.get(what) else f"of {what}"
            raise ValueError(f"it has no column {wanted}; it has {', '.join(known)}: name them in data.columns")
    return of_x, str(of_y), of_owner


def changed(x: ndarray, transform: Change) -> ndarray:
    """Returns the examples x (n, ...) after the transform of each."""
    return _filled(x, len(x), transform)


def _filled(values: Iterable[Any], count: int, transform: Change | None) -> ndarray:
    """Returns `count` examples as one array."""
    found = np.zeros((0, 1), np.float32)
    for k, value in enumerate(values):
        example = _array(value) if transform is None else _transformed(_array(value), transform)
        if k == 0:
            found = np.empty((count, *example.shape), example.dtype)
        if example.shape != found.shape[1:]:
            raise ValueError(
                f"example {k} has shape {example.shape} and the first one {found.shape[1:]}; all must be alike, as "
                "data.transform: [{Resize: [64, 64]}] makes them"
            )
        found[k] = example
    return found


def _transformed(example: ndarray, transform: Change) -> ndarray:
    import torch

    pixels = example / np.float32(255) if example.dtype == np.uint8 else example
    found: ndarray = transform(torch.tensor(pixels)).numpy()
    return found


def _plain(x: ndarray) -> ndarray:
    """Returns floats as float32, and tokens as int64; a map of float32 stays one."""
    kind = np.float32 if x.dtype.kind == "f" else np.int64 if x.dtype.kind in "iu" and x.dtype != np.uint8 else x.dtype
    return x.astype(kind, copy=False)


def _array(value: Any) -> ndarray:
    """Returns a tensor, an image of PIL or a number as an array; images have their channels first."""
    if hasattr(value, "getbands"):
        pixels = np.asarray(value if value.mode in ("L", "RGB", "RGBA") else value.convert("RGB"))
        return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    return of_tensor(value) if hasattr(value, "detach") else np.asarray(value)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")

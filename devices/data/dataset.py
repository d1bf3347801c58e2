"""A labelled set of examples, split once into training and test examples."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from devices.data.several import Inputs, of_tensor, packed

ARRAYS = ("x", "y", "x_test", "y_test", "owner", "owner_test", "cycle", "cycle_test", "strata")
UNLABELLED = -1  # a position of a sequence without a label: padding

Form = tuple[int, tuple[int, ...], bool, Inputs]  # classes, an example's shape, True for text, and several inputs
Target = tuple[tuple[int, ...], str]  # shape and dtype of an example's target


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples and their targets, checked at construction; compared by identity.

    Instead of arrays, torch's tensors may be given; integers but uint8 pixels become int64.  Images are float32, or
    uint8, which stay so in memory and reach the network as float32 from 0 to 1.  Texts are int64 tokens.  A
    network with several inputs has a tuple or a dict of arrays for x, with one row each for an example.  Targets are
    classes, int64: one for each example, or one for each position of a text or an image, where UNLABELLED ones count in
    no loss and no metric; or, as a task may need, numbers of any other dtype and shape.  With natural clients, `owner`
    is the index in `owners` of each example's owner.  With data that drift, `cycle` is the time slice, of `cycles`, to
    which each example belongs.  Raises ValueError for arrays of another type or shape, and for numbers out of their
    range.
    """

    name: str
    x: NDArray[Any]  # float32 or uint8 (n, *shape), or int64 (n, positions)
    y: NDArray[Any]  # (n, *shape): int64 classes, or numbers of another dtype
    x_test: NDArray[Any]  # (n_test, ...)
    y_test: NDArray[Any]  # (n_test, ...)
    classes: int  # or tokens of the vocabulary, labels, or numbers to predict: the outputs of a network
    owners: tuple[str, ...] = ()  # names of natural clients; () if there are none
    owner: NDArray[np.int64] | None = None  # (n,), index into owners
    owner_test: NDArray[np.int64] | None = None  # (n_test,); None: the test examples are nobody's
    cycles: int = 1  # time slices
    cycle: NDArray[np.int64] | None = None  # (n,), from 0; None: all in slice 0
    cycle_test: NDArray[np.int64] | None = None  # (n_test,)
    inputs: Inputs = ()  # of a network that takes several: they lie in x one after another
    strata: NDArray[np.int64] | None = None  # (n,), classes for the split; by default the labels, if there is one each

    def __post_init__(self) -> None:
        if not self.inputs and isinstance(self.x, (dict, tuple, list)):
            (x, inputs), (x_test, others) = (packed(part) for part in (self.x, self.x_test))  # type: ignore[arg-type]
            if inputs != others:
                raise ValueError(f"{self.name}: x has {inputs} and x_test {others}; they must be alike")
            for name, made in {"x": x, "x_test": x_test, "inputs": inputs}.items():
                object.__setattr__(self, name, made)
        for name in ARRAYS:
            object.__setattr__(self, name, _converted(getattr(self, name), examples=name in ("x", "x_test")))
        if self.classes < 1:
            raise ValueError(f"{self.name}: classes is {self.classes}; a data set has at least 1")
        self._check("x", self.x, self.y)
        self._check("x_test", self.x_test, self.y_test)
        if self.x.shape[1:] != self.x_test.shape[1:]:
            raise ValueError(
                f"{self.name}: examples have shape {self.x.shape[1:]} in x and {self.x_test.shape[1:]}"
                " in x_test; they must be alike"
            )
        if self.y.shape[1:] != self.y_test.shape[1:]:
            raise ValueError(
                f"{self.name}: labels have shape {self.y.shape[1:]} in y and {self.y_test.shape[1:]}"
                " in y_test; they must be alike"
            )
        if self.strata is not None and (self.strata.dtype != np.int64 or self.strata.shape != self.y.shape[:1]):
            form = f"{self.strata.dtype} of shape {self.strata.shape}"
            raise ValueError(f"{self.name}: strata are {form}; they must be int64 ({len(self.y)},)")
        self._check_numbers("owner", len(self.owners))
        self._check_numbers("cycle", self.cycles)

    @property
    def text(self) -> bool:
        """True if examples are sequences of tokens."""
        return self.x.dtype == np.int64

    @property
    def groups(self) -> NDArray[np.int64] | None:
        """The class of each training example for a split by classes: `strata`, or else its label; None without one."""
        return self.strata if self.strata is not None else self.labels

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The class of each training example; None unless each has one."""
        return self.y if self.y.ndim == 1 and self.y.dtype == np.int64 else None

    @property
    def form(self) -> Form:
        """The form of the examples, for which a network is built."""
        return self.classes, self.x.shape[1:], self.text, self.inputs

    @property
    def target(self) -> Target:
        """The form of an example's target."""
        return self.y.shape[1:], str(self.y.dtype)

    def put_away(self, folder: Path) -> dict[str, Any]:
        """Moves the arrays into files in `folder` and maps them, so that memory holds one copy for all processes that
        map them.

        Arrays that are already mapped stay in their files.  Returns each field's value, or for an array the place of
        its file: the argument of `taken_down`.
        """
        shelf = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                if place := Mapped.of(value):
                    self._mapped_before[field.name] = place
                value = self._mapped_before.get(field.name) or _moved(value, folder / f"{field.name}.npy")
                object.__setattr__(self, field.name, _mapped(value))  # frozen, but the content stays the same
            shelf[field.name] = value
        return shelf

    @cached_property
    def _mapped_before(self) -> dict[str, Mapped]:
        """The places of those arrays, by field, that were mapped from a user's file before `put_away`; these files
        outlive a pool of workers."""
        return {}

    @classmethod
    def taken_down(cls, shelf: Mapping[str, Any]) -> Dataset:
        """Returns the data set that another process has moved into files: `shelf` is what its `put_away` has
        returned."""
        values: dict[str, Any] = {k: _mapped(v) if isinstance(v, (Path, Mapped)) else v for k, v in shelf.items()}
        return cls(**values)

    def _check(self, part: str, x: NDArray[Any], y: NDArray[Any]) -> None:
        is_text, is_numbers = x.dtype == np.int64 and x.ndim == 2, x.dtype in (np.float32, np.uint8) and x.ndim >= 2
        if not (is_text or is_numbers):
            raise ValueError(
                f"{self.name}: {part} is {x.dtype} of shape {x.shape}; it must be float32 or uint8 (n, *shape), as of"
                " images (n, channels, height, width), or int64 (n, positions)"
            )
        self._check_labels(part, x, y)
        if is_text:
            self._check_range(f"the tokens of {part}", x, 0, self.classes)

    def _check_labels(self, part: str, x: NDArray[Any], y: NDArray[Any]) -> None:
        """Raises ValueError unless there is one target for each example; classes must be in range."""
        if y.dtype.kind not in "bif" or y.shape[:1] != x.shape[:1]:
            raise ValueError(
                f"{self.name}: the labels of {part} are {y.dtype} of shape {y.shape}; they must be numbers, one or "
                f"several for each of {len(x)} examples"
            )
        if y.dtype == np.int64:
            self._check_range(f"the labels of {part}", y, UNLABELLED if y.ndim > 1 else 0, self.classes)

    def _check_numbers(self, what: str, count: int) -> None:
        """Raises ValueError unless `what`, "owner" or "cycle", is given for both the training and the test examples or
        for neither, with one number from 0 to count - 1 for each example; test examples need no owner."""
        for suffix, y in (("", self.y), ("_test", self.y_test)):
            numbers = getattr(self, what + suffix)
            if numbers is None:
                if what == "owner" and suffix and self.owner is not None:
                    continue
                if count > 1 or getattr(self, what) is not None or getattr(self, what + "_test") is not None:
                    raise ValueError(f"{self.name}: {what}{suffix} is missing; {what} and {what}_test belong together")
                continue
            if numbers.dtype != np.int64 or numbers.shape != y.shape[:1]:
                raise ValueError(
                    f"{self.name}: {what}{suffix} is {numbers.dtype} of shape {numbers.shape}; it must be int64"
                    f" ({len(y)},)"
                )
            self._check_range(what + suffix, numbers, 0, count)

    def _check_range(self, what: str, values: NDArray[np.int64], low: int, count: int) -> None:
        if values.size and not low <= values.min() <= values.max() < count:
            raise ValueError(
                f"{self.name}: {what} run from {values.min()} to {values.max()}; they must lie in {low} to {count - 1}"
            )


def _moved(array: NDArray[Any], file: Path) -> Path:
    np.save(file, array)
    return file


def _converted(values: Any, examples: bool) -> Any:
    """Returns tensors as arrays, and integers that are no pixels as int64; any other value unchanged."""
    if hasattr(values, "detach"):  # torch, which this module does not import
        values = of_tensor(values)
    if not isinstance(values, np.ndarray):
        return values
    pixels = examples and (values.ndim != 2 or values.dtype == np.uint8)  # texts have two axes
    plain = np.issubdtype(values.dtype, np.integer) and not pixels
    return values.astype(np.int64, copy=False) if plain else values


def _mapped(place: Path | Mapped) -> NDArray[Any]:
    # "c": torch needs writable memory, and pages that are not written stay shared
    return place.array("c") if isinstance(place, Mapped) else np.load(place, mmap_mode="c")


@dataclass(frozen=True)
class Mapped:
    """The place of an array in a file, where it lies in C order and without gaps."""

    file: Path
    offset: int  # bytes
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, array: NDArray[Any]) -> Mapped | None:
        """Returns the place in its file of a memory-mapped array, or of a part of one; None if the array's values are
        not in a file.

        An array mapped in mode `c` does not count, because writing to it changes only this process's copy.
        """
        root: Any = array
        while isinstance(root, np.ndarray) and not isinstance(root.base, mmap.mmap):
            root = root.base
        if not isinstance(root, np.memmap) or root.mode == "c" or not array.flags.c_contiguous or not array.size:
            return None
        if root.filename is None or not Path(root.filename).is_file():
            return None
        offset = root.offset + array.ctypes.data - root.ctypes.data
        return cls(Path(root.filename), offset, array.shape, array.dtype)

    def array(self, mode: Literal["r", "c"]) -> NDArray[Any]:
        """Returns the array, mapped again from the file; `mode` is numpy.memmap's: read-only, or copy-on-write."""
        return np.memmap(self.file, self.dtype, mode, self.offset, self.shape)

"""Reader of the JSON files of LEAF, a benchmark of federated data sets, and of FEMNIST, which is stored in such
files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from devices.data.dataset import Dataset
from devices.data.packed import absent, unpacked
from devices.owners import tenths

LIMIT = 1 << 30  # bytes of one file; LEAF puts 100 writers into one, in some 100 MB
MOST = 784_000_000  # pixels of FEMNIST, in 3 GB; LEAF has 805,263 images of 784
PLACES = ("", "femnist", "femnist/data")
SIDE, CLASSES, DIGITS = 28, 62, 10  # pixels; 0-9, A-Z, a-z; 0-9
DECODER = json.JSONDecoder()
BLANKS = re.compile(r"[ \t\n\r]*")


class User(NamedTuple):
    """One user's examples as they are in the file: `x` and `y` are lists of equal length."""

    name: str
    x: list[Any]
    y: list[Any]


class LeafExamples(NamedTuple):
    """The examples of all files of a folder, with the index of each example's user."""

    x: NDArray[Any]  # (n, *shape)
    y: NDArray[Any]  # (n,) or (n, positions)
    owner: NDArray[np.int64]  # (n,)


Read = Callable[[User], tuple[NDArray[Any], NDArray[Any]]]  # one user's x and y; raises ValueError for a bad one


def users(files: Path | Iterable[Path], counted: bool = True) -> Iterator[User]:
    """Yields the users of LEAF files: of all *.json of a folder in the order of their names, or of the given files.

    A file is an object with `users`, `num_samples` and `user_data`: {user: {"x": [...], "y": [...]}}.  Users are read
    in the file's order and one at a time, so that memory holds only a file's text and one user.  Raises ValueError,
    naming the file and the reason, for another form, for a user who occurs twice and for more than LIMIT bytes.  Unless
    `counted`, `num_samples` may differ from the number of examples, as in LEAF's Reddit, whose parts repeat the numbers
    of the whole.  Source: Caldas et al. 2018 (arXiv 1812.01097), "LEAF", as its preprocessing writes the files.
    """
    seen: set[str] = set()
    for path in sorted(files.glob("*.json")) if isinstance(files, Path) else files:
        for user in _users(_Text(path), counted):
            if user.name in seen:
                raise ValueError(f"{path}: user {user.name!r} comes twice; each must have one entry")
            seen.add(user.name)
            yield user


class _Text:
    """A JSON file read from left to right, one member of an object at a time."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0
        try:
            self.text = unpacked(path, LIMIT).decode()
        except UnicodeDecodeError as error:
            raise self.wrong(f"not UTF-8: {error}") from None

    def wrong(self, why: str) -> ValueError:
        return ValueError(f"{self.path}: not LEAF's JSON, {why} at character {self.at}")

    def value(self) -> Any:
        """Returns the next JSON value and moves past it.  Raises ValueError if there is none."""
        self._skip_blanks()
        try:
            value, self.at = DECODER.raw_decode(self.text, self.at)
        except (ValueError, RecursionError) as error:  # ValueError: also a number of 5,000 digits
            raise self.wrong(" ".join(str(error).split())) from None
        return value

    def members(self) -> Iterator[str]:
        """Yields the keys of the next object; the caller reads the value of each key before asking for the next key."""
        self._take("{")
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise self.wrong(f"a key is {key!r}")
            self._take(":")
            yield key
            if self._take(",}") == "}":
                return

    def end(self) -> None:
        """Raises ValueError if the text goes on after what was read."""
        self._skip_blanks()
        if self.at < len(self.text):
            raise self.wrong("something after its end")

    def _take(self, expected: str) -> str:
        self._skip_blanks()
        found = self.text[self.at : self.at + 1]
        if not found or found not in expected:
            raise self.wrong(f"{found!r} instead of {' or '.join(expected)}")
        self.at += 1
        return found

    def _skip_blanks(self) -> None:
        blanks = BLANKS.match(self.text, self.at)
        assert blanks
        self.at = blanks.end()


def _users(text: _Text, counted: bool) -> Iterator[User]:
    said: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for key in text.members():
        if key != "user_data":
            said[key] = text.value()
            continue
        for name in text.members():
            user = _user(name, text.value(), text.path)
            counts[name] = len(user.x)
            yield user
    text.end()
    if not counts:
        raise ValueError(f"{text.path}: not LEAF's JSON, it has no user_data")
    # the file has both twice; they differ if it was cut or assembled wrongly
    names, numbers = said.get("users", list(counts)), said.get("num_samples", list(counts.values()))
    if not isinstance(names, list) or not isinstance(numbers, list) or sorted(map(str, names)) != sorted(counts):
        raise ValueError(f"{text.path}: `users` are not the users of user_data; they must be the same")
    if counted and numbers != [counts[str(name)] for name in names]:
        raise ValueError(f"{text.path}: `num_samples` are not the numbers of the users' examples; they must be equal")


def _user(name: str, data: Any, path: Path) -> User:
    if not isinstance(data, dict) or not all(isinstance(data.get(key), list) for key in "xy"):
        raise ValueError(f"{path}: user {name!r} has no lists x and y")
    user = User(name, data["x"], data["y"])
    if len(user.x) != len(user.y):
        raise ValueError(f"{path}: user {name!r} has {len(user.x)} x and {len(user.y)} y; each x needs its y")
    return user


def femnist(root: Path, digits: bool = False, writers: int | None = None) -> Dataset:
    """Returns FEMNIST: handwritten characters of 28 x 28 pixels in 0 ... 1 (1 is paper) in 62 classes, by their
    writers.

    The LEAF files are in `root`, `root`/femnist or `root`/femnist/data: either in folders train and test, or undivided
    in all_data or without a folder.  Of undivided files each writer's examples are split 9:1 (`tenths`).  Owners are
    the writers in the order of the files, the first `writers` of them if that is given.  With `digits`, only the ten
    digits are kept (the form that FedMeta uses).  Raises FileNotFoundError if there are no files, ValueError, naming
    the file, or folder and user, for what is no such image or label. Source: Caldas et al. 2018;
    docs/design/algorithms.md §12.
    """
    if writers is not None and writers < 1:
        raise ValueError(f"writers is {writers}; it must be 1 or more")
    train, test = _folders(root)
    owners: dict[str, int] = {}

    def read(user: User) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        x, y = _arrays(user)
        return (x[y < DIGITS], y[y < DIGITS]) if digits else (x, y)

    own = part_of(train, owners, writers, read, MOST, "pixels")
    if test is None:
        kept, held = (LeafExamples(*(values[rows] for values in own)) for rows in tenths(own.owner))
    else:
        kept, held = own, part_of(test, owners, writers, read, MOST, "pixels")
    classes = DIGITS if digits else CLASSES
    return Dataset("femnist", kept.x, kept.y, held.x, held.y, classes, tuple(owners), kept.owner, held.owner)


def _folders(root: Path) -> tuple[Path, Path | None]:
    """Returns the folders of the training and of the test files; if the files are not divided, their folder and
    None."""
    for place in PLACES:
        folder = root / place
        if all(any((folder / part).glob("*.json")) for part in ("train", "test")):
            return folder / "train", folder / "test"
        for undivided in (folder / "all_data", folder):
            if any(undivided.glob("*.json")):
                return undivided, None
    raise absent("LEAF's FEMNIST files (*.json)", root, PLACES, fetched=False)


def part_of(
    folder: Path,
    owners: dict[str, int],
    most: int | None,
    read: Read,
    limit: int,
    what: str,
    counted: bool = True,
) -> LeafExamples:
    """Returns the examples of a folder's files, as `read` converts them.  New users are added to `owners` (name ->
    index) until it has `most` users; the examples of any others are left out.

    Raises ValueError, naming the folder and user, if there is no example, for more than `limit` numbers in all
    examples, called `what` in the error, and for values that `read` rejects.
    """
    xs: list[NDArray[Any]] = []
    ys: list[NDArray[Any]] = []
    numbers, count = [], 0
    for user in users(folder, counted):
        if user.name not in owners and len(owners) == most:
            continue  # a later file may still have a user that is kept
        try:
            x, y = read(user)
        except ValueError as error:
            raise ValueError(f"{folder}: user {user.name!r}: {error}") from None
        if not x.size:
            continue
        count += x.size
        if len(x) != len(y) or (xs and (x.shape[1:], y.shape[1:]) != (xs[0].shape[1:], ys[0].shape[1:])):
            raise ValueError(f"{folder}: user {user.name!r}: examples of another length, or not as many labels")
        if count > limit:
            raise ValueError(f"{folder}: more than {limit} {what}; take fewer users")
        xs.append(x)
        ys.append(y)
        numbers.append(np.full(len(y), owners.setdefault(user.name, len(owners)), np.int64))
    if not count:
        raise ValueError(f"{folder}: no examples in its files; there must be 1 at least")
    return LeafExamples(np.concatenate(xs), np.concatenate(ys), np.concatenate(numbers))


def _arrays(user: User) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Returns a writer's images (n, 1, 28, 28) and labels (n,). Raises ValueError for values that are no such images or
    labels."""
    try:
        x = np.array(user.x, np.float64).reshape(len(user.y), SIDE * SIDE)
        y = np.array(user.y)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"x are not lists of {SIDE * SIDE} numbers") from None
    if not ((x >= 0) & (x <= 1)).all():
        raise ValueError("pixels that are not in 0 to 1; LEAF's are")
    if len(y) and not (y.dtype.kind == "i" and y.ndim == 1 and 0 <= y.min() <= y.max() < CLASSES):
        raise ValueError(f"labels that are not whole numbers in 0 to {CLASSES - 1}")
    return x.astype(np.float32).reshape(-1, 1, SIDE, SIDE), y.astype(np.int64)

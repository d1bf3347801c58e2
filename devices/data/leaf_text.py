"""Readers of the texts of LEAF, a benchmark of federated data sets: Shakespeare and Reddit, by user."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices.data.dataset import UNLABELLED, Dataset
from devices.data.leaf import LeafExamples, Read, User, part_of
from devices.data.packed import absent
from devices.data.token_windows import UNKNOWN, only_known, renumbered

LETTERS = "".join(sorted(string.ascii_letters + string.digits + "\n !\"&'(),-.:;>?[]}"))  # LEAF's 80
SHAKESPEARE = ("", "shakespeare", "shakespeare/data")
REDDIT = ("", "reddit", "reddit/data")
PADDING = "<PAD>"
MOST = 400_000_000  # tokens of a folder, in 3 GB; LEAF's Shakespeare has 338 million


Rows = NDArray[np.int32]  # half of int64, while a folder's users are collected


def leaf_shakespeare(root: Path, roles: int | None = None) -> Dataset:
    """Returns LEAF's Shakespeare: each example is 80 characters, its label is the next one, and owners are the roles.

    Characters are LEAF's 80, numbered from 1 in their order; 0 is any other.  LEAF's folders train and test are in
    `root`, `root`/shakespeare or `root`/shakespeare/data; undivided files are not read, because examples that follow
    each other overlap by 79 characters, and LEAF leaves a gap when it divides them.  Owners are the first `roles` users
    of train, or all.  Raises FileNotFoundError if there are no such folders, ValueError, naming the folder and user,
    for what is no such example. Source: Caldas et al. 2018 (arXiv 1812.01097).
    """
    numbers = {letter: i for i, letter in enumerate(LETTERS, 1)}

    def read(user: User) -> tuple[Rows, Rows]:
        if not all(isinstance(text, str) for text in [*user.x, *user.y]) or any(len(y) != 1 for y in user.y):
            raise ValueError("x are not texts with one character y each")
        y = np.array([numbers.get(letter, UNKNOWN) for letter in user.y], np.int32)
        return _rows([[numbers.get(letter, UNKNOWN) for letter in x] for x in user.x]), y

    owners, train, test = _parts(root, SHAKESPEARE, "Shakespeare", roles, read)
    return _dataset("leaf_shakespeare", owners, train, test, len(LETTERS) + 1)


def leaf_reddit(root: Path, words: int = 10_000, people: int | None = None) -> Dataset:
    """Returns LEAF's Reddit: each example is a piece of ten words of a comment, with the next word as label of each
    word; owners are persons.

    The `words` commonest words of the training pieces (<BOS> and <EOS> are words) have the tokens 1 ...; 0 is any other
    word and padding, which are UNLABELLED as labels: LEAF never counts either as right.  Pieces without a label are
    left out.  LEAF's folders train and test are in `root`, `root`/reddit or `root`/reddit/data.  Owners are the first
    `people` users of train, or all.  Raises as `leaf_shakespeare` does. Source: Caldas et al. 2018, and LEAF's
    data/reddit for the form: x a list of pieces for each comment, y an object with as many `target_tokens`.
    """
    if words < 1:
        raise ValueError(f"words is {words}; it must be 1 or more")
    seen = {PADDING: 0}  # all words, in the order in which they come

    def read(user: User) -> tuple[Rows, Rows]:
        targets = [label.get("target_tokens") if isinstance(label, dict) else None for label in user.y]
        return _pieces(user.x, seen), _pieces(targets, seen)

    owners, train, test = _parts(root, REDDIT, "Reddit", people, read, counted=False)
    if train.y.shape != train.x.shape or test.y.shape != test.x.shape:
        raise ValueError(f"{root}: pieces and targets differ in number or length")
    counts = np.bincount(train.x.ravel(), minlength=len(seen))
    counts[seen[PADDING]] = 0
    numbers = renumbered(counts, list(seen), words)
    train, test = (_labelled(LeafExamples(numbers[x], only_known(numbers[y]), owner)) for x, y, owner in (train, test))
    return _dataset("leaf_reddit", owners, train, test, int(numbers.max()) + 1)


def _pieces(comments: list[Any], seen: dict[str, int]) -> Rows:
    """Returns the pieces of all comments, (pieces, words), as numbers: a word's number is its value in `seen`, to which
    new words are added."""
    rows = []
    for pieces in comments:
        for piece in pieces if isinstance(pieces, list) else [None]:
            if not isinstance(piece, list) or not all(isinstance(word, str) for word in piece):
                raise ValueError("x or y's target_tokens are not lists of pieces, each a list of words")
            rows.append([seen.setdefault(word, len(seen)) for word in piece])
    return _rows(rows)


def _rows(rows: list[list[int]]) -> Rows:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("examples of unlike lengths")
    return np.array(rows, np.int32)


def _labelled(part: LeafExamples) -> LeafExamples:
    keep = (part.y != UNLABELLED).any(axis=1)
    return LeafExamples(part.x[keep], part.y[keep], part.owner[keep])


def _parts(
    root: Path, places: Sequence[str], what: str, most: int | None, read: Read, counted: bool = True
) -> tuple[dict[str, int], LeafExamples, LeafExamples]:
    """Returns the owners (name -> index), which are the first `most` users of the folder train or all, and the examples
    of the folders train and test."""
    if most is not None and most < 1:
        raise ValueError(f"{most} users are asked for; it must be 1 or more")
    owners: dict[str, int] = {}
    for folder in (root / place for place in places):
        if all(any((folder / part).glob("*.json")) for part in ("train", "test")):
            train = part_of(folder / "train", owners, most, read, MOST, "tokens", counted)
            return owners, train, part_of(folder / "test", owners, len(owners), read, MOST, "tokens", counted)
    raise absent(f"LEAF's folders train and test of {what} (*.json)", root, places, fetched=False)


def _dataset(name: str, owners: dict[str, int], train: LeafExamples, test: LeafExamples, classes: int) -> Dataset:
    arrays = (train.x, train.y, test.x, test.y)
    return Dataset(name, *arrays, classes, tuple(owners), train.owner, test.owner)

"""Reads a split of a data set from a file: the indices of each device's training examples."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from scenarios.builders.recordings import place
from scenarios.text.faults import short


def read_split(path: str, names: Sequence[str], examples: int) -> tuple[list[str], list[ndarray]]:
    """Returns what the owners of the shards are called, [] if they are called as the devices or not at all, and the
    shard of each device, sorted indices of `examples`, which devices may share.

    The file is JSON, a list of lists or an object, or npz.  Its keys are the names of all devices, or other names, one
    for each device in their order.  Raises ValueError for a file that is neither or does not fit the fleet.
    """
    found = _read(path)
    shards: Mapping[str, Any] = found if isinstance(found, Mapping) else dict(zip(names, found, strict=False))
    if len(found) != len(names):
        raise ValueError(f"{path} has shards for {len(found)} devices; the fleet has {len(names)}")
    by_device = shards.keys() == set(names)
    held = [_checked(f"{path}: {key}", shards[key], examples) for key in (names if by_device else shards)]
    return [] if by_device else list(shards), held


def _read(path: str) -> Sequence[Any] | Mapping[str, Any]:
    try:
        data = place(path).read_bytes()
        if zipfile.is_zipfile(place(path)):
            with np.load(place(path), allow_pickle=False) as arrays:
                return dict(arrays)
        found: Any = json.loads(data)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is neither JSON nor npz: {error}") from None
    if not isinstance(found, list | dict):
        raise ValueError(f"{path} holds {short(found)}; it must be a list of lists, or an object of lists")
    return found


def _checked(what: str, shard: Any, examples: int) -> ndarray:
    try:
        found = np.asarray(shard)
    except ValueError:
        found = np.zeros((0, 0))
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ValueError(f"{what} has {short(shard)}; it must be a list of indices, whole numbers from 0")
    if found.size and not 0 <= found.min() <= found.max() < examples:
        raise ValueError(
            f"{what} has indices from {found.min()} to {found.max()}; they must lie in 0 to {examples - 1}, of the "
            "training examples"
        )
    kept = np.unique(found).astype(np.int64)
    if len(kept) != len(found):
        raise ValueError(f"{what} has {len(found) - len(kept)} indices twice; a device holds an example once")
    return kept

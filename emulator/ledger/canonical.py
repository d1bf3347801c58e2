"""Canonical bytes of values: in any two processes, two values have equal bytes if and only if they and their types are
equal.

Pickle has no canonical bytes: they depend on shared objects, and on the order of sets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import msgpack
import numpy as np
from numpy import ndarray

CHUNK = 1 << 24  # bytes of an array to hash at a time


def packed(value: Any) -> bytes:
    """Returns a plain value (see `plain`) encoded as msgpack, with sorted keys, and with floats in 8 bytes (IEEE 754
    double)."""
    packer = msgpack.Packer(use_bin_type=True)
    done: bytes = packer.pack(_sorted(value))
    return done


def plain(value: Any) -> Any:
    """Returns a value in JSON's types: None, booleans, numbers, strings, lists, and dicts with strings as keys.

    A dataclass becomes a dict of its class and all its fields.  Raises ValueError for a type that cannot be converted.
    """
    if isinstance(value, Enum):
        return {"class": name_of(type(value)), "value": plain(value.value)}
    if isinstance(value, np.generic):
        return plain(value.item())
    if value is None or isinstance(value, (bool, float, str)):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        own = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return {"class": name_of(type(value)), **own}
    if isinstance(value, BaseException):
        return {"class": name_of(type(value)), "args": plain(value.args)}
    if isinstance(value, Mapping):
        return {"mapping": sorted(([plain(key), plain(held)] for key, held in value.items()), key=packed)}
    if isinstance(value, AbstractSet):
        return {"set": sorted(map(plain, value), key=packed)}
    if isinstance(value, (bytes, ndarray)):
        return {"sha256": digest(value)}
    if isinstance(value, Sequence):
        return [plain(entry) for entry in value]
    raise ValueError(f"{name_of(type(value))} has no canonical bytes, as numbers, texts and dataclasses have")


def digest(value: bytes | ndarray) -> str:
    """Returns the SHA-256, in hex, of bytes, or of an array together with its dtype and shape."""
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    sha256 = hashlib.sha256(packed([value.dtype.str, list(value.shape)]))
    flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    for start in range(0, len(flat), CHUNK):  # an array may be mapped, and larger than the memory
        sha256.update(flat[start : start + CHUNK].data)
    return sha256.hexdigest()


def name_of(thing: Any) -> str:
    """Returns the module and qualified name of a class or a function."""
    return f"{thing.__module__}.{thing.__qualname__}"


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(entry) for entry in value] if isinstance(value, (list, tuple)) else value

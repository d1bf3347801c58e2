"""Messages, which are named tensors, as bytes and back; the emulator charges links for exactly these bytes.

A message is a msgpack map, kind -> name -> {data, dtype, shape}, with sorted keys and shortest forms, so that equal
messages are equal bytes.  Everything in another form is refused.  The tensors of a kind may be encoded in fewer bytes
(encoding.py); a tensor's dtype is then the name of its coding.  No type name on the wire ever becomes a class
(docs/design/network.md §5).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from network.wire.encoding import CODINGS, Coded, draws, encodable, parse
from network.wire.form import (
    FRAME,
    KEYS,
    LARGEST_HEADER,
    Buffer,
    NotFinite,
    RefusedMessage,
    check_name,
    in_order,
    in_pieces,
    parsed,
    quoted,
    unpacked,
)

Arrays = dict[str, NDArray[Any]]  # parameter name -> array
Message = dict[str, Arrays]  # kind -> arrays, such as {"weights": ..., "importance": ...}
Shape = tuple[str, tuple[int, ...]]  # dtype name, shape
Shapes = Mapping[str, Mapping[str, Shape]]  # kind -> name -> its dtype and shape
Entry = dict[str, Any]  # an array on the wire

DTYPES: dict[str, np.dtype[Any]] = {  # the closed list of dtypes, and their form on the wire
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "float16": np.dtype("<f2"),
    "int64": np.dtype("<i8"),
    "int32": np.dtype("<i4"),
    "uint8": np.dtype("u1"),
    "bool": np.dtype("?"),
}
DECODED = DTYPES | {name: coding.dtype for name, coding in CODINGS.items()}  # dtypes of the values
NATIVE = {name: dtype.newbyteorder("=") for name, dtype in DECODED.items()}
NAMES = {dtype: name for name, dtype in DTYPES.items()}  # numpy computes a dtype's name on each access
ALL_CORES: int = blake3.AUTO
ALIGNMENT = 64  # bytes: a cache line, and the widest vector
EMPTY: Mapping[str, Any] = MappingProxyType({})
ROOM = 2**32  # bytes of a decoded message by default: sparse data can decode to any size
MANY = 2**20  # values that are first added, because the sum takes no memory
MOST_VALUES = 2**32  # in an encoded tensor: indices have 32 bits


class View:
    """An encoded message, parsed once, that gives access to its arrays and can check their shapes and values."""

    def __init__(self, tree: Mapping[str, Mapping[str, Entry]], data: Buffer | None = None) -> None:
        """Takes the parsed message as kind -> name -> entry; `data`: the message's bytes, if available."""
        self.tree = tree
        if data is not None:
            self.pieces = [data]

    @cached_property
    def pieces(self) -> Sequence[Buffer]:
        """The message's bytes, as consecutive pieces."""
        return in_pieces(self.tree)

    @property
    def data(self) -> bytes:
        """The message's bytes, joined."""
        return b"".join(self.pieces)

    @property
    def nbytes(self) -> int:
        """The length of the message in bytes."""
        return sum(map(len, self.pieces))

    def row(self, k: int) -> View:
        """Returns a message whose tensors are row `k` of this message's tensors; requires that none is encoded.
        Nothing is copied."""
        return View(
            {kind: {name: _row(entry, k) for name, entry in entries.items()} for kind, entries in self.tree.items()}
        )

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of each kind's data, scales and indices included; "frame" has all other bytes: names, shapes and
        lengths."""
        kinds = {kind: sum([len(entry["data"]) for entry in entries.values()]) for kind, entries in self.tree.items()}
        return {**kinds, FRAME: self.nbytes - sum(kinds.values())}

    def check(self, shapes: Shapes, constants: Mapping[str, NDArray[Any]] = EMPTY) -> None:
        """Raises RefusedMessage unless the kinds, names, dtypes and shapes of the message equal `shapes` and every
        float is finite, or equal to the value at the same place of the constant with the array's name.  Copies only
        encoded arrays."""
        self.fits(room_of(shapes))
        check(self._arrays(_seen), shapes, constants)

    def arrays(self, room: int = ROOM) -> Message:
        """Returns all arrays of the message, decoded, each as a copy (see `decode`).  Raises RefusedMessage if the
        decoded arrays need more than `room` bytes."""
        self.fits(room)
        return self._arrays(_array)

    def array(self, kind: str, name: str) -> NDArray[Any]:
        """Returns a decoded copy of one array."""
        return _array(self.tree[kind][name], kind, name)

    def in_place(self, kind: str, name: str) -> NDArray[Any] | None:
        """Returns one array as a view of the message's bytes, which may be unaligned; None if the array is encoded."""
        entry = self.tree[kind][name]
        return None if entry["dtype"] in CODINGS else _seen(entry, kind, name)

    def _arrays(self, made: Callable[[Entry, str, str], NDArray[Any]]) -> Message:
        return {
            kind: {name: made(entry, kind, name) for name, entry in entries.items()}
            for kind, entries in self.tree.items()
        }

    def fits(self, room: int) -> None:
        """Raises RefusedMessage if the decoded arrays need more than `room` bytes of memory."""
        needed = sum(_room(entry) for entries in self.tree.values() for entry in entries.values())
        if needed > room:
            raise RefusedMessage(f"a message that needs {needed} bytes when decoded; at most {room} are accepted")


def view(data: bytes, limit: int | None = None) -> View:
    """Returns the message in `data`, which may come from any sender.  Raises RefusedMessage, and nothing else, for
    bytes that `encode` would not have written, and for more than `limit` bytes."""
    found = View(_entries(data, limit), data)
    found.fits(ROOM)
    return found


def trusted(data: Buffer) -> View:
    """Returns the message in bytes that this program has written or already checked.  Nothing is checked again, and
    arrays are copied only on access."""
    return View(unpacked(memoryview(data)), data)


def encode(
    message: Mapping[str, Mapping[str, NDArray[Any]]], encodings: Mapping[str, str] | None = None, seed: int = 0
) -> bytes:
    """Returns the message as bytes; equal messages and seeds give equal bytes, whatever the order of their keys.

    `encodings`: the encodings of kinds, such as {"fisher": "sparse"}; it may name kinds that the message lacks.  The
    seed is for random rounding.  Raises ValueError for an unknown encoding; RefusedMessage for a dtype that is not in
    DTYPES, and for names that `decode` would not accept.
    """
    return encoded(message, encodings, seed).data


def encoded(
    message: Mapping[str, Mapping[str, NDArray[Any]]],
    encodings: Mapping[str, str] | None = None,
    seed: int = 0,
    plain: Collection[str] = (),
) -> View:
    """Returns the message that `encode` would return, but as a View whose large pieces are the given arrays, not
    copied: use it before the arrays change.  Arrays whose names are in `plain` are not encoded."""
    how = encodings or {}
    tree = {
        kind: _coded(kind, dict(in_order(arrays)), how.get(kind), seed, plain)
        for kind, arrays in in_order(message, reserved=FRAME)
    }
    return View(tree)


def decode(data: bytes, limit: int | None = None, room: int = ROOM) -> Message:
    """Returns the arrays of the message in `data`, which may have at most `limit` bytes, and at most `room` once it is
    decoded.

    Each array is an aligned and writable copy, because a view at an unaligned offset gives other bits in matrix
    products. Floats may be NaN; `check` tells if they are finite.  Arrays with a lossy encoding are float32, whatever
    they were before.  Raises RefusedMessage, and nothing else, for bytes that `encode` would not have written.
    """
    return view(data, limit).arrays(room)


def decoded(
    kind: str, arrays: Mapping[str, NDArray[Any]], encoding: str | None, seed: int = 0, room: int = ROOM
) -> Arrays:
    """Returns the arrays as a receiver gets them if they are sent as this kind, with this encoding and seed: with the
    encoding's rounding, for example."""
    return decode(encode({kind: arrays}, {kind: encoding} if encoding else None, seed), room=room)[kind]


def sizes(
    message: Mapping[str, Mapping[str, NDArray[Any]]], encodings: Mapping[str, str] | None = None, seed: int = 0
) -> dict[str, int]:
    """Returns the bytes of each kind in the encoded message, scales and indices included; "frame" has the bytes of
    names, shapes and lengths."""
    return trusted(encode(message, encodings, seed)).sizes


def manifest(message: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, dict[str, Shape]]:
    """Returns the dtype and shape of each array of a message, by kind and name: the argument of `check`."""
    return {
        kind: {name: (_name(array), array.shape) for name, array in arrays.items()} for kind, arrays in message.items()
    }


def check(message: Message, manifest: Shapes, constants: Mapping[str, NDArray[Any]] = EMPTY) -> None:
    """Raises RefusedMessage unless kinds, names, dtypes and shapes are the manifest's and every float is finite, or
    equal to the value at the same place of the constant with the array's name."""
    _same_names(None, message, manifest)
    for kind, arrays in message.items():
        _same_names(kind, arrays, manifest[kind])
        for name, array in arrays.items():
            dtype, shape = manifest[kind][name]
            if (_name(array), array.shape) != (dtype, tuple(shape)):
                found = f"{_name(array)} {array.shape}"
                raise RefusedMessage(f"{_where(kind, name)} is {found}; it must be {dtype} {tuple(shape)}")
            if array.dtype.kind == "f" and not finite(array, constants.get(name)):
                raise NotFinite(f"{_where(kind, name)} holds a value that is not finite")


def finite(array: NDArray[Any], constant: NDArray[Any] | None = None) -> bool:
    """Returns true if all values are finite; a value that is not finite is accepted where `constant` has the same
    value."""
    if array.size > MANY:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(array.sum(dtype=np.float64)):
                return True
    sound = np.isfinite(array)
    if constant is None or sound.all():
        return bool(sound.all())
    return np.array_equal(array[~sound], constant[~sound], equal_nan=True)


def room_of(manifest: Shapes) -> int:
    """Returns a limit for the decoded size of such a message, bytes: twice what is needed, so that a slightly larger
    message is still decoded, and `check` can name its fault."""
    arrays = [array for kind in manifest.values() for array in kind.values()]
    return 2 * sum(math.prod(shape) * DTYPES[dtype].itemsize for dtype, shape in arrays) + LARGEST_HEADER


def digest(*pieces: Buffer, threads: int = 1) -> str:
    """Returns BLAKE3 of the concatenated pieces, 256 bits in hex.  It takes at most a quarter of SHA-256's time, which
    matters because each upload is digested.  `threads`: ALL_CORES if no other process needs the cores."""
    hasher = blake3(max_threads=threads)
    for piece in pieces:
        hasher.update(piece)
    return hasher.hexdigest()


# --- to bytes ---------------------------------------------------------------------------------------------


def _coded(kind: str, arrays: Arrays, encoding: str | None, seed: int, plain: Collection[str]) -> dict[str, Entry]:
    for name, array in arrays.items():
        _sendable(kind, name, array)
    chosen = {
        name: array for name, array in arrays.items() if encoding is not None and encodable(array) and name not in plain
    }
    coded = parse(encoding).code(chosen, draws(seed, kind)) if encoding is not None else {}
    return {name: _entry(coded.get(name) or _plain(array), array.shape) for name, array in arrays.items()}


def _sendable(kind: str, name: str, array: object) -> None:
    if not isinstance(array, np.ndarray):
        raise RefusedMessage(f"{_where(kind, name)} is a {type(array).__name__}; it must be a numpy array")
    if _name(array) not in DTYPES:
        raise RefusedMessage(f"{_where(kind, name)} has dtype {array.dtype}; it must be one of {', '.join(DTYPES)}")
    if array.size > MOST_VALUES:
        raise RefusedMessage(f"{_where(kind, name)} has {array.size} values; at most {MOST_VALUES} are sent")


def _plain(array: NDArray[Any]) -> Coded:
    name = _name(array)
    return name, np.ascontiguousarray(array, DTYPES[name]).reshape(-1).view(np.uint8).data


def _name(array: NDArray[Any]) -> str:
    return NAMES.get(array.dtype) or array.dtype.name


def _entry(coded: Coded, shape: tuple[int, ...]) -> Entry:
    return {"data": coded[1], "dtype": coded[0], "shape": list(shape)}


# --- from bytes -------------------------------------------------------------------------------------------


def _entries(data: bytes, limit: int | None) -> dict[str, dict[str, Entry]]:
    """Returns the parsed message, kind -> name -> entry.  Raises RefusedMessage for more than `limit` bytes, and for an
    entry with a fault."""
    if limit is not None and len(data) > limit:
        raise RefusedMessage(f"a message of {len(data)} bytes; at most {limit} are accepted")
    if data == NOTHING:  # the usual memory of a device, read in each round
        return {}
    tree = parsed(data)
    if type(tree) is not dict:
        raise RefusedMessage("the message is not a map of kinds")
    for kind, entries in tree.items():
        check_name(kind, reserved=FRAME)
        if type(entries) is not dict:
            raise RefusedMessage(f"kind {quoted(kind)} is not a map of arrays")
        for name, entry in entries.items():
            if reason := _fault(entry):
                raise RefusedMessage(f"{_where(kind, name)} {reason}")
    return tree


def _fault(entry: object) -> str | None:
    """Returns the fault of an entry, as the end of a sentence; None if the entry is right."""
    if type(entry) is not dict or list(entry) != KEYS:
        return "must have data, dtype and shape, and nothing else"
    data, dtype, shape = entry.values()
    if type(data) is not bytes or type(dtype) is not str or dtype not in DECODED:
        return f"must be bytes of one of {', '.join(DECODED)}"
    if not _is_shape(shape):
        return "must have a shape of integers from 0"
    return _length_fault(data, dtype, shape)


def _is_shape(shape: object) -> bool:
    if type(shape) is not list:
        return False
    for n in shape:  # noqa: SIM110 - a generator takes twice as long, for each tensor of a message
        if type(n) is not int or n < 0:
            return False
    return True


def _length_fault(data: bytes, dtype: str, shape: list[int]) -> str | None:
    n = math.prod(shape)
    coding = CODINGS.get(dtype)
    if reason := coding.fault(data, n) if coding else _plain_fault(data, n, dtype):
        return reason
    product = n or math.prod(size for size in shape if size)  # numpy limits it for empty arrays, too
    too_large = product * DECODED[dtype].itemsize > sys.maxsize
    return "has a dimension that is too large" if too_large else None


def _row(entry: Entry, k: int) -> Entry:
    count, *shape = entry["shape"]
    length = len(entry["data"]) // count
    return {"data": entry["data"][k * length : (k + 1) * length], "dtype": entry["dtype"], "shape": shape}


def _room(entry: Entry) -> int:
    """Returns the bytes that the entry's array needs when decoded."""
    return math.prod(entry["shape"]) * DECODED[entry["dtype"]].itemsize


def _plain_fault(data: bytes, n: int, dtype: str) -> str | None:
    if n * DTYPES[dtype].itemsize != len(data):
        return f"has {len(data)} bytes, which is not what its shape and dtype need"
    strange = dtype == "bool" and data.translate(None, b"\0\1")
    return "holds a bool that is neither 0 nor 1" if strange else None


def _seen(entry: Entry, kind: str, name: str) -> NDArray[Any]:
    """Returns the entry's array, which must not be changed: a view of the message, or a copy if the array is
    encoded."""
    if entry["dtype"] in CODINGS:
        return _array(entry, kind, name)
    return np.frombuffer(entry["data"], DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _array(entry: Entry, kind: str, name: str) -> NDArray[Any]:
    data, dtype, shape = entry["data"], DECODED[entry["dtype"]], entry["shape"]
    length = math.prod(shape) * dtype.itemsize
    try:
        room = np.empty(length + ALIGNMENT, np.uint8)
    except MemoryError:
        raise RefusedMessage(f"{_where(kind, name)} needs {length} bytes; there is no memory for them") from None
    start = -room.__array_interface__["data"][0] % ALIGNMENT
    array = room[start : start + length].view(NATIVE[entry["dtype"]])
    if entry["dtype"] in CODINGS:
        CODINGS[entry["dtype"]].fill(data, array)
    else:
        array[...] = np.frombuffer(data, dtype)
    return array.reshape(shape)


# --- both ways --------------------------------------------------------------------------------------------


def _same_names(kind: str | None, found: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    """Raises RefusedMessage unless the names found are those wanted.  `kind`: the kind whose arrays have these names;
    None if the names are the kinds of a message."""
    if found.keys() == wanted.keys():
        return
    name = min(found.keys() ^ wanted.keys())
    has = "has an unexpected" if name in found else "lacks"
    raise RefusedMessage(f"{'the message' if kind is None else f'kind {quoted(kind)}'} {has} {quoted(name)}")


def _where(kind: str, name: str) -> str:
    return f"{quoted(kind)} {quoted(name)}"


NOTHING = encode({})

"""The only accepted form of a message on the wire, msgpack in its shortest form, with limits of its size; any other is
refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

KEYS = ["data", "dtype", "shape"]  # keys of an entry
FRAME = "frame"  # the key in `sizes` for bytes that are not tensors; no kind may have this name
LONGEST_NAME = 256  # bytes of UTF-8
MOST_ENTRIES = 4096  # kinds, or tensors of a kind: DenseNet-201 has about 1200
MOST_DIMENSIONS = 64  # numpy's own limit
LARGEST_HEADER = 4096  # bytes
SMALL = (1 << 16) - 1  # bytes that are copied rather than made a separate piece; longer ones begin with BIN_32
BIN_32 = b"\xc6"  # msgpack: bytes with a length of 32 bits

Buffer = bytes | bytearray | memoryview


class RefusedMessage(ValueError):  # noqa: N818  an event, and not an error
    """The error for a message that fedlapse would not send; its text is the reason, in one sentence."""


class NotFinite(RefusedMessage):
    """The message has the right form, but a value in it is NaN or infinite."""


def packed(tree: object) -> bytes:
    try:
        return bytes(msgpack.packb(tree, use_bin_type=True))
    except (ValueError, OverflowError) as error:  # an int beyond 64 bits, or 4 GiB in one array
        raise RefusedMessage(f"msgpack cannot carry it: {error}") from None


def in_pieces(tree: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Buffer]:
    """Returns the bytes of `packed` for a message, kind -> name -> entry, as consecutive pieces.  Large data are pieces
    themselves, so that they are not copied."""
    found: list[Buffer] = []
    packer = msgpack.Packer(use_bin_type=True, autoreset=False)
    try:
        packer.pack_map_header(len(tree))
        for kind, entries in tree.items():
            packer.pack(kind)
            packer.pack_map_header(len(entries))
            for name, entry in entries.items():
                packer.pack(name)
                _pack(entry, packer, found)
    except (ValueError, OverflowError) as error:  # an int beyond 64 bits, or 4 GiB in one array
        raise RefusedMessage(f"msgpack cannot carry it: {error}") from None
    return [*found, packer.bytes()]


def _pack(entry: Mapping[str, Any], packer: msgpack.Packer, found: list[Buffer]) -> None:
    """Packs an entry.  If its data are large, moves everything packed so far to `found`, and then the data as a piece
    of their own."""
    data = entry["data"]
    if len(data) <= SMALL:
        packer.pack(entry)
        return
    packer.pack_map_header(len(entry))
    packer.pack("data")
    found += [packer.bytes() + BIN_32 + len(data).to_bytes(4), data]
    packer.reset()
    for key in KEYS[1:]:
        packer.pack(key)
        packer.pack(entry[key])


def parsed(data: bytes) -> Any:
    """Returns the single msgpack object in `data`.  Raises RefusedMessage unless it is in the only accepted form:
    shortest, with the names of each map in rising order, and within the limits of this file."""
    try:
        tree = msgpack.unpackb(  # a new one each time: an Unpacker must not be used after an error
            data,
            raw=False,
            strict_map_key=True,
            use_list=True,
            max_str_len=LARGEST_HEADER,
            max_bin_len=len(data),
            max_array_len=MOST_DIMENSIONS,
            max_map_len=MOST_ENTRIES,
            max_ext_len=0,
            ext_hook=_no_extension,
            object_pairs_hook=_ordered,
        )
        canonical = msgpack.packb(tree, use_bin_type=True) == data
    except RefusedMessage:
        raise
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise RefusedMessage(f"not one msgpack object: {type(error).__name__}") from None
    if not canonical:
        raise RefusedMessage("not in msgpack's shortest form")
    return tree


def _no_extension(code: int, _: bytes) -> object:
    raise RefusedMessage(f"msgpack extension {code} is not part of a message")


def _ordered(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Returns the pairs of a msgpack map as a dict.  Raises RefusedMessage unless the names rise strictly, so that no
    name is repeated and there is only one way to write a map."""
    if [name for name, _ in pairs] == KEYS:  # most maps are entries
        return dict(pairs)
    last = None
    for name, _ in pairs:
        check_name(name)
        if last is not None and name <= last:
            raise RefusedMessage(f"the name {quoted(name)} comes twice or out of order")
        last = name
    return dict(pairs)


def check_name(name: object, reserved: str | None = None) -> None:
    if type(name) is not str:
        raise RefusedMessage(f"a name is a {type(name).__name__}; it must be a str")
    if name == reserved:
        raise RefusedMessage(f"a kind is named {reserved!r}; that name is kept for the bytes that are not tensors")
    length = len(name) if name.isascii() else len(name.encode(errors="replace"))
    if not 0 < length <= LONGEST_NAME:
        raise RefusedMessage(f"the name {quoted(name)} must have 1 to {LONGEST_NAME} bytes")


def in_order(entries: Mapping[str, Any], reserved: str | None = None) -> list[tuple[str, Any]]:
    if len(entries) > MOST_ENTRIES:
        raise RefusedMessage(f"{len(entries)} entries in one map; at most {MOST_ENTRIES} are sent")
    for name in entries:
        check_name(name, reserved)
    return sorted(entries.items())


def quoted(name: str) -> str:
    """Returns `name` for an error message: in quotes, as printable ASCII, cut after 40 characters."""
    return ascii(name if len(name) <= 40 else name[:40] + "...")


def unpacked(data: memoryview) -> Any:
    """Returns the object in bytes that `packed` has written.  Its byte strings are views into `data`: nothing is copied
    or checked."""
    return _read(data, 0)[0]


def _read(data: memoryview, at: int) -> tuple[Any, int]:
    """Returns the object that begins at index `at`, and the index after it (by the msgpack specification's table of
    first bytes)."""
    first, at = data[at], at + 1
    if first < 0x80:
        return first, at
    if first < 0x90:
        return _read_map(data, at, first & 0x0F)
    if first < 0xA0:
        return _read_list(data, at, first & 0x0F)
    if first < 0xC0:
        return _read_text(data, at, first & 0x1F)
    read, width = _FAMILIES[first]
    return read(data, at + width, int.from_bytes(data[at : at + width]))


def _read_map(data: memoryview, at: int, length: int) -> tuple[dict[str, Any], int]:
    found = {}
    for _ in range(length):
        name, at = _read(data, at)
        found[name], at = _read(data, at)
    return found, at


def _read_list(data: memoryview, at: int, length: int) -> tuple[list[Any], int]:
    found = []
    for _ in range(length):
        item, at = _read(data, at)
        found.append(item)
    return found, at


def _read_text(data: memoryview, at: int, length: int) -> tuple[str, int]:
    return str(data[at : at + length], "utf-8"), at + length


def _read_bytes(data: memoryview, at: int, length: int) -> tuple[memoryview, int]:
    return data[at : at + length], at + length


def _read_int(_: memoryview, at: int, value: int) -> tuple[int, int]:
    return value, at


# First byte -> the kind of the rest, and the width of the length, or of the number itself.
_FAMILIES = {
    0xC4: (_read_bytes, 1),
    0xC5: (_read_bytes, 2),
    0xC6: (_read_bytes, 4),
    0xCC: (_read_int, 1),
    0xCD: (_read_int, 2),
    0xCE: (_read_int, 4),
    0xCF: (_read_int, 8),
    0xD9: (_read_text, 1),
    0xDA: (_read_text, 2),
    0xDB: (_read_text, 4),
    0xDC: (_read_list, 2),
    0xDD: (_read_list, 4),
    0xDE: (_read_map, 2),
    0xDF: (_read_map, 4),
}

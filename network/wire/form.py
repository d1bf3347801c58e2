"""The one form of a message on the wire: what may stand in it, and how much of it; everything else is Refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

KEYS = ["data", "dtype", "shape"]  # of an entry
FRAME = "frame"  # what `sizes` calls the bytes that are not tensors; no kind may take the name
LONGEST_NAME = 256  # bytes of UTF-8
MOST_ENTRIES = 4096  # kinds, or tensors of a kind: DenseNet-201 has about 1200
MOST_DIMENSIONS = 64  # numpy's own limit
LARGEST_HEADER = 4096  # bytes


class Refused(ValueError):  # noqa: N818  what happened, not what went wrong
    """The message is not one that fedlapse would send; the reason is one sentence."""


class NotFinite(Refused):
    """The message has the right form, but a value in it is NaN or infinite."""


def packed(tree: object) -> bytes:
    try:
        return bytes(msgpack.packb(tree, use_bin_type=True))
    except (ValueError, OverflowError) as error:  # an int beyond 64 bits, or 4 GiB in one array
        raise Refused(f"msgpack cannot carry it: {error}") from None


def parsed(data: bytes) -> Any:
    """The one msgpack object that is `data`, in the form that `packed` gives it."""
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
    except Refused:
        raise
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise Refused(f"not one msgpack object: {type(error).__name__}") from None
    if not canonical:
        raise Refused("not in msgpack's shortest form")
    return tree


def _no_extension(code: int, _: bytes) -> object:
    raise Refused(f"msgpack extension {code} is not part of a message")


def _ordered(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    """A map whose names rise strictly: none twice, and only one way to write it."""
    if [name for name, _ in pairs] == KEYS:  # most are entries
        return dict(pairs)
    last = None
    for name, _ in pairs:
        check_name(name)
        if last is not None and name <= last:
            raise Refused(f"the name {quoted(name)} comes twice or out of order")
        last = name
    return dict(pairs)


def check_name(name: object, reserved: str | None = None) -> None:
    if type(name) is not str:
        raise Refused(f"a name is a {type(name).__name__}; it must be a str")
    if name == reserved:
        raise Refused(f"a kind is named {reserved!r}; that name is kept for the bytes that are not tensors")
    length = len(name) if name.isascii() else len(name.encode(errors="replace"))
    if not 0 < length <= LONGEST_NAME:
        raise Refused(f"the name {quoted(name)} must have 1 to {LONGEST_NAME} bytes")


def in_order(entries: Mapping[str, Any], reserved: str | None = None) -> list[tuple[str, Any]]:
    if len(entries) > MOST_ENTRIES:
        raise Refused(f"{len(entries)} entries in one map; at most {MOST_ENTRIES} are sent")
    for name in entries:
        check_name(name, reserved)
    return sorted(entries.items())


def quoted(name: str) -> str:
    """`name` as it can stand in a line of text: printable ASCII, and short."""
    return ascii(name if len(name) <= 40 else name[:40] + "...")

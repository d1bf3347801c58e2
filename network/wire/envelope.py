"""The envelope of a message: a header of a few numbers and words, and the message as its body."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from network.wire.form import LARGEST_HEADER, RefusedMessage, in_order, packed, parsed

Header = Mapping[str, int | float | str | None]


def pack(header: Header, body: bytes | memoryview) -> bytes:
    """Returns an envelope: 4 bytes with the header's length (big-endian), the header, the body.

    Raises RefusedMessage for a header that `unpack` would not accept.
    """
    return b"".join((*_packed_header(header), body))


def envelope_bytes(header: Header) -> int:
    """Returns the number of bytes that `pack` adds to the body for this header."""
    return _length(*header, *header.values())


@lru_cache(maxsize=4096, typed=True)
def _length(*said: int | float | str | None) -> int:
    """Returns the length in bytes of a packed header; `said` has all names and then all values.  Cached, because most
    devices of a round get the same header."""
    half = len(said) // 2
    return sum(map(len, _packed_header(dict(zip(said[:half], said[half:], strict=True)))))  # type: ignore[arg-type]


def unpack(data: bytes) -> tuple[dict[str, int | float | str | None], bytes]:
    """Returns the header and the body of an envelope.  Raises RefusedMessage, and nothing else, if it is not an
    envelope."""
    length = int.from_bytes(data[:4], "big")
    if not length <= min(LARGEST_HEADER, len(data) - 4):
        raise RefusedMessage(f"a header of {length} bytes; the envelope has {len(data)}, the limit is {LARGEST_HEADER}")
    header = parsed(data[4 : 4 + length])
    if type(header) is not dict:
        raise RefusedMessage("the header is not a map")
    for name, value in header.items():
        _scalar(name, value)
    return header, data[4 + length :]


def _packed_header(header: Header) -> tuple[bytes, bytes]:
    for name, value in header.items():
        _scalar(name, value)
    body = packed(dict(in_order(header)))
    if len(body) > LARGEST_HEADER:
        raise RefusedMessage(f"a header of {len(body)} bytes; the limit is {LARGEST_HEADER}")
    return len(body).to_bytes(4, "big"), body


def _scalar(name: object, value: object) -> None:
    if value is not None and type(value) not in (int, float, str):
        raise RefusedMessage(f"the header's {name!a} is a {type(value).__name__}; it must be a number, a str or None")

"""Writes and reads files of JSON lines, one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import orjson

from emulator.record.events import Event, event_of
from network.foreign_files import unique

Line = dict[str, Any]
_WHOLE = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
_checked = json.JSONEncoder(sort_keys=True, allow_nan=False, separators=(",", ":")).encode


def encode(line: Mapping[str, Any]) -> bytes:
    """Returns a line as JSON in UTF-8, with its newline: keys sorted, floats in the fewest digits that read back equal.

    Raises ValueError for a number that is not finite.
    """
    try:
        text = orjson.dumps(line, option=_WHOLE)
    except TypeError:  # an integer of more than 64 bits, or numpy's float
        return _checked(line).encode() + b"\n"
    # orjson also writes null for a number that is not finite.  As many nulls as the line has None: there is none.
    if b"null" in text and text.count(b"null") != [*line.values()].count(None) and not _finite(line):
        _checked(line)
    return text


def _finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_finite, value))
    return not isinstance(value, float) or isfinite(value)


def read_lines(path: Path, repeated_keys: bool = True) -> Iterator[Line]:
    """Yields the objects of a file of JSON lines.  A last line without a newline is ignored, because its writing was
    interrupted.

    Raises ValueError, naming file and line, for any other line that is not an object.  With `repeated_keys` false,
    which is slower, it also raises it for an object that has a key twice.
    """
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if not text.endswith(b"\n"):
                return
            yield object_of(text, f"{path}:{number}", repeated_keys)


def object_of(text: bytes, where: str, repeated_keys: bool = True) -> Line:
    """Returns the JSON object in a text.  Raises ValueError, naming `where`, if the text holds anything else, and, with
    `repeated_keys` false, for an object that has a key twice."""
    try:
        found = json.loads(text.decode(), object_pairs_hook=None if repeated_keys else unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{where} must hold a JSON object; it holds {type(found).__name__}")
    return found


def read_events(path: Path) -> Iterator[Event]:
    """Yields the events in a file like events.jsonl.  Raises ValueError, naming file and line, for a line that no run
    writes."""
    for number, line in enumerate(read_lines(path), 1):
        try:
            yield event_of(line)
        except ValueError:
            raise ValueError(f"{path}:{number} is not as `fedlapse run` writes it") from None

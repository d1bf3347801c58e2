"""Readers of files that other programs wrote: text, and JSON and pickles of plain values, without running any code.

The readers in network/ and in devices/ use them, so that every fault of a file raises the same error, BadFile.
"""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import pickletools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

LARGEST = 256_000_000  # bytes of a file
LETTERS = LARGEST // 4  # for a text that is not all ASCII: Python may take four bytes for each of its characters
PICKLED = LARGEST // 2  # for a pickle, whose texts may also take four bytes a character
VALUES = 800_000_000  # bytes of memory that a table may take, with the file itself
JSON_COSTS = {b"[": 104, b"{": 120, b",": 60, b":": 200, b'"': 40}  # memory for each such byte, in bytes, at most
PICKLE_COSTS = {  # memory for the object that an instruction makes, without a text's own
    **dict.fromkeys(("EMPTY_LIST", "LIST"), 112),
    **dict.fromkeys(("EMPTY_DICT", "DICT"), 220),
    **dict.fromkeys(("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"), 100),
    **dict.fromkeys(("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "MARK"), 16),
}
VALUE = 90  # any other
FOREIGN = {  # first bytes, and their meaning with advice
    b"\x1f\x8b": "is packed by gzip; unpack it first",
    b"PK\x03\x04": "is a zip archive; unpack it first",
    b"\xff\xfe": "is UTF-16; save it as UTF-8",
    b"\xfe\xff": "is UTF-16; save it as UTF-8",
}
# Numbers, texts, lists, tuples and dicts, but no instruction that names a class or calls a function.
PLAIN = (
    "PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 "
    "FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE "
    "BINUNICODE8 EMPTY_LIST APPEND APPENDS LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT "
    "DICT SETITEM SETITEMS PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET"
)
PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})

OFTEN = 2**16  # lines or instructions between two reports of progress

Told = Callable[[str, float], None]  # called with a file's name, and the share of it that was read, from 0 to 1
_told: ContextVar[Told | None] = ContextVar("told", default=None)

Table = dict[str, object]
Lack = Literal["format", "direction", "trace"]


class BadFile(ValueError):  # noqa: N818 - shown to a user
    """A file that cannot be read; the message is one line with the file, its line and the reason.

    `reason`: the message without the file's name.  `lacks`: None for a damaged file; for an undamaged one that cannot
    be read as a trace, what must be named ("format" or "direction"), or "trace" if the file is no trace at all.
    """

    reason = ""
    lacks: Lack | None = None


def bad(name: str, line: int | None, reason: str, lacks: Lack | None = None) -> BadFile:
    """Returns a BadFile with the file's name, the line's number unless that is None, and the reason.  The message is
    one printable line, whatever characters the name and the reason contain."""
    why = _printable(f"line {line}: {reason}" if line is not None else reason)
    error = BadFile(f"{_printable(name)}: {why}")
    error.reason, error.lacks = why, lacks
    return error


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shown(cell: object) -> str:
    """Returns a value of a file as text for an error: a string cut to 40 characters, a container only by its type's
    name, because it may be of any size."""
    if isinstance(cell, str):
        return repr(cell if len(cell) <= 40 else cell[:37] + "...")
    return repr(cell) if isinstance(cell, float | bool | None) else f"a {type(cell).__name__}"


@contextmanager
def watched(told: Told) -> Iterator[None]:
    """A context in which `told` is called repeatedly with the name of the file being read and the share read so far,
    from 0 to 1; `told` must return quickly."""
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)


@contextmanager
def being_read(name: str) -> Iterator[None]:
    """A context in which the file `name` is read.  At its end the file is reported as wholly read, even after an error,
    so that its progress ends."""
    try:
        yield
    finally:
        tell(name, 1.0)


def tell(name: str, share: float) -> None:
    """Reports the share of the file that was read, from 0 to 1, to the function given to `watched`, if there is one."""
    told = _told.get()
    if told is not None:
        told(name, share)


def content(path: Path) -> bytes:
    """Returns all bytes of a file. Raises BadFile if it cannot be read, is empty or is larger than LARGEST."""
    name = str(path)
    try:
        if not path.is_file():  # a pipe or a device could block
            raise bad(name, None, "is not a file" if path.exists() else "there is no such file")
        with path.open("rb") as file:
            check_size(name, os.fstat(file.fileno()).st_size, LARGEST)
            data = file.read()
    except OSError as error:
        raise bad(name, None, f"cannot be read: {error.strerror}") from None
    check_size(name, len(data), LARGEST)
    if not data or data.isspace():
        raise bad(str(path), None, "is empty")
    return data


def check_size(name: str, nbytes: int, most: int, what: str = "") -> None:
    """Raises BadFile for a file that is larger than `most` bytes; `what` describes it in the error."""
    if nbytes > most:
        size = f"has {nbytes / 1e6:,.1f} MB"
        raise bad(name, None, f"{size}; at most {most / 1e6:g} MB{what} are read: cut it in parts")


def decoded(name: str, data: bytes) -> str:
    """Returns the bytes as UTF-8 text. Raises BadFile if they are no text, or so many that the text could take too much
    memory."""
    for start, reason in FOREIGN.items():
        if data.startswith(start):
            raise bad(name, None, reason)
    if not data.isascii():
        check_size(name, len(data), LETTERS, " of a text with other than ASCII letters")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise bad(name, line, "holds bytes that are not UTF-8; the file is binary or damaged") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise bad(name, line, "holds a NUL character; the file is binary or damaged")
    return text


def is_pickle(data: bytes) -> bool:
    """Returns true if the bytes begin like a pickle of protocol 2 to 5; older ones look like any text."""
    return len(data) > 2 and data[0] == 0x80 and 2 <= data[1] <= 5


def table(name: str, data: bytes) -> Table:
    """Returns {client: value} from JSON or a pickle, keys as texts. Raises BadFile unless it has at least one entry."""
    value = _unpickled(name, data) if is_pickle(data) else _parsed(name, data)
    if not isinstance(value, dict) or not value:
        raise bad(name, None, f"holds {shown(value)}; it must be a mapping of clients with at least one")
    return {str(key) if isinstance(key, str | int) else shown(key): entry for key, entry in value.items()}


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON as a dict.  Raises ValueError for a repeated key, whose value would depend on the
    reader."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands there twice")
    return made


def figure(name: str, value: object, what: str, largest: float = math.inf) -> float:
    """Returns a value of a table as a finite number that is at least 0 and at most `largest`. Raises BadFile for
    another value; `what` names it in the error."""
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not 0 <= number <= largest or number == math.inf:
        raise bad(name, None, f"the {what} is {shown(value)}; it must be a finite number, 0 or more, up to {largest:g}")
    return number


def _check_memory(name: str, data: bytes, values: int) -> None:
    """Raises BadFile if the content `data` of a file, and the objects made from it with up to `values` bytes, could
    take more memory than VALUES."""
    if values + 2 * len(data) > VALUES:
        reason = f"has {len(data) / 1e6:,.1f} MB, whose values could take more than {VALUES / 1e6:g} MB of memory"
        raise bad(name, None, f"{reason}, the most that is used: leave clients out, or cut it in parts")


def _parsed(name: str, data: bytes) -> object:
    _check_memory(name, data, sum(data.count(sign) * cost for sign, cost in JSON_COSTS.items()))
    text = decoded(name, data)
    try:
        return json.loads(text, object_pairs_hook=unique, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise bad(name, error.lineno, f"is not JSON: {error.msg}") from None
    except RecursionError:
        raise bad(name, None, "is JSON nested too deeply") from None
    except ValueError as error:
        raise bad(name, None, str(error)) from None


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError("holds a number with thousands of digits") from None


class Builtins(pickle.Unpickler):
    """An unpickler of builtin values only: it refuses to look up a name, even if the earlier check has missed it."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _unpickled(name: str, data: bytes) -> object:
    try:
        _check_plain(name, data)
        return Builtins(io.BytesIO(data)).load()
    except BadFile:
        raise
    except Exception as error:  # for a damaged pickle the standard library raises nearly any error
        raise bad(name, None, f"is a damaged pickle ({type(error).__name__})") from None


def _check_plain(name: str, data: bytes) -> None:
    """Raises BadFile for a pickle that does more than list plain values, or that would take much memory."""
    check_size(name, len(data), PICKLED, " of a pickle")
    plain, puts, values = set(PLAIN.split()), 0, 0
    for number, (code, argument, at) in enumerate(pickletools.genops(data)):
        if code.name not in plain:
            raise bad(name, None, f"is a pickle with {code.name} at byte {at}; only plain values are read")
        # The memo is an array as long as its largest index: 4 bytes could allocate gigabytes.
        if code.name in PUTS and not (isinstance(argument, int) and 0 <= argument <= puts):
            raise bad(name, None, f"is a damaged pickle: it memorises out of order at byte {at}")
        puts += code.name in PUTS or code.name == "MEMOIZE"
        values += PICKLE_COSTS.get(code.name, VALUE) + (2 * sys.getsizeof(argument) if isinstance(argument, str) else 0)
        if number % OFTEN == 0:
            tell(name, (at or 0) / len(data))
            _check_memory(name, data, values)
    _check_memory(name, data, values)

"""JSON and pickles of plain values, {client: {column: value}}, read without running anything."""

from __future__ import annotations

import io
import json
import pickle
import pickletools

from network.traces.source import BadTrace, Source, bad, shown

# Numbers, texts, lists, tuples and dicts, and nothing that could name a class or call a function.
PLAIN = (
    "PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "EMPTY_LIST APPEND APPENDS LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS "
    "PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET"
)
PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})

Table = dict[str, object]


class Builtins(pickle.Unpickler):
    """Admits builtin values only: whatever would look up a name is refused, whatever let it come so far."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def is_pickle(data: bytes) -> bool:
    """Whether the bytes begin as a pickle of protocol 2 to 5 does; older protocols cannot be told apart from text."""
    return len(data) > 2 and data[0] == 0x80 and 2 <= data[1] <= 5


def table(name: str, data: bytes) -> Table:
    """What JSON or a pickle says, keys as texts.  Raises BadTrace unless it is a dict with at least one entry."""
    value = _unpickled(name, data) if is_pickle(data) else _parsed(name, data)
    if not isinstance(value, dict) or not value:
        raise bad(name, None, f"holds {shown(value)}; it must be a mapping of clients with at least one")
    return {str(key) if isinstance(key, str | int) else shown(key): entry for key, entry in value.items()}


def _parsed(name: str, data: bytes) -> object:
    try:
        return json.loads(Source.of(name, data).text)
    except json.JSONDecodeError as error:
        raise bad(name, error.lineno, f"is not JSON: {error.msg}") from None
    except RecursionError:
        raise bad(name, None, "is JSON nested too deeply") from None
    except BadTrace:
        raise
    except ValueError:
        raise bad(name, None, "holds a number with thousands of digits") from None


def _unpickled(name: str, data: bytes) -> object:
    plain, puts = PLAIN.split(), 0
    try:
        for code, argument, at in pickletools.genops(data):
            if code.name not in plain:
                raise bad(name, None, f"is a pickle with {code.name} at byte {at}; only plain values are read")
            # The memo is an array as long as its largest index: 4 bytes could ask for gigabytes.
            if code.name in PUTS and not (isinstance(argument, int) and 0 <= argument <= puts):
                raise bad(name, None, f"is a damaged pickle: it memorises out of order at byte {at}")
            puts += code.name in PUTS or code.name == "MEMOIZE"
        return Builtins(io.BytesIO(data)).load()
    except BadTrace:
        raise
    except Exception as error:  # a damaged pickle makes the standard library raise nearly anything
        raise bad(name, None, f"is a damaged pickle ({type(error).__name__})") from None

"""When phones were online, from others' logs: FedScale's behaviour trace and FLASH's state logs."""

from __future__ import annotations

import io
import json
import math
import pickle
import pickletools
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from devices.presence import SHORTEST, Interval, Recorded

NEEDS = ("charging", "locked", "wifi")
LARGEST = 256_000_000  # bytes of a file
DAY = 86400.0
# The same in network/traces/table.py: both leaves read files of strangers, and neither may import the other.
PLAIN = (
    "PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "EMPTY_LIST APPEND APPENDS LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS "
    "PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET"
)
EVENTS = {  # what each says about (charging, locked, wifi, running); None: nothing
    "battery_charged_on": ("charging", True),
    "battery_charged_off": ("charging", False),
    "screen_lock": ("locked", True),
    "screen_unlock": ("locked", False),
    "wifi": ("wifi", True),
    **dict.fromkeys(("2g", "3g", "4g", "5g", "unknown"), ("wifi", False)),
    "phone_on": ("running", True),
    "phone_off": ("running", False),
    **dict.fromkeys(("screen_on", "screen_off", "battery_low", "battery_okay"), None),
}


class BadLog(ValueError):  # noqa: N818 - said to a user
    """A file that cannot be read as a log; the message is one line with the file, its line and the reason."""


@dataclass(frozen=True)
class Log:
    """When one phone may work: the intervals [begin, end) of a period, both in s; the log repeats for ever."""

    name: str
    on: tuple[Interval, ...]
    period: float

    def presence(self, offset: float = 0.0) -> Recorded:
        """The availability of a device that follows this log from `offset` seconds on."""
        return Recorded(self.on, self.period, offset)


def read(path: str | Path, needs: Collection[str] = NEEDS) -> tuple[Log, ...]:
    """The phones of a file of either format, which its first entry shows; `needs` applies to FLASH's alone.

    Raises BadLog.
    """
    name = str(path)
    table = _table(name)
    first = next(iter(table.values()))
    if isinstance(first, dict) and "messages" in first:
        return tuple(_states(name, phone, entry, needs) for phone, entry in table.items())
    if not (isinstance(first, dict) and "active" in first):
        raise _bad(name, "is neither FedScale's behaviour trace, with `active`, nor FLASH's states, with `messages`")
    return tuple(_behaviour(name, client, entry) for client, entry in table.items())


def _behaviour(name: str, client: str, entry: object) -> Log:
    """FedScale's client_behave_trace, of one client: {active: [s], inactive: [s], finish_time: s, ...}.

    It is online from active[i] to inactive[i], at t modulo finish_time.
    """
    who = f"client {_shown(client)}"
    if not isinstance(entry, dict) or not {"active", "inactive", "finish_time"} <= entry.keys():
        raise _bad(name, f"{who} is not a mapping with active, inactive and finish_time")
    active, inactive = entry["active"], entry["inactive"]
    if not isinstance(active, list) or not isinstance(inactive, list) or len(active) != len(inactive):
        raise _bad(name, f"{who} needs two lists of equal length, active and inactive")
    period = _figure(name, entry["finish_time"], f"finish_time of {who}")
    last, on = 0.0, []
    for cells in zip(active, inactive, strict=True):
        begin, end = (_figure(name, cell, f"a time of {who}") for cell in cells)
        if not last <= begin <= end <= period:
            raise _bad(name, f"{who} is active from {begin} to {end} s, after {last} and in a period of {period}")
        on.append((begin, end))
        last = end
    if not period > 0:
        raise _bad(name, f"the finish_time of {who} is {period}; it must be above 0")
    return Log(client, _lasting(on), period)


def _states(name: str, phone: str, entry: object, needs: Collection[str]) -> Log:
    """FLASH's state_traces, of one phone: {messages: lines of `Y-m-d H:M:S<tab>event`, ...}.

    It is eligible while all that `needs` names is known of it, by default that it is locked, charging and on Wi-Fi (and
    that it is not off in any case); before the first and after the last event nothing is known.  Seconds count from
    midnight of the log's first day, and the period is whole days, so that the hour of the day stays what it was.
    """
    messages = entry.get("messages") if isinstance(entry, dict) else None
    if not isinstance(messages, str):
        raise _bad(name, f"phone {_shown(phone)} is not a mapping with a text of messages")
    known = {"charging": False, "locked": False, "wifi": False, "running": True}
    on: list[Interval] = []
    midnight, since, before = None, None, -math.inf
    for number, row in enumerate(messages.split("\n"), 1):
        if not row.strip():
            continue
        when, event = _event(name, f"phone {_shown(phone)}, message {number}", row)
        midnight = midnight or when.replace(hour=0, minute=0, second=0)
        now = (when - midnight).total_seconds()
        if now < before:
            raise _bad(name, f"phone {_shown(phone)}, message {number}: {when} is before the one above")
        if event in EVENTS and (change := EVENTS[event]):
            known[change[0]] = change[1]
        before = now
        eligible = known["running"] and all(known[need] for need in needs)
        if eligible and since is None:
            since = now
        elif not eligible and since is not None:
            on.append((since, now))
            since = None
    if midnight is None:
        raise _bad(name, f"phone {_shown(phone)} has no messages")
    if since is not None:
        on.append((since, before))
    return Log(phone, _lasting(on), max(1.0, math.ceil(before / DAY)) * DAY)


def _lasting(on: list[Interval]) -> tuple[Interval, ...]:
    """Without those that last no time, as FLASH's events of one second and FedScale's whole seconds can have them."""
    return tuple((begin, end) for begin, end in on if end - begin >= SHORTEST)


def _event(name: str, where: str, row: str) -> tuple[datetime, str]:
    stamp, _, event = row.strip().partition("\t")
    event = event.strip().lower()
    try:
        when = datetime.strptime(stamp.strip(), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        raise _bad(name, f"{where}: {_shown(row)} does not begin with Y-m-d H:M:S and a tab") from None
    if event not in EVENTS and not (event.endswith("%") and event[:-1].replace(".", "", 1).isdigit()):
        raise _bad(name, f"{where}: there is no event {_shown(event)}; known are {', '.join(EVENTS)} and NN%")
    return when, event


def _table(name: str) -> dict[str, object]:
    """A mapping from JSON or a pickle of builtins.  Raises BadLog."""
    data = _content(name)
    value = _unpickled(name, data) if data[:1] == b"\x80" else _parsed(name, data)
    if not isinstance(value, dict) or not value:
        raise _bad(name, f"holds {_shown(value)}; it must be a mapping of clients with at least one")
    return {str(key) if isinstance(key, str | int) else _shown(key): entry for key, entry in value.items()}


def _content(name: str) -> bytes:
    path = Path(name)
    try:
        if not path.is_file():  # a pipe or a device could keep us waiting
            raise _bad(name, "is not a file" if path.exists() else "there is no such file")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise _bad(name, f"cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise _bad(name, f"is larger than {LARGEST // 1_000_000} MB, the most that is read")
    if not data.strip():
        raise _bad(name, "is empty")
    return data


def _parsed(name: str, data: bytes) -> object:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _bad(name, "holds bytes that are not UTF-8; the file is binary or damaged") from None
    except json.JSONDecodeError as error:
        raise _bad(name, f"line {error.lineno}: is not JSON: {error.msg}") from None
    except (RecursionError, ValueError):
        raise _bad(name, "is JSON nested too deeply, or with a number of thousands of digits") from None


class Builtins(pickle.Unpickler):
    """Admits builtin values only: whatever would look up a name is refused, whatever let it come so far."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _unpickled(name: str, data: bytes) -> object:
    plain, puts = PLAIN.split(), 0
    try:
        for code, argument, at in pickletools.genops(data):
            if code.name not in plain:
                raise _bad(name, f"is a pickle with {code.name} at byte {at}; only plain values are read")
            # The memo is an array as long as its largest index: 4 bytes could ask for gigabytes.
            is_put = code.name in ("PUT", "BINPUT", "LONG_BINPUT")
            if is_put and not (isinstance(argument, int) and 0 <= argument <= puts):
                raise _bad(name, f"is a damaged pickle: it memorises out of order at byte {at}")
            puts += is_put or code.name == "MEMOIZE"
        return Builtins(io.BytesIO(data)).load()
    except BadLog:
        raise
    except Exception as error:  # a damaged pickle makes the standard library raise nearly anything
        raise _bad(name, f"is a damaged pickle ({type(error).__name__})") from None


def _figure(name: str, value: object, what: str) -> float:
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not 0 <= number <= 1e10:
        raise _bad(name, f"the {what} is {_shown(value)}; it must be a number of seconds from 0 to 1e10")
    return number


def _shown(cell: object) -> str:
    if isinstance(cell, str):
        return repr(cell if len(cell) <= 40 else cell[:37] + "...")
    return repr(cell) if isinstance(cell, float | bool | None) else f"a {type(cell).__name__}"


def _bad(name: str, reason: str) -> BadLog:
    return BadLog("".join(c if c.isprintable() else repr(c)[1:-1] for c in f"{name}: {reason}"))

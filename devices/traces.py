"""Logs of phones' presence: FedScale's behaviour trace and FLASH's state logs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from devices.presence import SHORTEST, Interval, RecordedPresence
from network.foreign_files import Table, bad, being_read, content, figure, shown, table, tell

NEEDS = ("charging", "locked", "wifi")
LONGEST = 1e10  # s
DAY = 86400.0
EVENTS = {  # the state that each event changes (charging, locked, wifi, running); None: no change
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


@dataclass(frozen=True)
class Log:
    """The times at which one phone may take part in training: the intervals [begin, end), in s, of a log of `period`
    seconds that repeats forever."""

    name: str
    on: tuple[Interval, ...]
    period: float

    def presence(self, offset: float = 0.0) -> RecordedPresence:
        """Returns the availability of a device that follows this log from `offset` seconds on."""
        return RecordedPresence(self.on, self.period, offset)


def read(path: str | Path, needs: Collection[str] = NEEDS) -> tuple[Log, ...]:
    """Returns the log of each phone in a file of FedScale's or FLASH's format; the file's first entry shows which.

    `needs`: what must hold for a phone of FLASH to take part; FedScale's file has no such states.  Raises BadFile.
    """
    name = str(path)
    with being_read(name):
        logs = table(name, content(Path(name)))
        first = next(iter(logs.values()))
        if isinstance(first, dict) and "messages" in first:
            return tuple(_states(name, phone, entry, needs) for phone, entry in _emptied(name, logs))
        if not (isinstance(first, dict) and "active" in first):
            formats = "FedScale's behaviour trace, with `active`, nor FLASH's states, with `messages`"
            raise bad(name, None, f"is neither {formats}")
        return tuple(_behaviour(name, client, entry) for client, entry in _emptied(name, logs))


def _emptied(name: str, logs: Table) -> Iterator[tuple[str, object]]:
    """Yields the entries of a table, and removes each from it before, because a large file's entries and the logs made
    of them would together take much memory."""
    for done, key in enumerate(list(logs)):
        tell(name, done / (done + len(logs)))
        yield key, logs.pop(key)


def _behaviour(name: str, client: str, entry: object) -> Log:
    """Returns the log of one client of FedScale's client_behave_trace: {active: [s], inactive: [s], finish_time: s,
    ...}.

    The client is online from active[i] to inactive[i], at t modulo finish_time.
    """
    who = f"client {shown(client)}"
    if not isinstance(entry, dict) or not {"active", "inactive", "finish_time"} <= entry.keys():
        raise bad(name, None, f"{who} is not a mapping with active, inactive and finish_time")
    active, inactive = entry["active"], entry["inactive"]
    if not isinstance(active, list) or not isinstance(inactive, list) or len(active) != len(inactive):
        raise bad(name, None, f"{who} needs two lists of equal length, active and inactive")
    period = figure(name, entry["finish_time"], f"finish_time of {who}", LONGEST)
    last, on = 0.0, []
    for cells in zip(active, inactive, strict=True):
        begin, end = (figure(name, cell, f"time of {who}", LONGEST) for cell in cells)
        if not last <= begin <= end <= period:
            raise bad(name, None, f"{who} is active from {begin} to {end} s, after {last} and in a period of {period}")
        on.append((begin, end))
        last = end
    if not period > 0:
        raise bad(name, None, f"the finish_time of {who} is {period}; it must be above 0")
    return Log(client, _lasting(on), period)


def _states(name: str, phone: str, entry: object, needs: Collection[str]) -> Log:
    """Returns the log of one phone of FLASH's state_traces: {messages: lines of `Y-m-d H:M:S<tab>event`, ...}.

    The phone may take part while it is switched on and everything in `needs` is known to hold, by default locked,
    charging and on Wi-Fi; nothing is known before the first and after the last event.  Seconds count from midnight of
    the log's first day, and the period is whole days, so that the hour of the day is preserved.
    """
    messages = entry.get("messages") if isinstance(entry, dict) else None
    if not isinstance(messages, str):
        raise bad(name, None, f"phone {shown(phone)} is not a mapping with a text of messages")
    known = {"charging": False, "locked": False, "wifi": False, "running": True}
    on: list[Interval] = []
    midnight, since, before = None, None, -math.inf
    for number, row in enumerate(messages.split("\n"), 1):
        if not row.strip():
            continue
        when, event = _event(name, f"phone {shown(phone)}, message {number}", row)
        midnight = midnight or when.replace(hour=0, minute=0, second=0)
        now = (when - midnight).total_seconds()
        if now < before:
            raise bad(name, None, f"phone {shown(phone)}, message {number}: {when} is before the one above")
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
        raise bad(name, None, f"phone {shown(phone)} has no messages")
    if since is not None:
        on.append((since, before))
    return Log(phone, _lasting(on), max(1.0, math.ceil(before / DAY)) * DAY)


def _lasting(on: list[Interval]) -> tuple[Interval, ...]:
    """Returns the intervals that last at least SHORTEST.  FLASH's events of the same second and FedScale's whole
    seconds can leave empty intervals."""
    return tuple((begin, end) for begin, end in on if end - begin >= SHORTEST)


def _event(name: str, where: str, row: str) -> tuple[datetime, str]:
    stamp, _, event = row.strip().partition("\t")
    event = event.strip().lower()
    try:
        when = datetime.strptime(stamp.strip(), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        raise bad(name, None, f"{where}: {shown(row)} does not begin with Y-m-d H:M:S and a tab") from None
    if event not in EVENTS and not (event.endswith("%") and event[:-1].replace(".", "", 1).isdigit()):
        raise bad(name, None, f"{where}: there is no event {shown(event)}; known are {', '.join(EVENTS)} and NN%")
    return when, event

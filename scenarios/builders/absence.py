"""Makes the presence of a scenario's devices, the times at which they are online: from stated absences, logs of phones,
and random sessions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from devices import generated_presence
from devices.generated_presence import DiurnalSessions, RenewalSessions, Sessions, night
from devices.presence import Availability, RecordedPresence, StatedPresence, together
from devices.traces import DAY, Log, read
from network.foreign_files import BadFile
from scenarios.builders.own_code import kept_for_a_call
from scenarios.builders.random_values import generator
from scenarios.builders.recordings import place, told
from scenarios.schema import hardware
from scenarios.text.faults import BadScenario

HOURS = 24.0
LONGEST = generated_presence.MOST / 2  # expected changes of one device, at most; draws vary around the mean
MOST = 20_000_000  # changes of presence that are drawn for a whole fleet before the first round: a minute of real time


def presence(name: str, said: hardware.Presence, seed: int) -> Availability:
    """Returns the presence (the times online) of one device, which is online while all rules of its group allow it.

    What is drawn is the same for all seeds: the phone whose log is followed and the place in it, the sessions, the hour
    of the day.  Raises BadScenario for a log that cannot be read, or if too many sessions would have to be drawn.
    """
    if said == hardware.Presence(off=said.off):
        return _off(said.off)
    rng = generator(seed, f"presence of {name}")
    hour = float(rng.uniform(0, HOURS)) if said.hour is None else said.hour
    parts: list[Availability] = [_off(said.off), *_sessions(said, name, seed, hour)]
    if said.diurnal and said.diurnal.hours:
        parts.append(_daily(*said.diurnal.hours, hour))
    if said.trace:
        with told("fleet"):
            path = place(said.trace)
        log = (logs := _logs(path, said.needs, Path.cwd()))[int(rng.integers(len(logs)))]
        begins = rng.uniform(0, log.period)
        parts.append(log.presence(begins if said.hour is None else begins // DAY * DAY + hour * 3600))
        if reason := too_many(said, log.period, 1):
            raise BadScenario(f"fleet: {said.trace} repeats after {log.period:g} s; {reason}")
    return together(parts)


def too_many(said: hardware.Presence, seconds: float, devices: int) -> str | None:
    """Returns the reason why drawing the presence of so many devices up to the time `seconds` would take too long; None
    if it would not."""
    each = seconds * _pace(said)
    if each <= LONGEST and each * devices <= MOST:
        return None
    most = min(LONGEST, MOST / devices)
    return (
        f"until then each device comes and goes {each:.2g} times; it must be {most:.2g} at most: give longer sessions"
    )


@lru_cache(maxsize=16)
def _pace(said: hardware.Presence) -> float:
    """Returns how often the drawn presence of a device changes on average, per second."""
    return sum(one.pace for one in _sessions(said, "", 0, 0.0))


def _sessions(said: hardware.Presence, name: str, seed: int, hour: float) -> Iterator[Sessions]:
    """Yields the drawn online sessions of one device, a series for each rule.  Each series has a seed of its own, so
    that the rules are independent."""

    def own(kind: str) -> int:
        return int.from_bytes(blake2b(f"{seed} {kind} of {name}".encode(), digest_size=8).digest())

    if drawn := said.renewal:
        yield RenewalSessions(own("renewal"), drawn.mean_on_s, drawn.mean_off_s, drawn.cv_on, drawn.cv_off)
    if said.night:
        yield night(own("night"), hour)
    if said.diurnal and said.diurnal.arrive and said.diurnal.leave:
        yield DiurnalSessions(own("diurnal"), said.diurnal.arrive, said.diurnal.leave, hour)


def _daily(start: float, end: float, hour: float) -> RecordedPresence:
    """Returns a presence that is online from the hour `start` to the hour `end` of each day, also across midnight; the
    run begins at `hour`."""
    spans = [(start, end)] if start < end else [(0.0, end), (start, HOURS)]
    return RecordedPresence(tuple((a * 3600, b * 3600) for a, b in spans if a < b), DAY, hour * 3600)


@lru_cache(maxsize=16)
def _off(off: tuple[tuple[float, float], ...]) -> StatedPresence:
    """Returns a presence that is offline in these spans of seconds: one object for all devices of a group, because
    there may be thousands."""
    return StatedPresence(off)


@kept_for_a_call(maxsize=16)
def _logs(path: Path, needs: tuple[str, ...], here: Path) -> tuple[Log, ...]:  # noqa: ARG001  from where it is seen
    try:
        return read(path, needs)
    except BadFile as error:
        raise BadScenario(f"fleet: {error}") from None

"""When the devices of a scenario are on line: absences that are said, logs of others' phones, and what is drawn."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from numpy.random import default_rng

from devices.presence import Availability, Presence, together
from devices.sessions import Diurnal, Renewal, night
from devices.traces import DAY, BadLog, Log, read
from scenarios import hardware
from scenarios.faults import BadScenario
from scenarios.recordings import place

HOURS = 24.0


def presence(name: str, said: hardware.Presence, seed: int) -> Availability:
    """When one device is on line: while all that is said of its group allows it.

    What it draws it draws for all seeds: a user of the log and the place in it, its sessions, its hour of the day.
    Raises BadScenario for a log that cannot be read.
    """
    if said == hardware.Presence(off=said.off):
        return _off(said.off)
    rng = default_rng([seed, *f"presence of {name}".encode()])
    own, hour = int(rng.integers(2**62)), float(rng.uniform(0, HOURS)) if said.hour is None else said.hour
    parts: list[Availability] = [_off(said.off)]
    if said.trace:
        log = (logs := _logs(place(said.trace), said.needs, Path.cwd()))[int(rng.integers(len(logs)))]
        begins = rng.uniform(0, log.period)
        parts.append(log.presence(begins if said.hour is None else begins // DAY * DAY + hour * 3600))
    if said.renewal:
        drawn = said.renewal
        parts.append(Renewal(own, drawn.mean_on_s, drawn.mean_off_s, drawn.cv_on, drawn.cv_off))
    if said.night:
        parts.append(night(own, hour))
    if said.diurnal:
        parts.append(Diurnal(own, said.diurnal.arrive, said.diurnal.leave, hour))
    return together(parts)


@lru_cache(maxsize=16)
def _off(off: tuple[tuple[float, float], ...]) -> Presence:
    """One for all devices of a group: its stretches may be thousands."""
    return Presence(off)


@lru_cache(maxsize=16)
def _logs(path: Path, needs: tuple[str, ...], here: Path) -> tuple[Log, ...]:  # noqa: ARG001  from where it is seen
    try:
        return read(path, needs)
    except BadLog as error:
        raise BadScenario(f"fleet: {error}") from None

"""What must be known before seconds and joules of runs are believed: assumptions about links, short recordings, and
devices whose power draw is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from emulator.results.units import counted

LOOPED = 10  # times that a recording may start over before a warning is due
GROUPS = 5  # without watts, that are named

Caveats = Mapping[str, Any]  # {assumed: [sentence, ...], loops: n, trace: its name}
TraceRepeats = tuple[int, str]  # how often the most repeated recording has started over, and its name


def caveats(assumed: Sequence[str], runs: Iterable[TraceRepeats]) -> Caveats:
    """As summary.json has it."""
    times, name = max(runs, default=(0, ""))
    return {"assumed": list(assumed), "loops": times, "trace": name}


def warnings(said: Caveats) -> list[str]:
    """What was assumed, and a recording that is too short for the runs."""
    return [*said.get("assumed", ()), *([repeated(said)] if said.get("loops", 0) > LOOPED else [])]


def remarks(said: Caveats) -> list[str]:
    """A recording that was repeated, and not too often."""
    return [f"{repeated(said)}."] if 0 < said.get("loops", 0) <= LOOPED else []


def repeated(said: Caveats) -> str:
    times = said["loops"]
    advice = "; use a longer one" if times > LOOPED else ""
    return f"the trace {said['trace']} starts over {counted(times, 'time')} within the longest run{advice}"


def unmetered(groups: Iterable[str]) -> list[str]:
    """A line on these groups of devices, whose power draw is not known."""
    names = sorted(set(groups))
    more = [f"{len(names) - GROUPS} more"] if len(names) > GROUPS else []
    named = ", ".join([*names[:GROUPS], *more])
    said = (
        f"the energy of the fleet is not known, because no power draw is known for {named}; add power_idle_w, "
        "power_compute_w and power_radio_w to their profiles (without _w in a CSV file)"
    )
    return [said] if names else []

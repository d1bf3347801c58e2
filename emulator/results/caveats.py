"""Warnings about seconds and joules: assumptions about links, recordings that are too short, and devices whose power
draw is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from emulator.results.units import counted

LOOPED = 10  # times that a recording may repeat before a warning is due
GROUPS = 5  # groups without a known power draw that a warning names

Caveats = Mapping[str, Any]  # {assumed: [sentence, ...], loops: n, trace: its name}
TraceRepeats = tuple[int, str]  # repetitions of the most repeated recording, and its name


def caveats(assumed: Sequence[str], runs: Iterable[TraceRepeats]) -> Caveats:
    """Returns the caveats of all runs as summary.json holds them: the assumptions, and the most repeated recording with
    its number of repetitions."""
    times, name = max(runs, default=(0, ""))
    return {"assumed": list(assumed), "loops": times, "trace": name}


def warnings(said: Caveats) -> list[str]:
    """Returns warnings in words: each assumption, and a sentence if a recording is so short that runs repeat it too
    often."""
    return [*said.get("assumed", ()), *([repeated(said)] if said.get("loops", 0) > LOOPED else [])]


def remarks(said: Caveats) -> list[str]:
    """Returns a sentence if a recording was repeated, but not often enough for a warning; [] otherwise."""
    return [f"{repeated(said)}."] if 0 < said.get("loops", 0) <= LOOPED else []


def repeated(said: Caveats) -> str:
    times = said["loops"]
    advice = "; use a longer one" if times > LOOPED else ""
    return f"the trace {said['trace']} repeats {counted(times, 'time')} within the longest run{advice}"


def unmetered(groups: Iterable[str]) -> list[str]:
    """Returns a sentence that names these groups of devices, whose power draw is not known, so that the energy of the
    fleet is not; [] without groups."""
    names = sorted(set(groups))
    more = [f"{len(names) - GROUPS} more"] if len(names) > GROUPS else []
    named = ", ".join([*names[:GROUPS], *more])
    said = (
        f"the energy of the fleet is unknown, because the power draw of {named} is unknown; add power_idle_w, "
        "power_compute_w and power_radio_w to their profiles (without _w in a CSV file)"
    )
    return [said] if names else []

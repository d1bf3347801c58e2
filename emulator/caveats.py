"""What must be known about the links of runs before their seconds are believed: assumptions, and short recordings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LOOPED = 10  # times that a recording may start over before a warning is due

Caveats = Mapping[str, Any]  # {assumed: [sentence, ...], loops: n, trace: its name}


def caveats(assumed: Sequence[str], runs: Iterable[tuple[float, float, str]]) -> Caveats:
    """As summary.json has it; of each run its length, and of its shortest recording the length and the name, s."""
    times, name = max(((loops(length, period), name) for length, period, name in runs), default=(0, ""))
    return {"assumed": list(assumed), "loops": times, "trace": name if times else ""}


def loops(length: float, period: float) -> int:
    """How often a recording starts over in so many seconds; from its first second on, which no device begins at."""
    return int(length // period) if period < math.inf else 0


def warnings(said: Caveats) -> list[str]:
    """What was assumed, and a recording that is too short for the runs."""
    return [*said.get("assumed", ()), *([repeated(said)] if said.get("loops", 0) > LOOPED else [])]


def remarks(said: Caveats) -> list[str]:
    """A recording that was repeated, and not too often."""
    return [f"{repeated(said)}."] if 0 < said.get("loops", 0) <= LOOPED else []


def repeated(said: Caveats) -> str:
    times = said["loops"]
    short = "; it is too short for runs like these" if times > LOOPED else ""
    return f"the recording {said['trace']} starts over {times} time{'s' * (times > 1)} within the longest run{short}"

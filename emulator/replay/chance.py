"""Finds how much of an algorithm's time is chance: where flows fill a link, who loses segments is drawn.  Runs are
replayed with other draws; nothing is trained."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import Any

from emulator.lab.links import DRAWS, FEW, band
from emulator.replay.batch import MANY, Batch, Order, Source
from emulator.replay.conditions import Condition
from emulator.replay.findings import finding
from emulator.replay.holding import MOST
from emulator.results.comparison import observed, rankings
from emulator.results.results import Results, targets


def chance(found: Results, workers: int | None) -> dict[str, Any] | None:
    """Returns the band of each algorithm's mean time to the target of the verdict over DRAWS draws, as summary.json
    has it; None if nothing is drawn, as no link is full, or if the times of other draws are not known.

    An algorithm has no band if a run misses the target within the horizon in any draw: its times are bounds.
    `workers`: the number of processes, if the replays take long enough; None: one on each core.
    """
    ranked = next(iter(rankings(observed(found.runs), targets(found.scenario))), None)
    if ranked is None or found.scenario.network_model != "windows":
        return None
    batch = Batch(Source(found.folder, targets=(ranked.target,), until=ranked.target))
    count = len(batch.scripts)
    asked = sum(len(written.asked) for script in batch.scripts for written in script.rounds) * (DRAWS - 1)
    if asked > MOST:
        return None
    conditions = [Condition(f"draw {draw}", draw=draw) for draw in range(DRAWS)]
    orders = [Order(run, each) for each in conditions for run in range(count)]
    seconds, cut = dict[str, set[float]](), set[str]()
    with closing(batch.all(orders, workers if asked > MANY else 1)) as replays:
        for each in conditions:
            times = finding(each.name, (), list(islice(replays, count))).times[ranked.target.name]
            if not all(of.known for of in times.values()):
                return None
            for label, of in times.items():
                seconds.setdefault(label, set()).add(of.mean)
                cut |= set() if of.whole else {label}
            if each.draw == FEW and all(len(means) == 1 for means in seconds.values()):
                return None  # no link is full
    bands = {label: list(band(means)) for label, means in seconds.items() if label not in cut}
    return {"target": ranked.target.name, "draws": DRAWS, "seconds": bands} if bands else None

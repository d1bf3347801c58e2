"""Finds up to which error of the computing seconds the order of a verdict holds: its runs are replayed with all seconds
of computing multiplied by a factor, those of all profiles at once and then those of each profile alone.

Only algorithms that the verdict shows to take longer than the best one are compared with it, by the means over seeds.
Nothing is trained.  A replay takes the models from the record, so it ends where a decision differs from the record (a
deadline, a device that is offline by then); from there on the order is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from math import inf
from typing import Any

from emulator.replay.batch import MANY, Batch, Order, Source
from emulator.replay.conditions import Condition
from emulator.replay.findings import Finding, finding
from emulator.results.comparison import Ranking, observed, place, rankings
from emulator.results.results import Results, targets
from scenarios.builders.machines import base_name
from scenarios.builders.roster import sample

STEPS = (1.25, 1.5, 2.0, 4.0)  # factors, each tried slower and then faster
MOST = 200_000  # device-rounds of all replays: three minutes of one core where links are full


@dataclass(frozen=True)
class Held:
    """The factor up to which the order holds if these profiles are off by it, slower or faster; and what ends it."""

    up_to: float  # 1: not even up to the first step
    times: float | None = None  # the first factor at which the order is another, or not known; None: none was found
    first: str | None = None  # the algorithm that is then faster than the best one
    unknown: str | None = None  # why the order is then not known


def holding(found: Results, workers: int | None, drawn: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Returns how far the order of the verdict on results in virtual time holds, as summary.json has it; None if the
    verdict orders nothing.

    `workers`: the number of processes, if the replays take long enough; None: one on each core.  `drawn`: `chance` of
    the summary; algorithms whose band overlaps that of the best one are `within` chance, and their order is not
    replayed.
    """
    ranked = next(iter(rankings(observed(found.runs), targets(found.scenario))), None)
    if ranked is None or not ranked.behind:
        return None
    best, bands = ranked.best.label, drawn["seconds"] if drawn else {}
    within = [each.label for each in ranked.behind if {best, each.label} <= {*bands}]
    within = [label for label in within if bands[label][0] <= bands[best][1]]
    behind = [each.label for each in ranked.behind if each.label not in within]
    said = {"best": best, "behind": behind, "tried": list(STEPS), **({"within": within} if within else {})}
    if not behind:
        return said
    labels = (best, *behind) if ranked.best.tau == inf else ()  # all shorten a finite horizon
    batch = Batch(Source(found.folder, only=labels, targets=(ranked.target,), until=ranked.target))
    alone = profiles(batch)
    scans = [alone, *([name] for name in alone if len(alone) > 1)]
    rounds = sum(len(written.asked) for script in batch.scripts for written in script.rounds)
    if (many := rounds * 2 * len(STEPS) * len(scans)) > MOST:
        return {**said, "unknown": f"{many:,} device-rounds would have to be replayed, more than {MOST:,}"}
    at_once = workers if many > MANY * len(scans) else 1
    try:
        all_, *each = [asdict(_held(batch, names, ranked, behind, at_once)) for names in scans]
    except ChildProcessError as killed:
        return {**said, "unknown": str(killed)}
    return {**said, "all": all_, "alone": dict(zip(alone, each, strict=False))}


def profiles(batch: Batch) -> list[str]:
    """Returns the hardware profiles of the fleet and the server, by name."""
    own = batch.base
    return sorted({base_name(own.fleet[name].profile) for name in sample(own.fleet)} | {base_name(own.server.profile)})


def _held(batch: Batch, names: Sequence[str], ranked: Ranking, behind: Sequence[str], workers: int | None) -> Held:
    """Returns up to which factor the order holds with these profiles; the steps are tried from the smallest on."""
    tried = [(step, times) for step in STEPS for times in (step, 1 / step)]
    conditions = [Condition(f"x{times:g}", slower=dict.fromkeys(names, times)) for _, times in tried]
    count, up_to = len(batch.scripts), 1.0
    results = batch.all([Order(run, each) for each in conditions for run in range(count)], workers)
    with closing(results):
        for (step, times), condition in zip(tried, conditions, strict=True):
            made = finding(condition.name, (), list(islice(results, count)))
            if why := _unknown(made, ranked):
                return Held(up_to, times, unknown=why)
            if first := _faster(made, ranked, behind):
                return Held(up_to, times, first)
            up_to = step if times < 1 else up_to
    return Held(up_to)


def _unknown(made: Finding, ranked: Ranking) -> str | None:
    """Returns why the order is not known in this setting; None if it is known."""
    if all(times.known for times in made.times[ranked.target.name].values()):
        return None
    return "; ".join(map(str, [*made.partings, *made.failures][:1]))


def _faster(made: Finding, ranked: Ranking, behind: Sequence[str]) -> str | None:
    """Returns the first of the algorithms behind the best one that is faster than it in this setting; None if none
    is."""
    places: Mapping[str, tuple[float, float, float]] = {
        label: place(times.values(ranked.target.name, label)) for label, times in made.times[ranked.target.name].items()
    }
    ahead = [label for label in behind if places[label] < places[ranked.best.label]]
    return min(ahead, key=places.__getitem__, default=None)

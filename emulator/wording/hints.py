"""Hints on what to do next with results: sentences with commands that can be copied.  OUT stands for the folder of the
results.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log

from emulator.record.targets import Target
from emulator.results.comparison import Ranking, Seen
from emulator.results.pace import rounds_at_pace
from emulator.results.resampling import EXACT
from emulator.results.times import Values
from emulator.wording.reasons import length
from scenarios.schema.scenario import Scenario


@dataclass(frozen=True)
class Plan:
    """Facts about a scenario on which hints depend."""

    replayed_exactly: bool = True  # replays on other links are exact, because no decision depends on time
    tuned: bool = True  # the scenario says how some settings were chosen

    @classmethod
    def of(cls, scenario: Scenario) -> Plan:
        return cls(not scenario.time_decides, bool(scenario.tuned))


USUAL = Plan()


def hints(ranked: Ranking, seen: Seen, plan: Plan) -> Iterator[str]:
    """Yields hints after a ranking to a target that at least one run reached.

    `seen`: the runs, by label and seed.  `plan`: facts about the scenario.
    """
    if ranked.others and ranked.seeds < ranked.needed:
        seeds = ",".join(map(str, range(1, EXACT + 1)))
        yield _again("More seeds tell differences from chance", f"'seeds=[{seeds}]'", " trains only the new ones")
    if any(each.later for each in ranked.found):
        yield _again("With more rounds, times can be compared for longer", f"rounds.max={_more(ranked.found, seen)}")
    if ranked.others and not plan.tuned:
        yield "These settings are not known to be tuned, which can change the order: see `fedlapse tune --help`."
    there = [each.mine for each in ranked.others if each.mine.reached]
    if there and plan.replayed_exactly:  # links change the result most if the numbers of rounds differ most
        best = ranked.best
        other = max(there, key=lambda each: abs(log(length(each, seen) / length(best, seen))))
        yield f"See which of these two is faster on other links: `fedlapse map OUT -a {best.label} -a {other.label}`."


def of_nobody(seen: Seen, target: Target) -> Iterator[str]:
    """Yields a hint to play more rounds after a target that no run reached, if at the present pace more rounds would
    reach it; else nothing."""
    known = [rounds_at_pace([run.rows for run in of.values()], target) for of in seen.values()]
    if needed := [rounds for rounds in known if rounds]:
        yield _again("More rounds", f"rounds.max={max(needed)}")


def _again(why: str, change: str, what: str = "") -> str:
    return f"{why}: `fedlapse compare OUT/scenario.yaml {change}`{what}."


def _more(found: Sequence[Values], seen: Seen) -> int:
    """Returns the approximate number of rounds that each run must have, so that the horizon, up to which times count,
    includes the latest time at which any run reached the target."""
    times = (each.time for of in found for each in of.times.values() if each.time is not None)
    rounds = max(len(run.stamps) for of in seen.values() for run in of.values())
    return ceil(rounds * max(times) / found[0].tau)

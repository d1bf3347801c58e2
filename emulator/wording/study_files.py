"""A study's tables as CSV: every number of its page and figures.  Pure.

Seconds, bytes, joules and ratios are written in full.  A cell is empty if its value is unknown or does not exist: the
time to a target that was not reached, or a horizon if all runs reached the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isinf

from emulator.analysis.answer import Answer
from emulator.analysis.cells import Cell
from emulator.results.comparison import Comparison
from emulator.results.resampling import Interval
from emulator.results.restricted import Contrast
from emulator.results.times import Values
from emulator.results.why import Pace, Why
from emulator.tuning.results import Best, bests
from emulator.tuning.search import ROUNDS
from emulator.tuning.space import words
from emulator.wording.markup import Value, csv_text

Row = tuple[Value, ...]
UNKNOWN: Row = (None, None, None)


@dataclass(frozen=True)
class File:
    """A CSV table, whose numbers are not rounded."""

    name: str
    headings: Sequence[str]
    rows: Sequence[Row]

    @property
    def csv(self) -> str:
        """The text of the CSV file."""
        return csv_text(self.headings, self.rows)


def tables(answer: Answer) -> dict[str, File]:
    """Returns the tables of a study by file name; tables without rows are left out."""
    made = (
        File("tuning.csv", TUNING, list(_tuning(answer))),
        times(answer.values),
        compared(answer.comparisons),
        File("reasons.csv", REASONS, [_reason(answer, each) for each in answer.whys]),
        File("rounds.csv", PACE, [row for each in answer.paces for row in _pace(each)]),
        File("leverage.csv", LEVERAGE, answer.leverages),
        _places("map.csv", answer.cells),
        _place_times("map-times.csv", answer.cells),
        *(_places(f"map-{one}-{other}.csv", each) for (one, other), each in answer.duels.items()),
        _borders(answer),
        _places("traces.csv", answer.traces),
        *(_places(f"traces-{one}-{other}.csv", each) for (one, other), each in answer.trace_duels.items()),
        File("nulls.csv", NULLS, list(_nulls(answer))),
    )
    return {each.name: each for each in made if each.rows}


TUNING = ("algorithm", "tuned for", "settings", "restricted mean time", "unit", "reached", "of", "tried", "at the edge")


def _tuning(answer: Answer) -> Iterator[Row]:
    for best in bests(answer.founds):
        tried = answer.founds[best.label].tried
        unit = "rounds" if best.clock == ROUNDS else "s"
        score = best.score
        yield (
            *(best.label, best.clock, words(best.configuration), float(score.time), unit),
            *(score.reached, score.of, len(tried), ", ".join(edges(answer, best))),
        )


def edges(answer: Answer, best: Best) -> list[str]:
    """Returns the options of a best configuration whose value is the largest or smallest that the search tried."""
    found = answer.founds[best.label]
    return found.space.edges(best.configuration, found.tried)


TIMES = ("link", "target", "algorithm", "seed", "time s", "rounds", "first crossing s", "end s", "horizon s")


def times(found: Iterable[Values]) -> File:
    """Returns the table of all runs' times to each target on each link."""
    return File("times.csv", TIMES, [row for each in found for row in _times(each)])


def _times(found: Values) -> Iterator[Row]:
    for seed, each in found.times.items():
        crossing = found.crossings.get(seed)
        head: Row = (found.link, found.target.name, found.label, seed)
        yield *head, each.time, found.rounds.get(seed), crossing, finite(each.end), finite(found.tau)


def finite(value: float) -> float | None:
    """Returns the value, or None if it is infinite."""
    return None if isinf(value) else value


COMPARISONS = (
    *("link", "target", "algorithm", "base", "ratio", "low", "high", "p", "adjusted p", "decided"),
    *("reached", "base reached", "of", "horizon s"),
)


def compared(found: Iterable[Comparison]) -> File:
    """Returns the table of comparisons in pairs, one row for each target and link."""
    return File("comparisons.csv", COMPARISONS, [_comparison(each) for each in found])


def _comparison(each: Comparison) -> Row:
    found = each.contrast
    head: Row = (each.link, each.target.name, each.label, each.base, *bounds(found), found.p if found else None)
    mine, theirs = each.mine, each.theirs
    counts = (
        (found.reached, found.base_reached, found.seeds) if found else (mine.reached, theirs.reached, len(mine.times))
    )
    return *head, each.adjusted, each.significant, *counts, finite(mine.tau)


def bounds(found: Interval | None) -> Row:
    """Returns a ratio and the ends of its interval; three times None without one."""
    return (found.ratio, found.low, found.high) if found else UNKNOWN


REASONS = (
    *("target", "algorithm", "base"),
    *(
        f"{what}{bound}"
        for what in ("time ratio", "rounds ratio", "seconds per round ratio", "bytes ratio", "joules ratio")
        for bound in ("", " low", " high")
    ),
)


def _reason(answer: Answer, each: Why) -> Row:
    """Returns a row of reasons.csv.  Its ratio of times is the one in comparisons.csv, if that has one."""
    split, here = each.split, answer.compared(each.label, each.base, each.target)
    time = (here.contrast if here else None) or (split.time if split else None)
    parts = (time, split.rounds, split.pace) if split else (None, None, None)
    found = [value for part in (*parts, each.bytes, each.joules) for value in bounds(part)]
    return each.target.name, each.label, each.base, *found


PACE = ("algorithm", "what", "amount per round", "unit")


def _pace(each: Pace) -> Iterator[Row]:
    for what, seconds in each.seconds.items():
        yield each.label, what, seconds, "s"
    yield each.label, "all", each.total, "s"
    for what, size in each.bytes.items():
        yield each.label, what, size, "bytes"
    yield each.label, "all devices", each.joules, "J"


LEVERAGE = ("algorithm", "seed", "round", "leverage, 99th percentile", "lr x largest second derivative", "identity")


def _axes(cells: Iterable[Cell]) -> list[str]:
    """Returns the axes that the places of these cells have: what is varied over the map."""
    return list(dict.fromkeys(axis for each in cells for axis in each.place))


def _places(name: str, cells: Sequence[Cell]) -> File:
    axes = _axes(cells)
    labels = list(dict.fromkeys(label for each in cells for label in each.chosen))
    headings = (
        *axes,
        *("winner", "first", "second", "ratio", "low", "high", "first reached", "second reached", "of"),
        *(f"{label} s" for label in labels),
        *(f"{label} configuration" for label in labels),
    )
    return File(name, headings, [_place(each, axes, labels) for each in cells])


def _place(each: Cell, axes: Iterable[str], labels: Sequence[str]) -> Row:
    return (
        *(each.place.get(axis) for axis in axes),
        *(each.winner, each.first, each.second, *bounds(each.contrast), *_counts(each.contrast)),
        *(each.means.get(label) for label in labels),
        *(each.chosen.get(label) for label in labels),
    )


def _place_times(name: str, cells: Sequence[Cell]) -> File:
    """Returns the table of all runs' times to the main target at each place, in s, from which its means and ratios
    follow."""
    axes = _axes(cells)
    rows: list[Row] = [
        (*(each.place.get(axis) for axis in axes), label, each.chosen.get(label), seed, run.time, finite(run.end))
        for each in cells
        for label, of in each.times.items()
        for seed, run in of.items()
    ]
    return File(name, (*axes, "algorithm", "configuration", "seed", "time s", "end s"), rows)


def _counts(found: Contrast | None) -> Row:
    """Returns how many seeds of the faster algorithm reached the target, how many of the slower one, and the number of
    seeds; three times None without a contrast.  `found`: the contrast of the slower algorithm with the faster one."""
    return (found.base_reached, found.reached, found.seeds) if found else UNKNOWN


def _borders(answer: Answer) -> File:
    axes = list(dict.fromkeys(axis for each in answer.borders for axis in each.place))
    rows: list[Row] = [
        (*(each.place[axis] for axis in axes), each.up_mbit_s, each.slower, each.faster) for each in answer.borders
    ]
    return File("borders.csv", (*axes, "up_mbit_s", "first below", "first above"), rows)


NULLS = ("algorithm", "seed", "rounds", "first that differs", "same")


def _nulls(answer: Answer) -> Iterator[Row]:
    """Yields a row of nulls.csv for each seed of each null (an algorithm without its penalty); rounds count from 1."""
    for each in answer.nulls:
        differs = None if each.differs is None else each.differs + 1
        yield each.label, each.seed, each.rounds, differs, differs is None

"""The tables of a study's page, with rounded numbers in readable units.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from emulator.analysis.answer import Answer
from emulator.analysis.cells import UNDECIDED, UNKNOWN, Cell, winners
from emulator.results import units
from emulator.results.comparison import OWN, SOME, Comparison
from emulator.results.table import Table
from emulator.results.times import Values
from emulator.results.units import NONE, counted, duration, joined
from emulator.tuning.results import bests
from emulator.tuning.space import words
from emulator.wording.names import count, goal, got_there, role
from emulator.wording.study_files import edges

DECIDED, SAME = "✓", "="
REACHED = (
    "(a and b of n): how many seeds of the first and of the second reached the target. ≥, ≤: some seeds of one of them "
    f"did not, so the true ratio is at least, or at most, this large. Too few: neither reached it in {SOME} seeds."
)
LINKS = 8  # links that a table shows at most; comparisons.csv has all


def _labels(answer: Answer) -> list[str]:
    known = {each.label for each in answer.values}
    return [entry.name for entry in answer.scenario.algorithms if entry.name in known]


def roles(answer: Answer) -> Table:
    """Returns a table of each algorithm's role in the study."""
    rows = [(entry.name, role(answer.scenario, entry.name)) for entry in answer.scenario.algorithms]
    return Table("The role of each algorithm.", ("algorithm", "role"), rows, 2)


def times(answer: Answer) -> Table:
    """Returns a table of each algorithm's mean time to each target on the study's own links.

    Means are restricted: a seed that missed the target counts with the horizon, which is the algorithm's own.
    """
    found = [[answer.value(label, target) for target in answer.targets] for label in _labels(answer)]
    held = answer.main.hold > 1  # otherwise reaching a target and crossing it are the same
    unit = units.of_time(each.mean for row in found for each in row if each)
    rows = [
        (label, role(answer.scenario, label), *(_time(each, unit) for each in row + _crossed(answer, label, held)))
        for label, row in zip(_labels(answer), found, strict=True)
    ]
    caption = (
        f"Restricted mean time on the study's own links, in {unit.name}, and how many seeds reached the target in "
        "time. ≥: a lower bound, because the other seeds did not reach it while they ran."
    )
    headings = ["algorithm", "role", *map(goal, answer.targets)]
    if held:
        caption += (
            f" A target is reached with the first of {answer.main.hold} evaluations in a row at or above it; the last "
            "column is the time of the first evaluation at or above it."
        )
        headings.append(f"{goal(answer.main)}, first crossing")
    return Table(caption, headings, rows, 2)


def _crossed(answer: Answer, label: str, held: bool) -> list[Values | None]:
    found = answer.value(label, answer.main)
    return [found.crossed if found else None] if held else []


def _time(each: Values | None, unit: units.Unit) -> str:
    """Returns a mean time with the number of seeds that reached the target, after "≥" if some did not, because the true
    mean is then larger."""
    if each is None:
        return NONE
    least = "≥ " if each.reached < len(each.times) else ""
    return f"{least}{unit.show(each.mean)} ({count(each.reached, len(each.times))})"


def ratios(answer: Answer) -> Table:
    """Returns a table of all comparisons on the study's own links: a row for each pair, a column for each target."""
    pairs = dict.fromkeys((each.label, each.base) for each in answer.comparisons if each.contrast)
    rows = [
        (*pair, *(ratio(answer.compared(*pair, target)) for target in answer.targets))
        for pair in pairs
        if any(answer.compared(*pair, target) for target in answer.targets)
    ]
    caption = (
        f"Time of the first algorithm divided by the second's, with 95 % intervals, on the study's own links. "
        f"{DECIDED}: significant after Holm's correction over the pair's targets and links. {REACHED}"
    )
    return Table(caption, ("algorithm", "over", *map(goal, answer.targets)), rows, 2)


def ratio(each: Comparison | None, everywhere: bool = True) -> str:
    """Returns a comparison's cell: the ratio of times, a mark if it is significant, and how many seeds reached the
    target.

    `everywhere`: False if comparisons in the table have different horizons, so that the cell must give its horizon.
    """
    if each is None or each.contrast is None:
        return NONE
    found = each.contrast
    if not found.reached + found.base_reached:
        return "neither reached it"
    if each.too_few:
        return f"too few{got_there(each)}"
    decided = f" {DECIDED}" if each.significant else ""
    return f"{found}{decided}{got_there(each, '' if everywhere else f' in {duration(found.tau)}')}"


def on_links(answer: Answer) -> Table:
    """Returns a table of all comparisons on other links, to the main target: a row for each pair, a column for each of
    the first LINKS links."""
    main = answer.main
    all_ = list(dict.fromkeys(each.link for each in answer.comparisons if each.link != OWN))
    links = all_[:LINKS]
    rows = [
        (*pair, *(ratio(answer.compared(*pair, main, link), everywhere=False) for link in links))
        for pair in dict.fromkeys((each.label, each.base) for each in answer.comparisons if each.contrast)
        if links and any(answer.compared(*pair, main, link) for link in links)
    ]
    more = f" {LINKS} of {len(all_)} links are shown." if len(all_) > LINKS else ""
    caption = (
        f"Time to {goal(main)} of the first algorithm divided by the second's on other "
        f"links{_for_links(answer, links)} {DECIDED}: significant."
    )
    horizon = "(... in so many s): the time up to which all runs of the pair are known."
    return Table(f"{caption}{more} {REACHED} {horizon}", ("algorithm", "over", *links), rows, 2)


def _for_links(answer: Answer, links: Sequence[str]) -> str:
    """Returns the end of a caption's sentence, on which of these links have settings that were tuned for them."""
    tune = answer.scenario.tune
    known = [link for link in links if tune and link in tune.links]
    if known == list(links):
        return ", each with the best settings there."
    best = f"; on {joined(known)} with the best settings there" if known else ""
    return f", with the settings for the study's own links{best}."


def means(answer: Answer) -> Table:
    """Returns a table of each algorithm's restricted mean time to the main target, with a column and a unit for each of
    the first LINKS links; no rows if there is only one link."""
    all_ = list(dict.fromkeys(each.link for each in answer.values))
    links = all_[:LINKS] if len(all_) > 1 else []
    found = {link: [answer.value(label, answer.main, link) for label in _labels(answer)] for link in links}
    chosen = {link: units.of_time(each.mean for each in of if each) for link, of in found.items()}
    rows = [
        (label, *(_time(found[link][number], chosen[link]) for link in links))
        for number, label in enumerate(_labels(answer))
        if links
    ]
    caption = (
        f"Restricted mean time to {goal(answer.main)} on each link, and how many seeds reached it in time. ≥: a lower "
        "bound, because the other seeds did not reach it while they ran."
    )
    return Table(caption, ("algorithm", *(f"{link}, {unit.name}" for link, unit in chosen.items())), rows, 1)


def reasons(answer: Answer) -> Table:
    """Returns a table that splits each pair's ratio of times to the main target into the ratio of rounds and the ratio
    of seconds per round, with the ratios of bytes and joules."""
    rows = []
    for each in answer.whys:
        if each.target == answer.main and each.split:
            compared = answer.compared(each.label, each.base, each.target)
            time = (compared.contrast if compared else None) or each.split.time
            parts = (time, each.split.rounds, each.split.pace, each.bytes, each.joules)
            both = (
                f"{compared.mine.reached} and {compared.theirs.reached} of {len(compared.mine.times)}"
                if compared
                else NONE
            )
            rows.append((each.label, each.base, both, *(str(part or NONE) for part in parts)))
    caption = (
        f"To {goal(answer.main)} on the study's own links: the ratio of times is the ratio of rounds times the ratio "
        "of seconds per round. Bytes and joules are of all devices until then. Reached: how many seeds of the first "
        "and of the second reached the target in time. Seeds that missed it count up to the horizon, so an algorithm "
        "that rarely reaches it has few rounds, bytes and joules only because it was cut off: ≥, ≤."
    )
    headings = ("algorithm", "over", "reached", "time", "rounds", "seconds per round", "bytes", "joules")
    return Table(caption, headings, rows, 3)


def paces(answer: Answer) -> Table:
    """Returns a table of each algorithm's mean round: its seconds and those of its parts, bytes down and up, energy."""
    found = list(answer.paces)
    unit, size = (
        units.of_time(each.total for each in found),
        units.of_bytes(fsum(each.bytes.values()) for each in found),
    )
    spent = units.of_energy(each.joules for each in found)
    rows = [
        (
            each.label,
            unit.show(each.total),
            *(unit.show(_family(each.seconds, family)) for family in ("download", "compute", "upload")),
            *(size.show(_family(each.bytes, way)) for way in ("down", "up")),
            NONE if each.joules is None else spent.show(each.joules),
        )
        for each in found
    ]
    headings = (
        *("algorithm", f"a round, {unit.name}", "download", "compute", "upload"),
        *(f"down, {size.name}", f"up, {size.name}", f"energy, {spent.name}"),
    )
    caption = (
        "Mean round over all rounds and seeds; bytes and energy are of all devices together. The rest of its seconds "
        "goes to connections, waiting and the server."
    )
    return Table(caption, headings, rows, 1)


def _family(amounts: Mapping[str, float], begin: str) -> float:
    return fsum(value for what, value in amounts.items() if what.startswith(begin))


def shares(cells: Sequence[Cell], baseline: str, what: str) -> Table:
    """Returns a table of the number and share of places (points of the map or recorded links) at which each algorithm
    is fastest.

    `baseline`: has a row even if it wins nowhere.  `what`: the noun for the places in the caption.
    """
    found = winners(cells, [baseline] if cells else ())
    order = sorted(found, key=lambda name: (name in (UNDECIDED, UNKNOWN), -found[name]))
    rows = [(name, str(found[name]), f"{100 * found[name] / len(cells):.0f} %") for name in order]
    caption = f"Which algorithm is fastest, in {len(cells)} {what}, each by its own 95 % interval, without correction."
    return Table(f"{caption}{_lost(cells)}", ("fastest", "count", "share"), rows, 1)


def _lost(cells: Sequence[Cell]) -> str:
    """Returns a sentence for the caption, on algorithms without a result at some places, because their replays there
    are not exact; "" if there are none."""
    where = [each for each in cells if each.chosen.keys() - each.means.keys()]
    who = list(dict.fromkeys(label for each in where for label in each.chosen if label not in each.means))
    if not who:
        return ""
    return (
        f" {joined(who)} {'is' if len(who) == 1 else 'are'} unknown in {len(where)} of them, because other devices "
        "would be selected or aggregated there."
    )


def borders(answer: Answer) -> Table:
    """Returns a table of the uplink rates at which the fastest algorithm changes."""
    axes = list(answer.borders[0].place) if answer.borders else []
    names = {"down_over_up": "download over upload", "round_trip_ms": "round trip, ms", "speed_gflop_s": "GFLOP/s"}
    rows = [
        (each.slower, each.faster, f"{each.up_mbit_s:.3g}", *(f"{each.place[axis]:g}" for axis in axes))
        for each in answer.borders
    ]
    headings = ("fastest below", "fastest above", "uplink, Mbit/s", *(names.get(axis, axis) for axis in axes))
    return Table(
        "Uplinks at which the fastest algorithm changes, on the map and for single pairs, if the difference is "
        "significant.",
        headings,
        rows,
        2,
    )


def tuned(answer: Answer) -> Table:
    """Returns a table of the best settings of each algorithm, by what they were tuned for."""
    rows = [
        (best.label, best.clock, words(best.configuration), best.time, joined(edges(answer, best)) or NONE)
        for best in bests(answer.founds)
    ]
    caption = "The best settings. At the edge: options whose best value is the largest or smallest that was tried."
    return Table(caption, ("algorithm", "tuned for", "settings", "mean time", "at the edge"), rows, 5)


def nulls(answer: Answer) -> Table:
    """Returns a table that shows if nulls (algorithms without their penalty) learn exactly as the baseline does."""
    rows = []
    for label in dict.fromkeys(each.label for each in answer.nulls):
        mine = [each for each in answer.nulls if each.label == label]
        differ = [f"seed {each.seed}, round {each.differs + 1}" for each in mine if each.differs is not None]
        seen = sum(each.rounds for each in mine)
        same = f"yes, in all {counted(seen, 'round')}" if seen else NONE
        rows.append((label, f"no: {joined(differ)}" if differ else same))
    caption = (
        f"Algorithms without their penalty must have exactly {answer.baseline}'s accuracies in all evaluated rounds "
        "of both."
    )
    if answer.scenario.time_decides:
        caption += " Not so here, because which devices are selected or aggregated depends on how long rounds take."
    return Table(caption, ("algorithm", "same"), rows, 2)

"""The page and the tables of a study in several regimes: when an algorithm pays, and why.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from emulator.analysis.answer import Answer
from emulator.analysis.cells import AXES, UNDECIDED, UNKNOWN
from emulator.analysis.explanations import READ, WHEN
from emulator.analysis.protocol import protocol_of
from emulator.analysis.regimes import Place, Question
from emulator.results.resampling import bounded, in_cell
from emulator.results.table import Table
from emulator.results.units import NONE, counted, duration, joined
from emulator.tuning.space import words
from emulator.wording.markup import escaped, grid, listed
from emulator.wording.names import count, goal, role
from emulator.wording.study_files import File, bounds, finite
from emulator.wording.study_tables import DECIDED, ratio
from emulator.wording.study_verdict import headline, short
from scenarios.schema.scenario import Scenario

Answers = Mapping[str, Answer]  # by regime
OWN_PAGES = "Each regime has a folder of its own with its protocol, tables and figures."


def verdict(answers: Answers, places: Sequence[Place]) -> list[str]:
    """Returns the lines of the verdict: one on each question, and one on the fastest algorithm in each regime."""
    asked = dict.fromkeys(each.question for each in places if each.question)
    lines = [_counted(question, [each for each in places if each.question == question]) for question in asked]
    return lines + [f"{name}: {headline(answer)}" for name, answer in answers.items()]


def _counted(question: Question, cells: Sequence[Place]) -> str:
    """Returns a sentence on how often each of two algorithms is faster, and in which regimes."""
    said = []
    for label in question:
        won = [each for each in cells if each.winner == label]
        where = joined(list(dict.fromkeys(each.regime for each in won)))
        said.append(f"{label} is faster at {len(won)}{f' (in {where})' if won else ''}")
    left = sum(each.winner not in question for each in cells)
    one, other = question
    return f"{one} compared with {other}, at {len(cells)} points of the map: {joined(said)}; {left} are undecided."


def markdown(answers: Answers, places: Sequence[Place], left: Sequence[str] = ()) -> str:
    """Returns the text of study.md: the map of when it pays and one table for each regime come first.  `left`: the
    names of the regimes that are not played yet."""
    parts = [
        "# When does it pay?",
        f"**Not finished**: still to run: {joined(list(left))}." if left else "",
        listed(verdict(answers, places)),
        "![Who is faster, by regime and uplink](figures/pays.png)" if places else "",
        f"<sub>{WHEN}</sub>" if places else "",
        *(text for name, answer in answers.items() for text in _regime(name, answer)),
        "## How to read this",
        READ.rstrip(),
        "## Files",
        f"All numbers in full are in {joined([f'`tables/{name}`' for name in tables(answers, places)])}. {OWN_PAGES}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _regime(name: str, answer: Answer) -> Iterator[str]:
    yield f"## {escaped(name)}"
    yield _facts(answer.scenario)
    yield listed(short(answer))
    yield grid(table(answer))
    yield f"[Everything on this regime](regimes/{name}/study.md)"


def table(answer: Answer) -> Table:
    """Returns the table of one regime: a row for each algorithm but placebos and nulls, with its settings, and its
    rounds, seconds a round and time to the main target as multiples of the baseline's."""
    base, said = answer.baseline, protocol_of(answer.scenario)
    placebos = {original: label for label, original in said.placebos.items()}
    rows = []
    for entry in answer.scenario.algorithms:
        label = entry.name
        if label in said.own_links_only or (mine := answer.value(label, answer.main)) is None:
            continue
        why = answer.why(label, base, answer.main)
        parts = (why.split.rounds, why.split.pace) if why and why.split else (NONE, NONE)
        settings = words(answer.founds[label].best()) if label in answer.founds else "as published"
        pairs = ((label, base), (placebos.get(label, ""), label))
        ratios = [ratio(answer.compared(*pair, answer.main)) for pair in pairs]
        reached = count(mine.reached, len(mine.times))
        part = role(answer.scenario, label)
        rows.append(
            (
                label,
                part,
                settings,
                reached,
                bounded(duration(mine.mean), "low" if mine.cut else None) if mine.mean else NONE,
                *map(str, parts),
                *ratios,
            )
        )
    caption = (
        f"To {goal(answer.main)} on the study's own links. Rounds, seconds per round and time are multiples of "
        f"{base}'s; time is the product of the other two. Placebo: the time of the algorithm with importance in the "
        f"wrong places, as a multiple of its own. {DECIDED}: significant after Holm's correction over the pair's "
        "targets and links. ≥, ≤: some runs of one did not reach the target."
    )
    headings = ("algorithm", "role", "best settings", "reached", "time", "rounds", "seconds per round")
    return Table(caption, (*headings, f"time over {base}", "placebo"), rows, 3)


def _facts(scenario: Scenario) -> str:
    """Returns the data, the network and the rounds of a regime, in one sentence."""
    split = scenario.data.split.model_dump(exclude_none=True)
    said = ", ".join(f"{key} {value}" for key, value in split.items())
    share = f"{scenario.needed} of {counted(scenario.devices, 'device')} a round"
    epochs = scenario.training.epochs
    work = "1 epoch" if epochs == 1 else f"{epochs:g} epochs"
    return f"{escaped(scenario.data.set)} ({escaped(said)}), {escaped(scenario.model.name)}, {share}, {work}."


PAYS = (
    *("question", "regime", *AXES, "winner", "first", "second", "ratio", "low", "high", "p", "adjusted p"),
    *("first reached", "second reached", "of", "bound", "horizon s"),
)


def tables(answers: Answers, places: Sequence[Place]) -> dict[str, File]:
    """Returns the tables over all regimes by file name: pays.csv has the map of when an algorithm pays, regimes.csv the
    ratios of each regime."""
    rows = [row for name, answer in answers.items() for row in _ratios(name, answer)]
    made = (File("pays.csv", PAYS, [*map(_place, places)]), File("regimes.csv", REGIMES, rows))
    return {each.name: each for each in made if each.rows}


def _place(each: Place) -> tuple[str | float | None, ...]:
    cell, found = each.cell, each.cell.contrast
    return (
        " or ".join(each.question) or "all ranked",
        each.regime,
        *(cell.place.get(axis) for axis in AXES),
        *(each.winner, cell.first, cell.second, *bounds(found), cell.p, each.adjusted),
        *((found.base_reached, found.reached, found.seeds) if found else (None, None, None)),
        *((found.bound, finite(found.tau)) if found else (None, None)),
    )


REGIMES = (
    *("regime", "algorithm", "part", "base", "target", "settings", "mean s", "reached", "of"),
    *(f"{what}{end}" for what in ("time", "rounds", "seconds a round") for end in ("", " low", " high")),
    *("p", "adjusted p", "base reached", "bound", "horizon s"),
)


def _ratios(name: str, answer: Answer) -> Iterator[tuple[str | float | None, ...]]:
    """Yields a row of regimes.csv for each comparison to the main target on the study's own links.  Seeds that
    reached it are counted up to the horizon of the two."""
    for why in answer.whys:
        compared = answer.compared(why.label, why.base, why.target)
        mine = answer.value(why.label, why.target)
        if why.target != answer.main or compared is None or mine is None:
            continue
        found = compared.contrast
        split = (why.split.rounds, why.split.pace) if why.split else (None, None)
        settings = words(answer.founds[why.label].best()) if why.label in answer.founds else ""
        yield (
            *(name, why.label, role(answer.scenario, why.label), why.base, goal(why.target), settings),
            *(mine.mean, compared.mine.reached, len(mine.times)),
            *(value for part in (found, *split) for value in bounds(part)),
            *(found.p if found else None, compared.adjusted, compared.theirs.reached),
            *(compared.bound, finite(compared.mine.tau)),
        )


def shown(each: Place) -> str:
    """Returns the text of a cell: how many times as long the slower one takes; "" if it is not known."""
    found = each.cell.contrast
    return in_cell(found.ratio, found.bound) if found and each.winner not in (UNDECIDED, UNKNOWN) else ""

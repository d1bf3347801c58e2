"""study.md, the page of a study: the verdict, tables and figures, how to read them, and the protocol.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulator.analysis.answer import Answer
from emulator.analysis.explanations import CAPTIONS, READ
from emulator.analysis.protocol import protocol_of
from emulator.results.comparison import OWN
from emulator.results.units import counted, joined
from emulator.tuning.results import remarks
from emulator.tuning.together import target_of
from emulator.wording import study_tables
from emulator.wording.markup import escaped, grid, listed
from emulator.wording.names import goal
from emulator.wording.study_files import tables
from emulator.wording.study_verdict import verdict

Lines = Iterator[str]


def markdown(answer: Answer, figures: Mapping[str, str]) -> str:
    """Returns the text of study.md.  `figures`: by a figure's name, the path of its picture, relative to the page."""
    parts = [
        f"# {escaped(answer.scenario.name)}: which algorithm is fastest",
        listed(verdict(answer)),
        *_warnings(answer),
        "## Times to the targets",
        *_times(answer),
        *_figures(figures, "ratios", "times"),
        "## Why",
        grid(study_tables.reasons(answer)),
        grid(study_tables.paces(answer)),
        *_figures(figures, "pace"),
        *_elsewhere(answer, figures),
        "## How to read this",
        READ.rstrip(),
        "## Protocol",
        *_protocol(answer),
        "## Files",
        "All numbers in full are in `tables/`: " + joined([f"`{name}`" for name in tables(answer)]) + ".",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _warnings(answer: Answer) -> Lines:
    if answer.warnings:
        yield "**Warnings about the runs** (with the settings for the study's own links):"
        yield listed([f"{text}." for text in answer.warnings])


def _figures(figures: Mapping[str, str], *names: str) -> Lines:
    for name in names:
        yield from _figure(figures, name, CAPTIONS[name])


def _figure(figures: Mapping[str, str], name: str, caption: str) -> Lines:
    if name in figures:
        yield f"![{caption}]({figures[name]})"
        yield f"<sub>{caption}</sub>"


def _times(answer: Answer) -> Lines:
    yield grid(study_tables.times(answer))
    yield grid(study_tables.ratios(answer))
    yield grid(study_tables.means(answer))
    yield grid(study_tables.on_links(answer))
    if answer.unknown:
        yield listed([f"{each}." for each in answer.unknown])


def _elsewhere(answer: Answer, figures: Mapping[str, str]) -> Lines:
    if answer.cells:
        yield "## On other links and devices"
        yield grid(study_tables.shares(answer.cells, answer.baseline, "settings of the map"))
        yield from _figures(figures, "map")
        for (one, other), cells in answer.duels.items():
            yield grid(study_tables.shares(cells, one, f"settings, between {one} and {other} alone"))
            yield from _figure(figures, f"map-{one}-{other}", CAPTIONS["duel"].format(one, other))
        yield grid(study_tables.borders(answer))
    if answer.traces or answer.assumptions:
        yield "## On recorded links"
        yield grid(study_tables.shares(answer.traces, answer.baseline, "recorded links"))
        yield from _figures(figures, "traces")
        for (one, other), cells in answer.trace_duels.items():
            yield grid(study_tables.shares(cells, one, f"recorded links, between {one} and {other} alone"))
        yield listed([f"{each}." for each in answer.assumptions])


def _protocol(answer: Answer) -> Lines:
    scenario, said = answer.scenario, protocol_of(answer.scenario)
    seeds = ", ".join(map(str, scenario.seeds))
    horizon = "the end of the first run of the two compared algorithms that did not reach the target"
    if said.horizon_s:
        horizon += f"; runs last at most {said.horizon_s:g} s"
    links = joined([OWN, *said.links])
    facts = [
        f"SHA-256 `{answer.digest}`{'' if answer.exploratory else ', fixed before training'}.",
        (
            f"{counted(scenario.devices, 'device')}, {escaped(scenario.data.set)}, {escaped(scenario.model.name)}, "
            f"network model {scenario.network_model}."
        ),
        f"Seeds {seeds}. At most {counted(scenario.rounds.max, 'round')}.",
        (
            f"Targets: {joined([goal(each) for each in answer.targets])}, held for "
            f"{counted(answer.main.hold, 'evaluation')} in a row; the main one is {goal(answer.main)}. Shares are of "
            f"{answer.best:.4g}, the best mean validation {scenario.task.main} that any ranked algorithm reached with "
            "the seeds of the search."
        ),
        f"Links: {escaped(links)}. Horizon: {horizon}.",
        (
            "A difference is significant if the p-value of the ratio is below 0.05 after Holm's correction over the "
            "pair's targets and links."
        ),
    ]
    if answer.exploratory:
        facts.insert(
            0, "The protocol was changed after records were made, so these results are exploratory and confirm nothing."
        )
    yield "\n".join(f"- {each}" for each in facts)
    yield grid(study_tables.roles(answer))
    if scenario.tune:
        tuned = ", ".join(map(str, scenario.tune.seeds))
        yield (
            f"Settings were tuned with seeds {tuned} over {counted(scenario.tune.budget, 'configuration')} per "
            f"algorithm, by the restricted mean time to {escaped(target_of(scenario).name)}."
        )
        yield grid(study_tables.tuned(answer))
        yield listed([f"{each}." for each in remarks(scenario, answer.founds)])
    yield grid(study_tables.nulls(answer))

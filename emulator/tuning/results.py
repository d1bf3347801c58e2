"""The results of `fedlapse tune` as plain values: tune.json, rows of tables, and the scenario with the best
settings."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from emulator.results.units import counted, duration, joined
from emulator.tuning.scores import Score
from emulator.tuning.search import OWN, ROUNDS, Rung, SearchResult
from emulator.tuning.space import Configuration, applied, words
from emulator.tuning.together import target_of, tune_of
from scenarios.schema.entries import Entry
from scenarios.schema.scenario import Scenario

Founds = Mapping[str, SearchResult]  # by label


@dataclass(frozen=True)
class Best:
    """The best configuration of an algorithm by one clock, which is what measures times (see Best.clock)."""

    label: str
    clock: str  # own links, rounds, or the name of other links
    configuration: Configuration
    score: Score

    @property
    def time(self) -> str:
        """The mean time to the target: `43.1 s (3 of 3)` or `13.3 rounds (3 of 3)`, with how many of the seeds
        reached it; `over 43.1 s` if some did not."""
        amount = f"{self.score.time:.1f} rounds" if self.clock == ROUNDS else duration(self.score.time)
        bound = "" if self.score.reached == self.score.of else "over "
        return f"{bound}{amount} ({self.score.reached} of {self.score.of})"


def bests(founds: Founds) -> Iterator[Best]:
    """Yields the best configuration of each algorithm by each of its clocks."""
    for label, found in founds.items():
        for clock in found.clocks:
            scored = found.scores(clock)
            configuration = found.best(clock)
            yield Best(label, clock, configuration, scored[configuration])


def as_json(scenario: Scenario, founds: Founds) -> dict[str, Any]:
    """Returns the content of tune.json."""
    tune = tune_of(scenario)
    return {
        "scenario": scenario.name,
        "target": target_of(scenario).name,
        "seeds": list(tune.seeds),
        "budget": tune.budget,
        "algorithms": {label: _of_one(found) for label, found in founds.items()},
    }


def _of_one(found: SearchResult) -> dict[str, Any]:
    number = {configuration: n for n, configuration in enumerate(found.tried, 1)}
    return {
        "tried": [dict(each) for each in found.tried],
        "configuration_rounds": found.played,
        "best": {clock: number[found.best(clock)] for clock in found.clocks},
        "edges": found.edges,
        "rungs": [_rung(rung, number) for rung in found.rungs],
        "final": {
            clock: {str(number[each]): score._asdict() for each, score in found.scores(clock).items()}
            for clock in found.clocks
        },
    }


def _rung(rung: Rung, number: Mapping[Configuration, int]) -> dict[str, Any]:
    scored = {
        str(number[each]): {clock: score._asdict() for clock, score in by_clock.items()}
        for each, by_clock in rung.scores.items()
    }
    survivors = [number[each] for each in rung.survivors]
    return {"phase": rung.phase, "rounds": rung.rounds, "scores": scored, "survivors": survivors, "ties": rung.ties}


def courses(founds: Founds) -> list[str]:
    """Returns a line on each search: `cl: 4 configurations after 3 rounds, 2 after 6 (1, 4); then 2 more`.

    The numbers in parentheses are those of the surviving configurations, as in tune.json and in the folders of trials.
    """
    return [f"{label}: {_course(found)}" for label, found in founds.items()]


def _course(found: SearchResult) -> str:
    number = {configuration: n for n, configuration in enumerate(found.tried, 1)}
    first, *others = (rung for rung in found.rungs if rung.phase == "coarse")
    began = f"{counted(len(first.scores), 'configuration')} after {counted(first.rounds, 'round')}"
    kept = [
        f"{len(of.scores)} after {of.rounds} ({', '.join(str(number[each]) for each in of.scores)})" for of in others
    ]
    more = len(found.tried) - len(first.scores)
    return ", ".join([began, *kept]) + (f"; then {more} more" if more else "")


def remarks(scenario: Scenario, founds: Founds) -> list[str]:
    """Returns warnings: unused budgets, best values at an edge of what was tried, ties, links without results, and
    targets that no configuration reached."""
    tune, said = tune_of(scenario), []
    for label, found in founds.items():
        if len(found.tried) < tune.budget:
            all_ = "the only configuration" if len(found.tried) == 1 else f"all {len(found.tried)} configurations"
            inside = " in its grid" if tune.grid_only else ""
            said.append(f"{label}: {all_} that there can be{inside}, fewer than the budget of {tune.budget}")
        for option in found.edges:
            value, more = dict(found.best())[option], found.space.further(option, found.tried)
            advice = f"a larger budget tries {joined(more)} of the grid too" if more else "a wider grid may be better"
            said.append(f"{label}: the best {option}, {value:g}, is at the edge of what was tried; {advice}")
        if ties := sum(rung.ties for rung in found.rungs):
            tied = (
                "1 configuration was kept because it ties"
                if ties == 1
                else f"{ties} configurations were kept because they tie"
            )
            said.append(f"{label}: {tied} with the last of a better half")
        said += [
            f"{label}: on {link} its time is unknown, because a replay there is not exact"
            for link in tune.links
            if link not in found.clocks
        ]
        if not found.scores()[found.best()].reached:
            said.append(f"{label}: no configuration reached {target_of(scenario).name}; the best is by accuracy")
    return said


def entries(scenario: Scenario, founds: Founds, clock: str = OWN) -> tuple[Entry, ...]:
    """Returns all algorithms, the tuned ones with their best settings for this clock.

    An algorithm without results for this clock gets its best settings for the scenario's own links.
    """
    return tuple(
        applied(entry, found.best(clock if clock in found.clocks else OWN))
        if (found := founds.get(entry.name))
        else entry
        for entry in scenario.algorithms
    )


def tuned_yaml(scenario: Scenario, founds: Founds) -> str:
    """Returns the text of a scenario file with the best settings, which can be run.  Its section `tuned` says where
    the settings of each algorithm come from."""
    source = scenario.source
    yaml = YAML()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    whole: Any = CommentedMap(deepcopy(source.plain) if source else scenario.model_dump(mode="json"))
    whole.pop("small", None)
    listed = CommentedSeq()
    for entry in entries(scenario, founds):
        listed.append(CommentedMap({entry.key: _flow(entry.options), "name": entry.name}))
    whole["algorithms"] = listed
    whole["tuned"] = {entry.name: _origin(scenario, founds, entry.name) for entry in scenario.algorithms}
    text = io.StringIO()
    yaml.dump(whole, text)
    seeds = ", ".join(map(str, tune_of(scenario).seeds))
    return (
        f"# {scenario.name}, with the settings that `fedlapse tune` chose: the least mean time to "
        f"{target_of(scenario).name},\n"
        f"# under seeds {seeds}, out of {tune_of(scenario).budget} configurations of each algorithm.\n{text.getvalue()}"
    )


def _flow(options: Mapping[str, Any]) -> CommentedMap:
    made = CommentedMap(options)
    made.fa.set_flow_style()
    return made


def _origin(scenario: Scenario, founds: Founds, label: str) -> str:
    found = founds.get(label)
    if found is None:
        return "from the scenario, not tuned"
    best = Best(label, OWN, found.best(), found.scores()[found.best()])
    seeds = ", ".join(map(str, tune_of(scenario).seeds))
    return f"best of {len(found.tried)}: {best.time} to {target_of(scenario).name} under seeds {seeds}"


def rows(founds: Founds) -> list[tuple[str, ...]]:
    """Returns the rows of the table: algorithm, clock, best settings, time to the target."""
    return [(best.label, best.clock, words(best.configuration), best.time) for best in bests(founds)]


HEADINGS: Sequence[str] = ("algorithm", "tuned for", "best settings", "restricted mean time")

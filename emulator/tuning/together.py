"""Runs the searches of all algorithms together, step by step, so that their trials share one pool of workers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from emulator.lab.seeds import seed
from emulator.record.targets import Target
from emulator.replay.findings import ReplayResult
from emulator.tuning.scores import Row, ScoreCurve, curve, in_rounds, retimed
from emulator.tuning.search import OWN, ROUNDS, Ask, SearchResult, Trials, rungs, search
from emulator.tuning.space import Configuration, Space, Valid, applied, space_of
from scenarios.builders import plugins
from scenarios.schema.entries import Entry
from scenarios.schema.scenario import Scenario
from scenarios.schema.training import Evaluate, Stop
from scenarios.schema.tuning import AUTO, Aim, Tune
from scenarios.text.faults import BadScenario

Asks = Mapping[str, Ask]  # by label
Play = Callable[[Asks], Mapping[str, Trials]]
METRIC: Literal["validation"] = "validation"
HOLD = 3  # evaluations in a row
EXAMPLE = "tune: {grid: {training.lr: [0.01, 0.1], fedcl.strength: [0.5, 5, 50]}}"


def together(searches: Mapping[str, Generator[Ask, Trials, SearchResult]], play: Play) -> dict[str, SearchResult]:
    """Runs all searches, by label, to their ends, and returns their results.

    `play` is called once for each step, with the requests of all searches that go on, and returns the trials.
    """
    found: dict[str, SearchResult] = {}
    asks: dict[str, Ask] = {label: next(each) for label, each in searches.items()}
    while asks:
        trials, later = play(asks), {}
        for label in asks:
            try:
                later[label] = searches[label].send(trials[label])
            except StopIteration as ended:
                found[label] = ended.value
        asks = later
    return {label: found[label] for label in searches}


def by_rounds(asks: Asks) -> Iterator[tuple[int, Asks]]:
    """Yields each number of rounds that is requested, the fewest first, with the requests for it; a group can be
    played at once."""
    for rounds in sorted({ask.rounds for ask in asks.values()}):
        yield rounds, {label: ask for label, ask in asks.items() if ask.rounds == rounds}


def tune_of(scenario: Scenario) -> Tune:
    """Returns the scenario's section `tune:`.  Raises BadScenario if there is none."""
    if scenario.tune is None:
        raise BadScenario(f"the scenario has no `tune:`, which names the values to try, as {EXAMPLE}")
    return scenario.tune


def target_of(scenario: Scenario) -> Target:
    """Returns the value of `validation` to reach, by which configurations are timed.  Raises ValueError if the
    scenario names none."""
    aim, lower = tune_of(scenario).target, scenario.task.is_lower(METRIC)
    if aim == AUTO:  # until some rounds tell it
        return Target(METRIC, 0.0 if lower else 1.0, HOLD, lower=lower)
    if isinstance(aim, Aim):
        return Target(METRIC, aim.value, aim.hold, lower=lower)
    if not scenario.rounds.targets:
        raise ValueError("the scenario has no target; give tune.target, for example {value: 0.9}")
    return Target(METRIC, scenario.rounds.targets[-1].value, HOLD, lower=lower)


def fixed(scenario: Scenario) -> list[str]:
    """Returns the labels of algorithms that are not tuned: those that `tune.fixed` names, and a study's algorithms
    that use the settings of its baseline."""
    nulls = scenario.study.nulls if scenario.study else ()
    return [entry.name for entry in scenario.algorithms if entry.name in (*tune_of(scenario).fixed, *nulls)]


def tuned_entries(scenario: Scenario) -> list[Entry]:
    """Returns the entries of the algorithms to tune."""
    return [entry for entry in scenario.algorithms if entry.name not in fixed(scenario)]


def spaces(scenario: Scenario) -> dict[str, Space]:
    """Returns the space of configurations of each algorithm to tune, by label.  A study's placebo has that of the
    algorithm which it imitates."""
    tune, entries = tune_of(scenario), {entry.name: entry for entry in scenario.algorithms}
    placebos = scenario.study.placebos if scenario.study else {}
    like = {entry.name: entries.get(placebos.get(entry.name, entry.name), entry) for entry in tuned_entries(scenario)}
    return {
        label: replace(space_of(original, tune, _valid(entries[label], scenario)), label=label)
        for label, original in like.items()
    }


def _valid(entry: Entry, scenario: Scenario) -> Valid:
    """Returns a function that is true for the configurations that the algorithm accepts."""

    def valid(configuration: Configuration) -> bool:
        made = applied(entry, configuration)
        return not plugins.faults(made, scenario.training, ("algorithms",), scenario.rounds)

    return valid


def searched(scenario: Scenario, play: Play) -> dict[str, SearchResult]:
    """Returns the results of the searches of all algorithms to tune, by label.

    The baseline is searched first, because the others may try its settings of training.  Then comes the first algorithm
    of each family (of one kind, with the same grid), whose best configuration the rest of the family tries.
    """
    found: dict[str, SearchResult] = {}
    for labels in sittings(scenario):
        found |= together(_searches(scenario, labels, found), play)
    return {label: found[label] for label in spaces(scenario)}


def sittings(scenario: Scenario) -> list[list[str]]:
    """Returns the labels in groups that are tuned one after another; each group learns from the results of the
    groups before."""
    first = _first_of_family(scenario)
    sitting = {label: 0 if label == _baseline(scenario) else 1 if first[label] == label else 2 for label in first}
    return [labels for n in range(3) if (labels := [label for label, number in sitting.items() if number == n])]


def _baseline(scenario: Scenario) -> str:
    return scenario.algorithms[0].name


def _first_of_family(scenario: Scenario) -> dict[str, str]:
    """Returns {label: the first algorithm of the same kind whose grid has the same options and values}."""
    kinds = {entry.name: entry.key for entry in scenario.algorithms}
    first: dict[object, str] = {}
    return {
        label: first.setdefault((kinds[label], space.dimensions), label) for label, space in spaces(scenario).items()
    }


def _searches(
    scenario: Scenario, labels: Sequence[str], found: Mapping[str, SearchResult]
) -> dict[str, Generator[Ask, Trials, SearchResult]]:
    """Returns the searches of a group, by label, each of which learns from the results `found` so far.

    Their random numbers depend on the label alone, so that equal scenarios have equal searches.
    """
    tune, steps, all_, first = tune_of(scenario), steps_of(scenario), spaces(scenario), _first_of_family(scenario)
    best = {label: each.best() for label, each in found.items()}
    baseline = found.get(_baseline(scenario))
    known = baseline.on_links if baseline else []
    rng = {label: np.random.default_rng(seed(0, "tune", label)) for label in labels}
    return {
        label: search(all_[label], tune.budget, steps, rng[label], known, best.get(first[label])) for label in labels
    }


def steps_of(scenario: Scenario) -> list[int]:
    """Returns the numbers of rounds after which configurations are compared."""
    tune = tune_of(scenario)
    return rungs(tune.rounds or scenario.rounds.max, tune.rungs)


@dataclass
class Names:
    """The labels under which configurations are played: the algorithm's label with a number, in the order of trial."""

    numbers: dict[tuple[str, Configuration], int]

    def of(self, label: str, configuration: Configuration) -> str:
        mine = [each for each in self.numbers if each[0] == label]
        number = self.numbers.setdefault((label, configuration), len(mine) + 1)
        return f"{label}.{number:02}"


def step(scenario: Scenario, asks: Asks, names: Names) -> Scenario:
    """Returns the scenario that plays all requests of one step, which must have the same number of rounds."""
    base = {entry.name: entry for entry in scenario.algorithms}
    entries = tuple(
        applied(base[label], each, names.of(label, each)) for label, ask in asks.items() for each in ask.configurations
    )
    (count,) = {ask.rounds for ask in asks.values()}
    target = target_of(scenario)
    stop = Stop(metric=METRIC, value=target.value, hold=target.hold)
    rounds = scenario.rounds.model_copy(update={"max": count, "targets": (), "stop_at": stop})
    seeds, evaluate = tune_of(scenario).seeds, untested(scenario)
    return remade(scenario, seeds=seeds, algorithms=entries, rounds=rounds, evaluate=evaluate)


def untested(scenario: Scenario) -> Evaluate:
    """Returns the scenario's schedule of evaluations without test examples, as a search must not see them."""
    return scenario.evaluate.model_copy(update={"personalise_every": "never", "test": False})


def remade(scenario: Scenario, **changes: object) -> Scenario:
    """Returns the scenario with these changes, validated again, without its sections for searches and studies."""
    plain = scenario.model_copy(
        update={"tune": None, "study": None, **changes, "expect": (), "published": (), "small": {}}
    )
    return Scenario.model_validate_json(plain.model_dump_json())


def trial(
    rows: Mapping[int, Sequence[Row]],
    target: Target,
    rounds: int,
    elsewhere: Mapping[str, Sequence[ReplayResult]],
    momentum: float,
) -> dict[str, tuple[ScoreCurve, ...]]:
    """Returns the curves of a configuration, one for each seed, by clock.

    `rows`: by seed; `elsewhere`: by name of other links, the configuration's replays there, one for each seed.  A clock
    is left out if the result of one of its replays is not known.  `momentum`: of SGD, with this configuration.
    """
    own = {seed: curve(of, target, rounds, momentum) for seed, of in sorted(rows.items())}
    found = {OWN: tuple(own.values()), ROUNDS: tuple(in_rounds(rows[seed], target, rounds, momentum) for seed in own)}
    for link, results in elsewhere.items():
        by_seed = {each.seed: each for each in results}
        if all(_known(by_seed.get(seed), target) for seed in own):
            found[link] = tuple(retimed(own[seed], by_seed[seed].stamps) for seed in own)
    return found


def _known(result: ReplayResult | None, target: Target) -> bool:
    return result is not None and result.failure is None and result.times[target.name] is not None

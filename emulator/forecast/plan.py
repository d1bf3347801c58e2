"""The forecast of `fedlapse check`: the cost of a scenario before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from algorithms.algorithm import Algorithm
from emulator.conversation.rounds import RoundRules
from emulator.forecast.breakeven import (
    Ratio,
    by_the_hour,
    fewer,
    longest,
    no_match,
    ratio,
    sentence,
    shortage,
    too_late,
)
from emulator.forecast.deadline import check_deadline
from emulator.forecast.effort import Effort, effort_of
from emulator.forecast.groups import FleetGroup, absent, groups_of, too_large, too_short, without_power
from emulator.forecast.host import Host, measured
from emulator.forecast.mean_round import Kind, MeanRound, comparable, margin, price, weights, work
from emulator.forecast.rehearsal import ROUNDS, Rehearsal, enough, rehearse, sound
from emulator.forecast.shared import FilledLink, shared_links
from emulator.forecast.travel import Travel, travel_of
from emulator.lab.build import lab_of
from emulator.lab.doubts import about_data, about_model
from emulator.lab.faulty import Faulty
from emulator.lab.lab import CPU, Lab
from emulator.lab.links import DRAWS, FEW, band
from emulator.lab.stacking import why_alone
from emulator.play.conduct import Conduct, conducts_of
from emulator.pricing.costs import Costs, of_tensors
from emulator.pricing.memory import Footprint, footprint
from emulator.record.events import Refused
from emulator.record.run import Run
from scenarios.builders import selections
from scenarios.builders.assumed import assumptions
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

Conducts = Mapping[str, Conduct]  # by label


@dataclass(frozen=True)
class Course:
    """The course of a run of one algorithm."""

    mode: str  # sync or async
    rounds: int  # rows of the record: rounds, or versions
    asked: int  # devices asked per round; asynchronous: at work
    needed: int  # replies that close a round, or make a version
    turns: int  # rounds as schedules count them; asynchronous: each of as many replies as `asked`

    @classmethod
    def of(cls, scenario: Scenario) -> Course:
        rules = Conduct.of(scenario).rules
        return cls(scenario.rounds.mode, rules.max, rules.ask, rules.needed, scenario.rounds.max)


@dataclass(frozen=True)
class Forecast:
    """The figures that `fedlapse check` shows.

    The first label is the baseline.  `ratios` has an entry for each other label whose rounds have the same rules and
    count about as many replies as the baseline's.  `sentences` has an entry for each label but the baseline, which has
    one only if it gets too few replies, or if the rounds of another label have other rules.
    """

    name: str
    network: str  # the network model, which determines the seconds of transfers: tcp, ideal, ...
    seed: int  # the rehearsed seed
    seeds: int
    devices: int
    courses: Mapping[str, Course]
    groups: Sequence[FleetGroup]
    shared: Sequence[FilledLink]  # empty if devices share only the server's link
    prices: Mapping[str, MeanRound]
    bands: Mapping[str, tuple[float, float]]  # of a mean round, s, by what is chance on full links
    ratios: Mapping[str, Ratio]
    sentences: Mapping[str, str]
    too_short: Mapping[str, float | None]  # by label: a sufficient deadline_s, if known
    memory: Mapping[str, Footprint]
    labels: Mapping[str, Sequence[int]]  # by device: training examples of each class
    effort: Effort
    alone: Mapping[str, str]  # by label: why its devices train one by one though the scenario does not ask for it
    failing: Mapping[str, str]  # by label: why none of its rounds succeeds; it has no figures
    warnings: Sequence[str]
    travel: Travel | None = None  # of the model; None: all of it travels
    selections: Mapping[str, str] = field(default_factory=dict)  # by label: the choice of devices that is not random

    def plain(self) -> dict[str, Any]:
        """Returns the forecast as plain values for JSON."""
        return asdict(self)


def forecast_of(scenario: Scenario, workers: int, places: Sequence[str] = (CPU,), draws: int = DRAWS) -> Forecast:
    """Rehearses each algorithm under the first seed, and returns the forecast of the scenario.

    `places`: the CPU or GPUs to compute on.  `draws`: of what is chance on full links, each of which rehearses all
    again; 1: no `bands`.  Raises BadScenario if no round of any algorithm would succeed.
    """
    seed = scenario.seeds[0]
    lab = lab_of(scenario.model_copy(update={"seeds": (seed,)}), places)
    check_deadline(lab, scenario)
    lab, broken = sound(lab, seed)
    host, conducts = measured(lab, seed, workers), conducts_of(scenario, lab.algorithms)
    kinds = {label: _kind(algorithm, conducts[label].rules) for label, algorithm in lab.algorithms.items()}
    rounds, unseen = enough(kinds, {label: conduct.rules for label, conduct in conducts.items()})
    rehearsals, failing = _rehearsed(lab, seed, conducts, rounds)
    failing = broken | failing
    if not rehearsals:
        raise BadScenario(next(iter(failing.values())))
    lab = replace(lab, algorithms={label: lab.algorithms[label] for label in rehearsals})
    kinds = comparable({label: kinds[label] for label in rehearsals}, rounds)
    cut_short = _cut_short(rounds, conducts, unseen)
    return _figures(scenario, lab, host, kinds, rehearsals, failing, cut_short, draws)


def _kind(algorithm: Algorithm, rules: RoundRules) -> Kind:
    return lambda number: algorithm.round_kind(rules.turn(number))


def _figures(
    scenario: Scenario,
    lab: Lab,
    host: Host,
    kinds: Mapping[str, Kind],
    rehearsals: Mapping[str, Rehearsal],
    failing: Mapping[str, str],
    cut_short: Iterable[str],
    draws: int,
) -> Forecast:
    """Returns the forecast for the algorithms of `lab`, all of which were rehearsed.  `cut_short`: warnings."""
    seed, conducts, played = scenario.seeds[0], conducts_of(scenario, rehearsals), rehearsals.items()
    most = {label: conduct.rules.max for label, conduct in conducts.items()}
    prices = {label: price(found.rows, most[label], kinds[label]) for label, found in played}
    shares = {label: weights(len(found.rows), most[label], kinds[label]) for label, found in played}
    memory = {label: largest(Costs(lab, label, seed), found) for label, found in played}
    late = _late(lab, seed, conducts, rehearsals, prices)
    ratios, sentences = _compared(conducts, kinds, rehearsals, prices, late)
    span = max(cost.span_s for cost in prices.values())
    groups = groups_of(lab, seed, span)
    return Forecast(
        name=scenario.name,
        network=scenario.network_model,
        seed=seed,
        seeds=len(scenario.seeds),
        devices=len(lab.fleet),
        courses={label: Course.of(scenario.under(label)) for label in prices},
        groups=groups,
        shared=shared_links(lab, seed, rehearsals, shares),
        prices=prices,
        bands=_bands(lab, seed, conducts, kinds, rehearsals, prices, draws),
        ratios=ratios,
        sentences=sentences,
        too_short=late,
        memory=memory,
        labels=lab.label_counts(seed),
        effort=effort_of(scenario, lab, host, rehearsals, prices),
        alone=why_alone(scenario, lab),
        failing=failing,
        warnings=[*cut_short, *_doubts(scenario, lab, rehearsals, groups, memory, span)],
        travel=travel_of(lab),
        selections={
            entry.name: selections.named(entry, scenario)[0]
            for entry in scenario.algorithms
            if entry.name in lab.selections and entry.name in prices
        },
    )


def _bands(
    lab: Lab,
    seed: int,
    conducts: Conducts,
    kinds: Mapping[str, Kind],
    rehearsals: Mapping[str, Rehearsal],
    prices: Mapping[str, MeanRound],
    draws: int,
) -> dict[str, tuple[float, float]]:
    """Returns {label: the band of the mean round, s, over these draws of TCP's chances on full links}.  Labels whose
    rounds have no such chance are left out."""
    found = {}
    for label, cost in prices.items() if lab.server_link.tcp.windows else ():
        rounds, seconds = len(rehearsals[label].rows), [cost.seconds]
        for draw in range(1, draws):
            rows = rehearse(replace(lab, draw=draw), Run(label, seed), conducts[label], rounds).rows
            seconds.append(price(rows, conducts[label].rules.max, kinds[label]).seconds if rows else cost.seconds)
            if draw == FEW and len(set(seconds)) == 1:
                break  # no link is full, so nothing is chance
        if max(seconds) > min(seconds):
            found[label] = band(seconds)
    return found


def _doubts(
    scenario: Scenario,
    lab: Lab,
    rehearsals: Mapping[str, Rehearsal],
    groups: Sequence[FleetGroup],
    memory: Mapping[str, Footprint],
    span: float,
) -> Iterator[str]:
    """Yields warnings about rounds, model, data and fleet, and the assumptions of the scenario.  `span`: length of
    the longest run, s."""
    yield from about_model(lab)
    yield from _failures(rehearsals)
    yield from absent(lab, span)
    yield from too_large(groups, memory)
    yield from assumptions(scenario)
    yield from about_data(lab, scenario.data.split)
    yield from without_power(lab)
    yield from too_short(groups, lab.placed(scenario.seeds[0]).loops.most(span))


def _rehearsed(
    lab: Lab, seed: int, conducts: Conducts, rounds: Mapping[str, int]
) -> tuple[dict[str, Rehearsal], dict[str, str]]:
    """Returns the rehearsals in which some round succeeds, by label, and {label: why none does} for the others."""
    rehearsals, failing = {}, {}
    for label in lab.algorithms:
        try:
            found = rehearse(lab, Run(label, seed), conducts[label], rounds[label])
            why = _no_round(label, found)
        except Faulty as fault:
            why = str(fault)
        if why:
            failing[label] = why
        else:
            rehearsals[label] = found
    return rehearsals, failing


def _no_round(label: str, found: Rehearsal) -> str | None:
    """Returns the reason why no round succeeds; None if some round does."""
    if not all(row["failed"] for row in found.rows):
        return None
    refused = [event.sentence for event in found.events if isinstance(event, Refused)]
    return found.failure or ": ".join([f"no round of {label} succeeds", *refused[-1:]])


def _late(
    lab: Lab, seed: int, conducts: Conducts, rehearsals: Mapping[str, Rehearsal], prices: Mapping[str, MeanRound]
) -> dict[str, float | None]:
    """Returns {label: a sufficient deadline} for the labels whose replies the deadline keeps out; in s, None if not
    known."""
    return {
        label: _enough(lab, Run(label, seed), conducts[label], len(rehearsals[label].rows))
        for label, cost in prices.items()
        if too_late(cost, conducts[label].rules.needed, conducts[label].rules.deadline)
    }


def _compared(
    conducts: Conducts,
    kinds: Mapping[str, Kind],
    rehearsals: Mapping[str, Rehearsal],
    prices: Mapping[str, MeanRound],
    late: Mapping[str, float | None],
) -> tuple[dict[str, Ratio], dict[str, str]]:
    """Returns the ratios to the baseline of the labels with about as many replies as it has, and a sentence for each
    label.

    The baseline itself has a sentence only if it gets too few replies, or if the rounds of another have other rules.
    """
    baseline = next(iter(prices))
    theirs, rules = prices[baseline], conducts[baseline].rules
    apart = [label for label in prices if conducts[label].rules != rules]
    short = [label for label, cost in prices.items() if label not in apart and fewer(cost, theirs, rules.needed)]
    few = {*late, *short}
    ratios, said = {}, {}
    for label, cost in prices.items():
        if label in apart or (apart and label == baseline):
            said[label] = by_the_hour(label, cost)
        elif label in few:
            said[label] = shortage(label, cost, rules.needed, rules.deadline, late.get(label))
        elif label == baseline:
            continue
        elif baseline in few or fewer(theirs, cost, rules.needed):
            said[label] = no_match(label, cost, baseline, theirs)
        else:
            ratios[label] = _ratio(kinds, rules.max, label, baseline, rehearsals, prices)
            said[label] = sentence(label, baseline, ratios[label], theirs.seconds)
    return ratios, said


def _ratio(
    kinds: Mapping[str, Kind],
    rounds: int,
    label: str,
    baseline: str,
    rehearsals: Mapping[str, Rehearsal],
    prices: Mapping[str, MeanRound],
) -> Ratio:
    mine, theirs = rehearsals[label], rehearsals[baseline]
    kind, base_kind = kinds[label], kinds[baseline]
    work_of = work(mine.events, weights(len(mine.rows), rounds, kind))
    base_work = work(theirs.events, weights(len(theirs.rows), rounds, base_kind))
    chance = margin(mine.rows, theirs.rows, rounds, kind, base_kind)
    return ratio(prices[label], prices[baseline], work_of, base_work, chance)


def _enough(lab: Lab, run: Run, conduct: Conduct, rounds: int) -> float | None:
    """Returns a deadline in s that all replies keep, from a rehearsal without a deadline; None if no round succeeds."""
    patient = replace(conduct, rules=replace(conduct.rules, deadline=None))
    return longest(rehearse(lab, run, patient, max(2, rounds)).events)


def _cut_short(rounds: Mapping[str, int], conducts: Conducts, unseen: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    few = {
        f"only {rounds[label]} rounds were simulated, because {conduct.rules.ask} devices are selected in each"
        for label, conduct in conducts.items()
        if rounds[label] < min(ROUNDS, conduct.rules.max)
    }
    yield from sorted(few)
    for label, kinds in unseen.items():
        for kind, number in kinds.items():
            yield (
                f"{label}: rounds like round {number} ({kind}) are not in its figures: only {rounds[label]} rounds "
                f"were simulated, because {conducts[label].rules.ask} devices are selected in each"
            )


def _failures(rehearsals: Mapping[str, Rehearsal]) -> list[str]:
    failed = [found.failure for found in rehearsals.values() if found.failure]
    rows = {label: sum(bool(row["failed"]) for row in found.rows) for label, found in rehearsals.items()}
    some = [
        f"{label}: {count} of {len(rehearsals[label].rows)} simulated rounds fail: too few replies"
        for label, count in rows.items()
        if count
    ]
    return [*some, *failed]


def largest(costs: Costs, rehearsal: Rehearsal) -> Footprint:
    """Returns the largest memory that training takes on any device, with messages as large as those in the
    rehearsal."""
    load = costs.heaviest()
    uploaded = sum(size for kind, size in rehearsal.uploaded.items() if kind != "weights")
    downloaded, kept = of_tensors(rehearsal.downloaded), of_tensors(rehearsal.kept)
    return footprint(costs.lab, costs.label, load, downloaded, uploaded, kept)

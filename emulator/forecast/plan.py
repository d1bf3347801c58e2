"""The forecast of `fedlapse check`: the cost of a scenario before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from algorithms.algorithm import Algorithm
from emulator.conversation.rounds import RoundRules
from emulator.forecast.breakeven import Ratio, fewer, longest, no_match, ratio, sentence, shortage, too_late
from emulator.forecast.deadline import check_deadline
from emulator.forecast.effort import Effort, effort_of
from emulator.forecast.groups import FleetGroup, absent, groups_of, too_large, too_short, without_power
from emulator.forecast.host import Host, measured
from emulator.forecast.mean_round import Kind, MeanRound, comparable, margin, price, weights, work
from emulator.forecast.rehearsal import ROUNDS, Rehearsal, enough, rehearse, sound
from emulator.forecast.shared import FilledLink, shared_links
from emulator.lab.build import lab_of
from emulator.lab.doubts import about_data, about_model
from emulator.lab.guarded import Faulty
from emulator.lab.lab import CPU, Lab
from emulator.lab.links import DRAWS, FEW, band
from emulator.lab.stacking import why_alone
from emulator.play.conduct import Conduct
from emulator.pricing.costs import Costs
from emulator.pricing.memory import Footprint, footprint
from emulator.record.events import Refused
from emulator.record.run import Run
from scenarios.builders.assumed import assumptions
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario


@dataclass(frozen=True)
class Forecast:
    """The figures that `fedlapse check` shows.

    The first label is the baseline.  `ratios` has an entry for each other label whose rounds count about as many
    replies as the baseline's.  `sentences` has an entry for each label but the baseline, which has one only if it gets
    too few replies.
    """

    name: str
    network: str  # the network model, which determines the seconds of transfers: tcp, ideal, ...
    seed: int  # the rehearsed seed
    seeds: int
    rounds: int
    devices: int
    asked: int  # devices asked per round
    needed: int  # replies that close a round
    turns: int | None  # asynchronous: the rounds that the versions count as, each of as many replies as `asked`
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

    def plain(self) -> dict[str, Any]:
        """Returns the forecast as plain values for JSON."""
        return asdict(self)


def forecast_of(scenario: Scenario, workers: int, places: Sequence[str] = (CPU,)) -> Forecast:
    """Rehearses each algorithm under the first seed, and returns the forecast of the scenario.

    `places`: the CPU or GPUs to compute on.  Raises BadScenario if no round of any algorithm would succeed.
    """
    seed = scenario.seeds[0]
    lab = lab_of(scenario.model_copy(update={"seeds": (seed,)}), places)
    check_deadline(lab, scenario)
    lab, broken = sound(lab, seed)
    host, conduct = measured(lab, seed, workers), Conduct.of(scenario)
    kinds = {label: _kind(algorithm, conduct.rules) for label, algorithm in lab.algorithms.items()}
    rounds, unseen = enough(kinds, conduct.rules)
    rehearsals, failing = _rehearsed(lab, seed, conduct, rounds)
    failing = broken | failing
    if not rehearsals:
        raise BadScenario(next(iter(failing.values())))
    lab = replace(lab, algorithms={label: lab.algorithms[label] for label in rehearsals})
    kinds = comparable({label: kinds[label] for label in rehearsals}, rounds)
    cut_short = _cut_short(rounds, conduct.rules, unseen)
    return _figures(scenario, lab, host, kinds, rehearsals, failing, cut_short)


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
) -> Forecast:
    """Returns the forecast for the algorithms of `lab`, all of which were rehearsed.  `cut_short`: warnings."""
    seed, conduct = scenario.seeds[0], Conduct.of(scenario)
    rules, played = conduct.rules, rehearsals.items()
    prices = {label: price(found.rows, rules.max, kinds[label]) for label, found in played}
    shares = {label: weights(len(found.rows), rules.max, kinds[label]) for label, found in played}
    memory = {label: largest(Costs(lab, label, seed), found) for label, found in played}
    late = _late(lab, seed, conduct, rehearsals, prices)
    ratios, sentences = _compared(conduct, kinds, rehearsals, prices, late)
    span = max(cost.span_s for cost in prices.values())
    groups = groups_of(lab, seed, span)
    return Forecast(
        name=scenario.name,
        network=scenario.network_model,
        seed=seed,
        seeds=len(scenario.seeds),
        rounds=rules.max,
        devices=len(lab.fleet),
        asked=rules.ask,
        needed=rules.needed,
        turns=scenario.rounds.max if rules.asynchronous else None,
        groups=groups,
        shared=shared_links(lab, seed, rehearsals, shares),
        prices=prices,
        bands=_bands(lab, seed, conduct, kinds, rehearsals, prices),
        ratios=ratios,
        sentences=sentences,
        too_short=late,
        memory=memory,
        labels=lab.label_counts(seed),
        effort=effort_of(scenario, lab, host, rehearsals, prices),
        alone=why_alone(scenario, lab),
        failing=failing,
        warnings=[*cut_short, *_doubts(scenario, lab, rehearsals, groups, memory, span)],
    )


def _bands(
    lab: Lab,
    seed: int,
    conduct: Conduct,
    kinds: Mapping[str, Kind],
    rehearsals: Mapping[str, Rehearsal],
    prices: Mapping[str, MeanRound],
) -> dict[str, tuple[float, float]]:
    """Returns {label: the band of the mean round, s, over DRAWS draws of TCP's chances on full links}.  Labels whose
    rounds have no such chance are left out."""
    found = {}
    for label, cost in prices.items() if lab.server_link.tcp.windows else ():
        rounds, seconds = len(rehearsals[label].rows), [cost.seconds]
        for draw in range(1, DRAWS):
            rows = rehearse(replace(lab, draw=draw), Run(label, seed), conduct, rounds).rows
            seconds.append(price(rows, conduct.rules.max, kinds[label]).seconds if rows else cost.seconds)
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


def _rehearsed(lab: Lab, seed: int, conduct: Conduct, rounds: int) -> tuple[dict[str, Rehearsal], dict[str, str]]:
    """Returns the rehearsals in which some round succeeds, by label, and {label: why none does} for the others."""
    rehearsals, failing = {}, {}
    for label in lab.algorithms:
        try:
            found = rehearse(lab, Run(label, seed), conduct, rounds)
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
    lab: Lab, seed: int, conduct: Conduct, rehearsals: Mapping[str, Rehearsal], prices: Mapping[str, MeanRound]
) -> dict[str, float | None]:
    """Returns {label: a sufficient deadline} for the labels whose replies the deadline keeps out; in s, None if not
    known."""
    rules = conduct.rules
    return {
        label: _enough(lab, Run(label, seed), conduct, len(rehearsals[label].rows))
        for label, cost in prices.items()
        if too_late(cost, rules.needed, rules.deadline)
    }


def _compared(
    conduct: Conduct,
    kinds: Mapping[str, Kind],
    rehearsals: Mapping[str, Rehearsal],
    prices: Mapping[str, MeanRound],
    late: Mapping[str, float | None],
) -> tuple[dict[str, Ratio], dict[str, str]]:
    """Returns the ratios to the baseline of the labels with about as many replies as it has, and a sentence for each
    label.

    The baseline itself has a sentence only if it gets too few replies.
    """
    rules, baseline = conduct.rules, next(iter(prices))
    theirs = prices[baseline]
    short = [label for label, cost in prices.items() if fewer(cost, theirs, rules.needed)]
    few = {*late, *short}
    ratios, said = {}, {}
    for label, cost in prices.items():
        if label in few:
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


def _cut_short(rounds: int, rules: RoundRules, unseen: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    if rounds < min(ROUNDS, rules.max):
        yield f"only {rounds} rounds were simulated, because {rules.ask} devices are selected in each"
    for label, kinds in unseen.items():
        for kind, number in kinds.items():
            yield (
                f"{label}: rounds like round {number} ({kind}) are not in its figures: only {rounds} rounds were "
                f"simulated, because {rules.ask} devices are selected in each"
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
    downloaded, kept = sum(rehearsal.downloaded.values()), sum(rehearsal.kept.values())
    return footprint(costs.lab, costs.label, load, downloaded, uploaded, kept)

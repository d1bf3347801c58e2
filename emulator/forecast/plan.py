"""What a scenario will take, before anything is trained: the figures of `fedlapse check`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from algorithms.algorithm import Phase
from devices.device import UNKNOWN
from emulator.conversation.rounds import RoundRules
from emulator.forecast.breakeven import (
    Ratio,
    fewer,
    longest,
    no_match,
    ratio,
    sentence,
    shortage,
    too_late,
)
from emulator.forecast.deadline import Alone, all_alone, check_deadline
from emulator.forecast.host import TIMERS, Host, measured
from emulator.forecast.memory import largest
from emulator.forecast.price import Price, margin, price, weights, work
from emulator.forecast.rehearsal import ROUNDS, Rehearsal, enough, rehearse
from emulator.play.conduct import Conduct
from emulator.pricing.costs import Costs
from emulator.pricing.memory import Footprint
from emulator.results.caveats import LOOPED, Looped, unmetered
from emulator.study.build import study_of
from emulator.study.jobs import Run, message_sizes
from emulator.study.loops import Loops
from emulator.study.study import Study
from scenarios.build.assumed import assumptions
from scenarios.build.roster import some
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

FASTEST = 1000.0  # the largest speed-up that `run --speedup` takes
FORWARD = 100  # examples that a model is evaluated on at a time


@dataclass(frozen=True)
class Span:
    """From the least to the largest of a group."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Span:
        held = list(values)
        return cls(min(held), max(held))


@dataclass(frozen=True)
class Group:
    """Devices whose names differ by their number only."""

    name: str
    count: int
    sometimes_off: int  # devices that are off line at some time,
    never_on: int  # and always
    flops_per_s: Span
    memory_bytes: Span
    down: Span  # bytes/s, of recordings the mean
    up: Span
    repeats: float | None  # s, after which the shortest recording starts over; None if rates are constant
    loops: int  # how often one does within the longest run
    latency: Span  # s, one way
    examples: Span
    alone: Mapping[str, Mapping[str, Span]]  # label -> {"down", "compute", "up", "seconds"}: a whole round, no sharing


@dataclass(frozen=True)
class Effort:
    """What playing the whole scenario takes on this computer; roughly."""

    host: Host
    seconds: float  # for all runs
    memory_bytes: int
    speedup: float  # the largest in the socket world at which devices' training ends in time
    server_speedup: float  # and the server's work


@dataclass(frozen=True)
class Plan:
    """All figures of a check.

    `ratios` has an entry for each label but the first, the baseline, whose rounds get about as many replies;
    `sentences` has one for each that is compared, and for any label of which too few replies come in time.
    """

    name: str
    seed: int  # that was rehearsed
    seeds: int
    rounds: int
    devices: int
    asked: int  # in a round
    needed: int  # replies that close it
    groups: Sequence[Group]
    prices: Mapping[str, Price]
    ratios: Mapping[str, Ratio]
    sentences: Mapping[str, str]
    memory: Mapping[str, Footprint]
    labels: Mapping[str, Sequence[int]]  # device -> training examples of each class
    effort: Effort
    failing: Mapping[str, str]  # label -> why no round of it succeeds; it has no figures
    warnings: Sequence[str]

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def plan_of(scenario: Scenario, workers: int) -> Plan:
    """Rehearses each algorithm under the first seed.  Raises BadScenario if no round of any would succeed."""
    seed = scenario.seeds[0]
    study = study_of(scenario.model_copy(update={"seeds": (seed,)}))
    check_deadline(study, scenario)
    host, conduct = measured(study, seed, workers), Conduct.of(scenario)
    kinds = {label: algorithm.round_kind for label, algorithm in study.algorithms.items()}
    rounds, unseen = enough(kinds, conduct.rules)
    rehearsals = {label: rehearse(study, Run(label, seed), conduct, rounds) for label in study.algorithms}
    failing = {label: why for label, found in rehearsals.items() if (why := _no_round(label, found))}
    rehearsals = {label: found for label, found in rehearsals.items() if label not in failing}
    if not rehearsals:
        raise BadScenario(next(iter(failing.values())))
    prices = {label: price(found.rows, conduct.rules.max, kinds[label]) for label, found in rehearsals.items()}
    compared, said = _compared(study, seed, conduct, rehearsals, prices)
    span = max(cost.span_s for cost in prices.values())
    groups = _groups(study, seed, span)
    memory = {label: largest(Costs(study, label, seed), found) for label, found in rehearsals.items()}
    return Plan(
        name=scenario.name,
        seed=seed,
        seeds=len(scenario.seeds),
        rounds=conduct.rules.max,
        devices=len(study.fleet),
        asked=conduct.rules.ask,
        needed=conduct.rules.needed,
        groups=groups,
        prices=prices,
        ratios=compared,
        sentences=said,
        memory=memory,
        labels=study.label_counts(seed),
        effort=_effort(scenario, study, host, rehearsals, prices),
        failing=failing,
        warnings=[
            *_cut_short(rounds, conduct.rules, unseen),
            *_failures(rehearsals),
            *_absent(study, span),
            *_too_large(groups, memory),
            *assumptions(scenario),
            *unmetered(name for name in some(study.fleet) if study.fleet[name].profile.power == UNKNOWN),
            *_too_short(groups, study.placed(seed).loops.most(span)),
        ],
    )


def _no_round(label: str, found: Rehearsal) -> str | None:
    """Why no round of it succeeds, if none does."""
    if not all(row["failed"] for row in found.rows):
        return None
    refused = [str(line["why"]) for line in found.events if line["event"] == "refused"]
    return found.failure or ": ".join([f"no round of {label} succeeds", *refused[-1:]])


def _compared(
    study: Study, seed: int, conduct: Conduct, rehearsals: Mapping[str, Rehearsal], prices: Mapping[str, Price]
) -> tuple[dict[str, Ratio], dict[str, str]]:
    """Ratios to the baseline, where replies are about as many, and what is said about each label."""
    rules, baseline, ratios, said = conduct.rules, next(iter(prices)), {}, {}
    theirs = prices[baseline]
    kinds = {label: study.algorithms[label].round_kind for label in prices}
    works = {
        label: work(found.events, weights(len(found.rows), rules.max, kinds[label]))
        for label, found in rehearsals.items()
    }
    for label, cost in prices.items():
        late = too_late(cost, rules.needed, rules.deadline)
        if late or fewer(cost, theirs):
            rounds = len(rehearsals[label].rows)
            enough = _enough(study, Run(label, seed), conduct, rounds) if late else None
            said[label] = shortage(label, cost, rules.needed, rules.deadline, enough)
        elif label != baseline and (baseline in said or fewer(theirs, cost)):
            said[label] = no_match(label, cost, baseline, theirs)
        elif label != baseline:
            rows, base_rows = rehearsals[label].rows, rehearsals[baseline].rows
            chance = margin(rows, base_rows, rules.max, kinds[label], kinds[baseline])
            ratios[label] = ratio(cost, theirs, works[label], works[baseline], chance)
            said[label] = sentence(label, baseline, ratios[label], theirs.seconds)
    return ratios, said


def _enough(study: Study, run: Run, conduct: Conduct, rounds: int) -> float | None:
    """A deadline that no round needs to be cut for: it is rehearsed once more, without."""
    patient = replace(conduct, rules=replace(conduct.rules, deadline=None))
    return longest(rehearse(study, run, patient, max(2, rounds)).events)


def _groups(study: Study, seed: int, span: float) -> list[Group]:
    alone = {
        label: all_alone(study, label, seed, algorithm.downloads, message_sizes(study, Run(label, seed))[0])
        for label, algorithm in study.algorithms.items()
    }
    names: dict[str, list[str]] = {}
    for name in some(study.fleet):
        names.setdefault(name.rpartition("-")[0], []).append(name)
    counts = Counter(name.rpartition("-")[0] for name in study.names)
    return [_group(study, seed, span, called, members, counts[called], alone) for called, members in names.items()]


def _group(
    study: Study,
    seed: int,
    span: float,
    called: str,
    names: Sequence[str],
    count: int,
    alone: Mapping[str, Mapping[str, Alone]],
) -> Group:
    """`names` stand for all `count` of the group."""
    devices = [study.fleet[name] for name in names]
    placed, loops = study.placed(seed), Loops()
    links = [placed.links[name] for name in names]
    loops.add(*(way for link in links for way in (link.down, link.up)))
    parts = ("down", "compute", "up", "seconds")
    return Group(
        name=called,
        count=count,
        sometimes_off=sum(not device.presence.always for device in devices) * count // len(names),
        never_on=sum(device.presence.next_on(0.0) == math.inf for device in devices) * count // len(names),
        flops_per_s=Span.of(device.profile.flops_per_s for device in devices),
        memory_bytes=Span.of(device.profile.memory_bytes for device in devices),
        down=Span.of(link.mean("down") for link in links),
        up=Span.of(link.mean("up") for link in links),
        repeats=None if (period := min(link.repeats for link in links)) == math.inf else period,
        loops=loops.most(span)[0],
        latency=Span.of(link.mean_latency for link in links),
        examples=Span.of(len(study.held(seed, name)) for name in names),
        alone={
            label: {part: Span.of(getattr(found[name], part) for name in names) for part in parts}
            for label, found in alone.items()
        },
    )


def _effort(
    scenario: Scenario,
    study: Study,
    host: Host,
    rehearsals: Mapping[str, Rehearsal],
    prices: Mapping[str, Price],
) -> Effort:
    conduct, runs = Conduct.of(scenario), len(scenario.seeds)
    trained = sum(cost.flops for cost in prices.values()) * conduct.rules.max
    evaluated = sum(_evaluation(scenario, study, label) for label in prices)
    asked, rounds = conduct.rules.ask, conduct.rules.max
    ever_asked = min(len(study.fleet), asked * rounds)
    held = sum(
        asked * sum(found.uploaded.values()) + ever_asked * sum(found.kept.values()) for found in rehearsals.values()
    )
    return Effort(
        host=host,
        seconds=runs * (trained + evaluated) / (host.flops_per_s * host.workers),
        memory_bytes=host.process_bytes * (1 + host.workers) + runs * held,
        speedup=largest_speedup(host, asked, rehearsals.values()),
        server_speedup=server_speedup(host, rehearsals.values()),
    )


def _evaluation(scenario: Scenario, study: Study, label: str) -> float:
    """FLOPs that the metrics of a run take: forward passes, and one training of every device for `personalised`."""
    every, rounds, seed = scenario.evaluate.every, scenario.rounds.max, scenario.seeds[0]
    if not every:
        return 0.0
    assert study.dataset
    costs, split = Costs(study, label, seed), study.splits[seed]
    examples = len(study.dataset.y_test) + sum(len(split.validation[name][0]) for name in some(split.validation))
    once = costs.meter.flops(Phase("evaluate", "forward", examples, FORWARD))
    kinds = study.algorithms[label].downloads
    everyone = sum(costs.device(name, 0, kinds, ()).total_flops for name in some(split.train))
    often = Conduct.of(scenario).schedule.personalise_every
    personalised = 0 if often is None else 1 + (rounds - 1) // often if often else 1
    return once * (rounds // every + 1) + everyone * personalised


def largest_speedup(host: Host, asked: int, rehearsals: Iterable[Rehearsal]) -> float:
    """At which no device's training outlasts its model, when all that are asked train at once on the workers."""
    in_turn = math.ceil(asked / host.workers)
    starts = (line for found in rehearsals for line in found.events if line["event"] == "compute.start")
    jobs = ((sum(line["seconds"].values()), in_turn * _training(host, line)) for line in starts)
    return _keeps(jobs)


def server_speedup(host: Host, rehearsals: Iterable[Rehearsal]) -> float:
    """At which the server's work ends in time, though it may have to wait for the training of one that is late."""
    jobs = []
    for found in rehearsals:
        trainings = [_training(host, line) for line in found.events if line["event"] == "compute.start"]
        wait = max(trainings, default=0.0) if any(row["late"] for row in found.rows) else 0.0
        for line in found.events:
            if line["event"] == "server.start":
                own = found.combining if line["what"] == "combine" else line["flops"] / host.flops_per_s
                jobs.append((sum(line["seconds"].values()), own + wait))
    return _keeps(jobs)


def _training(host: Host, start: Mapping[str, Any]) -> float:
    """Seconds that it really takes here."""
    return float(sum(start["phases"].values())) / host.flops_per_s


def _keeps(jobs: Iterable[tuple[float, float]]) -> float:
    """As sockets.py advises afterwards: the least (modelled seconds) / (real seconds) of a job that could be late."""
    return min((modelled / real for modelled, real in jobs if real > TIMERS), default=FASTEST)


def _cut_short(rounds: int, rules: RoundRules, unseen: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    if rounds < min(ROUNDS, rules.max):
        yield f"only {rounds} rounds were rehearsed, as {rules.ask} devices are asked in each"
    for label, kinds in unseen.items():
        for kind, number in kinds.items():
            yield (
                f"{label}: rounds like round {number} ({kind}) are not in its figures: only {rounds} rounds were "
                f"rehearsed, as {rules.ask} devices are asked in each"
            )


def _failures(rehearsals: Mapping[str, Rehearsal]) -> list[str]:
    failed = [found.failure for found in rehearsals.values() if found.failure]
    rows = {label: sum(bool(row["failed"]) for row in found.rows) for label, found in rehearsals.items()}
    some = [
        f"{label}: {count} of {len(rehearsals[label].rows)} rounds rehearsed fail: too few replies"
        for label, count in rows.items()
        if count
    ]
    return [*some, *failed]


def _absent(study: Study, span: float) -> Iterator[str]:
    """Groups of whom nobody is ever on line, or not in `span` seconds."""
    groups: dict[str, float] = {}
    for name in some(study.fleet):
        called = name.rpartition("-")[0]
        groups[called] = min(groups.get(called, math.inf), study.fleet[name].presence.next_on(0.0))
    for called, begins in groups.items():
        if begins == math.inf:
            yield f"group {called} is never on line; look at its `presence`"
        elif begins >= span:
            yield f"group {called} is off line until {begins:g} s, and the longest run takes some {span:.3g} s"


def _too_short(groups: Sequence[Group], shared: Looped) -> Iterator[str]:
    """Recordings that start over again and again; of the `shared` ones the one that does so most."""
    for group in groups:
        if group.loops > LOOPED:
            yield (
                f"{group.name}: a recording of {group.repeats:.3g} s starts over {group.loops} times within the "
                "longest run; it is too short for it"
            )
    times, name = shared
    if times > LOOPED:
        yield f"{name}, which devices share, starts over {times} times within the longest run; it is too short for it"


def _too_large(groups: Sequence[Group], memory: Mapping[str, Footprint]) -> list[str]:
    return [
        f"{label} needs {found.total / 1e6:.3g} MB on a device; {group.name} has {group.memory_bytes.low / 1e6:.3g} MB"
        for label, found in memory.items()
        for group in groups
        if found.total > group.memory_bytes.low
    ]

"""Estimates what it takes to play a scenario on this computer: time, memory, and the largest speed-up over sockets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from algorithms.algorithm import Phase
from emulator.forecast.host import TIMERS, Host
from emulator.forecast.mean_round import MeanRound
from emulator.forecast.rehearsal import Rehearsal
from emulator.lab.lab import Lab
from emulator.play.conduct import Conduct
from emulator.pricing.costs import Costs
from emulator.record.events import ComputeStarted, ServerStarted
from scenarios.builders.roster import sample
from scenarios.schema.scenario import Scenario

FASTEST = 1000.0  # upper limit of `run --speedup`
FORWARD = 100  # examples per forward pass of an evaluation


@dataclass(frozen=True)
class Effort:
    """Estimates of what all runs of a scenario take on this computer."""

    host: Host
    seconds: float  # for all runs
    memory_bytes: int
    speedup: float  # the largest over sockets at which the devices' training ends in time
    server_speedup: float  # the largest at which the server's work ends in time


def effort_of(
    scenario: Scenario, lab: Lab, host: Host, rehearsals: Mapping[str, Rehearsal], prices: Mapping[str, MeanRound]
) -> Effort:
    """Returns the effort of all runs of the scenario.  `lab` has the data of its first seed; rehearsals and prices
    are by label."""
    runs, rules = len(scenario.seeds), {label: Conduct.of(scenario.under(label)).rules for label in prices}
    trained = sum(cost.flops * rules[label].max for label, cost in prices.items())
    evaluated = sum(_evaluation(scenario, lab, label) for label in prices)
    held = sum(
        rules[label].ask * sum(found.uploaded.values())
        + min(len(lab.fleet), rules[label].ask * rules[label].max) * sum(found.kept.values())
        for label, found in rehearsals.items()
    )
    return Effort(
        host=host,
        seconds=runs * (trained + evaluated) / (host.flops_per_s * host.workers),
        memory_bytes=host.process_bytes * (1 + host.workers) + runs * held,
        speedup=min(largest_speedup(host, rules[label].ask, [found]) for label, found in rehearsals.items()),
        server_speedup=server_speedup(host, rehearsals.values()),
    )


def _evaluation(scenario: Scenario, lab: Lab, label: str) -> float:
    """Returns the FLOPs of a run's metrics: forward passes, and a local training of every device for `personalised`."""
    every, rounds, seed = scenario.evaluate.every, scenario.rounds.max, scenario.seeds[0]
    if not every:
        return 0.0
    assert lab.dataset
    costs, split = Costs(lab, label, seed), lab.splits[seed]
    tested = len(lab.dataset.y_test) if scenario.evaluate.test else 0
    examples = tested + sum(len(split.validation[name][0]) for name in sample(split.validation))
    once = costs.meter.flops(Phase("evaluate", "forward", examples, FORWARD))
    kinds = lab.algorithms[label].downloads
    everyone = sum(costs.device(name, 0, kinds, ()).total_flops for name in sample(split.train))
    often = Conduct.of(scenario).schedule.personalise_every
    personalised = 0 if often is None else 1 + (rounds - 1) // often if often else 1
    return once * (rounds // every + 1) + everyone * personalised


def largest_speedup(host: Host, asked: int, rehearsals: Iterable[Rehearsal]) -> float:
    """Returns the largest --speedup at which every device's real training still ends within its modelled time.

    All devices that a round asks train at once, spread over the workers.
    """
    in_turn = math.ceil(asked / host.workers)
    starts = chain.from_iterable(map(_starts, rehearsals))
    jobs = ((sum(start.seconds.values()), in_turn * _training(host, start)) for start in starts)
    return _keeps(jobs)


def server_speedup(host: Host, rehearsals: Iterable[Rehearsal]) -> float:
    """Returns the largest --speedup at which the server's real work still ends within its modelled time."""
    return _keeps(chain.from_iterable(_served(host, found) for found in rehearsals))


def _served(host: Host, found: Rehearsal) -> Iterator[tuple[float, float]]:
    """Yields the modelled and the real seconds of each piece of the server's work.

    The real seconds include the wait for a worker that may still train for a late device.
    """
    wait = 0.0
    if any(row["late"] for row in found.rows):
        wait = max((_training(host, start) for start in _starts(found)), default=0.0)
    for event in found.events:
        # A round that combines nothing charges nothing.
        if isinstance(event, ServerStarted) and any(event.seconds.values()):
            own = found.combining if event.what == "combine" else event.flops / host.flops_per_s
            yield sum(event.seconds.values()), own + wait


def _starts(found: Rehearsal) -> Iterator[ComputeStarted]:
    return (event for event in found.events if isinstance(event, ComputeStarted))


def _training(host: Host, start: ComputeStarted) -> float:
    """Returns the real seconds of the device's training on this computer."""
    return sum(start.phases.values()) / host.flops_per_s


def _keeps(jobs: Iterable[tuple[float, float]]) -> float:
    """Returns the smallest modelled/real ratio of seconds among the jobs that could be late, which is the largest
    speed-up that all jobs keep.

    The advice after a run over sockets is computed in the same way (worlds/sockets.py).
    """
    return min((modelled / real for modelled, real in jobs if real > TIMERS), default=FASTEST)

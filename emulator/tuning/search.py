"""Searches one algorithm's configurations: which to try for how many rounds, and which is the best.

The coarse phase takes a sample of the grid with successive halving (Karnin et al. 2013; Jamieson and Talwalkar 2016),
in which the better half continues with twice as many rounds.  The fine phase takes neighbours of the best, until the
budget is used.  Times are measured by several clocks: seconds on the scenario's own links, seconds on other links, and
rounds.  A configuration that is in the better half by any clock continues.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from emulator.tuning.scores import Score, ScoreCurve, better_half, scores
from emulator.tuning.space import Configuration, Space, by_turns, training

Trial = Mapping[str, Sequence[ScoreCurve]]  # by clock: the curve of each seed
Trials = Mapping[Configuration, Trial]
OWN, ROUNDS = "own links", "rounds"
FINE = 3  # a third of the budget goes to neighbours of the best


@dataclass(frozen=True)
class Ask:
    """A request to play these configurations for this number of rounds."""

    configurations: tuple[Configuration, ...]
    rounds: int
    phase: str  # coarse | fine


@dataclass(frozen=True)
class Rung:
    """A completed step of a search: the configurations compared after a number of rounds, and those that survived."""

    phase: str
    rounds: int
    scores: Mapping[Configuration, Mapping[str, Score]]  # by clock
    survivors: tuple[Configuration, ...]
    ties: int


@dataclass
class SearchResult:
    """The result of the search for one algorithm."""

    space: Space
    rungs: list[Rung] = field(default_factory=list)
    tried: list[Configuration] = field(default_factory=list)
    finals: dict[Configuration, Trial] = field(default_factory=dict)  # of configurations that were played to the end
    known: dict[tuple[Configuration, int], Trial] = field(default_factory=dict)  # by rounds
    played: int = 0  # configurations x rounds

    def best(self, clock: str = OWN) -> Configuration:
        """Returns the best configuration by this clock that was played to the end; the first of those that tie."""
        found = self.scores(clock)
        return min(found, key=lambda each: found[each].rank)

    def scores(self, clock: str = OWN) -> dict[Configuration, Score]:
        """Returns the scores, by this clock, of the configurations that were played to the end; all have the same
        horizon."""
        return scores({each: trial[clock] for each, trial in self.finals.items() if clock in trial})

    @property
    def clocks(self) -> list[str]:
        """The clocks by which every configuration that was played to the end has times."""
        return _clocks(self.finals)

    @property
    def on_links(self) -> list[Configuration]:
        """The best configuration on the scenario's own links, then the best on each of the other links, each once."""
        return list(dict.fromkeys(self.best(clock) for clock in self.clocks if clock != ROUNDS))

    @property
    def edges(self) -> list[str]:
        """The options whose best value is the largest or smallest that was tried, though a larger or smaller one is
        possible."""
        return self.space.edges(self.best(), self.tried)


def rungs(rounds: int, steps: int) -> list[int]:
    """Returns the numbers of rounds after which configurations are compared.  They double at each step; the last is
    `rounds`."""
    return list(dict.fromkeys(max(1, -(-rounds // 2 ** (steps - 1 - step))) for step in range(steps)))


def search(
    space: Space,
    budget: int,
    rounds: Sequence[int],
    rng: np.random.Generator,
    known: Sequence[Configuration] = (),
    sibling: Configuration | None = None,
) -> Generator[Ask, Trials, SearchResult]:
    """Yields requests to play configurations, receives their trials, and returns the result of the search.

    `known`: the baseline's best settings of training on each link, which every other algorithm may also try.  Otherwise
    the size of its grid would determine how well an algorithm is tuned: with a penalty near 0 it equals the baseline.
    `sibling`: the best configuration of an algorithm of the same kind.  It is played to the end, and so is one
    configuration with each of several known settings of training.  Otherwise the noise of a step would decide, and on
    fast links configurations with few epochs would drop out, because they need more rounds than a step has.
    """
    found = SearchResult(space)
    siblings = [sibling] if sibling is not None and space.valid(sibling) else []
    coarse = space.coarse(count := max(1, budget - budget // FINE), rng, known)
    coarse = list(dict.fromkeys([*siblings, *coarse]))[:count]
    trainings = dict.fromkeys(map(training, known)) if len(known) > 1 else ()
    with_known = (next((each for each in coarse if training(each) == one), None) for one in trainings)
    spared = list(dict.fromkeys([*siblings, *(each for each in with_known if each is not None)]))
    yield from _halving(found, coarse, rounds, "coarse", spared)
    while left := budget - len(found.tried):
        some = max((left + 1) // 2, len(found.on_links))  # what these show decides where the rest goes
        new = _next(found)[: min(left, some)]
        if not new:
            break
        yield from _halving(found, new, rounds, "fine")
    return found


def _next(found: SearchResult) -> list[Configuration]:
    """Returns the configurations to try next; empty if nothing is left.

    These are the untried neighbours of the best configuration on each link, by turns.  If there are none, all of the
    grid that is untried; if there is none of that either, the untried neighbours of the best configuration that has
    any.
    """
    score = found.scores()
    beside = by_turns(found.space.around(each, found.tried) for each in found.on_links)
    grid = [each for each in found.space.grid if each not in found.tried]
    near = (found.space.around(each, found.tried) for each in sorted(score, key=lambda each: score[each].rank))
    return beside or grid or next(filter(None, near), [])


def _halving(
    found: SearchResult,
    new: Sequence[Configuration],
    rounds: Sequence[int],
    phase: str,
    spared: Sequence[Configuration] = (),
) -> Generator[Ask, Trials, None]:
    """Plays new configurations with successive halving, and the `spared` ones among them to the end.

    The best configuration so far is compared with them at each step, by its trials after the same number of rounds.
    """
    rival = [found.best()] if found.finals else []
    found.tried += new
    left, before = list(new), 0
    for count in rounds:
        trials = yield Ask(tuple(left), count, phase)
        found.played += len(left) * (count - before)
        found.known |= {(each, count): trials[each] for each in left}
        before, last = count, count == rounds[-1]
        compared = {each: found.known[each, count] for each in [*rival, *left]}
        kept, ties = (left, 0) if last else _kept(compared, spared)
        found.rungs.append(_rung(phase, count, compared, kept, ties))
        left = [each for each in kept if each not in rival]
        if not left:
            return
    found.finals |= {each: trials[each] for each in left}


def _kept(trials: Trials, spared: Sequence[Configuration]) -> tuple[list[Configuration], int]:
    """Returns the configurations that continue, and how many continue only because of ties.

    Those continue that are spared, or in the better half by any clock.
    """
    kept: dict[Configuration, None] = dict.fromkeys(spared)
    ties = 0
    for clock in _clocks(trials):
        half = better_half(scores({each: trial[clock] for each, trial in trials.items()}))
        kept |= dict.fromkeys(half.things)
        ties = max(ties, half.ties)
    return [each for each in trials if each in kept], ties


def _rung(phase: str, rounds: int, trials: Trials, survivors: Sequence[Configuration], ties: int) -> Rung:
    by_clock = {clock: scores({each: trial[clock] for each, trial in trials.items()}) for clock in _clocks(trials)}
    found = {each: {clock: by_clock[clock][each] for clock in by_clock} for each in trials}
    return Rung(phase, rounds, found, tuple(survivors), ties)


def _clocks(trials: Trials) -> list[str]:
    """Returns the clocks by which every trial has times."""
    every = list(trials.values())
    return [clock for clock in every[0] if all(clock in trial for trial in every)]

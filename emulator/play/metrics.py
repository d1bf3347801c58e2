"""How good a model is, each round.  It costs no virtual time, changes nothing, and is never sent.

accuracy, loss             the model after the round, on the whole test set
validation                 its accuracy on all devices' held-out examples: choices are made on it
initial                    mean over all devices: the model that went down in the round, on the device's test shard
personalised               the same after one local training of every device
personalised_participants  the same over the devices that were counted, after the training they did anyway

Of a large fleet whose devices draw their examples, some devices stand for all (scenarios/builders/roster.py).

Accuracy is the share of labels that are right, on the time slice of the round where the data drift; texts have a label
at each position.  Further numbers where there is something to tell: perplexity; next_accuracy and next_perplexity on
the next time slice; forgetting, the accuracy lost on earlier ones (best ever - now, mean over them).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.conversation.device import Attendant
from emulator.lab.jobs import Learnt, Opening, State, blocks, evaluate, personalise_stack, request
from emulator.lab.lab import Lab, in_cycle
from emulator.lab.scoring import Hits, Scores, hits
from emulator.messages.store import NOTHING, Ref
from emulator.record.run import Run
from emulator.worlds.interface import World
from scenarios.builders.roster import sample

Values = dict[str, float | None]
NAMES = ("accuracy", "loss", "validation", "initial", "personalised_participants", "personalised")


@dataclass(frozen=True)
class Schedule:
    """In which rounds models are evaluated.

    `every`: after every n-th round; 0 is never.  `personalise_every`: the same for `personalised`; 0 is after the last
    round only, None is never.  `test`: whether the test set is looked at, or validation examples alone.
    """

    every: int = 1
    personalise_every: int | None = 0
    test: bool = True

    @property
    def personalises(self) -> bool:
        """Whether `personalised` is known after the last round at least."""
        return self.every > 0 and self.personalise_every is not None


class Metrics:
    """Evaluates the models of one run."""

    def __init__(
        self, world: World, lab: Lab, run: Run, schedule: Schedule, attendants: Mapping[str, Attendant]
    ) -> None:
        self.world, self.lab, self.run, self.schedule = world, lab, run, schedule
        self.attendants = attendants  # those that were ever asked; the others remember nothing
        self.known: tuple[str, Scores] | None = None  # the last model on the test set
        self.best: dict[int, float] = {}  # time slice -> the best accuracy that was ever seen on it

    async def start(self, state: State) -> None:
        """Evaluates the initial model, which round 0 sends down."""
        if self.schedule.every == 1 and self.schedule.test:
            await self._test(state)

    async def of(self, round: int, broadcast: State, state: State, trained: Sequence[Learnt]) -> tuple[Values, Values]:
        """The metrics of a round without `personalised`, and further numbers for texts and for drifting data."""
        cycle = self.lab.cycle(self.run.label, round)
        if not self.schedule.test:
            return dict.fromkeys(NAMES) | {"validation": await self._validation(state, cycle)}, {}
        initial = self._on_shards(await self._test(broadcast), cycle)
        scores = await self._test(state)
        now = self._of_cycle(scores, cycle)
        values: Values = {
            "accuracy": now.correct / now.counted if now.counted else None,
            "loss": _finite(now.loss / now.counted) if now.counted else None,
            "validation": await self._validation(state, cycle),
            "initial": initial,
            "personalised_participants": _mean_share(done.personalised[0] for done in trained if done.personalised),
        }
        return values, self._further(scores, cycle, trained)

    def _further(self, scores: Scores, cycle: int, trained: Sequence[Learnt]) -> Values:
        """What only texts have, and what only data that drift have."""
        found: Values = {}
        if self.lab.data.text:
            found["perplexity"] = _perplexity([self._of_cycle(scores, cycle)])
            now = [done.personalised[0] for done in trained if done.personalised]
            found["personalised_perplexity"] = _perplexity(now)
        if self.lab.data.cycles > 1:
            found |= self._over_time(scores, cycle) | self._on_the_next(trained)
        return {name: value for name, value in found.items() if value is not None}

    def _on_the_next(self, trained: Sequence[Learnt]) -> Values:
        """How good devices' own models are on the next time slice."""
        following = [done.personalised[1] for done in trained if len(done.personalised) > 1]
        perplexity = _perplexity(following) if self.lab.data.text else None
        return {"personalised_next": _mean_share(following), "personalised_next_perplexity": perplexity}

    def _over_time(self, scores: Scores, cycle: int) -> Values:
        """This model on the next time slice, and what it has lost on those before: best so far - now, the mean."""
        shares = {}
        for each in range(min(cycle + 2, self.lab.data.cycles)):
            of = self._of_cycle(scores, each)
            shares[each] = of.correct / of.counted if of.counted else 0.0
        found: Values = {}
        if cycle + 1 in shares:
            following = self._of_cycle(scores, cycle + 1)
            found["next_accuracy"] = shares[cycle + 1]
            found["next_perplexity"] = _perplexity([following]) if self.lab.data.text else None
        for each in range(cycle + 1):
            self.best[each] = max(self.best.get(each, 0.0), shares.get(each, 0.0))
        lost = [self.best[each] - shares[each] for each in range(min(cycle, self.lab.data.cycles - 1))]
        found["forgetting"] = sum(lost) / len(lost) if lost else None
        return found

    async def personalised(self, round: int, broadcast: State, counted: Mapping[str, int]) -> float | None:
        """Mean accuracy of all devices after one local training of each, to compare with `initial`.

        `counted` is each device's last counted round before this one, which its request would acknowledge.
        """
        names = tuple(sorted(sample(self.lab.splits[self.run.seed].train)))
        ticket = self.world.submit(request, self.run, round, broadcast.message, names)
        opening: Opening = await self.world.uncharged(ticket)
        tickets = []
        for devices in self.lab.stacks(self.run.label, names):
            downloads = tuple(opening.extra.get(name, opening.download).ref for name in devices)
            memories = tuple(self._memory(name, round, counted) for name in devices)
            job = (personalise_stack, self.run, round, tuple(devices), downloads, memories)
            tickets.append(self.world.submit(*job))
        found = [each for ticket in tickets for each in await self.world.uncharged(ticket)]
        return _mean_share(each[0] for each in found if each)

    async def _test(self, state: State) -> Scores:
        """The model on the whole test set, all time slices of it."""
        if self.known is None or self.known[0] != state.weights.digest:
            scores = _joined(await self._scores(state, "test", 0))
            self.known = (state.weights.digest, scores)
        return self.known[1]

    async def _validation(self, state: State, cycle: int) -> float | None:
        scores = await self._scores(state, "validation", cycle)
        return _mean(hits(_joined(scores))) if scores else None

    async def _scores(self, state: State, part: str, cycle: int) -> list[Scores]:
        numbers = range(blocks(self.lab, self.run, part, cycle))
        tickets = [self.world.submit(evaluate, self.run, state.weights, part, cycle, block) for block in numbers]
        return [await self.world.uncharged(ticket) for ticket in tickets]

    def _of_cycle(self, scores: Scores, cycle: int) -> Hits:
        data, tested = self.lab.data, self.lab.splits[self.run.seed].test
        if data.cycle_test is not None:
            return hits(scores[data.cycle_test == min(cycle, data.cycles - 1)])
        return hits(scores if tested is None else scores[tested])

    def _on_shards(self, scores: Scores, cycle: int) -> float | None:
        tests = self.lab.splits[self.run.seed].tests
        return _mean_share(hits(scores[in_cycle(tests, name, cycle)]) for name in sample(tests))

    def _memory(self, name: str, round: int, counted: Mapping[str, int]) -> Ref:
        if name not in self.attendants:
            return NOTHING
        return self.attendants[name].home.before(round, counted.get(name)).ref


def _joined(scores: Sequence[Scores]) -> Scores:
    if not scores:  # data without test examples
        return Scores(*(np.zeros(0, kind) for kind in (np.int64, np.int64, np.float64)))
    return Scores(
        *(np.concatenate([getattr(each, part) for each in scores]) for part in ("correct", "counted", "loss"))
    )


def _mean(found: Hits) -> float | None:
    return found.correct / found.counted if found.counted else None


def _mean_share(found: Iterable[Hits]) -> float | None:
    """Mean of correct/counted over devices that have examples at all."""
    shares = [each.correct / each.counted for each in found if each.counted]
    return sum(shares) / len(shares) if shares else None


def _perplexity(found: Iterable[Hits]) -> float | None:
    """exp of the mean loss of a label, over all labels together."""
    each = list(found)
    counted = sum(one.counted for one in each)
    mean = math.fsum(one.loss for one in each) / counted if counted else math.inf
    return math.exp(mean) if mean < 700 else None  # beyond it there is no such float


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

"""Evaluates the models of a run, which costs no virtual time and changes nothing.  The metrics:

accuracy, loss             the model after the round, on the whole test set; accuracy is null in tasks without it
validation                 its accuracy, or the task's first metric, on all devices' held-out examples, for tuning
initial                    mean over all devices of the same of the round's downloaded model on their test shards
personalised               as `initial`, but each device's model after one local training
personalised_participants  as `personalised`, but over the counted devices alone, after their training in the round

In a large fleet whose devices draw their examples, some devices stand for all (scenarios/builders/roster.py).

Accuracy is the share of correct labels, on the time slice of the round if the data drift; texts have a label at each
position.  Texts have perplexity too.  Drifting data have next_accuracy and next_perplexity on the next time slice, and
forgetting: the accuracy lost on earlier slices (best ever - now, mean over the slices).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from emulator.conversation.device import Attendant
from emulator.lab.jobs import Opening, State, blocks, evaluate, request
from emulator.lab.lab import Lab, in_cycle
from emulator.lab.scoring import Score, Scores
from emulator.lab.training import Learnt, personalise_stack
from emulator.messages.store import NOTHING, Ref
from emulator.record.run import Run
from emulator.worlds.interface import World
from scenarios.builders.roster import sample

Values = dict[str, float | None]
NAMES = ("accuracy", "loss", "validation", "initial", "personalised_participants", "personalised")


@dataclass(frozen=True)
class Schedule:
    """The rounds after which models are evaluated.

    `every`: n for every n-th round, 0 for no round.  `personalise_every`: the same for the metric `personalised`, but 0
    for the last round only, and None for no round.  `test`: True to evaluate on the test set too, False on validation
    examples alone.
    """

    every: int = 1
    personalise_every: int | None = 0
    test: bool = True

    @property
    def personalises(self) -> bool:
        """True if the metric `personalised` is evaluated at all; it then is at least after the last round."""
        return self.every > 0 and self.personalise_every is not None


class Metrics:
    """The evaluation of the models of one run."""

    def __init__(
        self, world: World, lab: Lab, run: Run, schedule: Schedule, attendants: Mapping[str, Attendant]
    ) -> None:
        self.world, self.lab, self.run, self.schedule = world, lab, run, schedule
        self.attendants = attendants  # the devices that were ever asked; others have no memory
        self.known: tuple[str, Scores] | None = None  # digest of the last model, and its scores on the test set
        # By time slice: the best value so far of the first metric, negated if lower is better.
        self.best: dict[int, float] = {}

    async def start(self, state: State) -> None:
        """Evaluates the initial model, which round 0 sends to the devices, if every round is evaluated on the test
        set."""
        if self.schedule.every == 1 and self.schedule.test:
            await self._test(state)

    async def of(self, round: int, broadcast: State, state: State, trained: Sequence[Learnt]) -> tuple[Values, Values]:
        """Returns the metrics of a round except `personalised`, and the further numbers that texts and drifting data
        have.

        `broadcast` is the state with the model that the round sent, `state` the state after the round.
        """
        cycle = self.lab.cycle(self.run.label, round)
        if not self.schedule.test:
            return dict.fromkeys(NAMES) | {"validation": await self._validation(state, cycle)}, {}
        before, tests = await self._test(broadcast), self.lab.splits[self.run.seed].tests
        initial = _mean_value(before[in_cycle(tests, name, cycle)].summed(self.lab) for name in sample(tests))
        scores = await self._test(state)
        measured = self._of_cycle(scores, cycle)
        now = measured.summed(self.lab)
        values: Values = {
            "accuracy": measured.value(self.lab, "accuracy") if "accuracy" in self.lab.metrics else None,
            "loss": now.loss / now.counted if now.counted and math.isfinite(now.loss / now.counted) else None,
            "validation": await self._validation(state, cycle),
            "initial": initial,
            "personalised_participants": _mean_value(done.personalised[0] for done in trained if done.personalised),
        }
        others = {name: measured.value(self.lab, name) for name in self.lab.metrics if name != "accuracy"}
        return values, self._further(scores, cycle, trained, others)

    @property
    def _of_texts(self) -> bool:
        """True if the loss is the cross-entropy of tokens, so that there is a perplexity."""
        return self.lab.data.text and self.lab.task.of_classes

    def _further(self, scores: Scores, cycle: int, trained: Sequence[Learnt], numbers: Values) -> Values:
        """Returns the numbers, by name, that exist only for some tasks, for texts or for drifting data; unknown ones
        are left out.  `numbers`: the metrics of the task besides accuracy."""
        if self._of_texts:
            numbers = {"perplexity": _perplexity([self._of_cycle(scores, cycle).summed(self.lab)]), **numbers}
            now = [done.personalised[0] for done in trained if done.personalised]
            numbers["personalised_perplexity"] = _perplexity(now)
        if self.lab.data.cycles > 1:
            following = [done.personalised[1] for done in trained if len(done.personalised) > 1]
            numbers |= self._over_time(scores, cycle) | {"personalised_next": _mean_value(following)}
            numbers["personalised_next_perplexity"] = _perplexity(following) if self._of_texts else None
        return {name: value for name, value in numbers.items() if value is not None}

    def _over_time(self, scores: Scores, cycle: int) -> Values:
        """Returns the task's first metric on the next time slice, and the mean over earlier slices of what was
        forgotten: how much worse it is now than at its best."""
        main = self.lab.metrics[0]
        sign = -1 if self.lab.task.metrics[main].lower else 1
        shares = {}
        for time_slice in range(min(cycle + 2, self.lab.data.cycles)):
            shares[time_slice] = self._of_cycle(scores, time_slice).summed(self.lab).value or 0.0
        numbers: Values = {}
        if cycle + 1 in shares:
            following = self._of_cycle(scores, cycle + 1).summed(self.lab)
            numbers[f"next_{main}"] = shares[cycle + 1]
            numbers["next_perplexity"] = _perplexity([following]) if self._of_texts else None
        for time_slice in range(cycle + 1):
            now = sign * shares.get(time_slice, 0.0)
            self.best[time_slice] = max(self.best.get(time_slice, now), now)
        lost = [self.best[earlier] - sign * shares[earlier] for earlier in range(min(cycle, self.lab.data.cycles - 1))]
        numbers["forgetting"] = sum(lost) / len(lost) if lost else None
        return numbers

    async def personalised(self, round: int, broadcast: State, counted: Mapping[str, int]) -> float | None:
        """Returns the mean accuracy of all devices' models after one local training each, to compare with `initial`.

        The training changes nothing in the run.  `counted`: by device, the last counted round before this one, which a
        request of this round would acknowledge.
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
        scores = [device for ticket in tickets for device in await self.world.uncharged(ticket)]
        return _mean_value(device[0] for device in scores if device)

    async def _test(self, state: State) -> Scores:
        """Returns the model's score on each example of the whole test set, in all time slices.  The scores of the
        last model are kept."""
        if self.known is None or self.known[0] != state.weights.digest:
            scores = Scores.joined(await self._scores(state, "test", 0), self.lab)
            self.known = (state.weights.digest, scores)
        return self.known[1]

    async def _validation(self, state: State, cycle: int) -> float | None:
        return Scores.joined(await self._scores(state, "validation", cycle), self.lab).summed(self.lab).value

    async def _scores(self, state: State, part: str, cycle: int) -> list[Scores]:
        numbers = range(blocks(self.lab, self.run, part, cycle))
        tickets = [self.world.submit(evaluate, self.run, state.weights, part, cycle, block) for block in numbers]
        return [await self.world.uncharged(ticket) for ticket in tickets]

    def _of_cycle(self, scores: Scores, cycle: int) -> Scores:
        data, tested = self.lab.data, self.lab.splits[self.run.seed].test
        if data.cycle_test is not None:
            return scores[data.cycle_test == min(cycle, data.cycles - 1)]
        return scores if tested is None else scores[tested]

    def _memory(self, name: str, round: int, counted: Mapping[str, int]) -> Ref:
        if name not in self.attendants:
            return NOTHING
        return self.attendants[name].home.before(round, counted.get(name)).ref


def _mean_value(devices: Iterable[Score]) -> float | None:
    """Returns the mean over devices of the first metric, without devices for which it is not defined; None if it is for
    none."""
    values = [scored.value for scored in devices if scored.value is not None]
    return sum(values) / len(values) if values else None


def _perplexity(devices: Sequence[Score]) -> float | None:
    """Returns exp of the mean loss of a label, over the labels of all devices together; None if it is too large for
    a float, or if there are no labels."""
    counted = sum(scored.counted for scored in devices)
    mean = math.fsum(scored.loss for scored in devices) / counted if counted else math.inf
    return math.exp(mean) if mean < 700 else None

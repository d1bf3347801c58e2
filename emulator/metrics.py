"""How good a model is, each round.  It costs no virtual time, changes nothing, and is never sent.

accuracy, loss             the model after the round, on the whole test set
validation                 its accuracy on all devices' held-out examples: choices are made on it
initial                    mean over all devices: the model that went down in the round, on the device's test shard
personalised               the same after one local training of every device
personalised_participants  the same over the devices that were counted, after the training they did anyway
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from emulator.attend import NOTHING, Attendant
from emulator.jobs import Opening, Run, Scores, State, Trained, blocks, evaluate, personalise, request
from emulator.study import Study
from emulator.world import World

Values = dict[str, float | None]
NAMES = ("accuracy", "loss", "validation", "initial", "personalised_participants", "personalised")


@dataclass(frozen=True)
class Schedule:
    """When models are evaluated: every so many rounds; 0 is never (`personalised`: at the end only)."""

    every: int = 1
    personalise_every: int = 0


class Metrics:
    """Evaluates the models of one run."""

    def __init__(
        self, world: World, study: Study, run: Run, schedule: Schedule, attendants: Mapping[str, Attendant]
    ) -> None:
        self.world, self.study, self.run, self.schedule = world, study, run, schedule
        self.attendants = attendants  # those that were ever asked; the others remember nothing
        self.known: tuple[bytes, ndarray] | None = None  # the last model on the test set: (weights, correct)

    async def start(self, state: State) -> None:
        """Looks at the first model, which round 0 sends down."""
        if self.schedule.every == 1:
            await self._test(state)

    async def of(self, broadcast: State, state: State, trained: Iterable[Trained]) -> Values:
        """The metrics of a round, all but `personalised`."""
        initial = self._on_shards(await self._correct(broadcast))
        participants = _mean_share(done.personalised for done in trained)
        correct, loss = await self._test(state)
        return {
            "accuracy": float(correct.mean()),
            "loss": loss if math.isfinite(loss) else None,
            "validation": await self._validation(state),
            "initial": initial,
            "personalised_participants": participants,
        }

    async def personalised(self, round: int, broadcast: State, counted: Mapping[str, int]) -> float | None:
        """What the round would have been for every device of the fleet: the pair of `initial`.

        `counted` is each device's last counted round before this one, which its request would acknowledge.
        """
        names = tuple(sorted(self.study.fleet))
        ticket = self.world.submit(request, self.run, round, broadcast.message, names)
        opening: Opening = await self.world.uncharged(ticket)
        tickets = []
        for name in names:
            download, memory = opening.extra.get(name, opening.download), self._memory(name, counted)
            tickets.append(self.world.submit(personalise, self.run, name, round, download, memory))
        return _mean_share([await self.world.uncharged(ticket) for ticket in tickets])

    async def _correct(self, state: State) -> ndarray:
        if self.known is None or self.known[0] != state.weights:
            await self._test(state)
        assert self.known
        return self.known[1]

    async def _test(self, state: State) -> tuple[ndarray, float]:
        scores = await self._scores(state, "test")
        correct = np.concatenate([score.correct for score in scores])
        self.known = (state.weights, correct)
        return correct, sum(score.loss for score in scores) / len(correct)

    async def _validation(self, state: State) -> float | None:
        scores = await self._scores(state, "validation")
        return float(np.concatenate([score.correct for score in scores]).mean()) if scores else None

    async def _scores(self, state: State, part: str) -> list[Scores]:
        tickets = [
            self.world.submit(evaluate, self.run, state.weights, part, block)
            for block in range(blocks(self.study, self.run, part))
        ]
        return [await self.world.uncharged(ticket) for ticket in tickets]

    def _on_shards(self, correct: ndarray) -> float | None:
        shards = self.study.splits[self.run.seed].tests
        return _mean_share((int(correct[shard].sum()), len(shard)) for shard in shards.values())

    def _memory(self, name: str, counted: Mapping[str, int]) -> bytes:
        return self.attendants[name].home.after(counted.get(name)) if name in self.attendants else NOTHING


def _mean_share(shares: Iterable[tuple[int, int] | None]) -> float | None:
    """Mean of correct/examples over devices that have examples at all."""
    values = [correct / examples for correct, examples in filter(None, shares) if examples]
    return sum(values) / len(values) if values else None

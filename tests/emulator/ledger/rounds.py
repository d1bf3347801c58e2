"""Rounds played with nothing but jobs: what each key stood for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulator.lab.jobs import Opening, State, combine, evaluate, request, start
from emulator.lab.lab import Lab
from emulator.lab.training import Trained, personalise_stack, train
from emulator.ledger.key import Keys
from emulator.messages.files import Memory
from emulator.messages.store import NOTHING, Ref
from tests.emulator.ledger.small import NAMES, RUN


class Rounds:
    """Plays rounds of which each asks two of three devices, others each time, and keeps each job's key and result.

    Each job is also done in the studies `beside`, with what it is given in the first one.
    """

    def __init__(self, lab: Lab, beside: Sequence[Lab] = ()) -> None:
        self.store = Memory()
        self.studies = [(each, Keys(each, "here")) for each in (lab, *beside)]
        self.done: list[tuple[str, str, Any]] = []  # job and round, key, result
        self.memory: dict[str, Ref] = dict.fromkeys(NAMES, NOTHING)
        self.state: State = self.did(0, start, RUN)

    def did(self, round: int, job: Any, *args: Any) -> Any:
        found = [(keys.key(job, args), job(lab, self.store, *args)) for lab, keys in self.studies]
        self.done += [(f"{job.__name__} {round}", key, result) for key, result in found]
        for _, keys in self.studies:
            keys.note(found[0][1])
        return found[0][1]

    def play(self, round: int) -> None:
        asked = sorted((NAMES * 2)[round % 3 : round % 3 + 2])
        opening: Opening = self.did(round, request, RUN, round, self.state.message, tuple(asked))
        replies = {}
        for name in asked:
            download = opening.extra.get(name, opening.download).ref
            self.did(round, personalise_stack, RUN, round, (name,), (download,), (self.memory[name],))
            trained: Trained = self.did(round, train, RUN, name, round, download, self.memory[name], round == 1)
            self.memory[name] = (trained.kept_if_counted or trained.kept).ref
            replies[name] = (trained.upload.ref, trained.examples)
        self.state = self.did(round, combine, RUN, round, self.state.message, replies, opening.download.ref)
        for part in ("test", "validation"):
            self.did(round, evaluate, RUN, self.state.weights, part, 0, 0)


def rounds(lab: Lab, *beside: Lab, rounds: int = 3) -> Sequence[tuple[str, str, Any]]:
    """Each job with its round, its key and its result, in the order in which they were done."""
    played = Rounds(lab, beside)
    for round in range(rounds):
        played.play(round)
    return played.done

"""The pool: what computes trainings and evaluations (workers on a CPU or GPUs), and the ledger, which keeps results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from emulator.compute.crew import Workers, executor, no_more
from emulator.compute.executor import Executor
from emulator.compute.executors import Cluster, Team
from emulator.compute.garbage import let_stay
from emulator.compute.remembering import remembering
from emulator.lab.lab import Lab
from emulator.ledger.ledger import opened
from emulator.ledger.place import KEEP_STATES
from emulator.record.writing import told
from emulator.terminal.lines import say
from scenarios.load import dump
from scenarios.schema.scenario import Scenario

AT_ONCE = 4  # runs per worker: enough to keep each busy, with few models in memory


@dataclass(frozen=True)
class Pool:
    """A description of workers that are not started yet: their number, the devices on which they compute (as torch
    names them), and the folder of the ledger, which keeps results (None: no ledger)."""

    places: tuple[str, ...]
    workers: Workers
    ledger: Path | None
    keep_states: int = KEEP_STATES

    @property
    def processes(self) -> int:
        """The number of processes that train, at least 1."""
        match self.workers:
            case int():
                return max(1, self.workers)
            case Team() | Cluster():
                return self.workers.count or 1

    def open(self, scenario: Scenario, lab: Lab) -> Executor:
        """Returns an executor with started workers, which uses the ledger if there is one and it can be opened.

        The caller closes the executor when all runs have ended.
        """
        let_stay()
        # Every device of every run may train at the same time; more workers would have nothing to do.
        count = no_more(self.workers, len(lab.algorithms) * len(lab.splits) * len(lab.names))
        if self.ledger is None:
            return executor(lab, count)
        try:
            ledger = opened(self.ledger, lambda text: say(f"fedlapse: {text}", err=True))
        except OSError as error:
            say(f"fedlapse: no ledger: {told(error)}; everything is trained again", err=True)
            return executor(lab, count)
        noted_under = ledger.facts.about(dump(scenario))
        return remembering(lab, ledger, count, noted_under, keep_states=self.keep_states)

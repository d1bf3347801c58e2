"""An executor that computes nothing: it answers from the ledger, and raises an error for unknown jobs."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from emulator.compute.batches import Job
from emulator.compute.executor import Executor


class UnknownJob(Exception):  # noqa: N818  a state, and not an error
    """The ledger has no fact about this job."""


class Knowing(Executor):
    """Answers jobs from the ledger."""

    def __init__(self, ledger: Executor) -> None:
        self.ledger, self.store = ledger, ledger.store

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        """Raises UnknownJob if the ledger does not know the job."""
        if not self.ledger.knows(job, *args):
            raise UnknownJob(job.__name__)
        return self.ledger.submit(job, *args)

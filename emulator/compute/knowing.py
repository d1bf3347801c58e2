"""An executor that computes nothing: it answers from the ledger, and fails where that does not know."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from emulator.compute.batches import Job
from emulator.compute.executor import Executor


class UnknownJob(Exception):  # noqa: N818  what it is, not what went wrong
    """The ledger has no fact of this job."""


class Knowing(Executor):
    """See executor.Executor."""

    def __init__(self, ledger: Executor) -> None:
        self.ledger, self.store = ledger, ledger.store

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        """Raises Unknown."""
        if not self.ledger.knows(job, *args):
            raise UnknownJob(job.__name__)
        return self.ledger.submit(job, *args)

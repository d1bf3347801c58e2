"""The interface of all executors, which compute jobs in this process or in others, or answer them from a ledger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from emulator.compute.batches import Job
from emulator.messages.store import Store


@dataclass
class Tally:
    """Counts of device-rounds (the training of one device in one round): results that the ledger had, and computed
    ones."""

    known: int = 0
    computed: int = 0
    again: int = 0  # known, but computed again because another job needed their messages

    def add(self, other: Tally) -> None:
        """Adds the counts of another tally."""
        self.known += other.known
        self.computed += other.computed
        self.again += other.again

    def sentence(self) -> str:
        """Returns the counts as a sentence for the user."""
        total = self.known + self.computed
        again = f", {self.again} computed again for their messages" if self.again else ""
        return f"training: {self.known} of {total} device-rounds from the ledger, {self.computed} computed{again}"


class Executor(ABC):
    """The base of all executors, which compute jobs (function calls).  A subclass defines at least `store` and
    `submit`."""

    store: Store  # the messages of its jobs
    tally: Tally | None = None  # None: without a ledger
    numerics: str | None = None  # digest of the bits that its workers compute; None: not determined
    immediate: bool = False  # a job is done when `submit` returns
    broken_off: bool = True  # False once all runs have ended; a ledger then keeps less

    @abstractmethod
    def submit(self, job: Job, *args: Any) -> Future[Any]:
        """Starts the job `job(lab, store, *args)`, and returns a future of its result or error."""

    def knows(self, job: Job, *args: Any) -> bool:  # noqa: ARG002  those of `submit`
        """Returns true if the result of the job is known, so that `submit` need not compute it."""
        return False

    def settle(self) -> None:  # noqa: B027  without a ledger there is nothing to keep
        """Keeps the last model of each run in the ledger, if there is one.  Call it only when all runs so far have
        ended."""

    def stop(self) -> None:  # noqa: B027  nothing runs where a job is done at once
        """Ends the workers now, or as soon as possible."""

    def __enter__(self) -> Self:
        return self

    def __exit__(  # noqa: B027  nor is there anything to close
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the workers, and removes the stored messages."""

"""A future whose result is known: without locks, which take as long as all else that the clock does for a job."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class AtHand(Future[Any]):
    """See concurrent.futures.Future: it is done, with this value or this error."""

    def __init__(self, value: Any, error: BaseException | None = None) -> None:
        self.value, self.error = value, error  # nothing of Future's own is made

    def done(self) -> bool:
        return True

    def cancelled(self) -> bool:
        return False

    def running(self) -> bool:
        return False

    def cancel(self) -> bool:
        return False

    def result(self, timeout: float | None = None) -> Any:  # noqa: ARG002  of every Future
        if self.error:
            raise self.error
        return self.value

    def exception(self, timeout: float | None = None) -> BaseException | None:  # noqa: ARG002
        return self.error

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        fn(self)

    def __repr__(self) -> str:
        return f"AtHand({self.value!r}, {self.error!r})"

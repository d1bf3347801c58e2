"""Calls the trackers of all runs of a command in a thread of their own, so that no run waits for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from emulator.play.watcher import Status
from emulator.record.run import Run
from emulator.record.writing import told
from emulator.results.results import Row
from emulator.trackers.destination import Destination
from emulator.trackers.tracker import METRICS, Tracked, TrackedTotals, Tracker, hyperparams
from scenarios.schema.scenario import Scenario


class Tracking:
    """The trackers of all runs of a command, one for each run and destination.

    A destination that raises an error gets no more calls, and `warn` is called with a sentence.
    """

    def __init__(
        self, destinations: Sequence[Destination], scenario: Scenario, out: Path, warn: Callable[[str], None]
    ) -> None:
        self.scenario, self.out, self.warn = scenario, out, warn
        self.meters: dict[Run, TrackedTotals] = {}  # totals of runs in progress
        self.trackers: dict[tuple[Destination, Run], Tracker] = {}
        self.destinations = list(destinations)  # destinations without an error
        self.thread = ThreadPoolExecutor(1, "trackers")

    def __enter__(self) -> Tracking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the tracking of all runs in progress, as failed after an error and else as interrupted, and waits
        until all is logged."""
        for run in list(self.meters):
            self.end(run, "failed" if kind and issubclass(kind, Exception) else "interrupted")
        self.thread.shutdown()

    def begin(self, run: Run) -> None:
        others = [name for name in self.scenario.metrics if name not in METRICS]
        self.meters[run] = TrackedTotals(others=others)
        params = hyperparams(self.scenario, run)

        def begin(of: Destination, run: Run) -> None:
            self.trackers[of, run] = of.make(Tracked(of.folder, self.scenario.name, self.out, run.name, others))
            self.trackers[of, run].log_hyperparams(params)

        self._soon(run, begin)

    def tell(self, run: Run, row: Row) -> None:
        metrics, step = self.meters[run].metrics(row), row["round"]
        if metrics:
            self._soon(run, lambda of, run: self.trackers[of, run].log_metrics(metrics, step))

    def end(self, run: Run, status: Status) -> None:
        del self.meters[run]
        self._soon(run, lambda of, run: self.trackers.pop((of, run)).finalize(status))

    def _soon(self, run: Run, tell: Callable[[Destination, Run], None]) -> None:
        """Calls `tell` for each destination, later in the thread of the trackers."""
        if self.destinations:  # otherwise no thread is started
            self.thread.submit(self._each, run, tell)

    def _each(self, run: Run, tell: Callable[[Destination, Run], None]) -> None:
        for of in list(self.destinations):
            try:
                tell(of, run)
            except Exception as error:  # an error of a library or of a user's class does not stop the runs
                self.destinations.remove(of)
                said = told(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
                self.warn(
                    f"fedlapse: --track {of.said}: {' '.join(said.split())}; nothing more is tracked there, and "
                    f"the runs go on"
                )

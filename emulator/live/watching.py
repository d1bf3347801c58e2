"""Keeps the rows of all runs so far, and makes the content of the live page: verdict, progress and charts."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from altair.utils.schemapi import debug_mode

from emulator.play.progress import Progress
from emulator.play.stage import Row
from emulator.play.watcher import Status
from emulator.record.run import Run
from emulator.results.results import targets
from emulator.wording.verdict import verdict
from scenarios.schema.scenario import Scenario

WAITING = "waiting for the first round"
Charts = Sequence[tuple[str, dict[str, Any]]]  # (title, Vega-Lite specification)


class Watching:
    """The rows of all runs so far.  The thread that plays runs adds to them after each round; the threads of readers
    call `state`."""

    def __init__(self, scenario: Scenario, progress: Progress | None = None) -> None:
        """`progress`: tells the time left; it must be quiet.  None: one for runs that are all played together."""
        self.scenario = scenario
        self.rows: dict[str, dict[int, tuple[Row, ...]]] = {entry.name: {} for entry in scenario.algorithms}
        runs = len(scenario.algorithms) * len(scenario.seeds)
        self.progress = progress or Progress((), scenario.rounds.max, runs=runs, quiet=True)
        self.version = 0  # rises with each round
        self.lock = threading.Lock()

    def begin(self, run: Run) -> None:
        self._put(run, ())

    def tell(self, run: Run, row: Row) -> None:
        self.progress.tell(run, row)
        self._put(run, (*self.rows[run.label].get(run.seed, ()), row))

    def end(self, run: Run, status: Status) -> None:
        """Does nothing: the page shows only rows."""

    def _put(self, run: Run, rows: tuple[Row, ...]) -> None:
        with self.lock:
            self.rows[run.label][run.seed] = rows
            self.version += 1

    def state(self) -> dict[str, Any]:
        """Returns the content of the page: rounds played, the verdict so far, and the title and Vega-Lite
        specification of each chart."""
        with self.lock:
            runs = {label: dict(sorted(seeds.items())) for label, seeds in self.rows.items()}
        aims = targets(self.scenario)
        said = verdict(runs, aims, under_way=True)
        played = sum(len(rows) for seeds in runs.values() for rows in seeds.values())
        total = self.progress.max_rounds * self.progress.runs
        left = f", {left} left" if (left := self.progress.time_left()) else ""
        return {
            "played": f"{played} of at most {total} rounds{left}" if played else WAITING,
            # Algorithms with longer rounds lag behind, so reasons come at the end.
            "verdict": ["So far:", *said.lines] if played else [],
            "charts": [{"title": title, "spec": spec} for title, spec in self._charts(runs)],
        }

    @debug_mode(False)  # skips Altair's checks of every part of every chart
    def _charts(self, runs: Mapping[str, Mapping[int, Sequence[Row]]]) -> Charts:
        from emulator.report.page import beginning

        begun = {label: seeds for label, seeds in runs.items() if any(seeds.values())}
        if not begun:
            return []
        figures = beginning(begun, targets(self.scenario), self.scenario.task)
        return [(figure.title, figure.spec(validate=False)) for figure in figures]

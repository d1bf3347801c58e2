"""The interface of trackers: a run's settings, its metrics after each evaluated round, and its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from emulator.play.watcher import Status
from emulator.record.run import Run
from emulator.record.targets import value_of
from emulator.results.results import Row
from emulator.results.summary import joules
from scenarios.builders.plugins import training_of
from scenarios.schema.scenario import Scenario

VALUES = ("accuracy", "validation", "loss", "personalised", "initial")  # as in a row
METRICS = (*VALUES, "mb_up", "mb_down", "joules", "virtual_seconds")
NOT_SETTINGS = {"name", "seeds", "training", "algorithms", "published", "tune", "study", "protocol", "small", "expect"}


class Tracker(Protocol):
    """The tracker of one run; it has three of the methods of Lightning's loggers.

    An error in one of them ends the tracking of all runs in its folder, with a warning; the runs go on.
    """

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        """Logs the run's settings, by dotted names.  Called once, before all else."""

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Logs those of METRICS that are known.  Called after each evaluated round; `step`: the round's number, from
        0."""

    def finalize(self, status: Status) -> None:
        """Logs the run's status.  Called once, after all else."""


@dataclass(frozen=True)
class Tracked:
    """One run, and the folder to which a tracker logs it."""

    folder: Path  # the DIR of --track
    scenario: str  # its name
    out: Path  # the folder of the results
    run: str  # LABEL-sSEED
    others: Sequence[str] = ()  # the task's metrics besides accuracy, which log_metrics may get too

    @property
    def home(self) -> Path:
        """The folder of the run's files, for trackers that do not choose it themselves."""
        return self.folder / self.out.name / self.run

    def identity(self, params: Mapping[str, Any]) -> str:
        """Returns 64 hex digits, which are equal in all sittings of this run with these settings and this folder of
        results."""
        return sha256(json.dumps([str(self.out.resolve()), self.run, params], sort_keys=True).encode()).hexdigest()


Make = Callable[[Tracked], Tracker]


def hyperparams(scenario: Scenario, run: Run) -> dict[str, Any]:
    """Returns the settings of a run by dotted names, which are those of changes on the command line.

    Values are numbers, texts and booleans; lists, such as the fleet, are JSON.  Keys without a value are left out.
    """
    entry = next(entry for entry in scenario.algorithms if entry.name == run.label)
    options = {name: value for name, value in entry.options.items() if name != "training"}
    said = {
        "algorithm": {"label": entry.name, "key": entry.key, **options},
        "seed": run.seed,
        "training": training_of(entry, scenario.training).model_dump(mode="json", exclude_none=True),
        **scenario.model_dump(mode="json", exclude=NOT_SETTINGS, exclude_none=True),
    }
    return dict(_flat("", said))


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), inner)
    else:
        yield name, json.dumps(value) if isinstance(value, list | tuple) else value


@dataclass
class TrackedTotals:
    """Running totals of a run's bytes and joules, including rounds without an evaluation."""

    up: int = 0  # bytes
    down: int = 0
    joules: float | None = 0.0  # None: the power draw of a device is not known
    others: Sequence[str] = ()  # the task's metrics besides accuracy

    def metrics(self, row: Row) -> dict[str, float]:
        """Adds a round to the totals, and returns the metrics after it; {} if its model was not evaluated."""
        self.up += sum(row["bytes"].get("up", {}).values())
        self.down += sum(row["bytes"].get("down", {}).values())
        spent = joules([row])
        self.joules = None if self.joules is None or spent is None else self.joules + spent
        values = {name: value for name in (*VALUES, *self.others) if (value := value_of(row, name)) is not None}
        if not values:
            return {}
        found = {**values, "mb_up": self.up / 1e6, "mb_down": self.down / 1e6, "virtual_seconds": row["time_s"]}
        return found if self.joules is None else {**found, "joules": self.joules}

"""Finds the round in which a run reached a target, a value of a metric such as accuracy.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.schema import training as schema
from scenarios.schema.task import Task


@dataclass(frozen=True)
class Target:
    """A value that a metric must reach in `hold` evaluated rounds in a row, and for `hold_s` seconds."""

    metric: str  # one of the task's, or loss | initial | personalised | validation
    value: float
    hold: int = schema.Target.model_fields["hold"].default
    hold_s: float = 0.0
    lower: bool = False  # True: lower is better, so the value is reached from above

    @classmethod
    def of(cls, target: schema.Target, task: Task) -> Target:
        """Returns the target of a scenario with this task as a Target."""
        return cls(target.metric, target.value, target.hold, target.hold_s or 0.0, task.is_lower(target.metric))

    def met(self, value: float) -> bool:
        """Returns true if a value of the metric is at the target's value, or better."""
        return value <= self.value if self.lower else value >= self.value

    @property
    def hardness(self) -> tuple[float, int]:
        """A sorting key for targets of one metric: the larger, the harder to reach, and then to hold."""
        return -self.value if self.lower else self.value, self.hold

    @property
    def name(self) -> str:
        return f"{self.metric} {self.level}"

    @property
    def level(self) -> str:
        """The value in words, and how often or long it must be held: `0.85`, or `0.85 held 2`."""
        held = f" held {self.hold}" if self.hold > 1 else ""
        return f"{self.value:g}{held}" + (f" held {self.hold_s:g} s" if self.hold_s else "")


def value_of(row: Mapping[str, Any], metric: str) -> float | None:
    """Returns a metric after a round, from its row; None if it was not evaluated."""
    found: float | None = row[metric] if metric in row else row.get("numbers", {}).get(metric)
    return found


def pending(rows: Sequence[Mapping[str, Any]], target: Target) -> bool:
    """Returns true if the last evaluation reached the target's value, but the target is not reached yet, because fewer
    than `hold` evaluations in a row did so, or not for long enough."""
    known = [value for row in rows if (value := value_of(row, target.metric)) is not None]
    return bool(known) and target.met(known[-1]) and reached(rows, target) is None


def reached(rows: Sequence[Mapping[str, Any]], target: Target) -> Mapping[str, Any] | None:
    """Returns the row of the round in which the target was reached: the first of `hold` or more evaluated rounds in a
    row at the value or better that last `hold_s` seconds or longer.

    Skips rows without an evaluation of the metric.  None if the target was not reached.
    """
    streak: list[Mapping[str, Any]] = []
    for row in rows:
        value = value_of(row, target.metric)
        if value is None:
            continue
        streak = [*streak, row] if target.met(value) else []
        enough = len(streak) >= target.hold
        if enough and (not target.hold_s or streak[-1]["time_s"] - streak[0]["time_s"] >= target.hold_s):
            return streak[0]
    return None

"""Finds the round in which a run reached a target.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.schema import training as schema


@dataclass(frozen=True)
class Target:
    """A value that a metric must have in `hold` evaluated rounds in a row."""

    metric: str  # accuracy | initial | personalised | validation
    value: float
    hold: int = schema.Target.model_fields["hold"].default

    @classmethod
    def of(cls, target: schema.Target) -> Target:
        """The target of a scenario."""
        return cls(target.metric, target.value, target.hold)

    @property
    def name(self) -> str:
        return f"{self.metric} {self.level}"

    @property
    def level(self) -> str:
        """`0.85`, or `0.85 held 2`."""
        return f"{self.value:g}" + (f" held {self.hold}" if self.hold > 1 else "")


def pending(rows: Sequence[Mapping[str, Any]], target: Target) -> bool:
    """True if the last evaluation reaches the target's value, but too few did so in a row."""
    known = [row[target.metric] for row in rows if row[target.metric] is not None]
    return bool(known) and known[-1] >= target.value and reached(rows, target) is None


def reached(rows: Sequence[Mapping[str, Any]], target: Target) -> Mapping[str, Any] | None:
    """The row in which the target was reached: the first of `hold` rows in a row at or above the value.

    Skips rows without an evaluation of the metric.  None if the target was not reached.
    """
    streak: list[Mapping[str, Any]] = []
    for row in rows:
        value = row[target.metric]
        if value is None:
            continue
        streak = [*streak, row] if value >= target.value else []
        if len(streak) >= target.hold:
            return streak[0]
    return None

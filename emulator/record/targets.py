"""Finds the round in which a run reached a target, a value of a metric such as accuracy.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.schema import training as schema


@dataclass(frozen=True)
class Target:
    """A value that a metric must reach in `hold` evaluated rounds in a row."""

    metric: str  # accuracy | initial | personalised | validation
    value: float
    hold: int = schema.Target.model_fields["hold"].default

    @classmethod
    def of(cls, target: schema.Target) -> Target:
        """Returns the target of a scenario as a Target."""
        return cls(target.metric, target.value, target.hold)

    @property
    def name(self) -> str:
        return f"{self.metric} {self.level}"

    @property
    def level(self) -> str:
        """The value in words, and how often it must be held: `0.85`, or `0.85 held 2`."""
        return f"{self.value:g}" + (f" held {self.hold}" if self.hold > 1 else "")


def pending(rows: Sequence[Mapping[str, Any]], target: Target) -> bool:
    """Returns true if the last evaluation reached the target's value, but the target is not reached yet, because fewer
    than `hold` evaluations in a row did so."""
    known = [row[target.metric] for row in rows if row[target.metric] is not None]
    return bool(known) and known[-1] >= target.value and reached(rows, target) is None


def reached(rows: Sequence[Mapping[str, Any]], target: Target) -> Mapping[str, Any] | None:
    """Returns the row of the round in which the target was reached: the first of `hold` evaluated rounds in a row at or
    above the value.

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

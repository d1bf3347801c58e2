"""Finds the round in which a run reached a target, a value of a metric such as accuracy.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.schema import training as schema


@dataclass(frozen=True)
class Target:
    """A value that a metric must reach in `hold` evaluated rounds in a row, and for `hold_s` seconds."""

    metric: str  # accuracy | initial | personalised | validation
    value: float
    hold: int = schema.Target.model_fields["hold"].default
    hold_s: float = 0.0

    @classmethod
    def of(cls, target: schema.Target) -> Target:
        """Returns the target of a scenario as a Target."""
        return cls(target.metric, target.value, target.hold, target.hold_s or 0.0)

    @property
    def name(self) -> str:
        return f"{self.metric} {self.level}"

    @property
    def level(self) -> str:
        """The value in words, and how often or long it must be held: `0.85`, or `0.85 held 2`."""
        held = f" held {self.hold}" if self.hold > 1 else ""
        return f"{self.value:g}{held}" + (f" held {self.hold_s:g} s" if self.hold_s else "")


def pending(rows: Sequence[Mapping[str, Any]], target: Target) -> bool:
    """Returns true if the last evaluation reached the target's value, but the target is not reached yet, because fewer
    than `hold` evaluations in a row did so, or not for long enough."""
    known = [row[target.metric] for row in rows if row[target.metric] is not None]
    return bool(known) and known[-1] >= target.value and reached(rows, target) is None


def reached(rows: Sequence[Mapping[str, Any]], target: Target) -> Mapping[str, Any] | None:
    """Returns the row of the round in which the target was reached: the first of `hold` or more evaluated rounds in a
    row at or above the value that last `hold_s` seconds or longer.

    Skips rows without an evaluation of the metric.  None if the target was not reached.
    """
    streak: list[Mapping[str, Any]] = []
    for row in rows:
        value = row[target.metric]
        if value is None:
            continue
        streak = [*streak, row] if value >= target.value else []
        enough = len(streak) >= target.hold
        if enough and (not target.hold_s or streak[-1]["time_s"] - streak[0]["time_s"] >= target.hold_s):
            return streak[0]
    return None

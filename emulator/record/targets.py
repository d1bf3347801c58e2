"""When a run reached its targets.  Pure."""

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
    def of(cls, said: schema.Target) -> Target:
        """As a scenario says it."""
        return cls(said.metric, said.value, said.hold)

    @property
    def name(self) -> str:
        return f"{self.metric} {self.level}"

    @property
    def level(self) -> str:
        """`0.85`, or `0.85 held 2`."""
        return f"{self.value:g}" + (f" held {self.hold}" if self.hold > 1 else "")


def pending(rows: Sequence[Mapping[str, Any]], target: Target) -> bool:
    """Whether the last evaluations are enough for the target, and too few to tell whether it is held."""
    known = [row[target.metric] for row in rows if row[target.metric] is not None]
    return bool(known) and known[-1] >= target.value and reached(rows, target) is None


def reached(rows: Sequence[Mapping[str, Any]], target: Target) -> Mapping[str, Any] | None:
    """The round in which the target was reached: the first of `hold` rounds in a row at or above the value.

    Skips rounds in which the metric was not evaluated.  None if the target was not reached.
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

"""How a study's page and verdict call things: targets, ratios with their intervals, the parts of the algorithms."""

from __future__ import annotations

from emulator.record.targets import Target
from emulator.results.resampling import Interval
from emulator.results.units import NONE
from emulator.studies.protocol import protocol_of
from scenarios.schema.scenario import Scenario

BASELINE, RANKED = "baseline", "ranked"


def goal(target: Target) -> str:
    """`test accuracy 0.93`"""
    return f"test {target.metric} {target.value:g}"


def role(scenario: Scenario, label: str) -> str:
    """What an algorithm is in the study."""
    said = protocol_of(scenario)
    if label == scenario.algorithms[0].name:
        return BASELINE
    if label in said.placebos:
        return f"placebo of {said.placebos[label]}"
    others = {"control": said.controls, "without penalty": said.nulls, "row": said.rows}
    return next((name for name, labels in others.items() if label in labels), RANKED)


def figure(value: float) -> str:
    """A ratio in two digits after the point, or one from 10 on."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def ratio(found: Interval | None) -> str:
    """`1.20 [1.10, 1.31]`.  An interval that leaves 1 out is never written so that it seems to end there."""
    if found is None:
        return NONE
    shown = [figure(value) for value in (found.ratio, found.low, found.high)]
    if found.decided and "1.00" in shown[1:]:
        shown = [f"{value:.4g}" for value in (found.ratio, found.low, found.high)]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def count(number: int, of: int) -> str:
    """`9 of 10`"""
    return f"{number} of {of}"


def share(number: int, of: int) -> str:
    """`81 (43 %)`"""
    return f"{number} ({100 * number / of:.0f} %)"

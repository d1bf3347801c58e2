"""How a study's page and verdict write targets, counts, and the roles of algorithms."""

from __future__ import annotations

from emulator.analysis.protocol import protocol_of
from emulator.record.targets import Target
from emulator.results.comparison import Comparison
from scenarios.schema.scenario import Scenario

BASELINE, RANKED = "baseline", "ranked"
CALLED = {
    "importance": "Ω",
    "omega": "Ω",
    "fisher": "Fisher",
    "fisher_theta": "Fisher × θ",
    "frame": "framing",
}  # display names of message kinds and phases


def goal(target: Target) -> str:
    """Returns a target's name, such as `test accuracy 0.93`."""
    return f"test {target.metric} {target.value:g}"


def role(scenario: Scenario, label: str) -> str:
    """Returns an algorithm's role in the study: baseline, ranked, `placebo of` another one, control, without penalty,
    or row (shown but not ranked)."""
    said = protocol_of(scenario)
    if label == scenario.algorithms[0].name:
        return BASELINE
    if label in said.placebos:
        return f"placebo of {said.placebos[label]}"
    others = {"control": said.controls, "without penalty": said.nulls, "row": said.rows}
    return next((name for name, labels in others.items() if label in labels), RANKED)


def count(number: int, of: int) -> str:
    """Returns a count, such as `9 of 10`."""
    return f"{number} of {of}"


def share(number: int, of: int) -> str:
    """Returns `number` as a percentage of `of`, such as `43 %`."""
    return f"{100 * number / of:.0f} %"


def got_there(each: Comparison, where: str = "") -> str:
    """Returns how many seeds of each of two compared algorithms reached the target, such as ` (7 and 10 of 10)`; "" if
    all seeds of both did, or they have no contrast.  `where`: is added before the closing parenthesis."""
    found = each.contrast
    if found is None or min(found.reached, found.base_reached) == found.seeds:
        return ""
    return f" ({found.reached} and {found.base_reached} of {found.seeds}{where})"

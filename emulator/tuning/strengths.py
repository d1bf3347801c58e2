"""The values of `auto` in a search's grid: strengths of a penalty, from where it does nothing to where training
diverges.

Leverage is proportional to the strength, so a few rounds with one strength tell the leverage of every other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emulator.results.leverage import IDLE, stiff_from
from emulator.tuning.together import tune_of
from scenarios.schema.entries import Entry
from scenarios.schema.scenario import Scenario
from scenarios.schema.tuning import AUTO
from scenarios.text.faults import BadScenario

ROUNDS = 3  # that tell the leverage; some penalties begin in the second
APART = 10.0  # ratio of neighbouring strengths; the search halves it later


def automatic(scenario: Scenario) -> dict[str, Entry]:
    """Returns, by path in the grid, the algorithm whose leverage tells the values of an `auto`: the first to which the
    path applies.  Raises BadScenario if there is none, or if it does not give its own strength, from which to begin."""
    found = {}
    for path, values in tune_of(scenario).grid.items():
        if values == AUTO:
            owner, _, option = path.rpartition(".")
            first = next((each for each in scenario.algorithms if owner in (each.name, each.key)), None)
            if first is None or not isinstance(first.options.get(option), (int, float)) or not first.options[option]:
                said = f"{path}: auto begins with the algorithm's own value; give it one above 0"
                raise BadScenario(f"{said}, for example {{{owner}: {{{option}: 1}}}}", ("tune", "grid"))
            found[path] = first
    return found


def strengths(given: float, rows: Sequence[Mapping[str, Any]], momentum: float) -> tuple[float, ...]:
    """Returns strengths ten times apart, smallest first.  At the largest training begins to diverge; at the smallest
    the penalty does nothing.

    `rows`: rounds of a run with the strength `given`.  Raises ValueError if none of them has a penalty.
    """
    pulled = [row["leverage"] for row in rows if row["leverage"].get("step")]
    if not pulled:
        raise ValueError(f"no penalty acts in {len(rows)} rounds, so auto cannot tell its strengths; give them")
    value = given * stiff_from(momentum) / max(each["step"] for each in pulled)
    least = given * IDLE / max(each["p99"] for each in pulled)
    found = [float(f"{value:.1g}")]
    while found[-1] > least:
        found.append(float(f"{found[-1] / APART:.1g}"))
    return tuple(reversed(found))


def filled(scenario: Scenario, known: Mapping[str, Sequence[float]]) -> Scenario:
    """Returns the scenario with these values, by path, in its grid."""
    return tuned(scenario, grid={**tune_of(scenario).grid, **known})


def tuned(scenario: Scenario, **changes: object) -> Scenario:
    """Returns the scenario with these changes to its section `tune:`."""
    return scenario.model_copy(update={"tune": tune_of(scenario).model_copy(update=changes)})

"""Checks the options --track, --algorithm and --speedup, before torch is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario, did_you_mean

if TYPE_CHECKING:
    from emulator.trackers.destination import Destination


def trackers_of(said: Sequence[str] | None) -> Sequence[Destination]:
    """Returns the trackers (programs that record experiments, such as MLflow) that --track names, each once.

    Raises BadScenario for an unknown tracker, and for one whose library is not installed.
    """
    if not said:
        return ()
    from emulator.trackers.destination import destination

    return tuple(destination(each) for each in dict.fromkeys(said))


def only(scenario: Scenario, label: str) -> Scenario:
    """Returns the scenario with only the algorithm of this label, and only the expectations about this algorithm.

    Raises BadScenario if the scenario has no algorithm of this label.
    """
    labels = [entry.name for entry in scenario.algorithms]
    if label not in labels:
        raise BadScenario(f"--algorithm {label}: the scenario has none of that name; {did_you_mean(label, labels)}")
    chosen = tuple(entry for entry in scenario.algorithms if entry.name == label)
    expected = tuple(each for each in scenario.expect if each.label == label)
    return scenario.model_copy(update={"algorithms": chosen, "expect": expected})


def pace_of(world: str, speedup: float | None) -> float | None:
    """Returns the modelled seconds per real second for runs over sockets, 1 by default; None for runs in virtual time.

    Raises BadScenario if --speedup is out of range, or is given for virtual time.
    """
    if world == "sockets":
        if speedup is not None and not 0.001 <= speedup <= 1000:
            raise BadScenario(f"--speedup {speedup:g}: it must be from 0.001 to 1000")
        return 1.0 if speedup is None else speedup
    if speedup is not None:
        raise BadScenario(
            f"--speedup {speedup:g} is for --world sockets; virtual time passes as fast as it is computed"
        )
    return None

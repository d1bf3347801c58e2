"""Compiles the network model before runs begin, with a message, because it takes seconds; once on each computer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from emulator.terminal.lines import busy
from scenarios.builders.filling import AS_IT_IS, Peaks, by_all_at_once, may_fill
from scenarios.builders.plugins import kind
from scenarios.schema.scenario import Scenario

if TYPE_CHECKING:
    from emulator.replay.batch import Batch, Order

ONCE = "compiling the network model: 10 to 20 s, once on this computer"
EACH = (
    "compiling the network model: 10 to 20 s, each time, because fedlapse's cache, in XDG_CACHE_HOME or ~/.cache, "
    "cannot be written or is full"
)


def compile_network(scenario: Scenario) -> None:
    """Compiles the network model `windows` if runs may need it and this computer has not compiled it before."""
    own = any(kind(entry.key).cohort_rule == "own" for entry in scenario.algorithms)  # may ask the whole fleet
    _compile(by_all_at_once(scenario) if own else scenario, (AS_IT_IS,))


def compile_replays(batch: Batch, orders: Sequence[Order]) -> None:
    """Compiles the network model if these replays may need it.

    Replays on another scenario's fleet ask the recorded devices, and algorithms with a rule of their own may ask the
    whole fleet, so this assumes that a round may ask all at once.
    """
    fleet = batch.source.fleet
    if fleet is not None or any(script.facts.cohort == "own" for script in batch.scripts):
        scenario = by_all_at_once(fleet or batch.scenario)
    else:
        scenario = batch.scenario
    _compile(scenario, {order.condition.peaks for order in orders})


def _compile(scenario: Scenario, settings: Iterable[Peaks]) -> None:
    """Compiles the network model if links of the scenario may fill in one of the settings, the highest rates of
    links."""
    if scenario.network_model != "windows" or not any(may_fill(scenario, each) for each in settings):
        return
    from network.windows import compiled  # numba takes half a second to import

    if not compiled.ready():
        from network.windows import crowd

        with busy(ONCE if compiled.HERE else EACH, everywhere=True):
            crowd.compile_all()

"""Compiles the network model before runs begin, with a message, because it takes seconds; once on each computer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from emulator.terminal.lines import busy
from scenarios.builders.filling import AS_IT_IS, Peaks, by_all_at_once, may_fill
from scenarios.schema.scenario import Scenario

if TYPE_CHECKING:
    from emulator.replay.batch import Batch, Order

ONCE = "compiling the network model: 10 to 20 s, once on this computer"


def compile_network(scenario: Scenario, settings: Iterable[Peaks] | None = None) -> None:
    """Compiles the network model `windows` if runs may need it and this computer has not compiled it before.

    `settings`: the highest rates of links in each setting in which the scenario is played; None: only its own rates.
    """
    peaks = (AS_IT_IS,) if settings is None else settings
    if scenario.network_model != "windows" or not any(may_fill(scenario, each) for each in peaks):
        return
    from network.windows import compiled  # numba takes half a second to import

    if not compiled.ready():
        from network.windows import crowd

        with busy(ONCE, everywhere=True):
            crowd.compile_all()


def compile_replays(batch: Batch, orders: Sequence[Order]) -> None:
    """Compiles the network model if these replays may need it.

    Replays on another scenario's fleet ask the recorded devices, so this assumes that a round may ask all at once.
    """
    fleet = batch.source.fleet
    scenario = batch.scenario if fleet is None else by_all_at_once(fleet)
    compile_network(scenario, {order.condition.peaks for order in orders})

"""A word while the network model is compiled, which happens once on a computer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scenarios.schema.scenario import Scenario

ONCE = "compiling the network model: 10 to 20 s, once on this computer"


def compile_network(scenario: Scenario) -> None:
    """Has the network model's machine code made, if the scenario needs it and it is not on the disk yet."""
    if scenario.network_model != "windows":
        return
    from network.windows import compiled

    if not compiled.ready():
        from rich.console import Console

        with Console(stderr=True).status(ONCE):
            from network.windows import crowd

            crowd.compile_all()

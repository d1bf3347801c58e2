"""A word while the network model is compiled, which happens once on a computer."""

from __future__ import annotations

from rich.console import Console

from scenarios.schema.scenario import Scenario

ONCE = "compiling the network model: about 20 s, once on this computer"


def compile_network(scenario: Scenario) -> None:
    """Has the network model's machine code made, if the scenario needs it and it is not on the disk yet."""
    if scenario.network_model != "windows":
        return
    from network.windows.compiled import ready

    if not ready():
        with Console(stderr=True).status(ONCE):
            from network.windows import crowd

            crowd.compile_all()

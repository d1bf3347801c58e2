"""Forecasts the cost of a scenario without training."""

from __future__ import annotations

from emulator.compute.gpu import gpus
from emulator.forecast.plan import Forecast, forecast_of
from emulator.sessions.compiling import compile_network
from emulator.sessions.computing import workers_of
from emulator.terminal.lines import busy
from scenarios.schema.scenario import Scenario


def planned(scenario: Scenario, workers: int | None = None, device: str = "cpu") -> Forecast:
    """Returns the forecast of what a scenario costs with this number of workers on this device.

    `workers`: None for one per core or GPU.  Raises BadScenario if the scenario cannot be played here.
    """
    compile_network(scenario)
    places = gpus.found(device)
    with busy("simulating the first rounds of each algorithm, without training"):
        return forecast_of(scenario, workers_of(workers, places), places)

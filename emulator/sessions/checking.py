"""Forecasts the cost of a scenario without training."""

from __future__ import annotations

from emulator.compute.gpu import gpus
from emulator.forecast.plan import Forecast, forecast_of
from emulator.sessions.compiling import compile_network
from emulator.sessions.computing import workers_of
from emulator.terminal.lines import busy
from scenarios.schema.scenario import Scenario


def planned(scenario: Scenario, workers: int | None = None, device: str = "cpu") -> Forecast:
    """The forecast of a scenario with this number of workers on this device.  Raises BadScenario."""
    compile_network(scenario)
    places = gpus.found(device)
    with busy("playing the first rounds of each algorithm without training"):
        return forecast_of(scenario, workers_of(workers, places), places)

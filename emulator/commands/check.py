"""`fedlapse check`: what will it take?"""

from __future__ import annotations

import json

import typer

from emulator.commands.compiling import compile_network
from emulator.commands.errors import BAD_INPUT, told_in_one_line
from emulator.commands.lines import busy, say
from emulator.commands.options import (
    DeviceOption,
    Format,
    FormatOption,
    RoundsOption,
    SeedOption,
    SmallOption,
    What,
    Workers,
    scenario_of,
)
from emulator.commands.plan_text import text
from emulator.commands.playing import workers_of
from emulator.compute.gpu import gpus
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import placed


def check(
    what: What = None,
    workers: Workers = None,
    device: DeviceOption = "cpu",
    seed: SeedOption = None,
    rounds: RoundsOption = None,
    small: SmallOption = False,
    format: FormatOption = Format.text,
) -> None:
    """Says what a scenario will cost, without training.

    It prints the devices, what a round of each algorithm costs, the break-even (below which share of the baseline's
    rounds it wins), memory, time on this computer, and which device holds which labels.
    """
    with told_in_one_line():
        scenario = scenario_of(what, seed=seed, rounds=rounds, small=small)
        with placed(scenario.source):
            code = check_scenario(scenario, format, workers, device)
    raise typer.Exit(code)


def check_scenario(
    scenario: Scenario, format: Format = Format.text, workers: int | None = None, device: str = "cpu"
) -> int:
    """Prints the plan; the exit code.  Raises BadScenario."""
    from emulator.forecast.plan import forecast_of  # torch, once the scenario is right

    compile_network(scenario)
    places = gpus.found(device)
    with busy("playing the first rounds of each algorithm without training"):
        plan = forecast_of(scenario, workers_of(workers, places), places)
    if format is Format.json:
        typer.echo(json.dumps(plan.plain(), indent=1, allow_nan=False))
    else:
        typer.echo(text(plan))
        for warning in plan.warnings:
            say(f"fedlapse: {warning}", err=True, tone="warning")
    for why in plan.failing.values():
        say(f"fedlapse: {why}", err=True, tone="bad")
    return BAD_INPUT if plan.failing else 0

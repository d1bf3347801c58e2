"""`fedlapse check`: checks a scenario, and forecasts its costs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from emulator.commands.options import (
    Format,
    FormatOption,
    RoundsOption,
    SeedOption,
    SmallOption,
    What,
    scenario_of,
)
from emulator.sessions.computing import DeviceOption, Workers
from emulator.terminal.errors import BAD_INPUT, told_in_one_line
from emulator.terminal.lines import say
from emulator.wording.plan_text import text
from scenarios.text.faults import placed

if TYPE_CHECKING:
    from emulator.forecast.plan import Forecast


def check(
    *,
    what: What = None,
    seed: SeedOption = None,
    rounds: RoundsOption = None,
    small: SmallOption = False,
    workers: Workers = None,
    device: DeviceOption = "cpu",
    format: FormatOption = Format.text,
) -> None:
    """Estimate what a scenario will cost, without training.

    It prints the devices, the parts of a round of each algorithm, the break-even (how many fewer rounds an algorithm
    must need to be faster than the baseline), memory, time on this computer, and which device holds which labels.

    \b
    Example:
      fedlapse check campus.yaml fleet.phones.count=50
    """
    with told_in_one_line():
        scenario = scenario_of(what, seed=seed, rounds=rounds, small=small)
        from emulator.sessions.checking import planned  # torch, once the scenario is right

        with placed(scenario.source):
            code = _tell(planned(scenario, workers, device), format)
    raise typer.Exit(code)


def _tell(plan: Forecast, format: Format) -> int:
    """Prints the forecast; returns the exit code, which is not 0 if an algorithm cannot succeed."""
    if format is Format.json:
        typer.echo(json.dumps(plan.plain(), indent=1, allow_nan=False))
    else:
        typer.echo(text(plan))
        for warning in plan.warnings:
            say(f"fedlapse: {warning}", err=True, tone="warning")
    for why in plan.failing.values():
        say(f"fedlapse: {why}", err=True, tone="bad")
    return BAD_INPUT if plan.failing else 0

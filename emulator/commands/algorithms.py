"""`fedlapse algorithms`: what can be compared, and what does it cost?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from emulator.commands.options import Format, FormatOption, What, scenario_of, told_in_one_line

if TYPE_CHECKING:
    from rich.table import Table

    from emulator.catalogue import Known, Option
    from scenarios.schema import Scenario


def algorithms(what: What = None, format: FormatOption = Format.text) -> None:
    """Lists the algorithms with their options, and what each costs beside FedAvg on a scenario's model and fleet."""
    with told_in_one_line():
        code = list_algorithms(scenario_of(what), format)
    raise typer.Exit(code)


def list_algorithms(scenario: Scenario, format: Format = Format.text) -> int:
    """Prints them; the exit code.  Raises BadScenario."""
    import json
    from dataclasses import asdict

    from emulator.catalogue import catalogue

    known = catalogue(scenario)
    if format is Format.json:
        typer.echo(json.dumps([asdict(one) for one in known], indent=1, allow_nan=False))
    else:
        typer.echo(_text(known, scenario))
    return 0


def _text(known: list[Known], scenario: Scenario) -> str:
    from emulator.commands.plan_text import printed
    from emulator.commands.table import columns

    width = columns()
    parts = [line for one in known for line in _described(one, width)]
    return printed(["\n".join(parts), _costs(known, scenario)], width)


def _described(one: Known, width: int) -> Iterator[str]:
    from emulator.commands.plan_text import filled

    yield one.name
    yield filled(one.says, width, "    ")
    for option in one.options:
        yield filled(_option(option), width, "    ")


def _option(option: Option) -> str:
    default = "must be given" if option.default is None else f"default {option.default}"
    return f"{option.name}: {option.type}, {default}. {option.says}".rstrip()


def _costs(known: list[Known], scenario: Scenario) -> Table:
    from rich.markup import escape

    from emulator.commands.plan_text import grid, short

    title = f"A round beside a FedAvg round ({scenario.name}: {scenario.model}), with default options"
    headings = ("down", "up", "FLOPs on devices", "on the server", "kept on a device", "in models")
    table = grid(title, "algorithm", numbers=headings)
    for one in known:
        name = escape(one.name)
        if one.cost is None:
            table.add_row(name, escape(one.why_not))
            continue
        cost = one.cost
        given = "".join(f" {key}={value}" for key, value in one.given.items())
        flops = (f"{100 * more:+.1f} %" if more else "+0 %" for more in (cost.device_flops, cost.server_flops))
        kept = f"{short(cost.kept_bytes / 1e6)} MB"
        table.add_row(
            name + escape(given), f"{cost.down:.2f}x", f"{cost.up:.2f}x", *flops, kept, f"{cost.kept_models:.1f}"
        )
    return table

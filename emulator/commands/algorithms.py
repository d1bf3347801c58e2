"""`fedlapse algorithms`: lists the algorithms, and the cost of a round of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from emulator.commands.options import QUICKSTART, Format, FormatOption, scenario_of
from emulator.terminal.errors import told_in_one_line
from emulator.terminal.lines import busy
from emulator.wording.layout import columns, filled, grid, printed
from scenarios.builders import plugins
from scenarios.load import BadScenario, shipped
from scenarios.schema.scenario import Scenario

if TYPE_CHECKING:
    from emulator.forecast.algorithm_costs import NamedAlgorithm, Option


def algorithms(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME | MODULE:CLASS | SCENARIO] [PATH=VALUE]...",
            help="One algorithm, or a scenario, whose algorithms are shown on its model and fleet. Values after it are "
            "changed.",
            show_default=False,
        ),
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """List the algorithms, and what a round of each costs.

    Options are listed too, and costs are compared with FedAvg's. By default: all algorithms with their default options,
    on the quickstart's model and fleet.

    \b
    Examples:
      fedlapse algorithms fedprox
      fedlapse algorithms campus.yaml
    """
    with told_in_one_line():
        words = _words(what or [])
        name = words[0] if words and words[0] in plugins.kinds() else ""
        if words and not name:
            word = words[0]
            near = get_close_matches(word, plugins.kinds(), n=1)
            if near and not Path(word).exists() and word not in shipped():
                raise BadScenario(f"there is no algorithm or scenario {word!r}; did you mean {near[0]}?")
        own = bool(words) and not name and "=" not in words[0]
        scenario = scenario_of(words[1:] if name else words)
        code = list_algorithms(scenario, format, own=own, only=name)
    raise typer.Exit(code)


def _words(what: list[str]) -> list[str]:
    """Returns the words of the command line; if the first one is MODULE:CLASS, a user's own algorithm, it is replaced
    by words for the quickstart scenario with this algorithm alone."""
    first = what[0] if what else ""
    if ":" not in first or "=" in first or Path(first).exists():
        return what
    return [QUICKSTART, f'algorithms=["{first}"]', *what[1:]]


def list_algorithms(scenario: Scenario, format: Format = Format.text, own: bool = False, only: str = "") -> int:
    """Prints algorithms and what a round of each costs; returns the exit code.

    `scenario`: its model and fleet determine the costs.  `own`: prints only the scenario's algorithms.  `only`: the
    name of the only algorithm to print; "": all.  Raises BadScenario.
    """
    from emulator.forecast.algorithm_costs import catalogue, chosen  # torch

    with busy("counting the work and the bytes of each algorithm"):
        known = chosen(scenario) if own else catalogue(scenario, only)
    if format is Format.json:
        typer.echo(json.dumps([asdict(one) for one in known], indent=1, allow_nan=False))
    else:
        typer.echo(_text(known, scenario, "" if own else ", with default options"))
    return 0


def _text(known: list[NamedAlgorithm], scenario: Scenario, how: str) -> str:
    width = columns()
    kinds = {one.key: one for one in known}
    parts = [line for one in kinds.values() for line in _described(one, width)]
    return printed(["\n".join(parts), _costs(known, f"{scenario.name}: {scenario.model.name}", how)], width)


def _described(one: NamedAlgorithm, width: int) -> Iterator[str]:
    yield one.key
    yield filled(one.says, width, "    ")
    yield f"    Devices train {'in stacks' if one.stacked else 'one by one'}."
    for option in one.options:
        yield filled(_option(option), width, "    ")


def _option(option: Option) -> str:
    default = "must be given" if option.default is None else f"default {option.default}"
    return f"{option.name}: {option.type}, {default}. {option.says}".rstrip()


def _costs(known: list[NamedAlgorithm], where: str, how: str) -> Table:
    title = f"A round compared with a FedAvg round ({where}), if all selected devices answer{how}"
    headings = ("down", "up", "device FLOPs", "server FLOPs", "kept, models", "server sees")
    table = grid(title, "algorithm", numbers=headings)
    for one in known:
        name = escape(one.name)
        if one.cost is None:
            table.add_row(name, escape(one.why_not))
            continue
        cost = one.cost
        given = "".join(f" {key}={value}" for key, value in one.given.items())
        flops = (f"{100 * more:+.1f} %" if more else "+0 %" for more in (cost.device_flops, cost.server_flops))
        table.add_row(
            name + escape(given),
            f"{cost.down:.2f}x",
            f"{cost.up:.2f}x",
            *flops,
            f"{cost.kept_models:.1f}",
            "sums" if cost.sums_only else "each upload",
        )
    return table

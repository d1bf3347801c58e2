"""`fedlapse data`: what each device has of a scenario's data."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.options import Format, FormatOption, SeedOption, SmallOption, What, scenario_of
from emulator.commands.trace.files import check_picture
from emulator.terminal.errors import told_in_one_line
from scenarios.text.faults import BadScenario, placed

if TYPE_CHECKING:
    from emulator.lab.holdings import Holdings

Plot = Annotated[Path | None, typer.Option(metavar="PICTURE", help="Also draw classes by device, as .png or .svg.")]


def data(
    what: What = None,
    seed: SeedOption = None,
    small: SmallOption = False,
    plot: Plot = None,
    format: FormatOption = Format.text,
) -> None:
    """Show which examples and classes each device has.

    It divides the data as the first seed does, and prints a row for each device: owner, examples, classes.

    \b
    Example:
      fedlapse data campus.yaml --plot classes.svg
    """
    with told_in_one_line():
        try:
            check_picture(plot)
        except ValueError as error:
            raise BadScenario(str(error)) from None
        scenario = scenario_of(what, seed=seed, small=small)
        from emulator.lab.holdings import holdings  # torch, once the scenario is right

        with placed(scenario.source):
            found = holdings(scenario)
        if plot is not None:
            _draw(found, plot)
    typer.echo(_json(found) if format is Format.json else _text(found, scenario.data.split.kind))
    if plot is not None:
        typer.echo(f"picture: {plot}", err=format is Format.json)


def _text(found: Holdings, kind: str) -> str:
    from emulator.wording.data_text import text

    return text(found, kind)


def _json(found: Holdings) -> str:
    data = found.data
    said = {
        "data": data.name,
        "train": len(data.y),
        "test": len(data.y_test),
        "shape": data.x.shape[1:],
        "classes": data.classes,
        "owners": len(data.owners),
        "seed": found.seed,
        "proxy": found.proxy,
        "fleet": found.fleet,
        "devices": {name: asdict(each) for name, each in found.devices.items()},
    }
    return json.dumps(said, indent=1)


def _draw(found: Holdings, path: Path) -> None:
    from emulator.commands.trace.plot import save
    from emulator.report.split import figure

    of = {"devices": {name: each.classes for name, each in found.devices.items()}, "of": found.fleet}
    drawn = figure("split", {"seeds": {str(found.seed): of}}, f"Examples of {found.data.name} by class and device")
    assert drawn is not None
    save(drawn.alone(), path)

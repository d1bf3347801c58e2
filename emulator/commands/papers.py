"""`fedlapse papers`: lists the settings of the papers as scenarios, and how far their results were reproduced."""

from __future__ import annotations

import json
from importlib import resources
from typing import Annotated, Any

import typer

from emulator.commands.options import Format, FormatOption
from emulator.commands.scenarios import told
from emulator.results.papers import AGREEMENTS
from emulator.terminal.errors import BAD_INPUT
from emulator.terminal.lines import say
from emulator.wording.plan_text import columns, filled


def papers(
    text: Annotated[
        str, typer.Argument(help="Only settings with this text in their name, description or algorithms.")
    ] = "",
    format: FormatOption = Format.text,
) -> None:
    """Lists the experimental settings of the papers, each a scenario, and how far their small versions agree.

    `fedlapse compare papers/NAME` runs one in full; with `--small` it takes about a minute.
    """
    known = [
        one
        for one in read()
        if any(text.lower() in said.lower() for said in (one["name"], one["says"], *one["algorithms"]))
    ]
    if not known:
        say(f"fedlapse: no setting of the papers has {text!r}; `fedlapse papers` lists all", err=True, tone="bad")
        raise typer.Exit(BAD_INPUT)
    if format is Format.json:
        typer.echo(json.dumps(known, indent=1))
        return
    for one in known:
        typer.echo(one["name"])
        typer.echo(filled(one["says"], columns(), "    "))
        typer.echo(filled(f"{', '.join(one['algorithms'])}; {_published(one)}", columns(), "    "))
        typer.echo(f"    $ {one['command']}\n")


def read() -> list[dict[str, Any]]:
    """Returns a dict for each setting of the papers: name, description, algorithms, number of published values, the
    command that plays its small version, and how far that version agrees with the paper (None: not compared)."""
    folder = resources.files("scenarios") / "papers"
    done = folder / "reproduced.json"
    reproduced = json.loads(done.read_text(encoding="utf-8")) if done.is_file() else {}
    names = sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))
    texts = {name: (folder / f"{name}.yaml").read_text(encoding="utf-8") for name in names}
    return [_setting(told(f"papers/{name}", text), reproduced.get(name)) for name, text in texts.items()]


def _setting(scenario: dict[str, Any], reproduced: dict[str, Any] | None) -> dict[str, Any]:
    kept = {key: scenario[key] for key in ("name", "algorithms", "published")}
    small = f"{scenario['command']} --small"
    return {**kept, "says": scenario["says"][0], "reproduced": reproduced, "command": small}


def _published(one: dict[str, Any]) -> str:
    if not one["published"]:
        return "the paper states no number"
    said = f"{one['published']} published number{'s' * (one['published'] != 1)}"
    if not one["reproduced"]:
        return f"{said}, not compared yet"
    counts = one["reproduced"]
    if "same_as" in counts:
        return f"{said}; its small version is the same experiment as that of {counts['same_as']}"
    told = ", ".join(f"{counts[key]} {key}" for key in AGREEMENTS if counts.get(key))
    return f"{said}; small version beside the baseline: {told or 'nothing to compare'}"

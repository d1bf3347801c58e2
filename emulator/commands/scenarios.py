"""`fedlapse scenarios`: the scenarios that come with fedlapse."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import typer

from emulator.commands.options import Format, FormatOption
from emulator.results.units import counted
from emulator.wording.layout import columns, filled
from scenarios.schema.scenario import Scenario
from scenarios.text import yaml_source


def scenarios(format: FormatOption = Format.text) -> None:
    """List the scenarios that come with fedlapse.

    It says what each one shows, and how to run it.

    \b
    Example:
      fedlapse scenarios
    """
    known = read()
    if format is Format.json:
        typer.echo(json.dumps(known, indent=1))
        return
    width = columns()
    for one in known:
        typer.echo(one["name"])
        for line in one["says"]:
            typer.echo(filled(line, width, "    "))
        labels = ", ".join(one["algorithms"])
        typer.echo(
            filled(f"{counted(one['devices'], 'device')}, {one['model']} on {one['data']}: {labels}", width, "    ")
        )
        typer.echo(f"    $ {one['command']}\n")


def read() -> list[dict[str, Any]]:
    """Returns what `told` says of each scenario that comes with fedlapse, sorted by name.

    Checks that need torch are left out, because importing torch takes a second, and tests check these scenarios fully.
    """
    files = [file for file in resources.files("scenarios").iterdir() if file.name.endswith(".yaml")]
    texts = {file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8") for file in files}
    return [told(name, text) for name, text in sorted(texts.items())]


def told(name: str, text: str) -> dict[str, Any]:
    """Returns what the list shows of a scenario, as a dict: its description, its size, and the command that plays it.

    `text`: the scenario file's text.
    """
    scenario = Scenario.model_validate_json(json.dumps(yaml_source.read(text, name).plain))
    return {
        "name": name,
        "says": opening(text),
        "devices": scenario.devices,
        "data": scenario.data.set,
        "model": scenario.model.name,
        "algorithms": [entry.name for entry in scenario.algorithms],
        "seeds": len(scenario.seeds),
        "rounds": scenario.rounds.max,
        "published": len(scenario.published),
        "command": f"fedlapse compare {name}",
    }


def opening(text: str) -> list[str]:
    """Returns the comment at the top of a scenario file, as paragraphs; a line that ends with a full stop ends one."""
    paragraphs = [""]
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        said = line.lstrip("# ").rstrip()
        if said.startswith("yaml-language-server"):
            continue
        paragraphs[-1] = f"{paragraphs[-1]} {said}".strip()
        if not said or said.endswith("."):
            paragraphs.append("")
    return [paragraph for paragraph in paragraphs if paragraph]

"""`fedlapse papers`: which settings of the papers can be run, and what of them is reproduced?"""

from __future__ import annotations

from typing import Any

import typer

from emulator.commands.options import Format, FormatOption

AGREES = {True: "as published", False: "against it", None: "unclear"}


def papers(format: FormatOption = Format.text) -> None:
    """Lists the experimental settings of the papers, each a scenario, and how far their small versions agree.

    Run one in full with `fedlapse compare papers/NAME`, or in under a minute with `--small`; what was found so far is
    in docs/papers.md.
    """
    import json

    known = read()
    if format is Format.json:
        typer.echo(json.dumps(known, indent=1))
        return
    from emulator.commands.plan_text import columns, filled

    for one in known:
        typer.echo(one["name"])
        typer.echo(filled(one["says"], columns(), "    "))
        typer.echo(filled(f"{', '.join(one['algorithms'])}; {_published(one)}", columns(), "    "))
        typer.echo(f"    $ {one['command']}\n")


def read() -> list[dict[str, Any]]:
    """Each setting: name, what it is, algorithms, how many numbers are published, and how many steps agree so far."""
    import json
    from importlib import resources

    from emulator.commands.scenarios import opening
    from scenarios.schema import Scenario
    from scenarios.source import read as plain_of

    folder = resources.files("scenarios") / "papers"
    done = folder / "reproduced.json"
    reproduced = json.loads(done.read_text(encoding="utf-8")) if done.is_file() else {}
    found = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".yaml"):
            text = file.read_text(encoding="utf-8")
            scenario = Scenario.model_validate_json(json.dumps(plain_of(text, file.name).plain))
            found.append(
                {
                    "name": f"papers/{scenario.name}",
                    "says": opening(text)[0],
                    "algorithms": [entry.name for entry in scenario.algorithms],
                    "published": len(scenario.published),
                    "reproduced": reproduced.get(scenario.name),
                    "command": f"fedlapse compare papers/{scenario.name} --small",
                }
            )
    return found


def _published(one: dict[str, Any]) -> str:
    if not one["published"]:
        return "the paper states no number"
    said = f"{one['published']} published number{'s' * (one['published'] != 1)}"
    if not one["reproduced"]:
        return f"{said}, not compared yet"
    counts = one["reproduced"]
    told = ", ".join(f"{counts[key]} {key}" for key in AGREES.values() if counts.get(key))
    return f"{said}; small version beside the baseline: {told or 'nothing to compare'}"

"""Arguments and options that several commands share.  This module does not import torch, so that --help is quick."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.sessions.computing import RESULTS, SCENARIO
from emulator.terminal.reading import told_while_read
from scenarios.text.faults import BadScenario

if TYPE_CHECKING:
    from scenarios.schema.scenario import Scenario

QUICKSTART = "quickstart"


class Format(StrEnum):
    text = "text"
    json = "json"


def _scenarios(incomplete: str) -> Iterator[str]:
    """Completions for the shell: built-in scenarios, and files in the working directory."""
    home = resources.files("scenarios")
    folders = {"": home} | {f"{name}/": home / name for name in ("benchmarks", "papers", "studies")}
    files = [(before, file.name) for before, folder in folders.items() for file in folder.iterdir()]
    shipped = [before + name.removesuffix(".yaml") for before, name in files if name.endswith(".yaml")]
    yield from (name for name in sorted(shipped) if name.startswith(incomplete))
    yield from (str(path) for path in sorted(Path().glob("*.yaml")) if str(path).startswith(incomplete))


What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SCENARIO] [PATH=VALUE]...",
        help="A scenario file, or the name of one that comes with fedlapse (default: quickstart). Values after it are "
        "changed, such as rounds.max=3 training.lr=0.1 fleet.pi-4.count=30.",
        autocompletion=_scenarios,
        show_default=False,
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="N", help="Only this seed.", rich_help_panel=SCENARIO),
]
RoundsOption = Annotated[
    int | None,
    typer.Option("--rounds", min=1, metavar="N", help="At most N rounds.", rich_help_panel=SCENARIO),
]
SmallOption = Annotated[
    bool,
    typer.Option("--small", help="The quick version, `small:` in the scenario.", rich_help_panel=SCENARIO),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="A new folder for them. Default: runs/NAME-NNNN.", rich_help_panel=RESULTS),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace what is in --out. Interrupted runs of the same scenario are continued instead.",
        rich_help_panel=RESULTS,
    ),
]
Track = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND:DIR",
        help="Log to an experiment tracker: csv, tensorboard, mlflow, wandb (offline) or package.module:Class. Can be "
        "repeated.",
        show_default=False,
        rich_help_panel=RESULTS,
    ),
]
LiveOption = Annotated[
    int | None,
    typer.Option(
        "--live",
        metavar="[PORT]",
        min=0,
        max=65535,
        help="Serve a page of the runs' progress on this computer; it ends as the report.",
        show_default=False,
        rich_help_panel=RESULTS,
    ),
]
FormatOption = Annotated[
    Format,
    typer.Option("--format", help="json: one object on stdout, for programs.", rich_help_panel=RESULTS),
]


@told_while_read()
def scenario_of(
    what: list[str] | None,
    *,
    seed: int | None = None,
    rounds: int | None = None,
    default: str | None = QUICKSTART,
    small: bool = False,
) -> Scenario:
    """Returns the scenario that a command line names, with the changes after it.

    `what`: the words of the command line.  `default`: the scenario if they name none.  `small`: its quick version.
    Raises BadScenario if the scenario is faulty, or if a recording that its links use cannot be read.
    """
    from scenarios.load import load  # takes half a second to import

    said = list(what or [])
    path = default
    if said and "=" not in said[0]:
        path = said.pop(0)
    for word in said:
        if "=" not in word:
            raise BadScenario(
                f"{word}: a scenario comes first, and one is enough; after it come changes, such as rounds.max=3"
            )
    if path is None:
        raise BadScenario("give a scenario file, or the name of one that `fedlapse scenarios` lists")
    if seed is not None:
        said.append(f"seeds=[{seed}]")
    if rounds is not None:
        said.append(f"rounds.max={rounds}")
    return load(path, said, small, recordings=True)

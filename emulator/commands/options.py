"""Arguments and options that several commands share.  This module does not import torch, so that --help is quick."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
        help="A scenario file, or the name of one that comes with fedlapse (default: quickstart); then single values "
        "to change, such as rounds.max=3 training.lr=0.1 fleet.pi-4.count=30.",
        autocompletion=_scenarios,
        show_default=False,
    ),
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Use only this seed, instead of the scenario's.")]
RoundsOption = Annotated[int | None, typer.Option("--rounds", min=1, help="Play at most this many rounds.")]
SmallOption = Annotated[
    bool, typer.Option("--small", help="Play the quick version that the scenario describes under `small:`.")
]
Out = Annotated[Path | None, typer.Option(help="A new folder for the results. Default: runs/NAME-NNNN.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace the results that are in --out. Interrupted runs of `compare` and `run` go on if the scenario is "
        "the same, and what comes out otherwise is replaced.",
    ),
]
Track = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND:DIR",
        help="Log settings and rounds of every run to an experiment tracker in this folder. KIND: csv, tensorboard, "
        "mlflow, wandb (offline), or package.module:Class of your own. May be given several times.",
        show_default=False,
    ),
]
LiveOption = Annotated[
    int | None,
    typer.Option(
        "--live",
        metavar="[PORT]",
        min=0,
        max=65535,
        help="Show the runs on a page while they are played; it ends as the report. Only this computer can open it. "
        "Without PORT a free one is taken.",
        show_default=False,
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="json: one object on stdout, for programs.")]


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

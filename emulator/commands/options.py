"""The arguments and options that several commands share.  Torch is not imported here, so that --help is quick."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.lines import say
from emulator.ledger.place import FOLDER, default_folder

if TYPE_CHECKING:
    from scenarios.schema.scenario import Scenario

MOST_WORKERS = 1024
QUICKSTART = "quickstart"


class Format(StrEnum):
    text = "text"
    json = "json"


def _scenarios(incomplete: str) -> Iterator[str]:
    """What the shell offers: scenarios that come with fedlapse, and files here."""
    folders = {"": resources.files("scenarios"), "papers/": resources.files("scenarios") / "papers"}
    files = [(before, file.name) for before, folder in folders.items() for file in folder.iterdir()]
    shipped = [before + name.removesuffix(".yaml") for before, name in files if name.endswith(".yaml")]
    yield from (name for name in sorted(shipped) if name.startswith(incomplete))
    yield from (str(path) for path in sorted(Path().glob("*.yaml")) if str(path).startswith(incomplete))


What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SCENARIO] [PATH=VALUE]...",
        help="A scenario file, or the name of one that comes with fedlapse (default: quickstart); then single values "
        "to change, such as rounds.max=3 training.lr=0.1 fleet.pi-4.count=30 algorithms.fedcurv.strength=1.",
        autocompletion=_scenarios,
        show_default=False,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=0, max=MOST_WORKERS, help="Worker processes; 0 trains in this process. Default: one per core."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Use only this seed, instead of the scenario's.")]
RoundsOption = Annotated[int | None, typer.Option("--rounds", min=1, help="Play at most this many rounds.")]
SmallOption = Annotated[
    bool, typer.Option("--small", help="Play the quick version that the scenario describes under `small:`.")
]
Out = Annotated[Path | None, typer.Option(help="A new folder for the results. Default: runs/NAME-NNNN.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the results that are in --out.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        help="The folder of the ledger, which remembers every training, so that none is done twice. "
        "Default: $FEDLAPSE_LEDGER, or fedlapse/ledger in your cache folder.",
        show_default=False,
    ),
]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Train everything, and remember nothing.")]
KeepStates = Annotated[
    int,
    typer.Option(
        min=1,
        help="The ledger keeps the model of every N-th round and of the last; with 1, of all.",
        metavar="N",
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="json: one object on stdout, for programs.")]


def workers_of(count: int | None) -> int:
    """Worker processes: as many as there are cores, if nothing else is asked for.  Warns if there are more."""
    cores = os.cpu_count() or 1
    if count is not None and count > cores:
        message = f"--workers {count} is more than the {cores} cores here: they take turns, and each needs its memory"
        say(f"fedlapse: {message}", err=True)
    return cores if count is None else count


def ledger_of(folder: Path | None, without: bool = False) -> Path | None:
    """The ledger's folder; None: there is none.

    Raises BadScenario if the command line says both, or if the one that is named cannot be used.
    """
    if without and folder:
        from scenarios.text.faults import BadScenario

        raise BadScenario(f"--ledger {folder} and --no-ledger are given; give one of them")
    if without:
        return None
    found = folder or default_folder(os.environ)
    if found and (folder or FOLDER in os.environ):
        _must_be_usable(found, "--ledger " if folder else f"{FOLDER}=")
    return found


def _must_be_usable(folder: Path, named: str) -> None:
    """A disk that is full or read-only is another matter: the run goes on."""
    from scenarios.text.faults import BadScenario

    try:
        folder.mkdir(parents=True, exist_ok=True)
        next(folder.iterdir(), None)
    except (FileExistsError, NotADirectoryError):
        raise BadScenario(f"{named}{folder} is a file, or lies in one; give a folder") from None
    except PermissionError:
        raise BadScenario(f"{named}{folder}: permission denied; give a folder that is yours") from None
    except OSError:
        pass


def scenario_of(
    what: list[str] | None,
    *,
    seed: int | None = None,
    rounds: int | None = None,
    default: str | None = QUICKSTART,
    small: bool = False,
) -> Scenario:
    """The scenario that a command line names, with its changes; the recordings of its links can be read.

    Raises BadScenario.
    """
    from scenarios.load import BadScenario, load

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

"""The arguments and options that several commands share.  Torch is not imported here, so that --help is quick."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.lines import say
from emulator.commands.reading import told_while_read
from emulator.ledger.place import FOLDER, default_folder

if TYPE_CHECKING:
    from emulator.trackers.destination import Destination
    from emulator.worlds.executors import Cluster
    from scenarios.schema.scenario import Scenario

MOST_WORKERS = 1024
QUICKSTART = "quickstart"
RAY = "pip install 'fedlapse[ray]'"


class Format(StrEnum):
    text = "text"
    json = "json"


class ExecutorName(StrEnum):
    processes = "processes"
    ray = "ray"


def _scenarios(incomplete: str) -> Iterator[str]:
    """What the shell offers: scenarios that come with fedlapse, and files here."""
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
Workers = Annotated[
    int | None,
    typer.Option(min=0, max=MOST_WORKERS, help="Worker processes; 0 trains in this process. Default: one per core."),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="cpu | cuda | cuda:0,cuda:1 | auto",
        help="What devices' trainings and evaluations are computed on. auto: on a GPU, if there is one.",
    ),
]
ExecutorOption = Annotated[
    ExecutorName,
    typer.Option("--executor", help="What trains: worker processes here, or workers of Ray, here or on a cluster."),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="auto | ray://HOST:PORT",
        help="The cluster of --executor ray; auto: that of this computer. Default: Ray is started here.",
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


def trackers_of(said: list[str] | None) -> Sequence[Destination]:
    """What all --track say.  Raises BadScenario, also for a library that is not installed."""
    if not said:
        return ()
    from emulator.trackers.destination import destination

    return tuple(destination(each) for each in dict.fromkeys(said))


def cluster_of(executor: ExecutorName, address: str | None) -> Cluster | None:
    """What --executor and --ray-address say; None: worker processes.

    Raises BadScenario if Ray is not installed, and for an address that is none.
    """
    from scenarios.text.faults import BadScenario

    if executor is not ExecutorName.ray:
        if address is not None:
            raise BadScenario(f"--ray-address {address} is for --executor ray, which is not given")
        return None
    if not find_spec("ray"):
        raise BadScenario(f"--executor ray: Ray is not installed; {RAY}")
    if address not in (None, "auto") and not address.startswith("ray://"):
        raise BadScenario(f"--ray-address {address}: it must be auto, or such as ray://10.0.0.1:10001")
    from emulator.worlds.executors import Cluster

    return Cluster(address=address)


def have_workers_ready(count: int | None, device: str, executor: ExecutorName) -> None:
    """If this command will start worker processes, begins to import what they need, before the scenario is read."""
    if count != 0 and device == "cpu" and executor is ExecutorName.processes:
        from emulator.worlds.ready import be_ready

        be_ready()


def crew_of(count: int | None, places: Sequence[str], cluster: Cluster | None) -> int | Cluster:
    """What `executor` takes: --workers, here or on Ray.  Raises BadScenario for what cannot be on Ray."""
    from dataclasses import replace

    from scenarios.text.faults import BadScenario

    if cluster is None:
        return workers_of(count, places)
    if count == 0:
        raise BadScenario("--workers 0 trains in this process; with --executor ray it must be 1 or more")
    if places[0] != "cpu" and list(places) != [f"cuda:{number}" for number in range(len(places))]:
        raise BadScenario(f"--device {','.join(places)}: with --executor ray say cuda; Ray gives each worker its GPU")
    return replace(cluster, count=count if cluster.address else workers_of(count, places))


def workers_of(count: int | None, places: Sequence[str] = ("cpu",)) -> int:
    """Worker processes: one for each GPU that is named, or as many as there are cores, if nothing else is asked for.

    Warns if there are more than cores.  Raises BadScenario if there are fewer than GPUs.
    """
    if places[0] != "cpu":
        return _workers_of_gpus(count, len(places))
    cores = os.cpu_count() or 1
    if count is not None and count > cores:
        message = f"--workers {count} is more than the {cores} cores here: they take turns, and each needs its memory"
        say(f"fedlapse: {message}", err=True)
    return cores if count is None else count


def _workers_of_gpus(count: int | None, gpus: int) -> int:
    """More workers than GPUs share them."""
    found = gpus if count is None else count
    if max(found, 1) < gpus:
        from scenarios.text.faults import BadScenario

        raise BadScenario(f"--workers {count} is less than the {gpus} GPUs; each takes a worker, or name one GPU")
    return found


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


@told_while_read()
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

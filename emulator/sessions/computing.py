"""Options of all commands that play runs, and of their Python functions: how jobs (trainings and evaluations) are
computed, and where their results are kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.compute import ready
from emulator.ledger.place import FOLDER, KEEP_STATES, default_folder
from emulator.terminal.lines import say
from scenarios.text.faults import BadScenario

if TYPE_CHECKING:
    from emulator.compute.executors import Cluster
    from emulator.sessions.pool import Pool

RAY = "pip install 'fedlapse[ray]'"
MOST_WORKERS = 1024
# Groups of options in --help.
SCENARIO, RESULTS, TRAINING = "What to run", "Results", "Training"
LEDGER = "Ledger, which stores results so that nothing is trained twice"


class ExecutorName(StrEnum):
    processes = "processes"
    ray = "ray"


Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=MOST_WORKERS,
        metavar="N",
        help="Worker processes; 0 trains in this process. Default: one per core.",
        rich_help_panel=TRAINING,
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Train and evaluate on cpu, cuda, cuda:0,cuda:1, or auto: a GPU if there is one.",
        rich_help_panel=TRAINING,
    ),
]


@dataclass(frozen=True)
class Computing:
    """Options on how jobs (trainings and evaluations) are computed: with how many workers, on which devices."""

    workers: Workers = None
    device: DeviceOption = "cpu"
    executor: Annotated[
        ExecutorName,
        typer.Option("--executor", help="Worker processes here, or Ray's workers.", rich_help_panel=TRAINING),
    ] = ExecutorName.processes
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="ray://HOST:PORT, or auto: the cluster that runs here. Default: a new one here.",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None

    def have_workers_ready(self) -> None:
        """Starts to import the modules that worker processes need, to save time before the scenario is read.

        Does nothing if these options lead to no worker processes on the CPU.
        """
        if self.workers != 0 and self.device == "cpu" and self.executor is ExecutorName.processes:
            ready.be_ready()

    @property
    def cluster(self) -> Cluster | None:
        """The Ray cluster that trains, with --executor ray; None for worker processes of this computer.

        Raises BadScenario if Ray is not installed, or if the address is invalid or given without --executor ray.
        """
        address = self.ray_address
        if self.executor is not ExecutorName.ray:
            if address is not None:
                raise BadScenario(f"--ray-address {address} is for --executor ray, which is not given")
            return None
        if not find_spec("ray"):
            raise BadScenario(f"--executor ray: Ray is not installed; {RAY}")
        if address not in (None, "auto") and not address.startswith("ray://"):
            raise BadScenario(f"--ray-address {address}: it must be auto, or such as ray://10.0.0.1:10001")
        from emulator.compute.executors import Cluster  # takes half a second to import

        return Cluster(address=address)


@dataclass(frozen=True)
class Playing(Computing):
    """Options for playing runs: how jobs are computed, which results the ledger keeps, and if progress is shown."""

    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Its folder. Default: $FEDLAPSE_LEDGER, or fedlapse/ledger in your cache folder.",
            show_default=False,
            rich_help_panel=LEDGER,
        ),
    ] = None
    no_ledger: Annotated[
        bool,
        typer.Option("--no-ledger", help="Train everything and store nothing.", rich_help_panel=LEDGER),
    ] = False
    keep_states: Annotated[
        int,
        typer.Option(
            min=1,
            help="Store the model of every N-th round and of the last.",
            metavar="N",
            rich_help_panel=LEDGER,
        ),
    ] = KEEP_STATES
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.", rich_help_panel=RESULTS)] = False

    def pool(self) -> Pool:
        """Returns the pool of workers that these options describe, not started yet.  Raises BadScenario for options
        that do not fit together."""
        from emulator.compute.gpu import gpus
        from emulator.sessions.pool import Pool  # imports torch

        remembered = ledger_of(self.ledger, self.no_ledger)
        places = gpus.found(self.device)
        return Pool(places, crew_of(self.workers, places, self.cluster), remembered, self.keep_states)


def crew_of(count: int | None, places: Sequence[str], cluster: Cluster | None) -> int | Cluster:
    """Returns the workers: a number of processes or, with Ray, `cluster` with its number of workers.

    `count`: the option --workers.  `places`: the devices for training, as torch names them.  Raises BadScenario for a
    number of workers or devices that is not possible.
    """
    if cluster is None:
        return workers_of(count, places)
    if count == 0:
        raise BadScenario("--workers 0 trains in this process; with --executor ray it must be 1 or more")
    if places[0] != "cpu" and list(places) != [f"cuda:{number}" for number in range(len(places))]:
        raise BadScenario(f"--device {','.join(places)}: with --executor ray say cuda; Ray gives each worker its GPU")
    return replace(cluster, count=count if cluster.address else workers_of(count, places))


def workers_of(count: int | None, places: Sequence[str] = ("cpu",)) -> int:
    """Returns the number of worker processes: `count`, or by default one for each GPU in `places`, or on the CPU one
    for each core.

    Prints a warning if there are more workers than cores.  Several workers may share a GPU.  Raises BadScenario if
    there are fewer workers than GPUs.
    """
    if places[0] != "cpu":
        found = len(places) if count is None else count
        if max(found, 1) < len(places):
            raise BadScenario(
                f"--workers {count} is less than the {len(places)} GPUs; each takes a worker, or name one GPU"
            )
        return found
    cores = os.cpu_count() or 1
    if count is not None and count > cores:
        message = f"--workers {count} is more than the {cores} cores here: they take turns, and each needs its memory"
        say(f"fedlapse: {message}", err=True)
    return cores if count is None else count


def ledger_of(folder: Path | None, without: bool = False) -> Path | None:
    """Returns the folder of the ledger, which keeps the results of trainings; None if there is no ledger.

    `folder`: the option --ledger.  `without`: the option --no-ledger.  Raises BadScenario if both options are given, or
    if the folder that the user names cannot be used.
    """
    if without and folder:
        raise BadScenario(f"--ledger {folder} and --no-ledger are given; give one of them")
    if without:
        return None
    found = folder or default_folder(os.environ)
    if found and (folder or FOLDER in os.environ):
        _must_be_usable(found, "--ledger " if folder else f"{FOLDER}=")
    return found


def _must_be_usable(folder: Path, named: str) -> None:
    """Raises BadScenario if the folder is a file, lies in a file, or may not be read or created.

    Other errors, such as a full disk, are accepted, because runs can go on without a ledger.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        next(folder.iterdir(), None)
    except (FileExistsError, NotADirectoryError):
        raise BadScenario(f"{named}{folder} is a file, or lies in one; give a folder") from None
    except PermissionError:
        raise BadScenario(f"{named}{folder}: permission denied; give a folder that is yours") from None
    except OSError:
        pass

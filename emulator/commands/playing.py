"""How runs are played: the options that all commands that play runs share, and what they come to."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.commands.lines import say
from emulator.commands.options import (
    DeviceOption,
    ExecutorName,
    ExecutorOption,
    Format,
    FormatOption,
    KeepStates,
    LedgerOption,
    NoLedger,
    Quiet,
    RayAddress,
    Workers,
)
from emulator.compute import ready
from emulator.ledger.place import FOLDER, KEEP_STATES, default_folder
from scenarios.text.faults import BadScenario

if TYPE_CHECKING:
    from emulator.compute.executors import Cluster
    from emulator.record.given import Given
    from emulator.trackers.destination import Destination

RAY = "pip install 'fedlapse[ray]'"


@dataclass(frozen=True)
class Settings:
    """How a command plays the runs of a scenario."""

    workers: int | None = None
    out: Path | None = None
    force: bool = False
    quiet: bool = False
    format: Format = Format.text
    ledger: Path | None = None  # its folder
    keep_states: int = KEEP_STATES
    world: str = "virtual"
    speedup: float = 1.0
    device: str = "cpu"  # as --device says it
    cluster: Cluster | None = None  # None: worker processes
    at_once: int = sys.maxsize  # runs that are under way at the same time
    title: str = ""  # what the runs are, for progress
    track: Sequence[Destination] = ()
    live: int | None = None  # the port of the page; 0: a free one
    given: Given | None = None  # what the user wrote; None: what lies in `out` stays


@dataclass(frozen=True)
class Computing:
    """The options of what computes the jobs."""

    workers: Workers = None
    device: DeviceOption = "cpu"
    executor: ExecutorOption = ExecutorName.processes
    ray_address: RayAddress = None

    def have_workers_ready(self) -> None:
        """If worker processes will be started, begins to import what they need, before the scenario is read."""
        if self.workers != 0 and self.device == "cpu" and self.executor is ExecutorName.processes:
            ready.be_ready()

    @property
    def cluster(self) -> Cluster | None:
        """The cluster of --executor ray; None: worker processes.

        Raises BadScenario if Ray is not installed, and for an address that is none.
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
        from emulator.compute.executors import Cluster  # half a second

        return Cluster(address=address)


@dataclass(frozen=True)
class Playing(Computing):
    """The options of each command that plays runs."""

    ledger: LedgerOption = None
    no_ledger: NoLedger = False
    keep_states: KeepStates = KEEP_STATES
    quiet: Quiet = False
    format: FormatOption = Format.text

    def settings(self, **more: Any) -> Settings:
        """Returns the settings, with `more` of its fields.  Raises BadScenario for options that do not fit."""
        return Settings(
            workers=self.workers,
            quiet=self.quiet,
            format=self.format,
            ledger=ledger_of(self.ledger, self.no_ledger),
            keep_states=self.keep_states,
            device=self.device,
            cluster=self.cluster,
            **more,
        )


def trackers_of(said: list[str] | None) -> Sequence[Destination]:
    """What all --track say.  Raises BadScenario, also for a library that is not installed."""
    if not said:
        return ()
    from emulator.trackers.destination import destination

    return tuple(destination(each) for each in dict.fromkeys(said))


def crew_of(count: int | None, places: Sequence[str], cluster: Cluster | None) -> int | Cluster:
    """What `executor` takes: --workers, here or on Ray.  Raises BadScenario for what cannot be on Ray."""
    if cluster is None:
        return workers_of(count, places)
    if count == 0:
        raise BadScenario("--workers 0 trains in this process; with --executor ray it must be 1 or more")
    if places[0] != "cpu" and list(places) != [f"cuda:{number}" for number in range(len(places))]:
        raise BadScenario(f"--device {','.join(places)}: with --executor ray say cuda; Ray gives each worker its GPU")
    return replace(cluster, count=count if cluster.address else workers_of(count, places))


def workers_of(count: int | None, places: Sequence[str] = ("cpu",)) -> int:
    """Worker processes: one for each GPU that is named, or as many as there are cores, if nothing else is asked for.

    Warns if there are more than cores.  Workers may share a GPU.  Raises BadScenario if there are fewer than GPUs.
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
    """The ledger's folder; None: there is none.

    Raises BadScenario if the command line says both, or if the one that is named cannot be used.
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
    """A disk that is full or read-only is another matter: the run goes on."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        next(folder.iterdir(), None)
    except (FileExistsError, NotADirectoryError):
        raise BadScenario(f"{named}{folder} is a file, or lies in one; give a folder") from None
    except PermissionError:
        raise BadScenario(f"{named}{folder}: permission denied; give a folder that is yours") from None
    except OSError:
        pass

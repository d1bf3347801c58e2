"""Reads the option `--track KIND:DIR`.  The library of a tracker is only imported when runs begin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from emulator.record.writing import told
from emulator.trackers.tracker import Make
from scenarios.builders.plugins import UnknownName, thing
from scenarios.text.faults import BadScenario


@dataclass(frozen=True)
class BuiltinTracker:
    """A tracker that comes with fedlapse."""

    make: str  # package.module:Class
    needs: str = ""  # the package that it imports; the extra has the same name
    called: str = ""  # its name in sentences


KINDS = {
    "csv": BuiltinTracker("emulator.trackers.table:CsvTracker"),
    "tensorboard": BuiltinTracker("emulator.trackers.tensorboard:TensorBoard", "tensorboard", "TensorBoard"),
    "mlflow": BuiltinTracker("emulator.trackers.mlflow:MLflow", "mlflow", "MLflow"),
    "wandb": BuiltinTracker("emulator.trackers.wandb:WeightsAndBiases", "wandb", "Weights & Biases"),
}


@dataclass(frozen=True)
class Destination:
    """One --track option: the class of its trackers, and the folder that they write to."""

    said: str  # KIND:DIR
    path: str  # package.module:Class
    folder: Path

    @cached_property
    def make(self) -> Make:
        """The tracker's class, or a function that makes a tracker.  Importing it may raise any error."""
        return cast(Make, resolve_name(self.path))


def destination(said: str) -> Destination:
    """Returns the tracker and folder of one --track option, and creates the folder.

    Raises BadScenario for an unknown kind, a library that is not installed, or a folder that cannot be created.
    """
    kind, _, folder = said.partition(":")
    if kind not in KINDS:
        kind, _, folder = said.rpartition(":")
    own = ":" in kind
    if not folder or not (own or kind in KINDS):
        known = ", ".join(f"{name}:DIR" for name in KINDS)
        raise BadScenario(f"--track {said}: it must be {known}, or package.module:Class:DIR for a tracker of your own")
    found = Destination(said, kind if own else KINDS[kind].make, Path(folder))
    if own:
        try:
            if not callable(thing(found.path)):
                raise BadScenario(
                    f"--track {said}: {found.path} must be a class whose objects have the tracker's methods"
                )
        except UnknownName as unknown:
            raise BadScenario(f"--track {said}: {unknown}") from None
    elif not _installed(KINDS[kind].needs):
        raise BadScenario(f"--track {said}: {KINDS[kind].called} is not installed; pip install 'fedlapse[{kind}]'")
    try:
        found.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadScenario(f"--track {said}: cannot make the folder {told(error)}") from None
    return found


def _installed(package: str) -> bool:
    """Returns true if the package is installed, or if none is needed ("").  A plain folder of that name, which the
    tracker may have made here, does not count."""
    spec = find_spec(package) if package else None
    return not package or (spec is not None and spec.origin is not None)

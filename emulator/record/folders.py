"""Folders of runs (LABEL-sSEED), and folders of results (OUT) that hold them."""

from __future__ import annotations

from pathlib import Path

from emulator.record.host import object_in
from emulator.record.record import FILES
from emulator.record.run import RUN
from emulator.record.seal import OF_RESULTS, SEAL

REPLAY = "replay.json"  # in a folder of replays


def is_run(folder: Path) -> bool:
    """Whether it is the folder of a run, perhaps a damaged one: one file of a run is enough, or its seal."""
    if any((folder / name).is_file() for name in (RUN, *FILES)):
        return True
    return (folder / SEAL).is_file() and not any((folder / name).is_file() for name in OF_RESULTS)


def untrained(out: Path) -> bool:
    """Whether the runs in OUT were replayed without training, so that their models are those of another record."""
    return (out / REPLAY).is_file() and object_in(out / REPLAY).get("trained") is not True


def run_folders(path: Path) -> list[Path]:
    """The runs that `path` means: all those in it, or itself if it is one.  Raises ValueError if there is none."""
    if runs := sorted(filter(is_run, path.glob("*/"))):
        return runs
    if is_run(path):
        return [path]
    raise ValueError(f"{path} holds no run: expected {FILES[0]} in it or in a folder of it")


def home(path: Path) -> Path:
    """The folder of results that a run, or such a folder itself, belongs to."""
    return path.resolve().parent if is_run(path) else path

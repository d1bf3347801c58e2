"""Folders of runs (LABEL-sSEED), and folders of results (OUT) that hold them."""

from __future__ import annotations

from pathlib import Path

from emulator.record.host import object_in
from emulator.record.record import FILES
from emulator.record.run import RUN
from emulator.record.seal import OF_RESULTS, SEAL

REPLAY = "replay.json"  # marks a folder of replays


def is_run(folder: Path) -> bool:
    """Returns true if the folder is that of a run, possibly damaged: it holds a file that only runs write, or a run's
    seal."""
    if any((folder / name).is_file() for name in (RUN, *FILES)):
        return True
    return (folder / SEAL).is_file() and not any((folder / name).is_file() for name in OF_RESULTS)


def untrained(out: Path) -> bool:
    """Returns true if the runs in OUT were replayed without training, so that OUT holds no models."""
    return (out / REPLAY).is_file() and object_in(out / REPLAY).get("trained") is not True


def run_folders(path: Path) -> list[Path]:
    """Returns the folders of runs in `path`, sorted, or `path` itself if it is such a folder.  Raises ValueError if
    there is none."""
    if runs := sorted(filter(is_run, path.glob("*/"))):
        return runs
    if is_run(path):
        return [path]
    raise ValueError(study_in(path) or f"{path} holds no run: expected {FILES[0]} in it or in a folder of it")


def study_in(path: Path) -> str:
    """Returns a sentence on where a study in `path` has the runs that it reports; "" if `path` holds no study."""
    found = [str(each) for way in ("reporting", "regimes/*/reporting") for each in sorted(path.glob(way))]
    return f"{path} holds a study; the runs that it reports are in {', '.join(found)}" if found else ""


def home(path: Path) -> Path:
    """Returns the folder of results of a path: the parent of a run's folder, and otherwise the path itself."""
    return path.resolve().parent if is_run(path) else path

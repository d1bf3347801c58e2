"""Computes one digest of all files that are equal in equal runs, and finds an earlier folder with an equal digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from emulator.record.host import object_in
from emulator.record.record import MODEL
from emulator.record.seal import hashes

FILES = ("events.jsonl", "rounds.jsonl", MODEL)


def digest(out: Path) -> str:
    """Returns one SHA-256 for a folder of results: of the lines that `sha256sum` prints for its scenario.yaml and for
    its runs' records and final models.

    The digest leaves out host.json, which may differ between equal runs, and the summary and the report, which follow
    from the other files.  Missing files of runs are skipped.  Raises ValueError if there is no scenario.yaml.
    """
    if not (out / "scenario.yaml").is_file():
        raise ValueError(
            f"{out} holds no scenario.yaml; a digest is taken of a folder that `fedlapse compare` has left"
        )
    runs = sorted(folder.name for folder in out.iterdir() if (folder / "events.jsonl").is_file())
    names = ["scenario.yaml", *(f"{run}/{name}" for run in runs for name in FILES)]
    lines = (f"{sha256}  {name}\n" for name, sha256 in hashes(out, names).items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def twin(out: Path, digest: str) -> Path | None:
    """Returns the newest of the older folders next to `out` whose summary.json has this digest; None if there is none.

    A folder is as old as its summary.json; if `out` has none, all other folders count as older.  Folders that cannot be
    read are skipped.
    """
    ours = _written(out)
    older = []
    for folder in _beside(out):
        age = _written(folder)
        if age is not None and (ours is None or age <= ours):
            older.append((age, folder))
    for _, folder in sorted(older, reverse=True):
        if object_in(folder / "summary.json").get("digest") == digest:
            return folder
    return None


def _beside(out: Path) -> list[Path]:
    """Returns the other files and folders in the parent of `out`; [] if it is not readable."""
    parent = out.parent if out.name not in ("", "..") else out.resolve().parent
    try:
        return [folder for folder in parent.iterdir() if not _same(folder, out)]
    except OSError:
        return []


def _written(folder: Path) -> int | None:
    """Returns the time at which the folder's summary was written, in ns since 1970; None if it has none."""
    try:
        summary = folder / "summary.json"
        return summary.stat().st_mtime_ns if summary.is_file() else None  # a pipe of that name would never end
    except OSError:
        return None


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False

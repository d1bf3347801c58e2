"""The seal of a folder: the SHA-256 of each of its files, written once they are complete.

A run's folder is sealed when the run has ended.  A folder of runs is sealed when all of them have: its seal covers its
own files and the seals of its runs, and with them all that lies below.  A run that was interrupted has no seal.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from emulator.record.given import CHANGES, GIVEN
from emulator.record.record import FILES, MODEL, replace_file
from emulator.record.run import RUN

SEAL, CODE = "seal.json", "code.json"
OF_RUN = (RUN, *FILES, MODEL)
OF_RESULTS = (
    *("scenario.yaml", GIVEN, CHANGES, CODE, "split.json", "host.json", "summary.json", "report.html"),
    *("replay.json", "map.json", "map.html", "map.png"),
)
MADE_AGAIN = ("report.html", "map.", "charts/")  # pages follow from the record, and commands make them anew
NO_SEAL = "no seal: interrupted, or made by an older version"
BLOCK = 1 << 20


@dataclass(frozen=True)
class Seal:
    """The content of seal.json."""

    files: Mapping[str, str]  # path in the folder -> SHA-256 in hexadecimal
    failure: str | None = None  # why the run ended early on its own account


@dataclass(frozen=True)
class State:
    """Whether a folder of results and its runs are sealed, and unchanged since."""

    damaged: tuple[str, ...] = ()  # a sentence for each file that is not as it was sealed
    unsealed: tuple[str, ...] = ()  # names of folders without a seal


def hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of each of these files, by name.  Files that do not exist are left out."""
    return {name: _sha256(folder / name) for name in names if (folder / name).is_file()}


def seal_run(folder: Path, failure: str | None = None) -> None:
    """Seals the folder of a run that has ended; `failure` says why it ended early, if it did."""
    _write(folder, Seal(hashes(folder, OF_RUN), failure))


def seal_results(folder: Path) -> None:
    """Seals a folder of results over its own files and the seals below it; files that are not ours are left out."""
    _write(folder, Seal(hashes(folder, (*OF_RESULTS, *_charts(folder), *_below(folder)))))


def renew(folder: Path, names: Collection[str]) -> None:
    """Enters pages that were made again into the seal of a folder of results; all else stays, and stays out."""
    try:
        sealed = read_seal(folder)
    except (OSError, ValueError):
        return  # a damaged seal stays as it is, and says so
    if sealed and OF_RESULTS[0] in sealed.files:
        pages = [name for name in names if name.startswith(MADE_AGAIN)]
        _write(folder, Seal({**sealed.files, **hashes(folder, pages)}, sealed.failure))


def read_seal(folder: Path) -> Seal | None:
    """The folder's seal; None if it has none.  Raises ValueError if it is damaged."""
    path = folder / SEAL
    if not path.is_file():
        return None
    content = path.read_bytes()
    try:
        said = json.loads(content)
        seal = Seal(dict(said["files"]), said.get("failure"))
        sound = content == _text(seal).encode() and all(_is_entry(*entry) for entry in seal.files.items())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        sound = False
    if not sound or not isinstance(seal.failure, str | None):
        raise ValueError(f"{SEAL} is not as fedlapse writes it")
    return seal


def broken(folder: Path, only: Collection[str] | None = None) -> list[str]:
    """A sentence for each file that is not as the folder's seal says; none if it has no seal.

    `only`: checks no files but these.
    """
    try:
        sealed = read_seal(folder)
    except ValueError as error:
        return [str(error)]
    said = sealed.files if sealed else {}
    chosen = [name for name in sorted(said) if only is None or name in only]
    there = hashes(folder, chosen)
    return [_fault(name, there.get(name)) for name in chosen if there.get(name) != said[name]]


def state(folder: Path) -> State:
    """Checks the seals of a folder of results, or of a run, and of the folders in it."""
    runs = sorted({path.parent for name in (FILES[0], SEAL) for path in folder.glob(f"*/{name}")})
    damaged = [*broken(folder), *(f"{run.name}/{fault}" for run in runs for fault in broken(run))]
    unsealed = [each.resolve().name for each in (folder, *runs) if not (each / SEAL).is_file()]
    return State(tuple(damaged), tuple(unsealed))


def _write(folder: Path, seal: Seal) -> None:
    replace_file(folder / SEAL, _text(seal))


def _text(seal: Seal) -> str:
    said = {"files": dict(seal.files), **({"failure": seal.failure} if seal.failure else {})}
    return json.dumps(said, indent=1, sort_keys=True) + "\n"


def _charts(folder: Path) -> Iterable[str]:
    return (f"charts/{path.name}" for path in (folder / "charts").glob("*.*"))


def _below(folder: Path) -> Iterable[str]:
    return (f"{path.parent.name}/{SEAL}" for path in folder.glob(f"*/{SEAL}"))


def _is_entry(name: str, digest: object) -> bool:
    inside = not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
    return inside and isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) is not None


def _fault(name: str, found: str | None) -> str:
    return f"{name} is missing" if found is None else f"{name} is not as it was sealed"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while block := content.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()

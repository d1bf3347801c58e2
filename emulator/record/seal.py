"""The seal of a folder: a list of the SHA-256 of each of its files, written once they are complete.

A run's folder is sealed when the run has ended.  A folder of runs is sealed when all of them have: its seal covers its
own files and the seals of its runs, and with them all that lies below.  A run that was interrupted has no seal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from emulator.record.given import CHANGES, GIVEN
from emulator.record.record import FILES, MODEL
from emulator.record.run import RUN
from emulator.record.writing import replace_file

SEAL, CODE = "seal.json", "code.json"
OF_RUN = (RUN, *FILES, MODEL)
OF_RESULTS = (
    *("scenario.yaml", GIVEN, CHANGES, CODE, "split.json", "host.json", "summary.json", "report.html"),
    *("replay.json", "map.json", "map.html", "map.png"),
)
MADE_AGAIN = ("report.html", "map.", "charts/")  # pages, which commands regenerate from the record
NO_SEAL = "no seal: interrupted"


@dataclass(frozen=True)
class Seal:
    """The content of seal.json, the digests of a folder's files."""

    files: Mapping[str, str]  # path in the folder -> SHA-256 in hexadecimal
    failure: str | None = None  # why the run ended early, unless it was interrupted


def hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Returns the SHA-256, in hex, of each of these files, by name.  Files that do not exist are left out."""
    digests = {}
    for name in names:
        if (folder / name).is_file():
            with (folder / name).open("rb") as file:
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def seal_run(folder: Path, failure: str | None = None) -> None:
    """Seals the folder of a run that has ended; `failure` says why it ended early, if it did."""
    _write(folder, Seal(hashes(folder, OF_RUN), failure))


def seal_results(folder: Path) -> None:
    """Seals a folder of results: its seal has the digests of its own files, of its charts, and of the seals of its
    runs.  Files that fedlapse does not write are left out."""
    below = [*folder.glob("charts/*.*"), *folder.glob(f"*/{SEAL}")]
    names = (path.relative_to(folder).as_posix() for path in below)
    _write(folder, Seal(hashes(folder, (*OF_RESULTS, *names))))


def renew(folder: Path, names: Collection[str]) -> None:
    """Updates the digests of pages that were made again, and only these, in the seal of a folder of results."""
    try:
        sealed = read_seal(folder)
    except (OSError, ValueError):
        return  # a damaged seal stays as it is, so that `audit` reports it
    if sealed and OF_RESULTS[0] in sealed.files:
        pages = [name for name in names if name.startswith(MADE_AGAIN)]
        _write(folder, Seal({**sealed.files, **hashes(folder, pages)}, sealed.failure))


def read_seal(folder: Path) -> Seal | None:
    """Returns the folder's seal; None if it has none.  Raises ValueError if the seal is damaged."""
    path = folder / SEAL
    if not path.is_file():
        return None
    content = path.read_bytes()
    try:
        fields = json.loads(content)
        seal = Seal(dict(fields["files"]), fields.get("failure"))
        paths = [PurePosixPath(name) for name in seal.files]
        sound = content == _text(seal).encode() and isinstance(seal.failure, str | None)
        sound = sound and not any(path.is_absolute() or ".." in path.parts for path in paths)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise ValueError(f"{SEAL} is not as fedlapse writes it")
    return seal


def broken(folder: Path, only: Collection[str] | None = None, due: Iterable[str] = ()) -> list[str]:
    """Returns a sentence for each file that differs from its digest in the folder's seal, and for each file of `due`
    that the seal does not name.

    Returns [] if the folder has no seal.  `only`: the names of the files to compare; None: all.
    """
    try:
        sealed = read_seal(folder)
    except ValueError as error:
        return [str(error)]
    if sealed is None:
        return []
    chosen = [name for name in sorted(sealed.files) if only is None or name in only]
    digests = hashes(folder, chosen)
    faults = [
        f"{name} is {'not as it was sealed' if name in digests else 'missing'}"
        for name in chosen
        if digests.get(name) != sealed.files[name]
    ]
    return [*faults, *(f"{name} is not in the seal" for name in due if name not in sealed.files)]


def damage(folder: Path) -> list[str]:
    """Returns a sentence for each file that differs from its seal, in the folder of a run, or in a folder of results
    and in the runs in it."""
    runs = sorted(path.parent for path in folder.glob(f"*/{SEAL}"))
    return [*broken(folder), *(f"{run.name}/{fault}" for run in runs for fault in broken(run))]


def _write(folder: Path, seal: Seal) -> None:
    replace_file(folder / SEAL, _text(seal))


def _text(seal: Seal) -> str:
    content = {"files": dict(seal.files), **({"failure": seal.failure} if seal.failure else {})}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"

"""Recordings in a file, in a pair of Mahimahi files, or in a folder with one trace per file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from network.foreign_files import BadFile, bad
from network.links.trace import Direction, Trace
from network.traces.read import DEVICES, read, recognise

Traces = Mapping[Direction, Trace]
LINKS: Mapping[Direction, str] = {"down": "a downlink", "up": "an uplink"}


@dataclass(frozen=True)
class Recording:
    """The recording of one link: a trace of one direction or of both."""

    path: Path  # for a pair, the common part of the names
    traces: Traces


@dataclass(frozen=True)
class Passed:
    """A file of a folder that is skipped when the folder's recordings are gathered."""

    path: Path
    why: str
    damaged: BadFile | None = None  # for a damaged trace: the error from reading it

    def __str__(self) -> str:
        return f"{self.path} ({self.why})"


@dataclass(frozen=True)
class Gathered:
    """The recordings of a file or folder, and the skipped files."""

    recordings: tuple[Recording, ...]
    passed: tuple[Passed, ...] = ()


def find(said: str, root: str | None) -> Path:
    """Returns the path of the file, folder or Mahimahi pair that a user names: from the working directory if it exists
    there, otherwise in the folder `root` if it exists there.

    If it exists in neither, returns the path from the working directory.  Raises BadFile for a name that no file can
    have.
    """
    try:
        here = Path(said).expanduser()
        if here.is_absolute() or not root or there(here):
            return here
        return Path(root) / here if there(Path(root) / here) else here
    except (OSError, RuntimeError) as error:  # a name too long, or of an unknown user
        raise bad(said, None, getattr(error, "strerror", None) or str(error)) from None


def there(path: Path) -> bool:
    """Returns true if the path is an existing file or folder, or if PATH.down exists, half of a Mahimahi pair."""
    return path.exists() or path.with_name(f"{path.name}.down").exists()


def gather(place: Path, way: Direction, format: str | None = None) -> Gathered:
    """Returns the recordings in a file, Mahimahi pair or folder `place` that have the direction `way`.  Each also has
    the other direction if that was recorded and carries bytes.

    In a folder, files without a usable trace of this direction are skipped; two files NAME.down and NAME.up are one
    recording.  Raises BadFile for a single file that is damaged, carries nothing, or has the other direction only; for
    a file in a folder whose format must be named; and for a folder without any recording.
    """
    try:
        if not place.is_dir():
            traces = _traces(place, way, format)
            if way not in traces:
                read(place, format, way)  # raises the reason
            return Gathered((Recording(place, _carrying(traces, way)),))
        return _gathered(place, way, format)
    except OSError as error:
        raise bad(str(place), None, f"cannot be read: {error.strerror}") from None


def _gathered(place: Path, way: Direction, format: str | None) -> Gathered:
    found = [_member(path, way, format) for path in _paths(place)]
    recordings = tuple(each for each in found if isinstance(each, Recording))
    passed = tuple(each for each in found if isinstance(each, Passed))
    if recordings:
        return Gathered(recordings, passed)
    why = f"left out {summed(passed)}" if passed else "it is empty"
    raise bad(f"{place} holds no {way}link trace", None, why)


def summed(passed: tuple[Passed, ...], most: int = 3) -> str:
    """Returns a summary of skipped files in words: name and reason of the first `most` files, and the number of the
    others."""
    more = f" and {len(passed) - most} more" if len(passed) > most else ""
    return ", ".join(f"{each.path.name} ({each.why})" for each in passed[:most]) + more


def _paths(folder: Path) -> Iterator[Path]:
    """Yields the folder's files in order of name, without hidden ones; a pair NAME.down and NAME.up once, as the path
    NAME."""
    files = {file for file in folder.iterdir() if file.is_file() and file.name[0] != "."}
    found: dict[Path, None] = {}
    for file in sorted(files):
        halves = {file.with_suffix(".down"), file.with_suffix(".up")}
        paired = file in halves and halves <= files
        found[file.with_suffix("") if paired else file] = None
    yield from found


def _member(path: Path, way: Direction, format: str | None) -> Recording | Passed:
    try:
        known = recognise(path)
    except BadFile as error:
        if error.lacks != "format":
            return Passed(path, "unknown format" if error.lacks == "trace" else error.reason)
        if format is None:
            raise
    else:
        if known in DEVICES:
            return Passed(path, f"{known} describes devices")
    try:
        traces = _traces(path, way, format)
        if way not in traces:
            return Passed(path, LINKS["up" if way == "down" else "down"])
        return Recording(path, _carrying(traces, way))
    except BadFile as error:
        return Passed(path, error.reason, error)


def _traces(path: Path, way: Direction, format: str | None) -> Traces:
    """Returns the traces of a file or pair by direction; a Mahimahi file whose name states no direction has the
    direction `way`."""
    try:
        traces = read(path, format)
    except BadFile as error:
        if error.lacks != "direction":
            raise
        traces = read(path, format, way)
    return {trace.direction: trace for trace in traces}


def _carrying(traces: Traces, way: Direction) -> Traces:
    """Returns the traces that carry any bytes.  Raises BadFile if the one of the requested direction carries none."""
    if not traces[way].mean > 0:
        raise bad(traces[way].name, None, f"carries no bytes {way}; no transfer would ever end")
    return {direction: trace for direction, trace in traces.items() if trace.mean > 0}

"""Removes results: files with names that fedlapse writes, in folders that host.json names, and no other files.

All files are removed or none: each is first moved into one folder, and if one cannot be moved, all are moved back.  No
link is followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from emulator.record.host import CHARTS, HOST, Kinds, folders_of
from emulator.record.seal import OF_RESULTS, OF_RUN, SEAL
from emulator.record.writing import PARTIAL, named

ASIDE = ".fedlapse-removed"  # holds the files for a moment, in the cleared folder
OF_A_REPORT = (
    *("times", "seconds", "accuracy-time", "accuracy-rounds", "accuracy-bytes", "rounds", "timeline", "rates"),
    *("availability", "bytes", "wasted", "devices", "usage", "leverage", "split", "split-[1-9]", "map", "map-[1-9]"),
)
OF_A_STUDY = ("ratios", "times", "pace", "map", "map-*-*", "traces", "pays")
TABLES = (
    *("tuning", "times", "comparisons", "reasons", "rounds", "leverage", "map", "map-times", "map-*-*", "borders"),
    *("traces", "traces-*-*", "nulls", "pays", "regimes"),
)
WRITTEN = {  # kind of folder -> patterns of the names that fedlapse writes there
    "results": (*OF_RESULTS, SEAL),
    "run": (*OF_RUN, SEAL),
    CHARTS: tuple(f"{name}.{form}" for name in OF_A_REPORT for form in ("svg", "png")),
    "search": (HOST, "asked.json", "tuned.yaml", "tune.json", "tune.html"),
    "study": (HOST, "protocol.yaml", "study.md", "study.json", "replays.npz"),
    "tables": tuple(f"{name}.csv" for name in TABLES),
    "figures": tuple(f"{name}.{form}" for name in OF_A_STUDY for form in ("svg", "png")),
}


@dataclass(frozen=True)
class WrittenFiles:
    """The files and folders in and below the folder `out` that fedlapse has written."""

    out: Path
    files: Sequence[Path]  # a host.json comes after the files that it names
    folders: Sequence[Path]  # below `out`; a folder comes after the folders in it


def written(out: Path, kind: str) -> WrittenFiles:
    """Returns the files and folders that fedlapse has written into `out` and below it; `kind`: what `out` is, such as
    results, a search or a study."""
    folders = list(_folders(out, kind))
    files = [path for folder, of in [*folders, (out, kind)] for path in _files(folder, of)]
    above = dict.fromkeys(path for folder, _ in folders for path in (folder, *folder.parents) if out in path.parents)
    return WrittenFiles(out, files, sorted(above, key=lambda path: len(path.parts), reverse=True))


def in_the_way(out: Path, coming: Kinds, leaving: WrittenFiles) -> Path | None:
    """Returns the first path that prevents a command from writing the folders `coming`: a link to a folder, or a file
    with a name that the command would write and that is not among the files `leaving`.  None if there is none."""
    if (aside := out / ASIDE).is_symlink():
        return aside
    for name, kind in coming.items():
        if (link := _link(out, name)) is not None:
            return link
        if others := [path for path in _files(out / name, kind) if path not in leaving.files]:
            return others[0]
    return None


def linked(out: Path, coming: Kinds) -> Path | None:
    """Returns the first link through which the folders `coming`, or the files in them, would be written; None if there
    is none."""
    for name, kind in coming.items():
        if (link := _link(out, name)) is not None:
            return link
        if links := [path for path in _files(out / name, kind) if path.is_symlink()]:
            return links[0]
    return None


def remove(leaving: WrittenFiles) -> None:
    """Removes the files, and the folders that are then empty.

    If a file cannot be removed, all files are moved back to their places, and OSError is raised with the name of the
    file.
    """
    aside, moved = leaving.out / ASIDE, list[tuple[Path, Path]]()
    with named(aside):
        aside.mkdir(exist_ok=True)
        _empty(aside)  # files of a command that was killed here
    try:
        for path in leaving.files:
            with named(path):
                moved.append((path, path.rename(aside / str(len(moved)))))
    except BaseException:
        for path, place in reversed(moved):
            place.rename(path)
        aside.rmdir()
        raise
    _empty(aside)
    for folder in (aside, *leaving.folders):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _empty(aside: Path) -> None:
    for path in aside.iterdir():
        if path.name.isdecimal():
            path.unlink()


def _folders(out: Path, kind: str) -> Iterator[tuple[Path, str]]:
    """Yields the folders below `out` that fedlapse made, each with its kind; a folder comes after the folders in it."""
    if HOST not in WRITTEN[kind]:
        return
    for name, holds in (folders_of(out) or {}).items():
        folder = out / name
        if holds in WRITTEN and _link(out, name) is None and folder.is_dir():
            yield from _folders(folder, holds)
            yield folder, holds


def _link(out: Path, name: str) -> Path | None:
    """Returns the first link on the way from `out` to its folder `name`; the path itself if `name` leads out of `out`;
    None if neither is so."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute():
        return out / name
    on_the_way = [out.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
    return next(filter(Path.is_symlink, on_the_way), None)


def _files(folder: Path, kind: str) -> Iterator[Path]:
    """Yields the files in `folder` with names that fedlapse writes into a folder of this kind, host.json last.  A link
    counts as a file."""
    patterns = WRITTEN[kind]
    for path in sorted(folder.iterdir() if folder.is_dir() else (), key=lambda path: (path.name == HOST, path.name)):
        ours = any(fnmatchcase(path.name.removesuffix(PARTIAL), pattern) for pattern in patterns)
        if ours and (path.is_symlink() or path.is_file()):
            yield path

"""Audits runs, and the folders of results that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from emulator.audit.audit import Audit, audit
from emulator.audit.results_laws import audit_results
from emulator.record.folders import REPLAY, is_run, run_folders


def audited_in(paths: Iterable[Path]) -> dict[Path, Audit]:
    """Returns the audit of each run in these paths, and of each folder of results, by folder.

    Raises ValueError for a path that holds no run.
    """
    return {folder: each for path in paths for folder, each in _audited(path)}


def _audited(path: Path) -> Iterator[tuple[Path, Audit]]:
    """Yields the audits of the runs in `path`, and of the folder itself if it holds results.

    A replay in several settings has one folder of runs for each setting.  If it kept no timelines, it has no runs, and
    only its own folder is audited.
    """
    settings = sorted(file.parent for file in path.glob(f"*/{REPLAY}"))
    has_runs = any(map(is_run, path.glob("*/")))
    audited: dict[Path, Audit] = {}
    if settings or ((path / REPLAY).is_file() and not has_runs):
        folders = settings
        for setting in settings:
            audited |= dict(_audited(setting))
    else:
        folders = run_folders(path)
        for folder in folders:
            audited[folder] = audit(folder)
    if folders != [path]:
        yield path, audit_results(path, {folder: audited[folder] for folder in folders})
    yield from audited.items()

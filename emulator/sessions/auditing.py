"""Audits runs, and the folders of results that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from emulator.audit.audit import Audit, audit
from emulator.audit.results_laws import audit_results
from emulator.record.folders import REPLAY, is_run, run_folders
from emulator.record.host import object_in
from emulator.replay.chance import chance
from emulator.replay.holding import holding
from emulator.results.results import read


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
        runs = {folder: audited[folder] for folder in folders}
        yield path, _replayed(path, audit_results(path, runs), runs.values())
    yield from audited.items()


def _replayed(out: Path, audited: Audit, runs: Iterable[Audit]) -> Audit:
    """Returns the audit of a folder of results with a fault for each of `holds` (how far the order of its verdict
    holds) and `chance` (other draws on full links) of its summary that replays do not find.  Results that are at fault,
    or were not judged by all laws, are not replayed."""
    summary, faults = object_in(out / "summary.json"), []
    if not any(each.faults or each.unjudged for each in (audited, *runs)):
        drawn = summary.get("chance")
        finds: dict[str, Callable[[], object]] = {
            "holds": lambda: holding(read(out), None, drawn),
            "chance": lambda: chance(read(out), None),
        }
        for key, find in finds.items():
            if (said := summary.get(key)) is not None and (made := find()) != said:
                faults.append(f"summary: {key} is {said}, but replays say {made}")
    return replace(audited, faults=[*audited.faults, *faults])

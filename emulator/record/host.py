"""Reads and writes host.json: the command, the computer, and the names of the folders next to the file that fedlapse
made."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from emulator.record.lines import object_of
from emulator.record.run import Run
from emulator.record.writing import replace_file
from scenarios.schema.scenario import Scenario

HOST, FOLDERS = "host.json", "folders"
CHARTS = "charts"
Kinds = Mapping[str, str]  # path of a folder, relative to host.json's -> its kind, as in removal.py


def of_runs(runs: Iterable[Run]) -> Kinds:
    """Returns the names of the folders of these runs and of their charts, each with its kind."""
    return {run.name: "run" for run in runs} | {CHARTS: CHARTS}


def of_scenario(scenario: Scenario) -> Kinds:
    """Returns the names of the folders of all runs of a scenario and of their charts, each with its kind."""
    return of_runs(Run(entry.name, seed) for entry in scenario.algorithms for seed in scenario.seeds)


def host_of(out: Path) -> dict[str, Any]:
    """Returns the object in host.json; {} if there is no such file, or it is damaged."""
    return object_in(out / HOST)


def object_in(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file; {} if there is no such file, or it is damaged."""
    try:
        return object_of(path.read_bytes(), str(path))
    except (OSError, ValueError):
        return {}


def folders_of(out: Path) -> Kinds | None:
    """Returns the folders that host.json in `out` names, each with its kind; None if it has no list of folders."""
    folders = host_of(out).get(FOLDERS)
    if not isinstance(folders, dict):
        return None
    return {name: kind for name, kind in folders.items() if isinstance(kind, str)}


def note(out: Path, folders: Kinds, **more: object) -> None:
    """Writes host.json in `out`, with `more` keys, and adds these folders to those that it names already.  It is called
    before the folders are made.  A file that has nothing to add, as when runs are resumed, does not change."""
    known = folders_of(out)
    if known is not None and not more and folders.items() <= known.items():
        return
    content = {"command": ["fedlapse", *sys.argv[1:]], **more, FOLDERS: {**(known or {}), **folders}}
    replace_file(out / HOST, json.dumps(content, indent=1) + "\n")

"""host.json: the command and the computer, and which folders beside it fedlapse has made."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from emulator.record.record import replace_file
from emulator.record.run import Run
from scenarios.schema.scenario import Scenario

HOST, FOLDERS = "host.json", "folders"
CHARTS = "charts"
Kinds = Mapping[str, str]  # path of a folder, from the one that host.json lies in -> what it holds, as in removal.py


def of_runs(runs: Iterable[Run]) -> Kinds:
    """The folders of these runs, and that of their charts."""
    return {run.name: "run" for run in runs} | {CHARTS: CHARTS}


def of_scenario(scenario: Scenario) -> Kinds:
    """The folders of all its runs, and that of their charts."""
    return of_runs(Run(entry.name, seed) for entry in scenario.algorithms for seed in scenario.seeds)


def host_of(out: Path) -> dict[str, Any]:
    """What host.json says; {} if there is none, or it is damaged."""
    return object_in(out / HOST)


def object_in(path: Path) -> dict[str, Any]:
    """The object in a JSON file; {} if there is no such file, or it is damaged."""
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def folders_of(out: Path) -> Kinds | None:
    """The folders that host.json names; None if it names none."""
    said = host_of(out).get(FOLDERS)
    if not isinstance(said, dict):
        return None
    return {name: kind for name, kind in said.items() if isinstance(kind, str)}


def note(out: Path, folders: Kinds, **more: object) -> None:
    """Names these folders in host.json, before they are made, beside those that it names already."""
    known = folders_of(out) or {}
    said = {"command": ["fedlapse", *sys.argv[1:]], **more, FOLDERS: {**known, **folders}}
    replace_file(out / HOST, json.dumps(said, indent=1) + "\n")

"""The law of a seed: all its runs begin with the same model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.audit.audit import Audit
from emulator.record.record import read_lines
from emulator.record.run import Run
from scenarios.load import recorded
from scenarios.schema import known
from scenarios.schema.entries import Entry


def judged(out: Path, runs: Mapping[Path, Audit]) -> tuple[list[str], str | None]:
    """A sentence for each run that begins with another model than its seed's others; and what cannot be told.

    Runs that break a law of their own are left out.  An algorithm may train on the server's examples before round 0:
    a shipped one does if it says `pretrain`, of one's own nobody knows.
    """
    try:
        scenario = recorded(out)
    except (OSError, ValueError):
        return [], None  # its runs say so
    faults, doubt = list[str](), None
    shipped = [entry.name for entry in scenario.algorithms if entry.key in known.algorithms()]
    sound = {folder.name for folder, each in runs.items() if not each.faults}
    for seed in scenario.seeds:
        begun = {entry.name: Run(entry.name, seed).name for entry in scenario.algorithms if not _pretrains(entry)}
        models = {label: model for label, name in begun.items() if name in sound and (model := _first(out / name))}
        first = next((label for label in [*shipped, *models] if label in models), "")
        for label in (label for label, model in models.items() if model != models[first]):
            said = f"{begun[label]} begins with model {models[label]}, and {begun[first]} with {models[first]}"
            if label in shipped:
                faults.append(f"scenario: {said}; all runs of a seed begin with one model")
            else:
                doubt = f"{said}, which only the code of {label} can explain"
    return faults, doubt


def _pretrains(entry: Entry) -> bool:
    return bool(entry.options.get("pretrain")) and entry.key in known.algorithms()


def _first(folder: Path) -> Any:
    """The digest of the model with which a run begins; None if it has not begun."""
    path = folder / "events.jsonl"
    opened = next(read_lines(path), None) if path.is_file() else None
    return opened.get("model") if opened else None

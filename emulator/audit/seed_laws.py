"""Checks that all runs of a seed begin with the same model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.audit.audit import Audit
from emulator.record.record import read_lines
from emulator.record.run import Run
from scenarios.load import recorded
from scenarios.schema import known


def judged(out: Path, runs: Mapping[Path, Audit]) -> tuple[list[str], str | None]:
    """A sentence for each run that begins with another model than the other runs of its seed, and a doubt, if there is
    one.

    Runs that break another law are skipped.  An algorithm may train on the server's examples before round 0: a shipped
    algorithm does so with the option `pretrain`; a user's own algorithm may do so unseen, which is the doubt.
    """
    try:
        scenario = recorded(out)
    except (OSError, ValueError):
        return [], None  # the audits of the runs report it
    faults, doubt = list[str](), None
    shipped = [entry.name for entry in scenario.algorithms if entry.key in known.algorithms()]
    pretrained = {
        entry.name for entry in scenario.algorithms if entry.name in shipped and entry.options.get("pretrain")
    }
    sound = {folder.name for folder, run in runs.items() if not run.faults}
    for seed in scenario.seeds:
        begun = {entry.name: Run(entry.name, seed).name for entry in scenario.algorithms}
        models = {
            label: model
            for label, name in begun.items()
            if label not in pretrained and name in sound and (model := _first(out / name))
        }
        first = next((label for label in [*shipped, *models] if label in models), "")
        for label in (label for label, model in models.items() if model != models[first]):
            said = f"{begun[label]} begins with model {models[label]}, and {begun[first]} with {models[first]}"
            if label in shipped:
                faults.append(f"scenario: {said}; all runs of a seed begin with one model")
            else:
                doubt = f"{said}, which only the code of {label} can explain"
    return faults, doubt


def _first(folder: Path) -> Any:
    """The digest of the model with which a run begins; None if it has no round."""
    path = folder / "events.jsonl"
    opened = next(read_lines(path), None) if path.is_file() else None
    return opened.get("model") if opened else None

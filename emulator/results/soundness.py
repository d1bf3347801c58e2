"""Whether results can be relied on: what their seals tell, and what of the scenario's runs is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.record.folders import REPLAY
from emulator.record.run import Run
from emulator.record.seal import MADE_AGAIN, SEAL, state
from emulator.results.results import Results
from scenarios.load import recorded

SHOWN = 5  # damaged files
LOST = (
    f"{SEAL} is missing, though all runs have ended and are sealed: either somebody has deleted it, or the command was "
    "killed, or found the disk full, after the last run. Put it back from a copy, or make these results again in a "
    "new folder and compare the two with `fedlapse diff`"
)
INTERRUPTED = "the replay was interrupted, and not all of it was made"


@dataclass(frozen=True)
class Soundness:
    """What the seals of a folder of results tell."""

    damaged: bool
    notes: tuple[str, ...]  # sentences


def soundness(folder: Path) -> Soundness:
    """Of a folder of results, or of a run."""
    found = state(folder)
    damaged = [fault for fault in found.damaged if not fault.startswith(MADE_AGAIN)]
    files = damaged[:SHOWN]
    if len(damaged) > SHOWN:
        files.append(f"and {len(damaged) - SHOWN} more")
    notes = [f"This record is damaged: {', '.join(files)}."] if files else []
    holds_any = any((folder / name).is_file() for name in ("scenario.yaml", "events.jsonl"))
    if has_lost_seal(folder):
        notes.append(f"{LOST}.")
    elif holds_any and folder.resolve().name in found.unsealed:
        unfinished = _said(folder / REPLAY).get("finished") is False
        why = INTERRUPTED if unfinished else "it was interrupted, or made by an older version"
        notes.append(f"This record has no seal: {why}.")
    return Soundness(bool(damaged), tuple(notes))


def has_lost_seal(out: Path) -> bool:
    """Whether a folder of results has no seal, though each run of its scenario is sealed, or its replays are done."""
    if (out / SEAL).is_file():
        return False
    if (out / REPLAY).is_file():
        return _said(out / REPLAY).get("finished") is True
    try:
        scenario = recorded(out)
    except (OSError, ValueError):
        return False  # nobody knows which runs are due
    due = [Run(entry.name, seed).name for entry in scenario.algorithms for seed in scenario.seeds]
    ended = all((out / name / SEAL).is_file() for name in due)
    return ended and _said(out / "summary.json").get("interrupted") is not True


def _said(path: Path) -> dict[str, Any]:
    """What a JSON file says; nothing if it cannot be read."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def missing(found: Results) -> Iterator[str]:
    """Runs of the scenario without a round, the baseline among them; and runs of unlike length that nobody sealed."""
    yield from _without_rounds(found)
    yield from _without_baseline(found)
    yield from _of_unlike_length(found)


def _without_rounds(found: Results) -> Iterator[str]:
    names = []
    for label, seeds in found.runs.items():
        empty = [seed for seed in found.scenario.seeds if not seeds.get(seed)]
        names += [Run(label, seed).name for seed in empty]
    if names:
        yield f"These runs have no rounds, and are left out: {', '.join(names)}."


def _without_baseline(found: Results) -> Iterator[str]:
    first, *others = found.runs
    if any(found.runs[first].values()):
        return
    instead = "there are no ratios to it"
    played = [label for label in others if found.runs[label]]
    if played and not found.runs[first]:
        instead = f"ratios are to {played[0]} instead"
    yield f"The baseline, {first}, has no rounds: {instead}."


def _of_unlike_length(found: Results) -> Iterator[str]:
    least = shared(found)
    if least is not None:
        yield f"The runs have {least} to {max(_lengths(found))} rounds; values at the end are those after {least}."


def shared(found: Results) -> int | None:
    """How many rounds all runs have, where they differ and nobody sealed them; None if each run has its own end."""
    lengths = _lengths(found)
    return min(lengths) if len(lengths) > 1 and soundness(found.folder).notes else None


def _lengths(found: Results) -> set[int]:
    return {len(rows) for seeds in found.runs.values() for rows in seeds.values() if rows}

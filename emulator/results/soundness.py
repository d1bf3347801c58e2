"""Finds reasons not to rely on results: files that differ from their seals, and runs of the scenario that are
missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from emulator.record.folders import REPLAY
from emulator.record.host import object_in
from emulator.record.record import FILES
from emulator.record.run import Run
from emulator.record.seal import MADE_AGAIN, SEAL, damage
from emulator.results.results import Results
from scenarios.load import recorded

SHOWN = 5  # damaged files
LOST = (
    f"{SEAL} is missing, although all runs have ended and are sealed: it was deleted, or the command was killed or "
    "found the disk full after the last run; then `fedlapse resume` completes a scenario's results. Otherwise restore "
    "it from a copy, or run the scenario again in a new folder and compare the two with `fedlapse diff`"
)


@dataclass(frozen=True)
class SealFindings:
    """The damage to a folder of results that its seals (digests of its files) show."""

    damaged: bool
    notes: tuple[str, ...]  # sentences


def soundness(folder: Path) -> SealFindings:
    """Returns what is wrong with a folder of results, or of a run, according to its seals."""
    notes, damaged = [], [fault for fault in damage(folder) if not fault.startswith(MADE_AGAIN)]
    if damaged:
        more = [f"and {len(damaged) - SHOWN} more"] if len(damaged) > SHOWN else []
        notes.append(f"This record is damaged: {', '.join([*damaged[:SHOWN], *more])}.")
    if has_lost_seal(folder):
        notes.append(f"{LOST}.")
    elif not (folder / SEAL).is_file() and any((folder / name).is_file() for name in ("scenario.yaml", FILES[0])):
        notes.append("This record has no seal: it was interrupted.")
    return SealFindings(bool(damaged), tuple(notes))


def has_lost_seal(out: Path) -> bool:
    """Returns true if a folder of results has no seal although it should: each run of its scenario is sealed and the
    command was not interrupted, or its replay is finished."""
    if (out / SEAL).is_file():
        return False
    if (out / REPLAY).is_file():
        return object_in(out / REPLAY).get("finished") is True
    try:
        scenario = recorded(out)
    except (OSError, ValueError):
        return False  # it cannot be told which runs are due
    due = [Run(entry.name, seed).name for entry in scenario.algorithms for seed in scenario.seeds]
    ended = all((out / name / SEAL).is_file() for name in due)
    return ended and object_in(out / "summary.json").get("interrupted") is not True


def missing(found: Results) -> Iterator[str]:
    """Yields sentences on runs without a round, on a baseline without one, and on runs of different lengths in results
    without an intact seal."""
    seeds = found.scenario.seeds
    empty = [Run(label, seed).name for label, runs in found.runs.items() for seed in seeds if not runs.get(seed)]
    if empty:
        yield f"These runs have no rounds, and are left out: {', '.join(empty)}."
    first, *others = found.runs
    if not any(found.runs[first].values()):
        played = [label for label in others if found.runs[label]]
        other = played and not found.runs[first]
        instead = f"ratios are to {played[0]} instead" if other else "there are no ratios to it"
        yield f"The baseline, {first}, has no rounds: {instead}."
    if (least := shared(found)) is not None:
        yield f"The runs have {least} to {max(_lengths(found))} rounds; final values are after {least} rounds."


def shared(found: Results) -> int | None:
    """Returns the number of rounds that all runs have, if runs differ in length and the results are not intact and
    sealed; None otherwise."""
    lengths = _lengths(found)
    return min(lengths) if len(lengths) > 1 and soundness(found.folder).notes else None


def _lengths(found: Results) -> set[int]:
    return {len(rows) for seeds in found.runs.values() for rows in seeds.values() if rows}

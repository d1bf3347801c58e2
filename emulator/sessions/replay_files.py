"""The files that a replay writes next to its timelines: replay.json, summary.json, and copies from the runs' folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.record.folders import REPLAY
from emulator.record.host import Kinds, note, of_runs
from emulator.record.seal import seal_results
from emulator.record.writing import replace_file
from emulator.replay.batch import Batch
from emulator.replay.conditions import Condition
from emulator.replay.findings import ASSUMPTION, Finding, flips
from emulator.results.caveats import LOOPED

COPIED = ("scenario.yaml", "split.json")


@dataclass(frozen=True)
class Layout:
    """The places of a replay's timelines (records of events) in OUT: a folder for each setting, or OUT itself if there
    is only one setting."""

    out: Path
    conditions: Sequence[Condition]
    events: bool  # timelines are also written for several settings

    def of(self, condition: Condition) -> Path | None:
        """Returns the folder of a setting's timelines; None if its timelines are not written."""
        if len(self.conditions) == 1:
            return self.out
        return self.out / condition.name.replace("/", "-") if self.events else None

    def coming(self, batch: Batch) -> Kinds:
        """Returns the folders that the replay will write in OUT, by name, with their kinds as in host.json."""
        if len(self.conditions) == 1:
            return of_runs(script.run for script in batch.scripts)
        return {folder.name: "results" for _, folder in self.folders}

    @property
    def folders(self) -> Iterator[tuple[Condition, Path]]:
        for condition in self.conditions:
            if (folder := self.of(condition)) is not None:
                yield condition, folder


def refuse_runs(out: Path, home: Path) -> None:
    """Raises ValueError if OUT is, holds or lies in the folder of the replayed runs, because --force empties OUT."""
    there = out.resolve()
    if there == home or home in there.parents or there in home.parents:
        raise ValueError(f"--out {out} is, holds or lies in {home}, whose runs are replayed; give a new folder")


def begin(batch: Batch, layout: Layout, recorded: Finding, passed: Sequence[str]) -> None:
    """Writes the files that must exist before the first timeline: copies of scenario.yaml and split.json, and a
    replay.json that marks the folder as a replay.

    If the command is killed, these files say that the replay was interrupted.
    """
    for folder in dict.fromkeys([layout.out, *(folder for _, folder in layout.folders)]):
        folder.mkdir(parents=True, exist_ok=True)
        for name in COPIED:
            if (batch.home / name).is_file():
                replace_file(folder / name, (batch.home / name).read_text(encoding="utf-8"))
        replace_file(folder / REPLAY, _text(batch, [recorded], passed, whole=False))
        below = of_runs(script.run for script in batch.scripts)
        note(folder, layout.coming(batch) if folder == layout.out else below, world="replay")
    for condition, folder in layout.folders:  # remains if the command is killed
        broken = f"{_played_again(batch, condition.name)}; the replay was interrupted, and not all of it was made."
        said = {"reserved": [broken], "interrupted": True}
        replace_file(folder / "summary.json", json.dumps(said, indent=1) + "\n")


def finish(batch: Batch, layout: Layout, findings: Sequence[Finding], passed: Sequence[str], whole: bool) -> None:
    """Writes the findings after the last replay, and seals the folders if `whole`.

    `findings`: the first is about the recorded runs; the others are about one setting each.  `passed`: notes on skipped
    files and runs.  `whole`: False if the command was stopped before all replays were made.
    """
    replace_file(layout.out / REPLAY, _text(batch, findings, passed, whole))
    named = {finding.name: finding for finding in findings[1:]}
    for condition, folder in layout.folders:
        if (finding := named.get(condition.name)) is None:
            continue
        if folder != layout.out:
            replace_file(folder / REPLAY, _text(batch, [findings[0], finding], passed, whole))
        said: dict[str, Any] = {
            "reserved": [f"{_played_again(batch, finding.name)}.", _accuracies(batch, finding)],
            "failures": {label: list(_ends(finding, label)) for label in batch.labels},
            "links": {"assumed": [*finding.assumptions, *repeated(finding)], "loops": 0, "trace": ""},
            "interrupted": not whole,
        }
        replace_file(folder / "summary.json", json.dumps(said, indent=1, sort_keys=True) + "\n")
    if whole:
        for folder in {folder for _, folder in layout.folders} - {layout.out}:
            seal_results(folder)
        seal_results(layout.out)


def plain(batch: Batch, findings: Sequence[Finding], passed: Sequence[str], whole: bool) -> dict[str, Any]:
    """Returns the content of replay.json.  The parameters are as in `finish`."""
    return {
        "scenario": batch.scenario.name,
        "network": batch.network,
        "of": str(batch.source.path),
        "trained": batch.source.train,
        "finished": whole,
        "passed_over": list(passed),
        "settings": [each.plain for each in findings],
        "flips": {target: flips(findings, target) for target in findings[0].times},
    }


def _text(batch: Batch, findings: Sequence[Finding], passed: Sequence[str], whole: bool) -> str:
    return json.dumps(plain(batch, findings, passed, whole), indent=1) + "\n"


def _played_again(batch: Batch, name: str) -> str:
    kind, how = ("Replays with training", "") if batch.source.train else ("Replays, no runs", " without training")
    return f"{kind}: the runs in {batch.source.path}, replayed{how} on “{name}”"


def _accuracies(batch: Batch, finding: Finding) -> str:
    if batch.source.train:
        return "Accuracies are from a run there."
    if any(times.assumed for of in finding.times.values() for times in of.values()):
        return f"Accuracies are assumed: {ASSUMPTION}."
    return "Accuracies are from the record."


def _ends(finding: Finding, label: str) -> Iterator[str]:
    """Yields a line for each replay of this algorithm that left the record at a different decision, or that failed."""
    yield from (f"seed {note.seed} {note.text}" for note in finding.partings if note.label == label)
    yield from (f"seed {note.seed} {note.text}" for note in finding.failures if note.label == label)


def repeated(finding: Finding) -> Iterator[str]:
    if finding.loops > LOOPED:
        yield f"the trace starts over {finding.loops} times within this run; use a longer one"

"""Do the study's differences stand?  Plays what was chosen in each regime under seeds that no study has seen, and
compares it as the study does.

    python -m benchmarks.unseen --out runs/unseen          some minutes a regime; the same command goes on
    python -m benchmarks.study none --write                writes what it found into the page
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from ruamel.yaml import YAML

from benchmarks.study import KEPT, main_target, regimes, rows, target
from emulator.analysis.comparisons import comparisons
from emulator.analysis.protocol import pairs
from emulator.record.seal import SEAL
from emulator.record.targets import Target
from emulator.results.comparison import OWN, observed
from emulator.results.results import read
from emulator.results.times import values
from emulator.wording.study_files import compared, times
from fedlapse import Error, compare
from scenarios.load import load

SEEDS = range(61, 71)


def main(
    name: Annotated[str, typer.Argument(help="The study: digits or mnist.")] = "digits",
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/unseen"),
    regime: Annotated[list[str] | None, typer.Option(help="Only these regimes.")] = None,
) -> None:
    """Plays the settings that each regime chose under other seeds, and keeps times and comparisons in docs/studies."""
    for each in regime or regimes(name):
        play(KEPT / name / each, out / name / each)


def play(kept: Path, out: Path) -> None:
    """Writes unseen-times.csv and unseen.csv among the tables of a regime."""
    goals = targets(kept)
    if not (out / SEAL).is_file():  # not played to the end
        try:
            compare(settings(kept, goals), out=out, force=True)
        except Error:
            if not (out / SEAL).is_file():
                raise  # else all were played, and some diverged, which is a result
    seen = observed(read(out).runs)
    found = [each for goal in goals for each in values(OWN, goal, seen, None)]
    made = comparisons(found, pairs(load(str(kept / "protocol.yaml"))))
    (kept / "tables" / "unseen-times.csv").write_text(times(found).csv, encoding="utf-8")
    (kept / "tables" / "unseen.csv").write_text(compared(made).csv, encoding="utf-8")


def targets(kept: Path) -> list[Target]:
    """Returns a regime's targets up to the main one, which is the last; runs stop there."""
    main = target(main_target(kept.parent.name, kept.name))
    named = dict.fromkeys(row["target"] for row in rows(kept / "tables" / "times.csv"))
    return sorted((goal for goal in map(target, named) if goal.value <= main.value), key=lambda goal: goal.value)


def settings(kept: Path, goals: Sequence[Target]) -> dict[str, object]:
    """Returns the scenario with a regime's chosen settings, without rows and nulls, which ends with its main target."""
    said = YAML(typ="safe").load((kept / "tuned.yaml").read_text(encoding="utf-8"))
    aside = {*said["study"]["rows"], *said["study"]["nulls"]}
    said["algorithms"] = [each for each in said["algorithms"] if each["name"] not in aside]
    aims = [{"metric": each.metric, "value": each.value, "hold": each.hold} for each in goals]
    said["rounds"] |= {"targets": aims, "stop_at": aims[-1]}
    return {key: value for key, value in said.items() if key not in ("tune", "study")} | {"seeds": list(SEEDS)}


if __name__ == "__main__":
    typer.run(main)

"""The report's tables, as rows of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.report import units
from emulator.report.units import Unit

MEASURES = ("time_s", "rounds", "bytes")
METRICS = {"accuracy": "accuracy", "initial": "initial", "personalised": "personalised"}


@dataclass(frozen=True)
class Table:
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int  # so many columns from the left are text, the others are numbers


def to_targets(summary: Mapping[str, Any]) -> Table:
    """Time, rounds and bytes to each target, and the ratios to the baseline."""
    entries = [
        (label, name, target) for label, said in summary["labels"].items() for name, target in said["targets"].items()
    ]
    time, size = _units([target for _, _, target in entries])
    shown = (time, Unit("rounds", 1.0, None), size)
    rows = [
        (label, name, f"{target['reached']} of {target['of']}", *_figures(target, shown))
        for label, name, target in entries
    ]
    headings = ("algorithm", "target", "reached", f"time, {time.name}", "ratio", "rounds", "ratio")
    caption = (
        f"Median over seeds and [low, high]: the extremes below 5 seeds, else the quartiles; "
        f"a seed that never got there counts as ∞. Ratios of medians to {summary['baseline']}."
    )
    return Table(caption, (*headings, size.name, "ratio"), rows, 2)


def at_the_end(summary: Mapping[str, Any]) -> Table:
    """What each algorithm had come to when its runs ended."""
    labels = summary["labels"]
    ended = [said for said in labels.values() if said["time_s"]]
    time, size = _units(ended)
    metrics = [metric for metric in METRICS if any(said["final"].get(metric) for said in ended)]
    share = Unit("", 1.0, 3)
    rows = []
    for label, said in labels.items():
        counts = sorted(said["rounds"].values())
        rounds = " to ".join(dict.fromkeys(str(count) for count in (counts[0], counts[-1]))) if counts else "0"
        finals = [said["final"].get(metric) for metric in metrics]
        rows.append(
            (
                label,
                rounds,
                units.spread(said["time_s"], time) if said["time_s"] else units.NONE,
                units.spread(said["bytes"], size),
                *(units.spread(final, share) if final else units.NONE for final in finals),
            )
        )
    caption = (
        "Initial: the global model on each device’s own test shard, mean over devices; "
        "personalised: the same after one local training."
    )
    return Table(caption, ("algorithm", "rounds", f"time, {time.name}", size.name, *metrics), rows, 1)


def _units(entries: Sequence[Mapping[str, Any]]) -> tuple[Unit, Unit]:
    values = {m: [entry[m][key] for entry in entries for key in ("median", "low", "high")] for m in ("time_s", "bytes")}
    return units.of_time(values["time_s"]), units.of_bytes(values["bytes"])


def _figures(target: Mapping[str, Any], shown: Sequence[Unit]) -> list[str]:
    cells = []
    for measure, unit in zip(MEASURES, shown, strict=True):
        cells += [units.spread(target[measure], unit), units.ratio(target["ratio_to_baseline"][measure])]
    return cells

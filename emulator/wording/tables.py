"""The tables of results as rows of text, from which the terminal, report.html and Markdown make their own forms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import floor, log10
from statistics import fmean
from typing import Any

from emulator.results import caveats, units
from emulator.results.resampling import Interval, bounded
from emulator.results.summary import FATES, MEASURES
from emulator.results.table import Table
from emulator.results.units import Choice, Unit

Column = tuple[str, Sequence[str]]  # heading, cells

DEVICES = 20  # devices of a fleet that a table shows
DREW = "the energy of the devices in the rounds for which they were selected"
UNITS: Mapping[str, Choice] = {"time_s": units.of_time, "rounds": units.of_rounds, "bytes": units.of_bytes}
NUMBERS = {
    "omega_max": "the largest Ω of a weight",
    "omega_mean": "the mean Ω of all weights",
    "drift": "‖θ_k − θ_t‖, how far a device’s model went from the one that it received",
    "penalty_share": "the penalty’s share of the final training loss",
    "identity": "the share of devices that used Ω = 1, because they had no other",
    "no_importance": "the share of devices that had not yet received Ω and trained without a penalty",
    "server_step": "the server’s step, as a multiple of the local updates’; above 2 it overshoots",
    "clamped": "coordinates whose negative curvature was set to 0",
    "density": "the share of non-zero values in the received Fisher information",
    "forgetting": "accuracy lost on earlier time slices, best ever − now",
}
UNREACHED = (
    " If no seed reached the target, the best value is shown instead of the time, and after ~ the rounds needed at the "
    "pace of the last ones."
)
CUT = (
    " ≥, ≤: some seeds did not reach the target in time and count up to the second that the verdict names, so the true "
    "value is at least, or at most, this large."
)


def to_targets(summary: Mapping[str, Any], without: Collection[str] = ()) -> Table:
    """Returns a table with a row for each algorithm and target: time, rounds and bytes until the target was reached,
    the ratios of these to the baseline's, and joules, if any are known.

    `summary`: the content of summary.json.  `without`: columns to leave out: "joules", "rounds", "bytes", or "ratios"
    (of rounds and bytes).
    """
    entries = [
        (label, name, target) for label, said in summary["labels"].items() for name, target in said["targets"].items()
    ]
    targets = [target for _, _, target in entries]
    columns: list[Column] = [("reached", [f"{target['reached']} of {target['of']}" for target in targets])]
    for measure in MEASURES:
        if measure not in without:
            columns += _measure(measure, targets, summary["baseline"], "ratios" not in without)
    texts = zip(*(cells for _, cells in columns), strict=True)
    rows = [(_named(label, summary), name, *cells) for (label, name, _), cells in zip(entries, texts, strict=True)]
    headings = ("algorithm", "target", *(heading for heading, _ in columns))
    missed = UNREACHED if any(not target["reached"] for target in targets) else ""
    cut = CUT if any(map(_cut, targets)) else ""
    caption = (
        f"Mean over seeds and [low, high]: the extremes below 5 seeds, else the quartiles; ∞: a seed that never "
        f"reached it.{cut} Ratios are of means; the ratio of times has a 95 % interval from 5 seeds on.{missed}"
    )
    found = Table(caption, headings, rows, 2)
    return found if "joules" in without else _with_energy(found, targets)


def _named(label: str, summary: Mapping[str, Any]) -> str:
    """Returns an algorithm's name in a table, marked if its runs over sockets took longer than modelled."""
    return f"{label} (slow host)" if label in summary.get("overtime", ()) else label


def _cut(target: Mapping[str, Any]) -> bool:
    """Returns True if some seeds count only up to the horizon, because they reached the target later or never, and the
    mean time is known."""
    time = target["time_s"]
    if time["mean"] is None or target["reached"] < target["of"]:
        return time["mean"] is not None
    return bool(time["mean"] < fmean(at["time_s"] for at in target["seeds"].values()))


def _measure(measure: str, targets: Sequence[Mapping[str, Any]], baseline: str, ratios: bool) -> Iterator[Column]:
    """Yields the column of a measure (time, rounds or bytes) and, if `ratios` or for times, the column of its ratios to
    the baseline."""
    unit, cells = units.column([target[measure] for target in targets], UNITS[measure])
    heading = {"time_s": _heading("time", unit), "rounds": "rounds", "bytes": unit or "bytes"}[measure]
    yield heading, [_cell(measure, target, cell) for target, cell in zip(targets, cells, strict=True)]
    if ratios or measure == "time_s":
        yield f"/ {baseline}", [_ratio(target, measure) for target in targets]


def _cell(measure: str, target: Mapping[str, Any], shown: str) -> str:
    """Returns the cell of a measure: `shown`, with ≥ if some seeds count only up to the horizon.

    If no seed reached the target: the best value that was reached for the time, an estimate for the rounds, and – for
    bytes.
    """
    if target["time_s"]["low"] is not None:
        return f"≥ {shown}" if _cut(target) else shown
    best, rounds = target["best"], target["at_pace"]
    if measure == "time_s":
        return f"best {best['mean']:.3f}" if best else units.NEVER
    return f"~{rounds}" if measure == "rounds" and rounds else units.NONE


def _ratio(target: Mapping[str, Any], measure: str) -> str:
    """Returns a target's ratio of a measure to the baseline, such as `2.47× [2.17, 3.01]` or `≥ 2.47× [2.17, ∞]`; only
    times have intervals, and only from 5 seeds on."""
    ratio = target["ratio_to_baseline"][measure] if target["time_s"]["low"] is not None else None
    pairs = target.get("paired") if measure == "time_s" and ratio is not None else None
    if pairs:
        found = Interval(*(pairs[name] for name in ("ratio", "low", "high", "p")), bound=pairs.get("bound"))
        return found.text(units.TIMES)
    return units.NONE if ratio is None else bounded(units.ratio(ratio), target.get("bound"))


def _with_energy(found: Table, entries: Iterable[Mapping[str, Any]]) -> Table:
    """Returns the table with another column, the energy of each row; if none is known, the unchanged table.

    `entries`: the part of the summary for each row.
    """
    spent = [entry.get("joules") for entry in entries]
    if not any(spent):
        return found
    unit, cells = units.column(spent, units.of_energy)
    rows = [(*row, cell) for row, cell in zip(found.rows, cells, strict=True)]
    caption = f"{found.caption} {unit or 'Energy'}: {DREW}."
    return replace(found, caption=caption, headings=(*found.headings, unit or "energy"), rows=rows)


def at_the_end(summary: Mapping[str, Any], without: Collection[str] = ()) -> Table:
    """Returns a table with a row for each algorithm at the end of its runs: rounds, time, bytes, metrics, the fates of
    asked devices, and joules, if any are known.

    `without`: columns to leave out: "joules", "initial".
    """
    labels = summary["labels"]
    entries = list(labels.values())
    time, times = units.column([said["time_s"] for said in entries], units.of_time)
    size, sizes = units.column([said["bytes"] for said in entries], units.of_bytes)
    metrics = [
        metric
        for metric in dict.fromkeys(chain.from_iterable(said["final"] for said in entries))
        if metric not in without and any(said["time_s"] and said["final"].get(metric) for said in entries)
    ]
    fates = [fate for fate in FATES if fate != "asked" and _differs(entries, fate)]
    rows = [
        (_named(label, summary), _rounds(said), *cells, *_spreads(said["final"], metrics), *_percents(said, fates))
        for (label, said), *cells in zip(labels.items(), times, sizes, strict=True)
    ]
    caption = (
        "Initial: the global model on each device’s own test shard, mean over devices; "
        "personalised: the same after one local update."
    )
    if fates:
        what = ", ".join(map(_fate, fates)).capitalize()
        caption += f" {what}: share of the selected devices, over all rounds and seeds."
    if any("staleness" in said for said in entries):
        rows = [(*row, _stale(said.get("staleness"))) for row, said in zip(rows, entries, strict=True)]
        fates.append("staleness")
        caption += " Staleness: mean and largest, in versions of the model; rounds of asynchronous runs are versions."
    headings = ("algorithm", "rounds", _heading("time", time), size or "bytes", *metrics, *map(_fate, fates))
    found = Table(caption, headings, rows, 1)
    return found if "joules" in without else _with_energy(found, entries)


def _stale(said: Mapping[str, Any] | None) -> str:
    return f"{said['mean']:.1f}, {said['largest']}" if said else units.NONE


def _rounds(said: Mapping[str, Any]) -> str:
    """Returns the number of an algorithm's rounds: `10`, or `8 to 10` if its runs differ."""
    counts = sorted(said["rounds"].values())
    if not counts:
        return "0"
    return " to ".join(dict.fromkeys([str(counts[0]), str(counts[-1])]))


def of_devices(summary: Mapping[str, Any]) -> Table:
    """Returns a table with a row for each of at most DEVICES devices, and its energy under each algorithm.

    Rows are sorted by energy, highest first; devices of unknown energy come last.  If no device's energy is known, the
    table has no rows.
    """
    labels = summary["labels"]
    spent = {label: said.get("joules_of_devices") or {} for label, said in labels.items()}
    most: dict[str, float] = {}
    for of in spent.values():
        for name, joules in of.items():
            if joules is not None:
                most[name] = max(joules, most.get(name, 0.0))
    names = sorted(most, key=lambda name: (-most[name], name))
    if most:
        names += sorted({name for of in spent.values() for name in of if name not in most})
    unit, shown = units.of_energy(most.values()), names[:DEVICES]
    rows = [
        (name, *(units.NONE if (joules := of.get(name)) is None else unit.show(joules) for of in spent.values()))
        for name in shown
    ]
    caption = f"{unit.name}: {DREW}, mean over seeds of whole runs; –: never selected, or power unknown."
    if len(names) > DEVICES:
        caption += f" The {DEVICES} of {len(names):,} with the most energy are shown."
    return Table(caption, ("device", *(f"{label}, {unit.name}" for label in spent)), rows, 1)


def unmetered(summary: Mapping[str, Any]) -> list[str]:
    """Returns a line on the groups of devices that were asked but whose energy is not known; [] if there are none."""
    return caveats.unmetered(summary.get("unmetered", ()))


def numbers(summary: Mapping[str, Any]) -> Table:
    """Returns a table of algorithms' own numbers in the last round, such as drift and the penalty's share."""
    labels = summary["labels"]
    told = {label: said["numbers"] for label, said in labels.items() if said.get("numbers")}
    names = sorted(set(chain.from_iterable(told.values())))
    shown = {name: name.replace("_", " ") for name in names}
    rows = [(label, *_spreads(found, names)) for label, found in told.items()]
    words = [f" {shown[name].capitalize()}: {NUMBERS[name]}." for name in names if name in NUMBERS]
    caption = f"In the last round, mean over the aggregated devices.{''.join(words)}"
    return Table(caption, ("algorithm", *shown.values()), rows, 1)


def _spreads(found: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Returns a cell with mean and spread for each of these names of values; – for a name that is missing."""
    return [
        units.spread(found[name], _figure(found[name].values())) if found.get(name) else units.NONE for name in names
    ]


def _figure(values: Iterable[float | None]) -> Unit:
    """Returns a number format that shows three digits of the largest value, and at most six after the point."""
    largest = max((abs(value) for value in values if value), default=1.0)
    return Unit("", 1.0, min(6, max(0, 2 - floor(log10(largest)))))


def published(summary: Mapping[str, Any]) -> Table:
    """Returns a table of numbers that papers state, next to the same numbers of these runs."""
    rows = []
    for one in summary.get("published") or ():
        unit = Unit("", 1.0, 0 if one["kind"] == "rounds" else 3)
        ours = units.spread(one["ours"], unit)
        seeds = f"{one['reached']} of {one['of']}" if one["reached"] < one["of"] else ""
        rows.append((one["label"], one["what"], one["source"], unit.show(one["theirs"]), ours, seeds))
    caption = "Published numbers, compared with ours (mean over seeds and [low, high]); shown, not judged."
    return Table(caption, ("algorithm", "", "source", "published", "ours", "seeds"), rows, 3)


def _fate(key: str) -> str:
    """Returns the word for a fate of selected devices, by its key in records."""
    return "aggregated" if key == "counted" else key


def _percents(said: Mapping[str, Any], fates: Iterable[str]) -> list[str]:
    """Returns a cell for each of these fates, such as late or lost: its percentage of the selected devices, over all
    rounds."""
    counts = said["device_rounds"]
    asked = max(1, counts["asked"])
    return [f"{100 * counts[fate] / asked:.3g} %" for fate in fates]


def warnings(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the label and the text of each warning in a summary.

    The label is an algorithm's, `links` for all warnings on links, or `data` for those on the data.
    """
    found = [(label, each["text"]) for label, said in summary["labels"].items() for each in said["warnings"]]
    found += [("links", text) for text in caveats.warnings(summary.get("links", {}))]
    return [*found, *(("data", text) for text in summary.get("data", ()))]


def failures(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the label and the reason of each run that ended early; the reason names the run."""
    return [(label, text) for label, texts in summary.get("failures", {}).items() for text in texts]


def _differs(labels: Iterable[Mapping[str, Any]], fate: str) -> bool:
    """Returns True if the column of a fate says anything: for `counted`, if some asked devices did not count; for
    late, lost or refused, if any device was."""
    rounds = [said["device_rounds"] for said in labels]
    return any(one[fate] != one["asked"] if fate == "counted" else one[fate] > 0 for one in rounds)


def _heading(what: str, unit: str) -> str:
    return f"{what}, {unit}" if unit else what

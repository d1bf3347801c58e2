"""The tables of results, as rows of text: for the terminal, the page and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import Any

from emulator.results import caveats, units
from emulator.results.summary import FATES
from emulator.results.table import Table
from emulator.results.units import Unit

DEVICES = 20  # of a fleet that a table shows
DREW = "what the devices drew in the rounds in which they were asked"
MEASURES = ("time_s", "rounds", "bytes")
METRICS = ("accuracy", "initial", "personalised")
NUMBERS = {
    "omega_max": "the largest Ω of a weight",
    "omega_mean": "the mean Ω of all weights",
    "drift": "‖θ_k − θ_t‖, how far a device’s model went from the one that it received",
    "penalty_share": "the penalty’s part of the loss that training ended with",
    "identity": "the share of devices for which 1 stood for Ω, for want of another",
    "no_importance": "the share of devices that had no Ω, and so trained without a penalty",
    "server_step": "the server’s step, as a multiple of how far training moved; above 2 it overshoots",
    "clamped": "coordinates whose curvature would have been negative, and was set to 0",
    "density": "the share of the Fisher values that came down which is not 0",
    "forgetting": "accuracy lost on earlier time slices, best ever − now",
}
UNREACHED = (
    " Where no seed got there, the best value stands in place of the time, "
    "and after ~ the rounds that it would take at the pace of the last ones."
)
MEANS = (
    "Mean: of times up to the second that the verdict names, if it names one. Ratios are those of means, where every "
    "seed got there; that of times has the 95 % bootstrap interval, paired by seed."
)
FIGURES = Unit("", 1.0, 3)  # of accuracies, and of what rounds tell


def to_targets(summary: Mapping[str, Any], energy: bool = False) -> Table:
    """Time, rounds and bytes to each target, and the ratios to the baseline; `energy`: joules too, where known."""
    entries = [
        (label, name, target) for label, said in summary["labels"].items() for name, target in said["targets"].items()
    ]
    targets = [target for _, _, target in entries]
    time, times = units.column([target["time_s"] for target in targets], units.of_time)
    means = _means(targets)
    size, sizes = units.column([target["bytes"] for target in targets], units.of_bytes)
    rounds = [units.spread(target["rounds"], Unit("", 1.0, None)) for target in targets]
    base = summary["labels"][summary["baseline"]]["targets"]
    rows = [
        (label, name, f"{target['reached']} of {target['of']}", *_figures(target, base[name], cells, mean))
        for (label, name, target), mean, *cells in zip(entries, means, times, rounds, sizes, strict=True)
    ]
    against = f"/ {summary['baseline']}"
    times_of = [_heading("time", time), *([_heading("mean", time)] if any(means) else []), against]
    headings = ("algorithm", "target", "reached", *times_of, "rounds", against)
    missed = UNREACHED if any(not target["reached"] for target in targets) else ""
    ratios = MEANS if any(means) else f"Ratios of medians to {summary['baseline']}."
    caption = (
        f"Median over seeds and [low, high]: the extremes below 5 seeds, else the quartiles; "
        f"a seed that never got there counts as ∞. {ratios}{missed}"
    )
    found = Table(caption, (*headings, size or "bytes", against), rows, 2)
    return _with_energy(found, targets) if energy else found


def _means(targets: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Of each target the cell with the restricted mean time, in the unit of the median; no cells if none is known."""
    known = [target.get("mean_s") for target in targets]
    if not any(known):
        return [[] for _ in targets]
    unit, each = units.of_rows([target["time_s"].values() for target in targets], units.of_time)
    shown = [
        (own.show if unit else own.full)(mean) if mean else units.NONE for mean, own in zip(known, each, strict=True)
    ]
    return [[cell] for cell in shown]


def _with_energy(found: Table, entries: Iterable[Mapping[str, Any]]) -> Table:
    """With a column of the joules of each entry, where any are known."""
    spent = [entry.get("joules") for entry in entries]
    if not any(spent):
        return found
    unit, cells = units.column(spent, units.of_energy)
    rows = [(*row, cell) for row, cell in zip(found.rows, cells, strict=True)]
    caption = f"{found.caption} {unit or 'Energy'}: {DREW}."
    return replace(found, caption=caption, headings=(*found.headings, unit or "energy"), rows=rows)


def at_the_end(summary: Mapping[str, Any], energy: bool = False) -> Table:
    """What each algorithm had come to when its runs ended; `energy`: joules too, where known."""
    labels = summary["labels"]
    entries = list(labels.values())
    time, times = units.column([said["time_s"] for said in entries], units.of_time)
    size, sizes = units.column([said["bytes"] for said in entries], units.of_bytes)
    metrics = [metric for metric in METRICS if any(said["time_s"] and said["final"].get(metric) for said in entries)]
    fates = [fate for fate in FATES if fate != "asked" and _differs(entries, fate)]
    rows = [
        (label, _rounds(said), *cells, *_spreads(said["final"], metrics), *_percents(said, fates))
        for (label, said), *cells in zip(labels.items(), times, sizes, strict=True)
    ]
    caption = (
        "Initial: the global model on each device’s own test shard, mean over devices; "
        "personalised: the same after one local training."
    )
    if fates:
        what = ", ".join(fates).capitalize()
        caption += f" {what}: of the devices asked, over all rounds and seeds."
    headings = ("algorithm", "rounds", _heading("time", time), size or "bytes", *metrics, *fates)
    found = Table(caption, headings, rows, 1)
    return _with_energy(found, entries) if energy else found


def _rounds(said: Mapping[str, Any]) -> str:
    """`10`, or `8 to 10` where runs differ."""
    counts = sorted(said["rounds"].values())
    if not counts:
        return "0"
    return " to ".join(dict.fromkeys([str(counts[0]), str(counts[-1])]))


def of_devices(summary: Mapping[str, Any]) -> Table:
    """What single devices drew: those that drew most under any algorithm first, and last those of whom nobody knows.

    No rows if it is not known of any.
    """
    labels = summary["labels"]
    spent = {label: said.get("joules_of_devices") or {} for label, said in labels.items()}
    most = _most(spent.values())
    names = sorted(most, key=lambda name: (-most[name], name))
    if most:
        names += sorted({name for of in spent.values() for name in of if name not in most})
    unit, shown = units.of_energy(most.values()), names[:DEVICES]
    rows = [
        (name, *(units.NONE if (joules := of.get(name)) is None else unit.show(joules) for of in spent.values()))
        for name in shown
    ]
    caption = f"{unit.name}: {DREW}, mean over seeds of whole runs; – where one never was, or its power is not known."
    if len(names) > DEVICES:
        caption += f" {DEVICES} of {len(names):,} are shown, those that drew most."
    return Table(caption, ("device", *(f"{label}, {unit.name}" for label in spent)), rows, 1)


def _most(spent: Iterable[Mapping[str, float | None]]) -> dict[str, float]:
    """The joules of each device whose power is known, under the algorithm that took most of it."""
    most: dict[str, float] = {}
    for of in spent:
        for name, joules in of.items():
            if joules is not None:
                most[name] = max(joules, most.get(name, 0.0))
    return most


def unmetered(summary: Mapping[str, Any]) -> list[str]:
    """A line on the groups of devices that were asked and whose joules are not known."""
    return caveats.unmetered(summary.get("unmetered", ()))


def numbers(summary: Mapping[str, Any]) -> Table:
    """Drift, the penalty's share and what else the last rounds told."""
    labels = summary["labels"]
    told = {label: said["numbers"] for label, said in labels.items() if said.get("numbers")}
    names = sorted(set(chain.from_iterable(told.values())))
    shown = {name: name.replace("_", " ") for name in names}
    rows = [(label, *_spreads(found, names)) for label, found in told.items()]
    words = [f" {shown[name].capitalize()}: {NUMBERS[name]}." for name in names if name in NUMBERS]
    caption = f"In the last round, mean over the devices that were counted.{''.join(words)}"
    return Table(caption, ("algorithm", *shown.values()), rows, 1)


def _spreads(found: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """A cell for each of these names, – where nothing was found."""
    return [
        units.spread(found[name], _figure(found[name].values())) if found.get(name) else units.NONE for name in names
    ]


def _figure(values: Iterable[float | None]) -> Unit:
    """Three digits after the point; of counts of 10 and more one."""
    largest = max((value for value in values if value is not None), default=0.0)
    return FIGURES if largest < 10 else replace(FIGURES, digits=1)


def published(summary: Mapping[str, Any]) -> Table:
    """What a paper states, beside what came out here."""
    rows = []
    for one in summary.get("published") or ():
        unit = Unit("", 1.0, 0 if one["kind"] == "rounds" else 3)
        ours = units.spread(one["ours"], unit)
        seeds = f"{one['reached']} of {one['of']}" if one["reached"] < one["of"] else ""
        rows.append((one["label"], one["what"], one["source"], unit.show(one["theirs"]), ours, seeds))
    caption = "Numbers that papers state, beside ours (median over seeds and [low, high]); shown, not judged."
    return Table(caption, ("algorithm", "", "source", "published", "ours", "seeds"), rows, 3)


def _percents(said: Mapping[str, Any], fates: Iterable[str]) -> list[str]:
    """A cell for each of these fates: its share of the devices that were asked."""
    counts = said["device_rounds"]
    asked = max(1, counts["asked"])
    return [f"{100 * counts[fate] / asked:.3g} %" for fate in fates]


def warnings(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) of penalties that are not what they seem, of divergence, of links, and of the data."""
    found = [(label, each["text"]) for label, said in summary["labels"].items() for each in said["warnings"]]
    found += [("links", text) for text in caveats.warnings(summary.get("links", {}))]
    return [*found, *(("data", text) for text in summary.get("data", ()))]


def failures(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) of runs that ended early; the text names the run."""
    return [(label, text) for label, texts in summary.get("failures", {}).items() for text in texts]


def _differs(labels: Iterable[Mapping[str, Any]], fate: str) -> bool:
    """Whether a column has something to tell: not all were counted, or some were late, lost or refused."""
    rounds = [said["device_rounds"] for said in labels]
    return any(one[fate] != one["asked"] if fate == "counted" else one[fate] > 0 for one in rounds)


def _heading(what: str, unit: str) -> str:
    return f"{what}, {unit}" if unit else what


def _figures(
    target: Mapping[str, Any], base: Mapping[str, Any], shown: Sequence[str], mean: Sequence[str]
) -> list[str]:
    """Each measure, and its ratio to the baseline's; the mean stands after the time, where there is a cell for it."""
    if target["time_s"]["low"] is None:  # not in any seed
        best, rounds = target["best"], target["at_pace"]
        far = f"best {best['median']:.3f}" if best else units.NEVER
        return [far, *[units.NONE] * len(mean), units.NONE, f"~{rounds}" if rounds else units.NONE, *[units.NONE] * 3]
    cells: list[str] = []
    for measure, cell in zip(MEASURES, shown, strict=True):
        pairs = target.get("paired") if measure == "time_s" else None
        ratio = _paired(pairs) if pairs else units.ratio(_over(target, base, measure, bool(mean)))
        cells += [cell, *(mean if measure == "time_s" else ()), ratio]
    return cells


def _over(target: Mapping[str, Any], base: Mapping[str, Any], measure: str, means: bool) -> float | None:
    """The ratio of means where means are shown, as far as every seed got there; else that of medians."""
    if not means:
        ratio: float | None = target["ratio_to_baseline"][measure]
        return ratio
    ours, theirs = ([at and at[measure] for at in of["seeds"].values()] for of in (target, base))
    return None if None in (*ours, *theirs) or not any(theirs) else fmean(ours) / fmean(theirs)


def _paired(ratio: Mapping[str, Any]) -> str:
    """`2.47× [2.17, 3.01]`"""
    return f"{units.ratio(ratio['ratio'])} [{ratio['low']:.2f}, {ratio['high']:.2f}]"

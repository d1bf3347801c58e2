"""The one sentence that ends `compare`: who was sooner, by how much, and how sure that is.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from emulator.results.summary import FEW, Rows
from emulator.results.units import counted, duration, durations, joined

Summary = Mapping[str, Any]
Runs = Mapping[str, Mapping[int, Rows]]
Bound = Literal["exact", "at least", "at most"]

RESAMPLES = 2000
TAIL = 0.025  # at either end: 95 % lie between
SEED = 20_000  # of the resampling alone; any number, but always the same
NEVER = float("inf")
PARTS = {  # a row's critical path, in words
    "setup_s": "connection set-up",
    "down_s": "download",
    "compute_s": "compute",
    "up_s": "upload",
    "server_s": "server work",
    "wait_s": "waiting",
}


@dataclass(frozen=True)
class Ratio:
    """A label's time to a target over the baseline's, seed by seed: the median, and its 95 % interval.

    Seeds that did not get there leave the median known from one side only: `bound` says which.
    """

    median: float
    low: float
    high: float | None  # None: without limit
    seeds: int  # pairs
    bound: Bound

    def __str__(self) -> str:
        said = "" if self.bound == "exact" else f"{self.bound} "
        return f"{said}{_figure(self.median)} [{_figure(self.low)}, {_figure(self.high)}]"

    @property
    def above(self) -> bool:
        """Whether all of the interval, as it is printed, lies above 1."""
        return round(self.low, 2) > 1

    @property
    def below(self) -> bool:
        return self.high is not None and round(self.high, 2) < 1


def sentence(summary: Summary, runs: Runs) -> str:
    """The verdict on the hardest target that any run reached; below 5 seeds it gives values and no ranking.

    From 5 seeds on it names the label with the least median time, and the ratio of the baseline's time (or, if the
    baseline is that label, of the next one's) to its own.  `runs` are the rows that `summary` was made of.
    """
    if not any(any(seeds.values()) for seeds in runs.values()):
        return "No round was played."
    labels = summary["labels"]
    names = sorted(labels[summary["baseline"]]["targets"], key=_value)
    if not names:
        return "The scenario has no target, so there is no time to compare; rounds.targets sets one."
    target = _hardest(labels, names)
    if target is None:
        return _nobody(summary, runs, names[0])
    entries = {label: entry["targets"][target] for label, entry in labels.items()}
    order = sorted(entries, key=lambda label: _place(entries[label]))
    best = entries[order[0]]
    if best["of"] < FEW or best["time_s"]["median"] is None:
        return _values(entries, runs, target)
    return _ranked(summary, runs, target, order)


def _hardest(labels: Summary, names: Sequence[str]) -> str | None:
    """The last of these targets that any run reached."""
    for name in reversed(names):
        if any(label["targets"][name]["reached"] for label in labels.values()):
            return name
    return None


def with_intervals(summary: Summary, runs: Runs) -> dict[str, Any]:
    """The summary with `paired` at each target: the ratio of times to the baseline's, seed by seed, if known."""
    baseline = summary["baseline"]
    labels = dict(summary["labels"])
    for label in labels:
        targets = dict(labels[label]["targets"])
        for name in targets if label != baseline else ():
            ratio = paired(summary, runs, name, label, baseline)
            targets[name] = {**targets[name], "paired": asdict(ratio) if ratio else None}
        labels[label] = {**labels[label], "targets": targets}
    return {**summary, "labels": labels}


def paired(summary: Summary, runs: Runs, target: str, label: str, baseline: str) -> Ratio | None:
    """The time to a target of `label` over that of `baseline`, as the median over seeds that both have.

    None below 5 such seeds, and where too many never got there for the median to be known from either side.  The
    interval is that of the percentile bootstrap over seeds (Efron 1979), with always the same 2,000 resamples.

    A seed that did not reach the target would have taken longer than it was played.  So every pair gives the least
    and the greatest ratio that it leaves possible (0 and infinity at worst); the median lies between the medians of
    these, and the interval reaches from the low end of the least to the high end of the greatest.
    """
    over, under = (_times(summary, runs, target, name) for name in (label, baseline))
    both = over.keys() & under.keys()
    if len(both) < FEW:
        return None
    least = np.sort([_over(over[seed][0], under[seed][1]) for seed in both])
    greatest = np.sort([_over(over[seed][1], under[seed][0]) for seed in both])
    low, high = float(np.median(least)), float(np.median(greatest))
    if low == 0 and high == NEVER:
        return None
    begin, end = _resampled(least)[0], _resampled(greatest)[1]
    median, limit = low if low > 0 else high, None if end == NEVER else end
    return Ratio(median, begin, limit, len(both), _bound(low, high))


def _bound(low: float, high: float) -> Bound:
    """From which side a median is known that lies between these."""
    if low == high:
        return "exact"
    return "at least" if low > 0 else "at most"


def _resampled(values: np.ndarray) -> tuple[float, float]:
    """Where the medians of resampled seeds begin and end.  By rank: between infinities one cannot interpolate."""
    picks = np.random.default_rng(SEED).integers(0, len(values), (RESAMPLES, len(values)))
    medians = np.sort(np.median(values[picks], axis=1))
    at = int(TAIL * RESAMPLES)
    return float(medians[at]), float(medians[-1 - at])


def _over(time: float, base: float) -> float:
    if base == NEVER:
        return 0.0
    return time / base if base else 1.0 if time == 0 else NEVER


def _times(summary: Summary, runs: Runs, target: str, label: str) -> dict[int, tuple[float, float]]:
    """{seed: (least, greatest)} time to the target that its run leaves possible, in seconds."""
    found = summary["labels"][label]["targets"][target]["seeds"]
    return {
        int(seed): (at["time_s"], at["time_s"]) if at else (_end(runs[label][int(seed)]), NEVER)
        for seed, at in found.items()
    }


def _end(rows: Rows) -> float:
    return float(rows[-1]["time_s"]) if rows else 0.0


def _value(name: str) -> tuple[float, int]:
    """How hard the target of this name is: its value, and for how long it is to be held (targets.Target.name)."""
    _, value, *held = name.split()
    return float(value), int(held[-1]) if held else 1


def _place(entry: Mapping[str, Any]) -> tuple[float, float, float]:
    """Sooner comes first; of those whose median is never, the one that got there more often."""
    median, low = (entry["time_s"][key] for key in ("median", "low"))
    return NEVER if median is None else median, -entry["reached"] / entry["of"], NEVER if low is None else low


def _nobody(summary: Summary, runs: Runs, name: str) -> str:
    """Said of the easiest target: those above it were missed too."""
    ends = [_end(rows) for seeds in runs.values() for rows in seeds.values()]
    total = sum(label["targets"][name]["of"] for label in summary["labels"].values())
    lasted = "they lasted" if total > 1 else "it lasted"
    return f"No run reached {name} (0 of {counted(total, 'run')}; {lasted} {_span(ends)})."


def _values(entries: Mapping[str, Any], runs: Runs, name: str) -> str:
    """Every label, in the scenario's order, without a ranking."""
    times = [at["time_s"] for entry in entries.values() for at in entry["seeds"].values() if at]
    said = [_time_of(label, entry, runs, durations(times)) for label, entry in entries.items()]
    seeds = max(entry["of"] for entry in entries.values())
    why = f"fewer than {FEW} seeds" if seeds < FEW else "most seeds never reached it"
    no_ranking = f" No ranking: {why}." if len(entries) > 1 else ""
    return f"{name} was reached {', '.join(said)}.{no_ranking}"


def _time_of(label: str, entry: Mapping[str, Any], runs: Runs, show: Callable[[float], str]) -> str:
    times = sorted(at["time_s"] for at in entry["seeds"].values() if at)
    if not times:
        return f"never by {label} ({_count(label, entry, runs)})"
    shown = joined([*map(show, times)]) if len(times) < FEW else _span(times, show)
    return f"by {label} in {shown} ({_count(label, entry, runs)}{_share(label, entry, runs, '; {} of it was {}')})"


def _ranked(summary: Summary, runs: Runs, name: str, order: Sequence[str]) -> str:
    best = order[0]
    entry = summary["labels"][best]["targets"][name]
    said = f"{best} reached {name} in {duration(entry['time_s']['median'])} (median; {_count(best, entry, runs)})"
    others = [label for label in order[1:] if best == summary["baseline"] or label == summary["baseline"]]
    if others:
        said += _against(others[0], best, summary, runs, name)
    return said + _share(best, entry, runs, "; {} of its time was {}") + "."


def _against(other: str, best: str, summary: Summary, runs: Runs, name: str) -> str:
    ratio = paired(summary, runs, name, other, best)
    named = f"{other} ({_count(other, summary['labels'][other]['targets'][name], runs)})"
    if ratio is None:
        return f"; against {named} no ratio is known: too few seeds of both reached it"
    if ratio.above:
        return f", {str(ratio).replace(' [', 'x [')} as fast as {named}"
    if ratio.below:  # possible, if rare: the medians of unlike seeds say one thing, the pairs another
        return f"; against {named} medians and pairs of seeds disagree: ratio {ratio}"
    return f"; against {named} no difference shown: ratio {ratio}"


def _count(label: str, entry: Mapping[str, Any], runs: Runs) -> str:
    """`4 of 5 seeds within 131 s`: how long the missing ones were played, for that is all that is known of them."""
    said = f"{entry['reached']} of {entry['of']} seed{'s' * (entry['of'] > 1)}"
    missing = [_end(runs[label][int(seed)]) for seed, at in entry["seeds"].items() if at is None]
    return f"{said} within {_span(missing)}" if missing else said


def _share(label: str, entry: Mapping[str, Any], runs: Runs, text: str) -> str:
    """`text` with the largest part of the critical path up to the target, over all seeds that got there."""
    parts = dict.fromkeys(PARTS, 0.0)
    for seed, at in entry["seeds"].items():
        for row in runs[label][int(seed)] if at else ():
            if row["round"] < at["rounds"]:
                for part in PARTS:
                    parts[part] += _seconds(row["critical"][part])
    total = sum(parts.values())
    if total <= 0:
        return ""
    largest = max(parts, key=lambda part: parts[part])
    percent = f"{100 * parts[largest] / total:.0f} %"
    return text.format(percent, PARTS[largest])


def _seconds(part: float | Mapping[str, float]) -> float:
    return sum(part.values()) if isinstance(part, Mapping) else part


def _span(seconds: Sequence[float], show: Callable[[float], str] = duration) -> str:
    low, high = show(min(seconds)), show(max(seconds))
    return low if low == high else f"{low} to {high}"


def _figure(ratio: float | None) -> str:
    return "∞" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"

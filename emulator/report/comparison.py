"""Joins the results of one or several folders, so that the report can show them side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.record.events import Event
from emulator.record.targets import Target
from emulator.results.results import Results, Runs, classes, momentum, targets
from emulator.results.standings import with_means
from emulator.results.summary import summarise
from scenarios.schema.task import Task

AT_THE_END = ("rounds", "final", "numbers", "time_s", "bytes", "joules", "device_rounds")  # keys of a label's summary
MADE_BY = "made by fedlapse report"  # at the beginning of every file that it writes


@dataclass(frozen=True)
class SideBySide:
    """The algorithms of one or several folders of results, with one common summary.

    If there are several folders, the labels of algorithms have the form FOLDER/label.
    """

    sources: Mapping[str, Results]  # by the folder's display name
    runs: Runs
    origin: Mapping[str, tuple[Results, str]]  # by label: the results that have it, and its label there
    targets: Sequence[Target]
    summary: Mapping[str, Any]

    @property
    def name(self) -> str:
        return " · ".join(dict.fromkeys(results.name for results in self.sources.values()))

    @property
    def task(self) -> Task:
        """The task of the first folder."""
        return next(iter(self.sources.values())).scenario.task

    def events(self, label: str, seed: int) -> Iterable[Event]:
        results, own = self.origin[label]
        return results.events(own, seed)


def compare(results: Sequence[Results]) -> SideBySide:
    """Returns the algorithms of these folders of results side by side, with a common summary.

    The baseline is the first algorithm of the first folder.  Raises ValueError if there are no folders.
    """
    if not results:
        raise ValueError("nothing to report on: give at least one folder of results")
    sources = dict(zip(_names(results), results, strict=True))
    own = [(name, one, label) for name, one in sources.items() for label in one.runs]
    several = len(sources) > 1
    origin = {f"{name}/{label}" if several else label: (one, label) for name, one, label in own}
    runs = {label: one.runs[own] for label, (one, own) in origin.items()}
    aims = {target.name: target for one in results for target in targets(one.scenario)}
    summary = results[0].summary
    if len(results) > 1:
        summary = _summary(sources, origin, runs, list(aims.values()))
    lengths = [one.shared for one in results if one.shared is not None]
    if lengths:
        metrics = list(dict.fromkeys(name for one in results for name in one.scenario.metrics))
        cut = {label: {seed: rows[: min(lengths)] for seed, rows in runs[label].items()} for label in summary["labels"]}
        ends = summarise(cut, (), dict.fromkeys(cut, 0.0), metrics=metrics)["labels"]
        labels = {
            label: {**said, **{key: ends[label][key] for key in AT_THE_END}}
            for label, said in summary["labels"].items()
        }
        summary = {**summary, "labels": labels}
    ordered = _ordered(summary, list(runs), list(aims))
    return SideBySide(sources, runs, origin, list(aims.values()), ordered)


def _links(sources: Mapping[str, Results]) -> Mapping[str, Any]:
    """Returns the summary's section `links` for several folders: the assumptions of each, after the folder's name, and
    the data on the recording that was repeated most often."""
    known = {name: one.summary["links"] for name, one in sources.items() if "links" in one.summary}
    assumed = [f"{name}: {text}" for name, links in known.items() for text in links["assumed"]]
    most: Mapping[str, Any] = max(known.values(), key=lambda links: int(links["loops"]), default={})
    return {**most, "assumed": assumed}


def _names(results: Sequence[Results]) -> list[str]:
    """Returns a display name for each folder: the last part of its path, with a number if other folders have the same.

    A single folder has its scenario's name, because the page must not depend on the place of the results.
    """
    if len(results) == 1:
        return [results[0].name]
    names = [one.folder.resolve().name or one.name for one in results]
    twice = {name for name, count in Counter(names).items() if count > 1}
    return [f"{name}#{number}" if name in twice else name for number, name in enumerate(names, 1)]


def _ordered(summary: Mapping[str, Any], labels: Sequence[str], aims: Sequence[str]) -> Mapping[str, Any]:
    """Returns the summary with its labels and targets in the order of `labels` and `aims`, which is the scenario's;
    summary.json has them sorted by name."""
    said = summary["labels"]
    return {
        **summary,
        "labels": {
            label: {**said[label], "targets": {aim: of for aim in aims if (of := said[label]["targets"].get(aim))}}
            for label in labels
            if label in said
        },
    }


def _summary(
    sources: Mapping[str, Results],
    origin: Mapping[str, tuple[Results, str]],
    runs: Runs,
    aims: Sequence[Target],
) -> Mapping[str, Any]:
    """Returns a summary of several folders, in the form of summary.json.

    `sources`: results by display name.  `origin`: by label, the results that have it, and its label in these.
    """
    results = list(sources.values())
    drag = {label: momentum(one.scenario)[own] for label, (one, own) in origin.items()}
    metrics = list(dict.fromkeys(name for one in results for name in one.scenario.metrics))
    known = {label: classes(one.split) for label, (one, _) in origin.items()}
    played = {label: seeds for label, seeds in runs.items() if seeds}
    pairs = not differing(results)  # otherwise seeds are not paired
    summary = with_means(summarise(played, aims, drag, known, metrics), played, aims, pairs)
    return {
        **summary,
        "failures": {label: list(one.summary.get("failures", {}).get(own, [])) for label, (one, own) in origin.items()},
        "links": _links(sources),
        "data": [f"{name}: {text}" for name, one in sources.items() for text in one.summary.get("data", ())],
        "network": ", ".join(dict.fromkeys(one.scenario.network_model for one in results)),
        "unmetered": sorted({group for one in results for group in one.summary.get("unmetered", ())}),
    }


def differing(results: Sequence[Results]) -> list[str]:
    """Returns the keys of the scenario, apart from those on algorithms, in which the folders differ.

    If there are any, ratios compare runs that differ in more than the algorithm.
    """
    said = [one.scenario.model_dump(exclude={"name", "algorithms", "expect", "published", "small"}) for one in results]
    return [part for part in said[0] if any(other[part] != said[0][part] for other in said[1:])]


def notes(all_: SideBySide) -> list[str]:
    """Returns reasons not to rely on the results; if there are several folders, each after the name of its folder."""
    several = len(all_.sources) > 1
    return [f"{name}: {note}" if several else note for name, one in all_.sources.items() for note in one.notes]


def unlike(all_: SideBySide) -> list[str]:
    """Returns a warning if the folders' scenarios differ in more than algorithms, so that ratios compare unlike runs;
    [] otherwise."""
    parts = differing(list(all_.sources.values()))
    return [f"These results differ in {', '.join(parts)} too, so ratios compare unlike runs."] if parts else []

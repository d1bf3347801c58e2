"""report.html: one file that opens offline, with everything to draw it, to read it and to run it again inside."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import vl_convert
from altair.utils.schemapi import debug_mode
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from emulator.record.targets import Target
from emulator.report import accuracy, critical, fates, leverage, payloads, rounds, split, timeline
from emulator.report.comparison import MADE_BY, Comparison, compare, notes, unlike
from emulator.report.figure import Chart, Figure
from emulator.results import caveats, tables
from emulator.results.results import Results, Runs, facts

HEADLINE = 640  # width of the picture for readers without JavaScript
HEADLINE_POINTS = 400  # as SVG each takes some hundred bytes
SECTIONS = {  # heading of a part of the page: its charts
    "Accuracy": ("accuracy-time", "accuracy-rounds", "accuracy-bytes"),
    "Seconds": ("seconds", "rounds", "timeline"),
    "Bytes": ("bytes", "wasted"),
    "Devices": ("devices", "usage"),
    "Penalties": ("leverage",),
    "Split": ("split",),
    "Map": ("map",),
}


def page(results: Sequence[Results]) -> str:
    """The page of one or several folders; equal results give equal bytes.

    Raises ValueError if there is nothing to compare, or if a record is damaged.
    """
    return render(compare(results))


def charts(results: Sequence[Results]) -> Mapping[str, Chart]:
    """The same charts by name, as wide as what holds them."""
    return {figure.name: figure.chart for figure in figures(compare(results))}


def beginning(runs: Runs, targets: Sequence[Target]) -> list[Figure]:
    """The pictures that the page begins with, of runs that may still be under way."""
    drawn = [accuracy.against_time(runs, targets)]
    return [figure for figure in drawn if figure]


def style() -> str:
    """The page's CSS."""
    return _text("page.css")


def figures(all_: Comparison) -> list[Figure]:
    """The pictures for which there is something to show, in the order of the page."""
    runs = all_.runs
    drawn = [
        accuracy.against_time(runs, all_.targets),
        accuracy.against_rounds(runs, all_.targets),
        accuracy.against_bytes(runs, all_.targets),
        critical.figure(runs),
        rounds.figure(runs),
        timeline.figure(runs, all_.events),
        payloads.figure(runs),
        fates.wasted(runs),
        fates.devices(runs, all_.events),
        fates.usage(runs),
        leverage.figure(runs),
        *_splits(all_),
        *_maps(all_),
    ]
    return [figure for figure in drawn if figure]


@debug_mode(False)  # that Altair checks every part of every chart takes longer than all the rest; tests do it
def render(all_: Comparison) -> str:
    drawn = figures(all_)
    specs = {figure.name: figure.chart.to_dict(validate=False) for figure in drawn}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_text("page.html")).render(
        comparison=all_,
        facts=facts,
        made_by=MADE_BY,
        notes=notes(all_),
        sentences=[*_verdicts(all_), *critical.sentences(all_.runs), *_remarks(all_)],
        to_targets=tables.to_targets(all_.summary, energy=True),
        at_the_end=tables.at_the_end(all_.summary, energy=True),
        of_devices=tables.of_devices(all_.summary),
        numbers=tables.numbers(all_.summary),
        published=tables.published(all_.summary),
        warnings=[*tables.failures(all_.summary), *tables.warnings(all_.summary)],
        sections=_sections(drawn),
        headline=_trusted(_headline(all_)),
        commands={name: command(one) for name, one in all_.sources.items()},
        specs=_json(specs),
        choices=_json(timeline.choices(all_.runs)),
        style=_trusted(_text("page.css")),
        script=_trusted(_text("page.js")),
        vega=_trusted(script_of_vega()),
    )


def command(results: Results) -> str:
    """How to get these results again from the scenario."""
    if results.host.get("world") == "replay":
        return shlex.join(map(str, results.host.get("command", ())))
    if results.host.get("world") != "sockets":
        return "fedlapse compare scenario.yaml"
    speedup = results.host.get("speedup", 1.0)
    faster = f" --speedup {speedup:g}" if speedup != 1 else ""
    label = results.scenario.algorithms[0].name  # `run` plays one
    return f"fedlapse run scenario.yaml --algorithm {label} --world sockets{faster}"


def _verdicts(all_: Comparison) -> Iterator[str]:
    yield from unlike(all_)
    for name, one in all_.sources.items():
        if said := one.summary.get("sentence"):
            yield f"{name}: {said}" if len(all_.sources) > 1 else str(said)


def _remarks(all_: Comparison) -> Iterator[str]:
    """What is to be said of links and of energy, and is no warning; and of maps that are not shown."""
    said = [*caveats.remarks(all_.summary.get("links", {})), *(f"{line}." for line in tables.unmetered(all_.summary))]
    yield from (f"{line[0].upper()}{line[1:]}" for line in said)
    for one in all_.sources.values():
        if (one.folder / "map.json").is_file():
            from emulator.report import winners  # it takes a while to import

            if winners.outdated(one.folder, one.summary.get("digest")):
                yield "The map that lies here is of other results, and not shown; `fedlapse map` makes it anew."


def _sections(drawn: Sequence[Figure]) -> dict[str, list[Figure]]:
    """Figures by heading; one whose name begins like a listed one goes with it."""
    found = {
        heading: [figure for figure in drawn if figure.name in names or figure.name.rsplit("-", 1)[0] in names]
        for heading, names in SECTIONS.items()
    }
    return {heading: listed for heading, listed in found.items() if listed}


def _splits(all_: Comparison) -> Iterator[Figure | None]:
    """One heat-map for each split that differs from those before."""
    told: list[Any] = []
    for number, (name, one) in enumerate(all_.sources.items(), 1):
        if one.split not in told:
            told.append(one.split)
            several = len(all_.sources) > 1
            yield split.figure(
                f"split-{number}" if several else "split", one.split, f"The split of {name}" if several else "The split"
            )


def _maps(all_: Comparison) -> Iterator[Figure]:
    """Those that `fedlapse map` has left in the folders."""
    sources = all_.sources.values()
    for number, one in enumerate(sources, 1):
        if (one.folder / "map.json").is_file():
            from emulator.report import winners  # it takes a while to import

            found = winners.kept(one.folder, one.summary.get("digest"))
            if found:
                yield replace(found, name=f"map-{number}") if len(sources) > 1 else found


def _headline(all_: Comparison) -> str:
    """The first chart as SVG, for a reader without JavaScript; "" if nothing was evaluated."""
    drawn = accuracy.against_time(all_.runs, all_.targets, points=HEADLINE_POINTS)
    return vl_convert.vegalite_to_svg({**drawn.chart.to_dict(validate=False), "width": HEADLINE}) if drawn else ""


def _json(value: Any) -> Markup:
    """JSON for a script element: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _trusted(text.replace("<", "\\u003c"))


def _trusted(text: str) -> Markup:
    """What the template takes as it is: our own files, Vega, and JSON and SVG in which all text is escaped."""
    return Markup(text)  # noqa: S704


def _text(name: str) -> str:
    return resources.files("emulator.report").joinpath(name).read_text(encoding="utf-8")


@cache
def script_of_vega() -> str:
    """Vega, Vega-Lite and Vega-Embed; takes some seconds, so only once."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")

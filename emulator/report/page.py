"""report.html: one file that opens offline and holds its charts, tables, scripts and scenario; also its charts as
pictures, and its numbers as JSON.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from altair.utils.schemapi import debug_mode
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from emulator.record.given import GIVEN, kept
from emulator.record.targets import Target
from emulator.report import (
    accuracy,
    critical,
    drawing,
    fates,
    leverage,
    over_time,
    palette,
    payloads,
    rounds,
    split,
    staleness,
    timeline,
    times,
)
from emulator.report.comparison import MADE_BY, SideBySide, compare, notes, unlike
from emulator.report.critical import Part
from emulator.report.figure import Chart, Figure
from emulator.report.vega import script_of_vega
from emulator.results import caveats
from emulator.results.results import Results, Runs, facts
from emulator.results.settings import how_sure, settings
from emulator.results.summary import summarise
from emulator.wording import tables
from emulator.wording.conclusion import answered, told
from scenarios.schema.task import Task

HEADLINE = 640  # width of the picture for readers without JavaScript
ANSWER = ("times", "seconds")  # at the top, side by side
FIRST = "accuracy-time"  # after the answer and before the tables
UNITS = re.compile(r"(\d) (s|min|h|days|%|[kMG]B)(?!\w)")  # a number and its unit stay on one line
HERE = Path()  # the page's own folder; page.js names it by the page's address
MOST_SHOWN = 50_000  # bytes of a shown scenario file; usual ones have a few kB
SECTIONS = {  # {heading: the charts below it}
    "Accuracy": ("accuracy-rounds", "accuracy-bytes"),
    "Rounds": ("rounds", "timeline", "staleness", "rates", "availability"),
    "Bytes": ("bytes", "wasted"),
    "Devices": ("devices", "shares", "usage"),
    "Penalties": ("leverage",),
    "Split": ("split",),
    "Map": ("map",),
}


def page(results: Sequence[Results], elsewhere: bool = False) -> str:
    """Returns the HTML of the report on one or several folders of results.

    `elsewhere`: the page will not be in the folder of its results, so its commands name that folder.  Else equal
    results give equal bytes, wherever they are.  Raises ValueError if there are no results, or if a record is damaged.
    """
    return render(compare(results), elsewhere or len(results) > 1)


def charts(results: Sequence[Results]) -> Mapping[str, Chart]:
    """Returns the charts of the page by name, each with its title, for use without the page."""
    return {figure.name: chart for figure in figures(compare(results)) if (chart := figure.alone())}


def beginning(runs: Runs, targets: Sequence[Target], task: Task) -> list[Figure]:
    """Returns the charts of times to the hardest target and of accuracy over time, for runs that may still be in
    progress; those without content are left out."""
    played = {
        label: found for label, seeds in runs.items() if (found := {n: rows for n, rows in seeds.items() if rows})
    }
    summary = summarise(played, targets, dict.fromkeys(played, 0.0))
    target = times.hardest(summary, targets)
    drawn = [
        times.figure(played, summary, target) if target else None,
        accuracy.figure(accuracy.TIME, played, summary, targets, task=task),
    ]
    return [figure for figure in drawn if figure]


def style() -> str:
    """Returns the CSS of the page and of the live page; colours of charts are lighter in the dark."""
    lighter = (
        f'.chart [fill="{colour}" i] {{ fill: {light}; }} .chart [stroke="{colour}" i] {{ stroke: {light}; }}'
        for colour, light in palette.ON_DARK.items()
    )
    return "\n".join([_text("page.css"), "@media screen and (prefers-color-scheme: dark) {", *lighter, "}"])


def figures(all_: SideBySide) -> list[Figure]:
    """Returns the figures of the page in their order there; those without content are left out."""
    runs, target = all_.runs, times.hardest(all_.summary, all_.targets)
    ranked = {label: runs[label] for label in times.order(runs, all_.summary, target)}  # rows of charts
    axes = (accuracy.TIME, accuracy.ROUNDS, accuracy.BYTES)
    drawn = [
        times.figure(runs, all_.summary, target) if target else None,
        critical.figure(ranked, target, times.end(runs, all_.summary, target) if target else None),
        *(accuracy.figure(axis, runs, all_.summary, all_.targets, task=all_.task) for axis in axes),
        rounds.figure(runs),
        timeline.figure(runs, all_.events),
        over_time.rates(all_),
        over_time.availability(all_),
        payloads.figure(ranked),
        fates.wasted(ranked),
        fates.devices(ranked, all_.events),
        fates.usage(ranked),
        staleness.figure(all_.summary),
        staleness.shares(ranked, all_.summary, all_.events),
        leverage.figure(runs),
        *_splits(all_),
        *_maps(all_),
    ]
    return [figure for figure in drawn if figure]


@debug_mode(False)  # Altair's checks of every chart take longer than all the rest; tests make them
def render(all_: SideBySide, elsewhere: bool = False) -> str:
    drawn = figures(all_)
    places = {name: one.folder.resolve() if elsewhere else HERE for name, one in all_.sources.items()}
    specs = {figure.name: figure.spec(validate=False) for figure in drawn if figure.chart}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["ticked"] = _ticked
    return environment.from_string(_text("page.html")).render(
        comparison=all_,
        facts=facts,
        made_by=MADE_BY,
        notes=notes(all_),
        verdicts=dict(_verdicts(all_, places)),
        unlike=unlike(all_),
        remarks=list(_remarks(all_)),
        answer=[figure for figure in drawn if figure.name in ANSWER],
        first=[figure for figure in drawn if figure.name == FIRST],
        to_targets=tables.to_targets(all_.summary),
        at_the_end=tables.at_the_end(all_.summary),
        of_devices=tables.of_devices(all_.summary),
        numbers=tables.numbers(all_.summary),
        published=tables.published(all_.summary),
        settings={name: settings(one.scenario) for name, one in all_.sources.items()},
        how_sure={name: how_sure(one.scenario, one.summary.get("chance")) for name, one in all_.sources.items()},
        warnings=[*tables.failures(all_.summary), *tables.warnings(all_.summary)],
        sections=_sections(drawn),
        headline=_trusted(_headline(drawn)),
        hatched=palette.hatched(),
        written={name: dict(_written(one)) for name, one in all_.sources.items()},
        commands={name: command(one, places[name]) for name, one in all_.sources.items()},
        specs=_json(specs),
        choices=_json(timeline.choices(all_.runs)),
        style=_trusted(style()),
        script=_trusted(_text("page.js")),
        vega=_trusted(script_of_vega()),
    )


def command(results: Results, place: Path) -> str:
    """Returns the command line that reproduces these results from the scenario file in their folder, `place`."""
    if results.host.get("world") == "replay":
        return shlex.join(map(str, results.host.get("command", ())))
    scenario = shlex.quote(f"{place}/scenario.yaml")
    if results.host.get("world") != "sockets":
        return f"fedlapse compare {scenario}"
    speedup = results.host.get("speedup", 1.0)
    faster = f" --speedup {speedup:g}" if speedup != 1 else ""
    label = results.scenario.algorithms[0].name  # `run` plays one algorithm
    return f"fedlapse run {scenario} --algorithm {label} --world sockets{faster}"


def _written(one: Results) -> Iterator[tuple[str, Any]]:
    """Yields (`changes`, the changes on the command line) and, if the user gave a scenario file, (`text`, its text)."""
    given = kept(one.folder)
    yield "changes", given.changes
    if given.file is not None:
        long = f"{GIVEN} has {len(given.file):,} bytes, too many for this page."
        yield "text", long if len(given.file) > MOST_SHOWN else given.file.decode("utf-8-sig", "replace")


def _verdicts(all_: SideBySide, places: Mapping[str, Path]) -> Iterator[tuple[str, tuple[list[str], list[str]]]]:
    """Yields each folder's verdict as `compare` printed it: its lines, and the reasons with next steps."""
    for name, one in all_.sources.items():
        if lines := answered(one.summary):
            yield name, (lines, [line.strip() for line in told(one.summary, places[name])])


def _remarks(all_: SideBySide) -> Iterator[str]:
    """Yields remarks that are not warnings: on links, on unknown energy, and on maps made of other results."""
    said = [*caveats.remarks(all_.summary.get("links", {})), *(f"{line}." for line in tables.unmetered(all_.summary))]
    yield from (f"{line[0].upper()}{line[1:]}" for line in said)
    for one in all_.sources.values():
        if (one.folder / "map.json").is_file():
            from emulator.report import winners  # imports altair

            if winners.outdated(one.folder, one.summary.get("digest")):
                yield "map.json is of other results, so it is not shown; `fedlapse map` makes it again."


def _sections(drawn: Sequence[Figure]) -> dict[str, list[Figure]]:
    """Returns the figures below each heading in SECTIONS; headings without figures are left out.

    A figure named NAME-N, with a number N, belongs to the heading that lists NAME.
    """
    found = {
        heading: [figure for figure in drawn if figure.name in names or figure.name.rsplit("-", 1)[0] in names]
        for heading, names in SECTIONS.items()
    }
    return {heading: listed for heading, listed in found.items() if listed}


def _splits(all_: SideBySide) -> Iterator[Figure | None]:
    """Yields a heat-map of training examples for each folder, unless an earlier folder has the same split."""
    told: list[Any] = []
    for number, (name, one) in enumerate(all_.sources.items(), 1):
        if one.split not in told:
            told.append(one.split)
            several = len(all_.sources) > 1
            yield split.figure(
                f"split-{number}" if several else "split", one.split, f"The split of {name}" if several else "The split"
            )


def _maps(all_: SideBySide) -> Iterator[Figure]:
    """Yields the maps that `fedlapse map` wrote into the folders of results; maps of other results are left out."""
    sources = all_.sources.values()
    for number, one in enumerate(sources, 1):
        if (one.folder / "map.json").is_file():
            from emulator.report import winners  # imports altair

            found = winners.kept(one.folder, one.summary.get("digest"))
            if found:
                yield replace(found, name=f"map-{number}") if len(sources) > 1 else found


def _headline(drawn: Sequence[Figure]) -> str:
    """Returns the first figure's chart as SVG, for readers without JavaScript; "" if no figure has a chart."""
    first = next((figure for figure in drawn if figure.chart), None)
    return drawing.svg({**first.spec(validate=False), "width": HEADLINE}) if first else ""


def _ticked(line: str) -> Markup:
    """Returns the line as HTML: text between backticks as code elements, and else no-break spaces before units."""
    parts = ((n % 2, part) for n, part in enumerate(line.split("`")))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if code else UNITS.sub("\\1\u00a0\\2", part) for code, part in parts
    )


def _json(value: Any) -> Markup:
    """Returns a value as JSON for a script element of the page; it contains no "<", so it cannot end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _trusted(text.replace("<", "\\u003c"))


def _trusted(text: str) -> Markup:
    """Returns a text marked as HTML, so that it is not escaped.

    Only for fedlapse's own files, Vega's script, and JSON and SVG in which all text is escaped already.
    """
    return Markup(text)  # noqa: S704


def _text(name: str) -> str:
    return resources.files("emulator.report").joinpath(name).read_text(encoding="utf-8")


def plain(results: Sequence[Results]) -> str:
    """Returns the report's numbers as JSON: the summary, and for each algorithm the seconds and bytes of a whole run by
    part, as means over seeds.  Raises ValueError if there are no results."""
    all_ = compare(results)
    said = {
        "about": MADE_BY,
        "notes": notes(all_),
        **all_.summary,
        "critical_s": {label: _named(critical.mean(seeds)) for label, seeds in all_.runs.items()},
        "bytes_by_kind": {label: _named(payloads.mean(seeds)) for label, seeds in all_.runs.items()},
        "digests": {name: one.summary.get("digest") for name, one in all_.sources.items()},
    }
    return json.dumps(said, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _named(found: Mapping[Part, float]) -> dict[str, float]:
    return {" ".join(part).strip(): value for part, value in sorted(found.items())}


WIDTH = 760
OF_A_RUN = ("rounds", "timeline", "rates")  # figures that show one run


def pictures(results: Sequence[Results]) -> Iterator[tuple[str, bytes]]:
    """Yields the file name and content of each chart twice, as NAME.svg and NAME.png, on white and with its title.

    Raises ValueError if there are no results.
    """
    all_ = compare(results)
    for figure in figures(all_):
        if not figure.chart:
            continue
        spec = figure.spec()
        below = [f"network model {all_.summary['network']}"]
        if figure.name in OF_A_RUN:
            below.insert(0, str(timeline.choices(all_.runs)[0]["name"]))
        spec |= {
            "background": "white",
            "title": {"text": figure.title, "subtitle": ", ".join(below), "anchor": "start"},
        }
        if not figure.name.startswith("map"):  # cells of a map have a fixed size
            spec["width"] = WIDTH
        yield f"{figure.name}.svg", drawing.svg(spec).encode()
        yield f"{figure.name}.png", drawing.png(spec, scale=2)

"""The picture of a map: a heat-map of the fastest algorithm over links and device speeds.

It shows how far the fastest algorithm is ahead of the next one, the line (frontier) between different winners, and
where the devices of the scenario are.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import altair as alt

from emulator.replay.findings import TIE, TIED, UNKNOWN
from emulator.replay.grid import Axis, MapCell, frontier
from emulator.report import drawing, still
from emulator.report.figure import Figure, table
from emulator.report.palette import of_labels
from emulator.results.resampling import in_cell
from emulator.results.units import counted, duration, joined

NOBODY, UNPLAYED = "no algorithm gets there", "not played"
GREY = {TIED: "#DCDCDC", NOBODY: "#EFEFEF", UNKNOWN: "#C2C2C2", UNPLAYED: "#FFFFFF"}
EDGE = "#888888"  # around white cells
TINT = 0.6  # share of an algorithm's colour in a cell, the rest white, so that numbers can be read
MOST_TIED = 2  # algorithms that a cell has room to name
OWN = "◇"
SIDE = (52, 110)  # pixels of a cell: smallest, largest
LETTER, LINE = 7, 13  # pixels of a cell's text: wide, high
WIDE = 720  # pixels of a map with few cells
WRAPPED = 64  # characters a line of a picture's caption
BOUNDS = {
    "low": "≥: the next one did not always get there, so the true number is larger",
    "high": "≤: the first did not always get there, so the true number is smaller",
    "neither": "(): neither always got there, so the true number may be larger or smaller",
}

OwnDevice = Mapping[str, Any]  # name, and its value on each axis
Row = tuple[Any, ...]
COLUMNS = {
    **dict.fromkeys(("panel", "i", "j", "i2", "j2"), "number"),
    **dict.fromkeys(("winner", "ratio", "x", "y", "times"), "string"),
}


def figure(
    cells: Sequence[MapCell],
    axes: Sequence[Axis],
    labels: Sequence[str],
    target: str,
    caption: str,
    own: Sequence[OwnDevice] = (),
) -> Figure:
    """Returns the map over the first two axes that have several values; if a third axis has several, with a panel for
    each of its values.

    `labels`: all compared algorithms.  `target`: its name in the title.  `own`: devices of the scenario's fleet, which
    are marked.
    """
    wide = [axis for axis in axes if len(axis.values) > 1] or list(axes)
    y, third, *_ = (*wide[1:], None, None)
    colours = _colours({_winner(each) for each in cells} | {UNPLAYED}, labels)
    marks = _inside(own, axes)
    panels = [
        _panel(
            here,
            (wide[0], y),
            colours,
            f"{third.title}: {third.shown(third.values[number]):g}" if third else "",
            [each for each in marks if third is None or int(each["at"][third.name]) == number],
        )
        for number in _values(third)
        if (here := [each for each in cells if third is None or each.place[third.name] == number])
    ]
    chart: Any = panels[0] if len(panels) == 1 else alt.VConcatChart(vconcat=panels)
    over = " and ".join(axis.title for axis in wide)
    description = f"Heat-map of the algorithm that reaches {target} first, over {over}."
    return Figure("map", answer(cells, target), f"{caption}{_told(own, marks)}", _framed(chart, description))


def answer(cells: Sequence[MapCell], target: str) -> str:
    """Returns the title: in how many cells each algorithm is first, most first, and how many are ties."""
    won = Counter(each.first for each in cells if each.first)
    ties = won.pop(TIED, 0)
    if not won:
        return f"No algorithm is clearly first to {target}: a tie in {ties} of {counted(len(cells), 'cell')}"
    said = [f"{label} in {number}" for label, number in won.most_common()]
    said[0] += f" of {counted(len(cells), 'cell')}"
    return f"First to {target}: {', '.join(said)}{f'; a tie in {ties}' if ties else ''}"


def _inside(own: Sequence[OwnDevice], axes: Sequence[Axis]) -> list[Mapping[str, Any]]:
    """Returns the name of each own device on the map, and its places on the axes (`at`)."""
    placed = [{"name": each["name"], "at": {axis.name: axis.at(each[axis.name]) for axis in axes}} for each in own]
    return [each for each in placed if None not in each["at"].values()]


def _told(own: Sequence[OwnDevice], marks: Sequence[Mapping[str, Any]]) -> str:
    inside = list(dict.fromkeys(each["name"] for each in marks))
    outside = [name for name in dict.fromkeys(each["name"] for each in own) if name not in inside]
    said = f" {OWN}: your {joined(inside)}." if inside else ""
    return said + (f" Outside the map: your {joined(outside)}." if outside else "")


def kept(folder: Path, digest: str | None = None) -> Figure | None:
    """Returns the map that `fedlapse map` wrote into a folder of results; None if there is none, or if the map was made
    of other results.

    `digest`: of the folder's results, which map.json must have, too.  Raises ValueError if map.json is damaged.
    """
    path = folder / "map.json"
    if not path.is_file():
        return None
    try:
        said = json.loads(path.read_bytes())
        if said.get("digest") != digest:
            return None
        axes = [Axis(name, tuple(values)) for name, values in said["axes"].items()]
        names = [field.name for field in fields(MapCell)]
        cells = [MapCell(**{name: each[name] for name in names if name in each}) for each in said["cells"]]
        told = caption(cells, said["labels"], said["notes"])
        return figure(cells, axes, said["labels"], said["target"], told, said.get("fleet", ()))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{path} is not as `fedlapse map` writes it: {type(error).__name__} {error}") from None


def outdated(folder: Path, digest: str | None) -> bool:
    """Returns True if the folder has a map that was made of other results than those with this digest."""
    path = folder / "map.json"
    try:
        return path.is_file() and json.loads(path.read_bytes()).get("digest") != digest
    except (ValueError, AttributeError):
        return False  # `kept` reports a damaged map


def page(shown: Figure, about: str) -> str:
    """Returns the HTML of map.html, which needs no network.  `about`: a line below the title."""
    return still.page("fedlapse map", shown.title, about, still.picture(shown))


def png(shown: Figure) -> bytes:
    """Returns the map as PNG, with title and caption inside the picture."""
    return drawing.png(_spec(shown, textwrap.wrap(shown.caption, WRAPPED)), scale=2)


def _spec(shown: Figure, below: Sequence[str] = ()) -> dict[str, Any]:
    title = {"text": shown.title, "subtitle": list(below), "anchor": "start"}
    return {**shown.spec(), "background": "white", "title": title}


def _framed(chart: Any, description: str) -> Any:
    return (
        chart.properties(name="map", description=description)
        .configure(background="transparent")
        .configure_view(stroke=None)
        .configure_axis(grid=False, titleFontWeight="normal", labelFontSize=12, titleFontSize=12)
        .configure_legend(
            orient="bottom",
            title=None,
            columns=4,
            labelLimit=220,
            labelFontSize=12,
            symbolSize=120,
            symbolStrokeColor=EDGE,
        )
    )


def _values(axis: Axis | None) -> range:
    return range(len(axis.values) if axis else 1)


def _colours(there: Collection[str], labels: Sequence[str]) -> dict[str, str]:
    """Returns the light colour of each name in `there`: algorithms, and words for cells without a winner.

    An algorithm's colour depends on its place in `labels` alone, so it is the same whoever else wins.
    """
    known = dict(zip(labels, map(_tinted, of_labels(labels)), strict=True)) | GREY
    return {name: colour for name, colour in known.items() if name in there}


def _tinted(colour: str) -> str:
    """Returns a colour, `#RRGGBB`, mixed with white."""
    return "#" + "".join(f"{round(255 - TINT * (255 - part)):02X}" for part in bytes.fromhex(colour[1:]))


def _panel(
    cells: Sequence[MapCell],
    over: tuple[Axis, Axis | None],
    colours: Mapping[str, str],
    title: str,
    marks: Sequence[Mapping[str, Any]],
) -> Any:
    x, y = over
    across, up = len(x.values), len(y.values) if y else 1
    side = max(SIDE[0], min(SIDE[1], WIDE // across))
    rows = [*(_row(each, x, y, side // LETTER) for each in cells), *_unplayed(cells, x, y)]
    names = [name for name in colours if name != UNPLAYED or len(rows) > len(cells)]
    here = table(COLUMNS, rows)
    at: Any = {
        "x": alt.X("i:Q", title=x.title, scale=alt.Scale(domain=[0, across], nice=False), axis=_axis(x)),
        "y": alt.Y("j:Q", title=y.title if y else None, scale=alt.Scale(domain=[0, up], nice=False), axis=_axis(y)),
    }
    middle: Any = {"x": alt.X("cx:Q"), "y": alt.Y("cy:Q")}
    rise = f"{LINE / 2 / side} * (length(split(datum.ratio, '\\n')) - 1)"  # Vega centres the first line of a text
    centred = here.transform_calculate(cx="datum.i + 0.5", cy=f"datum.j + 0.5 + {rise}")
    edges = alt.condition(f"datum.winner == '{UNPLAYED}'", alt.value(EDGE), alt.value("white"))
    boxes = here.mark_rect(strokeWidth=0.5, opacity=1).encode(
        **at,
        stroke=edges,
        x2="i2:Q",
        y2="j2:Q",
        color=alt.Color("winner:N", scale=alt.Scale(domain=names, range=[colours[name] for name in names])),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("x", "y", "winner", "ratio", "times")],
    )
    texts = centred.mark_text(fontSize=11, color="black", lineBreak="\n").encode(**middle, text="ratio:N")
    layers = [boxes, texts]
    if sides := frontier(cells, x.name, y.name if y else ""):
        lines = table(dict.fromkeys(("i", "j", "i2", "j2"), "number"), sides)
        layers.append(lines.mark_rule(color="black", strokeWidth=2.5).encode(x="i:Q", y="j:Q", x2="i2:Q", y2="j2:Q"))
    if marks:
        places = [(each["name"], each["at"][x.name], each["at"][y.name] if y else 0.5) for each in marks]
        layers.append(
            table({"name": "string", "i": "number", "j": "number"}, places)
            .mark_point(
                shape="diamond", filled=True, color="white", stroke="black", strokeWidth=1.5, size=110, opacity=1
            )
            .encode(x="i:Q", y="j:Q", tooltip="name:N")
        )
    made: Any = alt.LayerChart(layer=layers).properties(width=side * across, height=side * up)
    return made.properties(title=title) if title else made


def _axis(axis: Axis | None) -> Any:
    """Returns the drawn form of an axis of the grid, with its labels at the middles of the cells."""
    if axis is None:
        return None
    places = [number + 0.5 for number in range(len(axis.values))]
    shown = [f"{axis.shown(value):g}" for value in axis.values]
    return alt.Axis(values=places, labelExpr=f"{shown!r}[floor(datum.value)]", ticks=False, domain=False)


def _row(each: MapCell, x: Axis, y: Axis | None, letters: int) -> Row:
    i, j = each.place[x.name], each.place[y.name] if y else 0
    return (
        *(0, i, j, i + 1, j + 1),
        *(_winner(each), _text(each, letters), _value(x, i), _value(y, j), ", ".join(_times(each))),
    )


def _unplayed(cells: Sequence[MapCell], x: Axis, y: Axis | None) -> Iterator[Row]:
    """Yields a row for each cell of the grid that an interrupted map did not play."""
    there = {(each.place[x.name], each.place[y.name] if y else 0) for each in cells}
    for i, j in product(range(len(x.values)), _values(y)):
        if (i, j) not in there:
            yield 0, i, j, i + 1, j + 1, UNPLAYED, UNPLAYED.replace(" ", "\n"), _value(x, i), _value(y, j), ""


def _value(axis: Axis | None, number: int) -> str:
    return f"{axis.shown(axis.values[number]):g} {axis.title.rpartition(', ')[2]}" if axis else ""


def _winner(each: MapCell) -> str:
    return each.first or (NOBODY if each.known else UNKNOWN)


def _text(each: MapCell, letters: int) -> str:
    """Returns the text in a cell of this width: its ratio, or for a tie the names of the tied if they fit."""
    if each.tie and 0 < len(each.tied) <= MOST_TIED and max(map(len, each.tied)) <= letters:
        return "\n".join([f"{TIED}:", *each.tied])
    return _ratio(each)


def _ratio(each: MapCell) -> str:
    """Returns the text in a cell: the runner-up's time divided by the winner's, such as `1.42`.

    The number follows ≥ or ≤ if it is a bound, is in parentheses if runs of both were cut off, and has a question mark
    if the seeds disagree on the winner.  Returns TIED for a tie, and "" without a winner.
    """
    if each.winner is None:
        return ""
    if each.tie:
        return TIED
    ratio = in_cell(each.ratio, each.bound) if each.ratio is not None else ""
    return ratio if each.agree else f"{ratio} ?"


def _times(each: MapCell) -> Iterator[str]:
    for label, seconds in each.times.items():
        yield f"{label} {duration(seconds) if seconds is not None else '–'}"


def caption(cells: Sequence[MapCell], labels: Sequence[str], notes: Sequence[str]) -> str:
    """Returns the caption of the map: how to read it, the algorithms that win nowhere, and the notes."""
    there = {_winner(each) for each in cells}
    said = [
        f"Colour: the first of {', '.join(labels)} by the mean time over seeds",
        "number: how many times as long the next one takes",
    ]
    if len(there) > 1:
        said.append("line: where the winner changes")
    if TIED in there:
        who = Counter(joined(each.tied) for each in cells if each.tied)
        of = "; ".join(f"{names} in {counted(number, 'cell')}" for names, number in who.most_common())
        said.append(f"{TIED}: the first two are less than {100 * (TIE - 1):.0f} % apart, or not distinguishable")
        said += [f"who ties: {of}"] if of else []
    if any("?" in _ratio(each) for each in cells):
        said.append("?: cells in which the seeds disagree")
    said += [text for bound, text in BOUNDS.items() if any(each.bound == bound and not each.tie for each in cells)]
    nowhere = [label for label in labels if label not in there]
    if nowhere:
        notes = [f"First in no cell: {joined(nowhere)}", *notes]
    return " ".join([f"{'; '.join(said)}.", *(f"{note[0].upper()}{note[1:]}." for note in notes)])


def rows(cells: Sequence[MapCell], axes: Sequence[Axis]) -> list[Mapping[str, Any]]:
    """Returns the cells as dicts for map.json, each with its values on the axes."""
    return [{**{axis.name: axis.values[each.place[axis.name]] for axis in axes}, **each.plain} for each in cells]

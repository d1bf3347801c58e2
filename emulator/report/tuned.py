"""tune.html: the configurations (choices of values for options) that were tried for each algorithm, and their
accuracies, as lines over all options and as heat-maps over pairs of options."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import altair as alt

from emulator.report import still
from emulator.report.figure import Figure, table
from emulator.tuning import results
from emulator.tuning.search import OWN, SearchResult
from emulator.tuning.space import Configuration, words
from emulator.tuning.together import target_of, tune_of
from scenarios.schema.scenario import Scenario

WIDTH, HEIGHT = 640, 220
CELL = 64  # pixels of a heat-map's cell
GONE, BEST = "#B8B8B8", "#D55E00"


def page(scenario: Scenario, founds: results.Founds) -> str:
    """Returns the HTML of tune.html, which needs no network.  `founds`: by label, what the searches found."""
    parts = [_table(founds), *(f"<p>{html.escape(each)}.</p>" for each in results.remarks(scenario, founds))]
    for label, found in founds.items():
        parts.append(f"<h2>{html.escape(label)}</h2>")
        parts += map(still.picture, figures(label, found))
    return still.page("fedlapse tune", f"{scenario.name}: the best settings", _about(scenario), "\n".join(parts))


def figures(label: str, found: SearchResult) -> Iterator[Figure]:
    """Yields the figures of one algorithm: a chart with a line for each configuration across all options, and a
    heat-map for each pair of options.  Options of which only one value was tried are left out."""
    options = [each.option for each in found.space.dimensions if len(found.space.values(each.option, found.tried)) > 1]
    if options:
        yield _parallel(label, found, options)
    for one, other in combinations(options, 2):
        yield _heat(label, found, one, other)


def _about(scenario: Scenario) -> str:
    seeds = ", ".join(map(str, tune_of(scenario).seeds))
    return (
        f"Chosen by the least mean time to {target_of(scenario).name} on validation data, under seeds {seeds}; a run "
        "that does not get there in its rounds counts until the latest end of any. Each algorithm had "
        f"{tune_of(scenario).budget} configurations. Network model {scenario.network_model}."
    )


def _table(founds: results.Founds) -> str:
    heads = "".join(f'<th class="word">{html.escape(each)}</th>' for each in results.HEADINGS)
    body = "".join(
        "<tr>" + "".join(f'<td class="word">{html.escape(cell)}</td>' for cell in row) + "</tr>"
        for row in results.rows(founds)
    )
    return f'<div class="scroll"><table><tr>{heads}</tr>{body}</table></div>'


def _parallel(label: str, found: SearchResult, options: Sequence[str]) -> Figure:
    best = found.best()
    lasted: dict[Configuration, int] = {}  # rounds played by each configuration
    for configuration, rounds in found.known:
        lasted[configuration] = max(rounds, lasted.get(configuration, 0))
    outcome = f"validation, first {found.rungs[0].rounds} rounds"
    rows = []
    for configuration, accuracy in _first(found).items():
        fate = "best" if configuration == best else f"{lasted[configuration]} rounds"
        which = words(configuration)
        for option in options:
            value = dict(configuration)[option]
            seen = sorted(found.space.values(option, found.tried), key=_key)
            rows.append((option, seen.index(value) / max(1, len(seen) - 1), which, fate, _text(value)))
        rows.append((outcome, accuracy, which, fate, f"{accuracy:.2f}"))
    fates = [*(f"{count} rounds" for count in sorted(set(lasted.values()))), "best"]
    shades = [GONE, "#8CC9F0", "#4FA3DC", "#0072B2", "#00344F", "#001A28"]
    colours = [*(shades[min(n, len(shades) - 1)] for n in range(len(fates) - 1)), BEST]
    columns = {"option": "string", "place": "number", "which": "string", "fate": "string", "value": "string"}
    here = table(columns, rows)
    x = alt.X(
        "option:N",
        sort=[*options, outcome],
        title=None,
        axis=alt.Axis(labelAngle=0),
        scale=alt.Scale(padding=0.3),
    )
    y = alt.Y("place:Q", title=None, axis=None, scale=alt.Scale(domain=[-0.05, 1.05]))
    colour = alt.Color("fate:N", title="played for", scale=alt.Scale(domain=fates, range=colours))
    lines = here.mark_line(strokeWidth=2, opacity=0.9).encode(x=x, y=y, color=colour, detail="which:N")
    ends = here.mark_point(filled=True, size=40).encode(x=x, y=y, color=colour)
    texts = here.mark_text(dx=8, align="left", fontSize=11).encode(x=x, y=y, text="value:N")
    described = f"Parallel coordinates of {len(found.tried)} configurations of {label}."
    chart: Any = alt.LayerChart(layer=[lines, ends, texts]).properties(
        width=WIDTH, height=HEIGHT, description=described
    )
    caption = (
        f"Each line is a configuration of {label}; the values of each option rise from below. Colour: for how many "
        "rounds it was played before a better half went on without it."
    )
    return Figure(f"parallel-{label}", label, caption, chart)


def _first(found: SearchResult) -> dict[Configuration, float]:
    """Returns the validation accuracy of each configuration after the search's first comparison (rung), which has the
    fewest rounds.  If several rungs have as few, the first one that played the configuration counts."""
    accuracy: dict[Configuration, float] = {}
    for rung in found.rungs:
        if rung.rounds == found.rungs[0].rounds:
            for configuration, by_clock in rung.scores.items():
                accuracy.setdefault(configuration, by_clock[OWN].value)
    return accuracy


def _heat(label: str, found: SearchResult, one: str, other: str) -> Figure:
    """Returns a heat-map over the values of two options.  A cell has the best validation accuracy, after the first
    comparison, of all configurations with its two values."""
    cells: dict[tuple[Any, Any], float] = {}
    lower = any(score.lower for rung in found.rungs for clocks in rung.scores.values() for score in clocks.values())
    better = min if lower else max
    for configuration, accuracy in _first(found).items():
        place = dict(configuration)[one], dict(configuration)[other]
        cells[place] = better(cells.get(place, accuracy), accuracy)
    best = dict(found.best())
    rows = [
        (_text(x), _text(y), accuracy, "best" if (x, y) == (best[one], best[other]) else "")
        for (x, y), accuracy in cells.items()
    ]
    xs, ys = (sorted({place[n] for place in cells}, key=_key) for n in (0, 1))
    middle = (min(cells.values()) + max(cells.values())) / 2
    here = table({"x": "string", "y": "string", "accuracy": "number", "mark": "string"}, rows)
    at: Any = {
        "x": alt.X("x:N", title=one, sort=list(map(_text, xs)), axis=alt.Axis(labelAngle=0)),
        "y": alt.Y("y:N", title=other, sort=list(map(_text, reversed(ys)))),
    }
    boxes = here.mark_rect().encode(
        **at, color=alt.Color("accuracy:Q", legend=None, scale=alt.Scale(range=["#EFF5FA", "#0072B2"]))
    )
    texts = here.mark_text(fontSize=11).encode(
        **at,
        text=alt.Text("accuracy:Q", format=".2f"),
        color=alt.condition(f"datum.accuracy > {middle}", alt.value("white"), alt.value("black")),
    )
    marks = here.transform_filter("datum.mark == 'best'").mark_rect(fill=None, stroke=BEST, strokeWidth=3).encode(**at)
    chart: Any = alt.LayerChart(layer=[boxes, texts, marks]).properties(
        width=CELL * len(xs), height=CELL * len(ys) // 2, description=f"Heat-map of {one} and {other} of {label}."
    )
    rounds = found.rungs[0].rounds
    caption = (
        f"The metric on validation data of the best configuration with these values, at the same time in all runs "
        f"of {rounds} rounds; framed: the values of the best in the end."
    )
    return Figure(f"heat-{label}-{one}-{other}", label, caption, chart)


def _key(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

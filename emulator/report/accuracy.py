"""Accuracy against virtual time, as an SVG picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

Rows = Sequence[Mapping[str, Any]]

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 360, 56, 44, 12
# Okabe and Ito's palette: told apart by colour-blind readers too
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def accuracy_chart(runs: Mapping[str, Mapping[int, Rows]]) -> str:
    """One line for each run, one colour for each algorithm; "" if nothing was evaluated."""
    points = [(row["time_s"], row["accuracy"]) for rows in _all(runs) for row in rows if row["accuracy"] is not None]
    if not points:
        return ""
    end = max(time for time, _ in points) or 1.0
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="chart-title" class="chart">',
        '<title id="chart-title">Accuracy on the test set against simulated seconds</title>',
        *_axes(end),
    ]
    for number, (label, seeds) in enumerate(runs.items()):
        colour = COLOURS[number % len(COLOURS)]
        parts += [_line(rows, end, colour) for rows in seeds.values()]
        parts.append(
            f'<text x="{WIDTH - 8}" y="{HEIGHT - BOTTOM - 12 - 18 * number}" text-anchor="end" fill="{colour}">'
            f"{escape(label)}</text>"
        )
    return "\n".join([*parts, "</svg>"])


def _all(runs: Mapping[str, Mapping[int, Rows]]) -> Iterator[Rows]:
    for seeds in runs.values():
        yield from seeds.values()


def _axes(end: float) -> Iterator[str]:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y, x = _y(share), LEFT + share * (WIDTH - LEFT - 8)
        yield f'<line x1="{LEFT}" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:g}</text>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{share * end:.0f}</text>'
    yield f'<text x="{(WIDTH + LEFT) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">simulated seconds</text>'


def _line(rows: Rows, end: float, colour: str) -> str:
    known = [row for row in rows if row["accuracy"] is not None]
    points = " ".join(
        f"{LEFT + row['time_s'] / end * (WIDTH - LEFT - 8):.1f},{_y(row['accuracy']):.1f}" for row in known
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _y(accuracy: float) -> float:
    return TOP + (1 - accuracy) * (HEIGHT - BOTTOM - TOP)

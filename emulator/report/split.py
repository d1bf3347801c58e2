"""A heat-map of the split: how many training examples of each class each device has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt

from emulator.report.curves import thinned
from emulator.report.figure import Figure, dressed, natural, table

DEVICES = 48


def figure(name: str, split: Mapping[str, Any] | None, title: str = "The split") -> Figure | None:
    """Returns a heat-map of the split under the first seed; None if there is no split.

    `name`: the figure's name.  `split`: the content of split.json.
    """
    seeds = (split or {}).get("seeds") or {}
    if not seeds:
        return None
    seed = min(seeds, key=lambda key: (len(key), key))
    devices: Mapping[str, list[int]] = seeds[seed]["devices"]
    fleet = seeds[seed].get("of", len(devices))  # a large fleet that draws examples has a sample of its devices
    shown = thinned(sorted(devices, key=natural), DEVICES)
    rows = [(device, number, count) for device in shown for number, count in enumerate(devices[device])]
    chart = (
        table({"device": "string", "label": "number", "examples": "number"}, rows)
        .mark_rect()
        .encode(
            x=alt.X("label:O", title="class", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("device:N", title=None, sort=shown),
            color=alt.Color(
                "examples:Q",
                title="training examples",
                scale=alt.Scale(scheme="cividis", zero=True),
                legend=alt.Legend(title="training examples", gradientLength=220),
            ),
            tooltip=["device:N", alt.Tooltip("label:O", title="class"), "examples:Q"],
        )
        .properties(height=14 * len(shown))
    )
    classes = [sum(1 for count in counts if count) for counts in devices.values()]
    caption = f"Training examples of each class on each device, seed {seed}."
    if len(shown) < fleet:
        caption += f" {len(shown)} of {fleet:,} devices are shown, evenly spaced by name."
    description = (
        f"Heat-map of training examples by device and class, seed {seed}: {len(devices)} devices hold "
        f"{min(classes)} to {max(classes)} classes each."
    )
    return Figure(name, title, caption, dressed(chart, name, description))

"""Draws the classes of the devices' examples as a heat-map of characters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from emulator.results.units import counted

SHADES = " ░▒▓█"
ROWS = 20  # devices in the heat-map


def heat_map(labels: Mapping[str, Sequence[int]], width: int, devices: int = 0) -> str:
    """Returns a heat-map of training examples as text: a row per device, a column per class, darker for more examples.

    `labels`: by device, its number of examples of each class.  `width`: in characters.  `devices`: the size of the
    fleet, if `labels` has only a part of it.
    """
    names = list(labels)
    step = max(1.0, len(names) / ROWS)
    shown = [names[int(k * step)] for k in range(min(ROWS, len(names)))]
    longest, classes = max(map(len, shown)), len(labels[names[0]])
    room = width - longest - 14
    wide = 2 if 2 * classes <= room else 1
    most = max(max(counts) for counts in labels.values())
    lines = [f"Training examples by class ({_legend(most)})"]
    digits = "".join(str(k % 10) * wide for k in range(min(classes, room)))
    lines.append(f"  {'':{longest}}  {digits}  examples")
    for name in shown:
        cells = "".join(_shade(count, most) * wide for count in labels[name][:room])
        lines.append(f"  {name:{longest}}  {cells}  {sum(labels[name]):>8}")
    return "\n".join([*lines, *_left_out(max(devices, len(names)) - len(shown), classes - room)])


def _shade(count: int, most: int) -> str:
    return SHADES[math.ceil((len(SHADES) - 1) * count / most)] if most else " "


def _legend(most: int) -> str:
    """Returns the legend of a heat-map: for each shade in use, the largest number of examples that it stands for.

    `most`: the largest number in the heat-map.
    """
    largest = [math.floor(most * k / 4) for k in range(len(SHADES))]
    return ", ".join(f"{SHADES[k]} up to {largest[k]}" for k in range(1, len(SHADES)) if largest[k] > largest[k - 1])


def _left_out(devices: int, classes: int) -> Iterator[str]:
    if devices > 0:
        yield f"  and {counted(devices, 'more device')}, between these"
    if classes > 0:
        yield f"  and {classes} more class{'es' * (classes > 1)}"

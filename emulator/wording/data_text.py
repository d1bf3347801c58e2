"""What the devices of a scenario have of its data, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.markup import escape

from emulator.lab.holdings import Holding, Holdings
from emulator.results.units import counted
from emulator.wording.heat_map import ROWS, heat_map
from emulator.wording.layout import columns, filled, grid, printed


def text(found: Holdings, kind: str) -> str:
    """Returns a table of the devices, and their classes as a picture.  `kind`: the rule of the split."""
    width = columns()
    step = max(1.0, len(found.devices) / ROWS)
    names = list(found.devices)
    shown = {name: found.devices[name] for name in (names[int(k * step)] for k in range(min(ROWS, len(names))))}
    owners = any(each.owner for each in shown.values())
    by_class = not found.data.text and found.data.labels is not None
    numbers = ["train", "held out", "test", *(["classes", "in the largest"] if by_class else [])]
    table = grid("Examples by device", "device", *(["owner"] if owners else []), numbers=numbers)
    for name, each in shown.items():
        table.add_row(escape(name), *([escape(each.owner)] if owners else []), *_numbers(each, by_class))
    more = found.fleet - len(shown)
    return printed(
        [
            *(filled(line, width) for line in _opening(found, kind)),
            table,
            *([f"and {counted(more, 'more device')}, between these; --format json has all"] if more else []),
            *([heat_map({name: each.classes for name, each in shown.items()}, width, found.fleet)] if by_class else []),
        ],
        width,
    )


def _numbers(each: Holding, by_class: bool) -> Iterator[str]:
    yield from (f"{number:,}" for number in (each.train, each.validation, each.tests))
    if by_class:
        yield str(sum(1 for count in each.classes if count))
        yield f"{max(each.classes) / max(1, sum(each.classes)):.0%}"


def _opening(found: Holdings, kind: str) -> Iterator[str]:
    data = found.data
    shape = f"{data.x.shape[1]} tokens" if data.text else " x ".join(map(str, data.x.shape[1:]))
    owners = f", {counted(len(data.owners), 'owner')}" if data.owners else ""
    yield (
        f"{data.name}: {len(data.y):,} training and {len(data.y_test):,} test examples of {shape}, "
        f"{data.classes} classes{owners}. Split: {kind}, seed {found.seed}. The server has "
        f"{found.proxy:,} training examples of its own."
    )
    if data.owners and kind not in ("natural", "file"):
        yield "This split takes no account of the owners; data.split: {kind: natural} makes each device one of them."

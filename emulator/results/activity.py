"""Activity of each device in a run: sums over the completed rounds.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.record import events


@dataclass
class Activity:
    """One device's totals over a run; seconds are virtual."""

    asked: int = 0  # rounds
    counted: int = 0  # rounds
    bytes_down: int = 0
    bytes_up: int = 0
    compute_s: float = 0.0
    transfer_s: float = 0.0
    wait_s: float | None = 0.0  # None: the record does not tell
    joules: float | None = 0.0  # None: not known

    def ask(self, name: str, row: Mapping[str, Any]) -> None:
        """Adds a round in which device `name` was asked; `row` is that round's row."""
        *_, idle = row.get("seconds", {}).get("devices", {}).get(name, (None,))
        self.asked += 1
        self.wait_s = _plus(self.wait_s, idle)
        self.joules = _plus(self.joules, row.get("joules", {}).get(name))

    def transfer(self, start: events.TransferStarted, stop: events.TransferEnded | events.TransferCut) -> None:
        """Adds a transfer; of one that was cut, only the bytes that were transferred."""
        nbytes = stop.nbytes if isinstance(stop, events.TransferCut) else start.nbytes
        self.transfer_s += stop.t - start.t
        self.bytes_down += nbytes if start.way == "down" else 0
        self.bytes_up += nbytes if start.way == "up" else 0


def activities(rows: Sequence[Mapping[str, Any]], timeline: Iterable[events.Event]) -> Mapping[str, Activity]:
    """Activities by device name, of all devices that were asked.  A round without a row was not completed and is
    skipped."""
    over = {row["round"]: row for row in rows}
    found: dict[str, Activity] = defaultdict(Activity)
    started: dict[tuple[str, str], Any] = {}  # by device, and down, up or compute
    for event in timeline:
        if event.round not in over:
            continue
        match event:
            case events.Opened():
                for name in event.asked:
                    found[name].ask(name, over[event.round])
            case events.Closed():
                for name in event.counted:
                    found[name].counted += 1
            case events.TransferStarted():
                started[event.device, event.way] = event
            case events.ComputeStarted():
                started[event.device, "compute"] = event
            case events.TransferEnded() | events.TransferCut():
                found[event.device].transfer(started.pop((event.device, event.way)), event)
            case events.ComputeEnded() | events.ComputeCut():
                found[event.device].compute_s += event.t - started.pop((event.device, "compute")).t
            case _:
                pass
    return found


def _plus(so_far: float | None, more: float | None) -> float | None:
    return None if so_far is None or more is None else so_far + more

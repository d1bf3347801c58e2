"""Flows that share a link: the settings, what a model predicts of them, and what real TCP did."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from benchmarks.testbed import cases, namespaces
from benchmarks.testbed.bench import Case as Single
from benchmarks.testbed.bench import Measured, Transfer, link_of, relayed, repeated
from benchmarks.testbed.ends import EACH
from emulator.lab.links import DRAWS
from network.links.rate import Constant, Rate
from network.links.tcp import Direction, Tcp, Way, passage
from network.sharing.flow import SharedLink
from network.sharing.fluid import Fluid
from network.windows.windows import Windows

LIST = Path(__file__).parent / "shared_links.yaml"
KB, MBIT = 1_000, 1e6 / 8
OWN = Constant(1e12)  # bytes/s: the device's own link bounds nobody


@dataclass(frozen=True)
class Setting:
    """Transfers through one link, or one link for each direction."""

    group: str
    flows: tuple[Transfer, ...]
    rtts: tuple[float, ...]  # s, of each flow
    rate: float = 0.0  # bytes/s
    up: float | None = None  # bytes/s; None: nothing bounds that direction
    trace: str = ""  # of Mahimahi, down; instead of the rate
    offset: float = 0.0  # s into the trace
    queue: int = 0  # bytes that may wait
    queue_up: int = 0
    behind: tuple[tuple[float, int], ...] = ()  # bytes/s and queues of links below, in turns the flows' (2 or 4)
    loss: float = 0.0
    congestion: str = "cubic"  # with a slash between several, which the flows have in turns
    first: int = 0  # how many finishes count; 0: all
    held_out: int = 0  # 0: the model was tuned on it; 1 and 2: looked at once, one after the other

    @property
    def label(self) -> str:
        """A name that no other setting has."""
        sizes = _alike([flow.nbytes // KB for flow in self.flows])
        starts, ups = {flow.start for flow in self.flows}, [flow.up for flow in self.flows]
        parts = [
            f"{len(self.flows)} x {sizes} kB",
            f"{self.trace} +{self.offset:g} s" if self.trace else f"{self.rate / MBIT:g} Mbit/s",
            f"{_alike([round(rtt * 1e3) for rtt in self.rtts])} ms",
            f"queue {self.queue / KB:.0f} kB",
            *([f"starts {_alike([flow.start for flow in self.flows])} s"] if starts != {0.0} else []),
            *([f"{sum(ups)} of them up, at {self.up / MBIT:g} Mbit/s"] if self.up else []),
            *([f"behind {_alike([rate / MBIT for rate, _ in self.behind])} Mbit/s"] if self.behind else []),
            *([f"loss {self.loss:.1%}"] if self.loss else []),
            *([f"first {self.first}"] if self.first else []),
            self.congestion,
        ]
        return ", ".join(parts)

    def makespan(self, ends: Sequence[float]) -> float:
        """When the last transfer is over, or the last that counts, s."""
        return sorted(ends)[self.first - 1] if self.first else max(ends)

    def finishes(self, ends: Sequence[float]) -> list[float]:
        """The seconds of each transfer; of transfers that are alike in order, as chance says which is which."""
        kinds: dict[Hashable, list[float]] = {}
        for flow, rtt, end in zip(self.flows, self.rtts, ends, strict=True):
            kinds.setdefault((flow, rtt), []).append(end - flow.start)
        return [seconds for kind in kinds.values() for seconds in sorted(kind)]


def _alike(values: Sequence[float]) -> str:
    """The values of all flows, or the one that they share."""
    return "/".join(f"{each:g}" for each in (values if len(set(values)) > 1 else values[:1]))


def settings() -> list[Setting]:
    """All settings of the list; those over traces only if the files exist."""
    groups = YAML(typ="safe").load(LIST)
    found = [setting_of(group, row) for group, rows in groups.items() for row in rows]
    return [each for each in found if not each.trace or cases.trace(each.trace).is_file()]


def setting_of(group: str, row: Mapping[str, Any]) -> Setting:
    lists = [value for value in row.values() if isinstance(value, list)]
    count = row.get("flows", max(map(len, lists), default=1))

    def each(name: str, otherwise: float = 0) -> list[Any]:
        value = row.get(name, otherwise)
        return value if isinstance(value, list) else [value] * count

    rtts = tuple(ms / 1e3 for ms in each("rtt_ms"))
    kinds = row.get("congestion", "cubic").split("/")
    rate, up, trip = row.get("mbit_s", 0) * MBIT, row.get("up_mbit_s"), statistics.mean(rtts)

    def queue(rate: float) -> int:
        return round(row["queue_kb"] * KB if "queue_kb" in row else row["queue_bdp"] * rate * trip)

    return Setting(
        group,
        tuple(
            Transfer(kb * KB, float(start), bool(way), number % len(kinds))
            for number, (kb, start, way) in enumerate(zip(each("kb"), each("start_s"), each("up"), strict=True))
        ),
        rtts,
        rate,
        None if up is None else up * MBIT,
        row.get("trace", ""),
        row.get("offset_s", 0.0),
        queue(rate),
        0 if up is None else queue(up * MBIT),
        tuple((each_rate * MBIT, queue(each_rate * MBIT)) for each_rate in row.get("behind_mbit_s", ())),
        row.get("loss", 0.0),
        "/".join(kinds),
        row.get("first", 0),
        row.get("held_out", 0),
    )


def links(setting: Setting) -> dict[Direction, Rate]:
    """The link of each direction, bytes/s."""
    up = Constant(setting.up or math.inf)
    if not setting.trace:
        return {"down": Constant(setting.rate), "up": up}
    path = cases.trace(setting.trace)
    return {"down": link_of(Single(setting.group, 0, "cubic", trace=path, offset=setting.offset)), "up": up}


def predict(setting: Setting) -> list[float]:
    """When each transfer ends, s, by windows: of DRAWS runs with other chances that whose makespan is the median.

    Chance is when flows begin, when acknowledgements arrive within the time of a segment, and which segments get lost.
    """
    return sorted(draws(setting), key=setting.makespan)[DRAWS // 2]


def draws(setting: Setting) -> list[list[float]]:
    """When each transfer ends, s, in DRAWS runs of windows with other chances."""
    return [_draw(setting, draw) for draw in range(DRAWS)]


def _draw(setting: Setting, draw: int) -> list[float]:
    there, tcps = links(setting), _tcps(setting)
    below = {f"{number}": SharedLink(rate, buffer=queue) for number, (rate, queue) in enumerate(setting.behind)}
    back = dict.fromkeys(below, SharedLink(math.inf))
    windows = Windows((there["down"], below), (there["up"], back), (setting.queue, setting.queue_up))
    ends: dict[Hashable, float] = {}
    opening = []
    for number, (flow, rtt) in enumerate(zip(setting.flows, setting.rtts, strict=True)):
        way: Direction = "up" if flow.up else "down"
        path = Way(rtt, 0.0 if flow.up else setting.loss)
        flight = passage(tcps[flow.kind], path, OWN, way, flow.nbytes, flow.start)
        opening.append((flow.start, number, flow.up, flight))
    for t, number, up, flight in sorted(opening, key=lambda each: each[:2]):
        _play(windows, t, ends)
        begin = t + flight.delay
        via = f"{number % len(below)}" if below else None
        flow = (draw, number), flight.wire, flight.cap(begin), flight.weight, via, OWN, up, flight.sending
        windows.open(t, *flow, begin)
    _play(windows, math.inf, ends)
    return [ends[draw, number] for number in range(len(setting.flows))]


def predict_fairly(setting: Setting) -> list[float]:
    """When each transfer ends, s, by the fluid model: fair shares at once."""
    there, tcps = links(setting), _tcps(setting)
    below = {f"{number}": SharedLink(rate) for number, (rate, _) in enumerate(setting.behind)}
    fluids = {"down": Fluid(there["down"], below), "up": Fluid(there["up"])}
    ends: dict[Hashable, float] = {}
    opening = []
    for number, (flow, rtt) in enumerate(zip(setting.flows, setting.rtts, strict=True)):
        way: Direction = "up" if flow.up else "down"
        path = Way(rtt, 0.0 if flow.up else setting.loss)
        flight = passage(tcps[flow.kind], path, there[way], way, flow.nbytes, flow.start)
        opening.append((flow.start + flight.delay, number, way, flight))
    for t, number, way, flight in sorted(opening, key=lambda each: each[:2]):
        _play(fluids[way], t, ends)
        via = f"{number % len(below)}" if below else None
        fluids[way].open(t, number, flight.wire, flight.cap(t), flight.weight, via)
    for fluid in fluids.values():
        _play(fluid, math.inf, ends)
    return [ends[number] for number in range(len(setting.flows))]


def _tcps(setting: Setting) -> list[Tcp]:
    """The congestion controls of the setting; a flow's `kind` is the number of its own."""
    return [Tcp(congestion=kind, tls=0) for kind in setting.congestion.split("/")]  # type: ignore[arg-type]


def _play(fluid: Fluid | Windows, until: float, ends: dict[Hashable, float]) -> None:
    while (t := fluid.next_finish()) < until:
        ends.update(dict.fromkeys(fluid.advance(t), t))


def measure(setting: Setting, repetitions: int) -> Measured:
    """Sends the real bytes so many times."""
    trace = cases.trace(setting.trace) if setting.trace else None
    up = None if setting.up is None else (setting.up, setting.queue_up)
    rtts = [setting.rtts[number % len(setting.rtts)] for number in range(EACH)]
    with (
        namespaces.pair() as pair,
        relayed(pair, rtts, setting.rate, setting.queue, trace, setting.loss, up, setting.behind) as relay,
    ):
        return repeated(
            pair, relay, setting.flows, setting.congestion, repetitions, setting.offset, strict=trace is not None
        )

"""The links that a scenario describes: rates or recordings, how bytes travel on them, and what shares them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from numpy.random import Generator, default_rng

from network.flow import Shared, Topology
from network.link import Link
from network.rate import Rate
from network.synth import Preset, presets, synth
from network.tcp import Tcp
from network.trace import Direction, Trace
from network.traces.read import BadTrace, read
from scenarios import links
from scenarios.drawing import value
from scenarios.faults import BadScenario, did_you_mean
from scenarios.schema import Scenario

MBIT = 1e6 / 8  # bytes
HOUR = 3600.0  # s, after which a generated link repeats
WAYS: tuple[Direction, Direction] = ("down", "up")


def link(name: str, number: int, said: links.Links, scenario: Scenario) -> Link:
    """The link of one device, the `number`-th of its group.  Raises BadScenario for recordings that cannot be used."""
    seed, tcp = scenario.fleet_seed, transport(scenario.network, said.model)
    stations = links.listed(said.via)
    via = stations[number % len(stations)] if stations else None
    down: float | Rate
    up: float | Rate
    latency = value(said.latency_ms or 0.0, name, "latency", seed) / 1e3
    if said.trace:
        down, up = _recorded(name, said, seed)
        if said.latency_ms is not None:  # what the scenario says wins over what was recorded
            down, up = (replace(way, latency=None) if isinstance(way, Trace) else way for way in (down, up))
    elif said.radio:
        preset, mine = _preset(said.radio), int(default_rng([seed, *f"radio of {name}".encode()]).integers(2**62))
        down, up = (replace(synth(preset, HOUR, mine, way), latency=None) for way in WAYS)
        latency = preset.latency if said.latency_ms is None else latency
    else:
        assert said.up_mbit_s is not None
        assert said.down_mbit_s is not None
        down = value(said.down_mbit_s, name, "down", seed) * MBIT
        up = value(said.up_mbit_s, name, "up", seed) * MBIT
    return Link(up, down, latency, said.loss, tcp, via)


@lru_cache(maxsize=64)
def transport(said: links.Transport, model: links.Model | None = None) -> Tcp:
    """How bytes travel."""
    return Tcp(
        model=model or said.model,
        congestion=said.congestion,
        initial_window=said.initial_window,
        window=round(said.window_mb * 1e6),
        tls=said.tls,
        keep_alive=said.keep_alive,
        idle_reset=said.idle_reset,
        ethernet=said.ethernet,
    )


def topology(scenario: Scenario) -> Topology:
    """The links that devices share, each way."""
    return {way: {name: _shared(said, way) for name, said in scenario.topology.items()} for way in WAYS}


def _shared(said: links.Shared, way: Direction) -> Shared:
    rate = said.down_mbit_s if way == "down" else said.up_mbit_s
    return Shared(1.0 if rate is None else rate * MBIT, said.behind, said.airtime)


def _preset(name: str) -> Preset:
    if name not in presets():
        raise BadScenario(f"fleet: there is no radio {name!r}; {did_you_mean(name, presets())}")
    return presets()[name]


def _recorded(name: str, said: links.Links, seed: int) -> tuple[Trace, float | Rate]:
    """The recordings of one device: of the files, one that is drawn."""
    assert said.trace
    mine = default_rng([seed, *f"trace of {name}".encode()])
    downs = _files(said.trace.down, said.trace.format, "down")
    down = downs[int(mine.integers(len(downs)))]
    if said.via and down.kind == "achieved":
        raise BadScenario(
            f"fleet: {down.name} is throughput that one download had, an upper bound that cannot be shared; leave "
            f"link.via out, or replay a capacity trace"
        )
    if said.up_mbit_s is not None:
        return down, value(said.up_mbit_s, name, "up", seed) * MBIT
    return down, _uplink(down, said.trace, mine)


def _uplink(down: Trace, said: links.Traces, mine: Generator) -> Trace:
    if said.up_ratio is not None:
        return down.scaled(said.up_ratio)
    if said.symmetric:
        return down
    if said.up is not None:
        ups = _files(said.up, said.format, "up")
        return ups[int(mine.integers(len(ups)))]
    own = [trace for trace in _read(down.name, said.format) if trace.direction == "up"]
    if not own:
        raise BadScenario(
            f"fleet: {down.name} is a downlink only; give link.up_mbit_s, or trace.up, up_ratio (0.2, say) or symmetric"
        )
    return own[0]


@lru_cache(maxsize=64)
def _files(said: str | tuple[str, ...], format: str | None, way: Direction) -> list[Trace]:
    """All traces of that direction; of a folder those of its files that have one."""
    found: list[Trace] = []
    for path in links.listed(said):
        place = _place(path)
        if place.is_dir():
            some = [trace for file in sorted(place.iterdir()) if file.is_file() for trace in _any(file, format)]
            found += [trace for trace in some if trace.direction == way]
        else:
            found += [trace for trace in _read(str(place), format, way) if trace.direction == way]
    if not found:
        raise BadScenario(f"fleet: {', '.join(links.listed(said))} has no {way}link trace")
    return found


def _any(file: Path, format: str | None) -> Iterator[Trace]:
    """The traces of a file in a folder, which may hold others, as a README."""
    try:
        yield from read(file, format)
    except BadTrace:
        return


@lru_cache(maxsize=4096)
def _read(path: str, format: str | None, way: Direction | None = None) -> tuple[Trace, ...]:
    try:
        return read(path, format, way)
    except BadTrace as error:
        raise BadScenario(f"fleet: {error}") from None


def _place(path: str) -> Path:
    """Where a file is: from here, or in the data's folder."""
    here = Path(path).expanduser()
    root = os.environ.get("FEDLAPSE_DATA")
    if here.is_absolute() or here.exists() or not root:
        return here
    there = Path(root) / here
    return there if there.exists() else here

"""The links that a scenario describes: rates or recordings, how bytes travel on them, and what shares them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from numpy.random import default_rng

from network.flow import Shared, Topology
from network.link import Link
from network.rate import Rate
from network.synth import named, synth
from network.tcp import Tcp
from network.trace import Direction
from scenarios import links, recordings
from scenarios.drawing import value
from scenarios.recordings import MBIT
from scenarios.schema import Scenario

HOUR = 3600.0  # s, after which a generated link repeats
WAYS: tuple[Direction, Direction] = ("down", "up")


def link(name: str, number: int, said: links.Links, scenario: Scenario) -> Link:
    """The link of one device, the `number`-th of the fleet.  Raises BadScenario for recordings that cannot be used."""
    seed, tcp = scenario.fleet_seed, transport(scenario.network, said.model)
    stations = links.listed(said.via)
    via = stations[number % len(stations)] if stations else None
    down: float | Rate
    up: float | Rate
    latency = None if said.latency_ms is None else value(said.latency_ms, name, "latency", seed) / 1e3
    if said.trace:
        down, up = recordings.rates(name, said, seed)
    elif said.radio:
        preset, mine = named(said.radio), int(default_rng([seed, *f"radio of {name}".encode()]).integers(2**62))
        down, up = (replace(synth(preset, HOUR, mine, way), latency=None) for way in WAYS)
        latency = preset.latency if latency is None else latency
    else:
        assert said.up_mbit_s is not None
        assert said.down_mbit_s is not None
        down = value(said.down_mbit_s, name, "down", seed) * MBIT
        up = value(said.up_mbit_s, name, "up", seed) * MBIT
    found = Link(up, down, latency or 0.0, said.loss, tcp, via)
    return found if latency is None else found.at(latency)  # what the scenario says wins over what was recorded


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

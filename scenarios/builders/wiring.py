"""The links that a scenario describes: rates or recordings, their transport, and shared links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from network.foreign_files import BadFile
from network.links.link import Link
from network.links.rate import Rate
from network.links.synth import named, synth
from network.links.tcp import Tcp
from network.links.trace import Direction
from network.sharing.flow import SharedLink, Topology
from scenarios.builders import recordings
from scenarios.builders.random_values import generator, value
from scenarios.builders.recordings import MBIT
from scenarios.schema import link_keys
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario, Fault
from scenarios.text.yaml_source import Loc

HOUR = 3600.0  # s, period of a generated link
WAYS: tuple[Direction, Direction] = ("down", "up")


def link(name: str, number: int, said: link_keys.Links, scenario: Scenario) -> Link:
    """Returns the link of one device, the `number`-th of its fleet, whose access point is chosen by that number. Raises
    BadScenario for recordings that cannot be used."""
    tcp = transport(scenario.network, said.model or scenario.network_model)
    stations = link_keys.listed(said.via)
    via = stations[number % len(stations)] if stations else None
    if said.trace and via and scenario.topology[via].trace:
        raise BadScenario(f"fleet: {name} has a trace, and {via} is recorded already; give up_mbit_s and down_mbit_s")
    down, up = _rates(name, said, scenario.fleet_seed, "fleet")
    latency = _latency(name, said, scenario.fleet_seed)
    if latency is None:  # the recorded latency, or 0
        return Link(up, down, 0.0, said.loss, tcp, via)
    return Link(up, down, latency, said.loss, tcp, via).at(latency)


def _latency(name: str, said: link_keys.Links, seed: int) -> float | None:
    """Returns the latency from the scenario or the radio's preset, in s; None if neither has one."""
    if said.latency_ms is not None:
        return value(said.latency_ms, name, "latency", seed) / 1e3
    return named(said.radio).latency if said.radio else None


def _rates(name: str, said: link_keys.AnyLink, seed: int, where: str) -> tuple[float | Rate, float | Rate]:
    """Returns the rates of a link down and up: constant in bytes/s, or varying in time. `where` names the link in
    errors."""
    if said.trace:
        with recordings.told(where):
            return recordings.rates(name, said, seed)
    if said.radio:
        preset, mine = named(said.radio), int(generator(seed, f"radio of {name}").integers(2**62))
        down, up = (replace(synth(preset, HOUR, mine, way), latency=None) for way in WAYS)
        return down, up
    assert said.down_mbit_s is not None
    assert said.up_mbit_s is not None
    return (value(said.down_mbit_s, name, "down", seed) * MBIT, value(said.up_mbit_s, name, "up", seed) * MBIT)


@lru_cache(maxsize=64)
def transport(said: link_keys.Transport, model: link_keys.NetworkModel) -> Tcp:
    """Returns the TCP settings of links with this network model, which must not be `auto`."""
    windows = model == "windows"
    settings = {**said.model_dump(exclude={"window_mb"}), "model": "tcp" if windows else model, "windows": windows}
    return Tcp(window=round(said.window_mb * 1e6), **settings)


def faults(scenario: Scenario) -> Iterator[Fault]:
    """Yields a fault for each link whose recordings cannot be used; one recording of each link is tried."""
    every: list[tuple[Loc, link_keys.AnyLink]] = [
        *((("fleet", number, "link"), group.link) for number, group in enumerate(scenario.fleet)),
        *((("topology", name), said) for name, said in scenario.topology.items()),
        (("server", "link"), scenario.server.link),
    ]
    for loc, said in every:
        if said.trace:
            try:
                recordings.rates(str(loc[-1]), said, scenario.fleet_seed)
            except BadFile as error:
                yield Fault((*loc, "trace"), str(error))
            except BadScenario:  # the uplink is drawn: draws are checked with the fleet
                continue


def server(scenario: Scenario) -> Link:
    """Returns the server's link. Raises BadScenario if it cannot be made."""
    said = scenario.server.link
    down, up = _rates("server", said, scenario.fleet_seed, "server.link")
    tcp, latency = transport(scenario.network, scenario.network_model), said.latency_ms / 1e3
    return Link(up, down, latency, tcp=tcp, buffer=_buffer(said, scenario)).at(latency)


def _buffer(said: link_keys.Link | link_keys.Shared, scenario: Scenario) -> float:
    """Returns the size of a link's buffer in bytes, from the scenario or the kind of link; 0 if neither gives one."""
    if said.buffer_kb is None and said.kind and scenario.network_model == "windows":
        return link_keys.BUFFERS_KB[said.kind] * 1e3
    return (said.buffer_kb or 0.0) * 1e3


def topology(scenario: Scenario) -> Topology:
    """Returns the links that devices share, by direction and name. Raises BadScenario."""
    made: dict[Direction, dict[str, SharedLink]] = {"down": {}, "up": {}}
    for name, said in scenario.topology.items():
        rates = (1.0, 1.0) if said.airtime else _rates(name, said, scenario.fleet_seed, f"topology.{name}")
        for way, rate in zip(WAYS, rates, strict=True):
            made[way][name] = SharedLink(rate, said.behind, said.airtime, buffer=_buffer(said, scenario))
    return made

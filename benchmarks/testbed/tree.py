"""A fleet's network in namespaces: devices behind access points, a way, and the server's link.  Needs root.

    server - edge = gate ~ core = access point - device
                                = access point - device ...

Each `-` is a bare veth.  Each `=` is a veth that htb shapes in both directions before a droptail queue, between two
routers: in the sender's own host TCP would be told of the queue (small queues), and nothing would ever be dropped.  `~`
is the relay in user space, which only delays: half a round trip each way, as this kernel has no netem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network

from benchmarks.testbed import namespaces
from benchmarks.testbed.bench import relayed
from benchmarks.testbed.namespaces import LEFT, RIGHT, End, Pair
from emulator.lab.lab import Lab
from network.sharing.flow import SharedLink, as_rate

BURST = 3_000  # bytes of htb: two packets, as messages of different sizes should meet the same rate
QUEUE = 1_000_000  # bytes, where the scenario names no buffer, and before the relay: nothing waits there
BACKBONE = IPv4Network("10.78.0.0/16")


@dataclass(frozen=True)
class Tree:
    """The namespaces of all ends, and the server's address."""

    server: str
    address: str
    devices: Mapping[str, str]


def branch(number: int) -> IPv4Network:
    """Everything below the access point of that number; wire 0 leads up, and the others to its devices."""
    return IPv4Network(f"10.{100 + number}.0.0/16")


def ends(network: IPv4Network, wire: int) -> tuple[str, str]:
    """The addresses at a wire's ends: nearer the server, and nearer the devices."""
    first = int(network.network_address) + 256 * wire
    return str(IPv4Network((first, 24))[1]), str(IPv4Network((first, 24))[2])


def rtt(lab: Lab) -> float:
    """The one round trip of all devices, s.  Raises ValueError if theirs differ, as one relay carries them all."""
    found = {2 * (link.latency + lab.server_link.latency) for link in lab.links.values()}
    if len(found) != 1:
        raise ValueError(f"round trips are {sorted(found)} s; the testbed has one for all devices")
    return found.pop()


@contextmanager
def tree(lab: Lab) -> Iterator[Tree]:
    """The links of the lab's topology and the server's, built; all devices are behind one of them."""
    points = list(lab.topology["down"])
    routers = ["edge", "gate", "core", *points]
    with namespaces.spaces(1 + len(routers) + len(lab.fleet)) as (server, *others):
        placed = dict(zip([*routers, *lab.fleet], others, strict=True))
        for name in routers:
            namespaces.inside(placed[name], ("sysctl", "-qw", "net.ipv4.ip_forward=1"))
        gate, core = placed["gate"], placed["core"]
        with relayed(Pair(gate, core), [rtt(lab)], math.inf, QUEUE):
            address = _backbone(lab, server, placed["edge"], gate)
            _route(gate, "default", RIGHT)
            _route(core, "default", LEFT)
            for number, point in enumerate(points):
                _branch(lab, point, number, core, placed)
            yield Tree(server, address, {name: placed[name] for name in lab.fleet})


def _backbone(lab: Lab, server: str, edge: str, gate: str) -> str:
    """The server, and its link to the rest; the server's address."""
    link = lab.server_link
    queue = round(link.buffer) or QUEUE
    address, below = _join(server, edge, BACKBONE, 0)
    edges, gates = _join(edge, gate, BACKBONE, 1, link.mean("up"), link.mean("down"), queue)
    _route(server, "default", below)
    _route(edge, "default", gates)
    _route(gate, f"{address}/32", edges)
    return address


def _branch(lab: Lab, point: str, number: int, core: str, placed: Mapping[str, str]) -> None:
    """An access point, its link to the core, and its devices."""
    network, here = branch(number), placed[point]
    down, up = lab.topology["down"][point], lab.topology["up"][point]
    above, below = _join(core, here, network, 0, _rate(down), _rate(up), round(down.buffer) or QUEUE)
    _route(core, str(network), below)
    _route(here, "default", above)
    behind = [name for name in lab.fleet if lab.links[name].via == point]
    for wire, name in enumerate(behind, 1):
        above, _ = _join(here, placed[name], network, wire)
        _route(placed[name], "default", above)


def _rate(shared: SharedLink) -> float:
    return as_rate(shared.capacity).peak


def _join(
    above: str,
    below: str,
    network: IPv4Network,
    wire: int,
    down: float | None = None,
    up: float | None = None,
    queue: int = QUEUE,
) -> tuple[str, str]:
    """A wire between two namespaces, the upper nearer the server; the addresses of its ends."""
    upper, lower = ends(network, wire)
    device = f"w{network.network_address.packed[1]}-{wire}"
    namespaces.join((End(above, f"{device}d", upper, down), End(below, f"{device}u", lower, up)), queue, BURST)
    return upper, lower


def _route(name: str, destination: str, via: str) -> None:
    namespaces.run("ip", "-n", name, "route", "add", destination, "via", via)

"""The shared links between devices and the server, as TCP uses them (docs/design/network.md §1 and §2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from network.links.link import Link
from network.links.rate import Rate
from network.links.trace import Direction
from network.sharing.flow import SharedLink, Topology, as_rate


class Route(NamedTuple):
    """The queue and the bandwidths of the shared links on a device's way to the server, in one direction."""

    queue: float  # s that full buffers add to a round trip: the longest, because one link of a way is its bottleneck
    bandwidths: tuple[float, ...] = ()  # bytes/s of each, where the server's link is SimGrid's: shares depend on them


def routes(server: Link, topology: Topology) -> dict[tuple[Direction, str | None], Route]:
    """Returns the routes from each shared link to the server, by direction and the link's name; None is a device
    directly at the server's link.

    The server's uplink carries what devices download.
    """
    found: dict[tuple[Direction, str | None], Route] = {}
    roots: dict[Direction, float | Rate] = {"down": server.up, "up": server.down}
    for way, root in roots.items():
        shared, last = topology.get(way, {}), SharedLink(root, buffer=server.buffer)
        for via in (None, *shared):
            links = [last, *onwards(shared, via)]
            bandwidths = tuple(as_rate(each.capacity).peak for each in links if not each.airtime)
            found[way, via] = Route(max(each.queue for each in links), bandwidths if server.tcp.part < 1 else ())
    return found


def onwards(shared: Mapping[str, SharedLink], via: str | None) -> Iterator[SharedLink]:
    """Yields the shared links from `via` towards the server, without the server's own link; none if `via` is None."""
    while via is not None:
        yield shared[via]
        via = shared[via].parent

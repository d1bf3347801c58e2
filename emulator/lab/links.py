"""The links of a run at their places in their traces: the same in both worlds, in replays, and in what is planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from emulator.lab.loops import Loops
from emulator.lab.seeds import share
from network.links.link import Link
from network.sharing.flow import Topology
from scenarios.builders.roster import Made

MOVED = 128  # devices' links that are remembered: a generated one is some 4 MB


def places(seed: int) -> Callable[[str], float]:
    """Returns a function from a link's name to its place in its trace, as a share of the length, under this seed."""
    return partial(share, seed, "trace")


class LinksAtOffsets:
    """The server's link, those that devices share, and one of each device, which is made when it is asked for.

    `place` gives the place of a device, of a shared link or of the server in its traces, as a share of their length.
    """

    def __init__(
        self,
        server: Link,
        links: Mapping[str, Link],
        topology: Topology | None = None,
        place: Callable[[str], float] = lambda _: 0.0,
    ) -> None:
        self.place = place
        self.loops = Loops()  # of the traces that are replayed; of devices' links, of those that were made
        self.server = server.starting(place("server"))
        self.topology: Topology = {
            way: {name: each.starting(place(name)) for name, each in shared.items()}
            for way, shared in (topology or {}).items()
        }
        self.links = Made(links, lambda name: self._moved(links[name], name), keep=MOVED)
        self.loops.add(self.server.down, self.server.up)
        for shared in self.topology.values():
            self.loops.add(*(each.capacity for each in shared.values()))

    def _moved(self, link: Link, name: str) -> Link:
        if not link.varies:
            return link
        moved = link.starting(self.place(name))
        self.loops.add(moved.down, moved.up)
        return moved

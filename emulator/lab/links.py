"""A run's links at their offsets into their traces: the same in both worlds, in replays, and in forecasts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial

from emulator.lab.loops import Loops
from emulator.lab.seeds import share
from network.links.link import Link
from network.sharing.flow import Topology
from scenarios.builders.roster import Made

DRAWS = 15  # of a run's chance on full links, with the record's own
FEW = 2  # draws beside the record's that must equal it before no link counts as full
# Of seconds on full links: where repetitions agree, the model is off by so much (benchmarks/fidelity_shared.py).
NEAR = 0.03
MOVED = 128  # cached links of devices: a generated one takes some 4 MB


def places(seed: int) -> Callable[[str], float]:
    """Returns a function from the name of a link to the offset at which it starts in its trace, under this seed, as a
    share of the trace's length."""
    return partial(share, seed, "trace")


def band(seconds: Collection[float]) -> tuple[float, float]:
    """Returns the range of the seconds that DRAWS gave, widened by NEAR at each end."""
    return min(seconds) * (1 - NEAR), max(seconds) * (1 + NEAR)


class LinksAtOffsets:
    """The links of a run, each starting at an offset into its trace: the server's, the shared ones, and one for each
    device, made when it is first used.

    `place`: a function from the name of a device, a shared link or the server to its offset, as a share of the trace's
    length.
    """

    def __init__(
        self,
        server: Link,
        links: Mapping[str, Link],
        topology: Topology | None = None,
        place: Callable[[str], float] = lambda _: 0.0,
        draw: int = 0,
    ) -> None:
        self.place = place
        self.draw = draw
        self.loops = Loops()  # of replayed traces; of devices' links, only of those made so far
        self.server = server.starting(place("server"))
        self.topology: Topology = {
            way: {name: each.starting(place(name)) for name, each in shared.items()}
            for way, shared in (topology or {}).items()
        }
        self.links = Made(links, lambda name: self._moved(links[name], name), keep=MOVED)
        self.loops.add(self.server.down, self.server.up)
        for shared in self.topology.values():
            self.loops.add(*(each.capacity for each in shared.values()))

    @property
    def chance(self) -> Hashable:
        """The seed of what is chance for TCP on full links."""
        own = self.place("windows")
        return (own, self.draw) if self.draw else own

    def _moved(self, link: Link, name: str) -> Link:
        if not link.varies:
            return link
        moved = link.starting(self.place(name))
        self.loops.add(moved.down, moved.up)
        return moved

"""The bytes that each shared link (access point, cell, backhaul, server's link) carries in a round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from emulator.forecast.rehearsal import Rehearsal
from emulator.lab.lab import Lab
from emulator.lab.links import LinksAtOffsets
from emulator.record.events import TransferStarted
from network.links.rate import mean
from network.links.trace import Direction
from network.sharing.flow import SharedLink

SERVER = "the server's"  # name of the last row: all devices share the server's link


@dataclass(frozen=True)
class Carried:
    """Bytes that a shared link carries in one direction in a mean round of an algorithm."""

    nbytes: float
    seconds: float  # s that these bytes keep the link busy if nothing else delays them


@dataclass(frozen=True)
class FilledLink:
    """A shared link, and the bytes that it carries for each algorithm."""

    name: str
    airtime: bool  # without a rate of its own: devices send one after another, each at its own rate
    rates: Mapping[Direction, float | None]  # bytes/s, the mean for recordings; None for airtime
    carried: Mapping[str, Mapping[Direction, Carried]]  # by label


def shared_links(
    lab: Lab, seed: int, rehearsals: Mapping[str, Rehearsal], shares: Mapping[str, Mapping[int, float]]
) -> list[FilledLink]:
    """Returns the shared links of the scenario, the server's link last; empty if there is no other than the server's.

    `shares`: by label, the weights of the rehearsed rounds in the mean round.  Packet headers are not included.
    """
    placed = lab.placed(seed)
    links = _links(placed)
    if len(links["down"]) < 2:
        return []
    loads = {label: _loads(found, shares[label], placed) for label, found in rehearsals.items()}
    return [
        FilledLink(
            name,
            links["down"][name].airtime,
            {way: None if each[name].airtime else mean(each[name].capacity) for way, each in links.items()},
            {label: {way: load[way, name] for way in links} for label, load in loads.items()},
        )
        for name in links["down"]
    ]


def _links(placed: LinksAtOffsets) -> dict[Direction, dict[str, SharedLink]]:
    """Returns the shared links by direction and name, the server's last.

    Directions are those of devices: the server's uplink carries their downloads.
    """
    server = placed.server
    return {
        "down": {**placed.topology.get("down", {}), SERVER: SharedLink(server.up)},
        "up": {**placed.topology.get("up", {}), SERVER: SharedLink(server.down)},
    }


def _loads(
    found: Rehearsal, shares: Mapping[int, float], placed: LinksAtOffsets
) -> dict[tuple[Direction, str], Carried]:
    nbytes: defaultdict[tuple[Direction, str], float] = defaultdict(float)
    seconds: defaultdict[tuple[Direction, str], float] = defaultdict(float)
    links = _links(placed)
    for event in found.events:
        share = shares.get(event.round, 0.0)
        if not isinstance(event, TransferStarted) or not share:
            continue
        way, size, link = event.way, share * event.nbytes, placed.links[event.device]
        for name in _path(links[way], link.via):
            shared = links[way][name]
            nbytes[way, name] += size
            seconds[way, name] += size / (link.mean(way) if shared.airtime else mean(shared.capacity))
    return {(way, name): Carried(nbytes[way, name], seconds[way, name]) for way, each in links.items() for name in each}


def _path(links: Mapping[str, SharedLink], via: str | None) -> list[str]:
    """Returns the names of the shared links on the way from a device to the server; `via`: the first one, None if
    there is only the server's."""
    names = []
    while via is not None:
        names.append(via)
        via = links[via].parent
    return [*names, SERVER]

"""Checks that a round can end before its deadline, by the least seconds that a round takes: each device is alone on
its links."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

from devices.jitter import least
from emulator.lab.faulty import Faulty
from emulator.lab.jobs import message_sizes, start
from emulator.lab.lab import Lab
from emulator.messages.files import Memory
from emulator.pricing.costs import Costs
from emulator.record.run import Run
from emulator.results.units import rounded_up
from network.links.link import Link
from network.links.tcp import Connection, Sender
from network.links.trace import Direction
from network.sharing.flow import SharedLink, as_rate
from network.sharing.route import onwards
from scenarios.builders.roster import sample
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario
from scenarios.text.yaml_source import Loc

OPEN = Connection(-math.inf, Sender(math.inf, 0.0), Sender(math.inf, 0.0))  # long asked for, and past slow start
REQUESTS = 100  # rounds that are looked at for one in which the server has nothing to compute first


@dataclass(frozen=True)
class Alone:
    """The parts of a round of one device, in seconds, while no other device uses the links."""

    device: str
    down: float  # round trips, then the bytes at the lowest rate on their way
    compute: float
    up: float

    @property
    def seconds(self) -> float:
        return self.down + self.compute + self.up


def alone(lab: Lab, costs: Costs, name: str, kinds: Collection[str], down: int, up: int) -> Alone:
    """Returns the parts of the device's round for this many bytes of tensors down and up; `kinds`: the kinds in its
    download.

    Leaves out the headers of messages, some 20 bytes each, and the server's work.
    """
    link, server = lab.links[name], lab.server_link
    computing = costs.price(name, 0, kinds, ()).total_seconds

    def least(way: Direction, nbytes: int) -> float:
        return _least(link, server, way, nbytes, lab.topology.get(way, {}))

    return Alone(name, least("down", down), computing, least("up", up))


def _least(link: Link, server: Link, way: Direction, nbytes: int, shared: Mapping[str, SharedLink]) -> float:
    """Returns the least seconds of a transfer: on a connection that is open already, with each link on the way at
    its highest rate."""
    passage = link.at_best(way, nbytes, server.latency, OPEN)
    beyond = [as_rate(each.capacity).peak for each in onwards(shared, link.via) if not each.airtime]
    rate = server.rate("up" if way == "down" else "down").peak
    return passage.delay + passage.wire / min(passage.link.peak, rate, *beyond)


def all_alone(lab: Lab, label: str, seed: int, kinds: Collection[str], down: int) -> dict[str, Alone]:
    """Returns {device: Alone} for a sample of the fleet, or for all of a small fleet; equal devices are computed once.

    `kinds` and `down`: the kinds and bytes of the download.
    """
    costs, (_, up) = Costs(lab, label, seed), message_sizes(lab, Run(label, seed))
    known: dict[tuple[str, Link, int], Alone] = {}
    found = {}
    for name in sample(lab.fleet):
        alike = (lab.fleet[name].profile.name, lab.links[name], len(lab.held(seed, name)))
        if alike not in known:
            known[alike] = alone(lab, costs, name, kinds, down, up)
        found[name] = replace(known[alike], device=name)
    return found


def check_deadline(lab: Lab, scenario: Scenario) -> None:
    """Raises BadScenario if `rounds.deadline_s` is shorter than any round could be.

    The bound is the model's download, the least work, and the upload of all kinds, on links that nobody shares.  A
    round may still miss a longer deadline; a rehearsal shows that.
    """
    seed, short = scenario.seeds[0], list[tuple[float, str, Loc]]()
    for n, entry in enumerate(scenario.algorithms):
        label, rounds = entry.name, scenario.under(entry.name).rounds
        deadline, needed = rounds.deadline_s, rounds.min_replies
        if deadline is None or label not in lab.algorithms:
            continue
        try:
            last = _last_of(lab, label, seed, needed)
            server = _least_request(lab, label, seed, rounds.max)
        except Faulty:  # its runs will tell
            continue
        if server + last.seconds > deadline:
            own = "deadline_s" in (entry.options.get("rounds") or {})
            place: Loc = ("algorithms", n, entry.key, "rounds") if own else ("rounds",)
            why = _too_short(deadline, label, needed, last, server)
            short.append((server + last.seconds, why, (*place, "deadline_s")))
    if short:
        _, why, place = max(short, key=itemgetter(0))
        raise BadScenario(why, place)


def _last_of(lab: Lab, label: str, seed: int, needed: int) -> Alone:
    """Returns the round of the slowest among the `needed` devices that could answer first."""
    model = start(lab, Memory(), Run(label, seed)).weights.nbytes
    devices = [
        replace(one, compute=one.compute * least(lab.fleet[one.device].profile.jitter))  # batches at their quickest
        for one in all_alone(lab, label, seed, ("weights",), model).values()
    ]
    place = (needed - 1) * len(devices) // len(lab.fleet)
    return sorted(devices, key=lambda one: (one.seconds, one.device))[place]


def _least_request(lab: Lab, label: str, seed: int, rounds: int) -> float:
    """Returns the seconds for which the server computes before it asks devices, in the round that needs least."""
    costs = Costs(lab, label, seed)
    return min(costs.request(round).total_seconds for round in range(min(rounds, REQUESTS)))


def _too_short(deadline: float, label: str, needed: int, last: Alone, server: float) -> str:
    nth = "" if needed == 1 else f", the last of the {needed} fastest to answer (min_replies)"
    parts = [f"{part} {getattr(last, part):.3g} s" for part in ("down", "compute", "up")]
    first = [f"server {server:.3g} s"] if server else []
    total = server + last.seconds
    return (
        f"it is {deadline:g}, but {label} needs at least {total:.3g} s even on {last.device}{nth} "
        f"({', '.join([*first, *parts])}); allow {rounded_up(total):g} or more"
    )

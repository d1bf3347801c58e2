"""The changes that a replay makes: constant or recorded rates of links, the server's link, speeds, or another fleet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from devices.device import Device, Profile
from emulator.replay.bare import Setting
from emulator.results.units import joined
from network.foreign_files import BadFile
from network.links.link import Link
from network.links.trace import Direction, Trace
from network.traces.read import FORMATS
from network.traces.trace_folders import find, gather, summed, there
from scenarios.builders.filling import Peaks
from scenarios.builders.machines import base_name
from scenarios.builders.roster import Made, sample
from scenarios.schema.scenario import Scenario
from scenarios.text.dimensions import NUMBER, RATE
from scenarios.text.faults import did_you_mean

Capacity = float | Trace  # bytes/s
ASSUMED = "assumed: "  # begins a sentence on something that a recording lacks
LIKE_A_RATE = re.compile(rf"\s*(?:{NUMBER})\s*[A-Za-z/]*\s*")


@dataclass(frozen=True)
class Condition:
    """A row of a replay's table: new links and speeds that apply to all devices, and assumptions about them."""

    name: str
    down: Capacity | None = None  # None: as in the scenario
    up: Capacity | None = None
    latency: float | None = None  # s, one way
    server_rate: float | None = None  # bytes/s, both ways
    speed: float | None = None  # FLOP/s of all devices
    slower: Mapping[str, float] = field(default_factory=dict)  # by profile: factor of all seconds of computing
    draw: int = 0  # number of TCP's chances on full links; 0: those of the record
    assumptions: tuple[str, ...] = ()

    @property
    def guessed(self) -> bool:
        """True if an assumption replaces something that a recording lacks, such as an uplink."""
        return any(said.startswith(ASSUMED) for said in self.assumptions)

    @property
    def peaks(self) -> Peaks:
        """The highest rates of the links in bytes/s, with None for those that stay as in the scenario."""
        down, up = (rate.peak if isinstance(rate, Trace) else rate for rate in (self.down, self.up))
        return Peaks(down, up, self.server_rate)

    def setting(self, base: Setting) -> Setting:
        """Returns the setting `base` with the links and speeds of this condition."""
        links = Made(base.links, partial(self._link, base.links))
        server = base.server_link
        if self.server_rate is not None:
            server = replace(server, up=self.server_rate, down=self.server_rate)
        fleet = base.fleet if self.speed is None else at_speed(base.fleet, self.speed)
        host = base.server
        if self.slower:
            fleet, host = Made(fleet, partial(_slowed, fleet, self.slower)), _slow(host, self.slower)
        own = replace(base, name=self.name, fleet=fleet, links=links, server=host, server_link=server)
        return replace(own, draw=self.draw)

    def _link(self, links: Mapping[str, Link], name: str) -> Link:
        return self.link(links[name])

    def link(self, link: Link) -> Link:
        """Returns a device's link under this condition.

        If its new rates are a recording, it is behind no cell or access point: the recording already contains the share
        of one.
        """
        made = replace(
            link,
            up=link.up if self.up is None else self.up,
            down=link.down if self.down is None else self.down,
            via=None if self._traces else link.via,
        )
        return made if self.latency is None else made.at(self.latency)

    @property
    def _traces(self) -> list[Trace]:
        return [way for way in (self.down, self.up) if isinstance(way, Trace)]

    def about(self, base: Setting) -> tuple[str, ...]:
        """Returns sentences on what is assumed when this condition replaces the links of `base`."""
        return *self.assumptions, *(self._of_traces(base) if self._traces else self._of_stations(base))

    def _of_stations(self, base: Setting) -> Iterator[str]:
        if (self.down or self.up) and (stations := _stations(base)):
            yield f"devices behind {joined(stations)} stay there, and share what the scenario says"

    def _of_traces(self, base: Setting) -> Iterator[str]:
        if any(trace.kind == "achieved" for trace in self._traces):
            yield "the rates are a download's throughput, an upper bound for other transfers"
        yield from dict.fromkeys(trace.remark for trace in self._traces if trace.remark)
        if self.latency is None and any(trace.latency is not None for trace in self._traces):
            yield "latencies are those of the trace instead of the link's"
        if stations := _stations(base):
            cells = ", ".join(stations)
            share = "a recorded link already contains its share of a cell"
            yield f"{share}, so it is not behind {cells}"


def _stations(base: Setting) -> list[str]:
    """Returns the names of the access points and cells that devices are behind."""
    if not any(base.topology.values()):
        return []
    found = {base.links[name].via for name in sample(base.links)}
    return sorted(via for via in found if via)


@dataclass(frozen=True)
class Uplink:
    """The source of uplinks: files, or a share of the downlink for recordings without an uplink."""

    files: Sequence[str] = ()
    ratio: float | None = None  # uplink as a share of the downlink
    symmetric: bool = False

    @property
    def share(self) -> float | None:
        return 1.0 if self.symmetric else self.ratio


@dataclass(frozen=True)
class FoundRates:
    """The rates of one recording, or one constant rate."""

    name: str
    down: Capacity | None = None
    up: Capacity | None = None


def links_from(
    downs: Sequence[str], uplink: Uplink, format: str | None = None, tell: Callable[[str], None] = lambda _: None
) -> Iterator[Condition]:
    """Yields a condition for each downlink: a trace file, a folder of trace files, or a rate such as 10Mbit/s.

    Without a downlink, yields a condition for each uplink, in which the scenario's downlinks stay.  `format`: of all
    files.  `tell` is called with a line about skipped files of a folder.  Raises ValueError, in one sentence, for a
    damaged file, and for a downlink whose uplink is not known.
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"--from {format}: there is no such format; {did_you_mean(format, FORMATS)}")
    ups = _all_found(uplink.files, "up", format, tell)
    if not downs:
        yield from (Condition(found.name, up=found.up) for found in ups)
        return
    found = _all_found(downs, "down", format, tell)
    if len(ups) not in (0, 1, len(found)):
        raise ValueError(f"--up names {len(ups)} uplinks for {len(found)} downlinks; give 1, or as many")
    for number, down in enumerate(found):
        yield _paired(down, ups[number % len(ups)] if ups else None, uplink)


def _paired(down: FoundRates, above: FoundRates | None, uplink: Uplink) -> Condition:
    """Returns the condition for a downlink.

    The uplink is `above` if one was named, otherwise the recorded one, otherwise an assumed share of the downlink.
    Raises ValueError if there is none of these.
    """
    assert down.down is not None
    share = uplink.share
    if above is not None:
        return Condition(down.name, down.down, above.up, assumptions=(f"the uplink is {above.name}",))
    if down.up is not None:
        unused = () if share is None else ("the uplink is the recorded one, and none is assumed",)
        return Condition(down.name, down.down, down.up, assumptions=unused)
    if share is None:
        raise ValueError(
            f"{down.name} is a downlink only, and says nothing about the uplink; add --up TRACE, --up-ratio 0.2 or "
            "--symmetric"
        )
    up = down.down.scaled(share) if isinstance(down.down, Trace) else down.down * share
    said = "the uplink is as fast as the downlink" if share == 1 else f"uplink = {share:g} x downlink"
    return Condition(down.name, down.down, up, assumptions=(f"{ASSUMED}{said}",))


def _all_found(
    names: Sequence[str],
    way: Direction,
    format: str | None,
    tell: Callable[[str], None],
) -> list[FoundRates]:
    return [found for name in names for found in _found(name, way, format, tell)]


def _found(name: str, way: Direction, format: str | None, tell: Callable[[str], None]) -> Iterator[FoundRates]:
    place = find(name, os.environ.get("FEDLAPSE_DATA"))
    if LIKE_A_RATE.fullmatch(name) and not there(place):
        rate = _rate(name)
        yield FoundRates(name, rate, None) if way == "down" else FoundRates(name, None, rate)
        return
    try:
        gathered = gather(place, way, format)
    except BadFile as error:
        raise ValueError(f"{error} with --from" if error.lacks == "format" else str(error)) from None
    if gathered.passed:
        tell(f"left out of {name}: {summed(gathered.passed)}")
    for each in gathered.recordings:
        yield FoundRates(each.path.name, each.traces.get("down"), each.traces.get("up"))


def _rate(name: str) -> float:
    try:
        return RATE.value(name)
    except ValueError as error:
        raise ValueError(f"{error}; nor is there such a file") from None


def onto(own: Setting, other: Scenario) -> tuple[Setting, str]:
    """Returns the record's devices with the machines and links of another scenario, and a phrase on how they were
    matched.

    Devices are matched by name if the other scenario has all the names, otherwise one to one in the order of names,
    evenly spaced if it has more devices.  Raises ValueError if it has fewer.
    """
    new = Setting.of(other)
    if own.fleet.keys() <= new.fleet.keys():
        matched, said = {name: name for name in own.fleet}, "devices matched by name"
    elif len(new.fleet) < len(own.fleet):
        raise ValueError(
            f"the fleet of {other.name} has {len(new.fleet)} devices and the run {len(own.fleet)}; a replay needs as "
            "many or more"
        )
    else:
        names, step = list(new.fleet), len(new.fleet) / len(own.fleet)
        matched = {name: names[int(number * step)] for number, name in enumerate(own.fleet)}
        said = f"assumed: devices matched in the order of names, for example {next(iter(own.fleet))} = {names[0]}"
    fleet = Made(own.fleet, partial(_in_place, new.fleet, matched))
    links = Made(own.fleet, partial(_link_in_place, new.links, matched))
    return replace(new, name=other.name, fleet=fleet, links=links), f"fleet and server of {other.name}; {said}"


def _in_place(fleet: Mapping[str, Device], matched: Mapping[str, str], name: str) -> Device:
    return replace(fleet[matched[name]], name=name)


def _link_in_place(links: Mapping[str, Link], matched: Mapping[str, str], name: str) -> Link:
    return links[matched[name]]


def at_speed(fleet: Mapping[str, Device], flops_per_s: float) -> Mapping[str, Device]:
    """Returns the devices, all computing at one speed (FLOP/s)."""
    return Made(fleet, partial(_at_speed, fleet, flops_per_s))


def _at_speed(fleet: Mapping[str, Device], flops_per_s: float, name: str) -> Device:
    return replace(fleet[name], profile=_faster(fleet[name].profile, flops_per_s))


def _slowed(fleet: Mapping[str, Device], slower: Mapping[str, float], name: str) -> Device:
    return _slow(fleet[name], slower)


def _slow(device: Device, slower: Mapping[str, float]) -> Device:
    times = slower.get(base_name(device.profile), 1.0)
    return device if times == 1 else replace(device, profile=device.profile.slower(times))


@lru_cache(maxsize=1024)
def _faster(profile: Profile, flops_per_s: float) -> Profile:
    """Returns the profile at this speed, under another name, because profiles with equal names are priced as equal
    machines."""
    return replace(profile.one_speed, name=f"{profile.name} at {flops_per_s:g} FLOP/s", flops_per_s=flops_per_s)

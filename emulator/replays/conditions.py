"""What a replay changes: links that are constant or traced, the server's link, another fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

from devices.device import Device, Profile
from emulator.quantities import RATE
from emulator.replays.bare import Setting
from emulator.seeds import share
from network.link import Link
from network.trace import Direction, Trace
from network.traces.read import DEVICES, BadTrace, read, recognise
from scenarios.roster import Made, some
from scenarios.schema import Scenario

Capacity = float | Trace  # bytes/s


@dataclass(frozen=True)
class Condition:
    """A row of a replay's table: what all devices' links are, where it says so, and what was assumed about them."""

    name: str
    down: Capacity | None = None  # None: as in the scenario
    up: Capacity | None = None
    latency: float | None = None  # s, one way
    server_rate: float | None = None  # bytes/s, both ways
    speed: float | None = None  # FLOP/s of all devices
    assumptions: tuple[str, ...] = ()

    def setting(self, base: Setting) -> Setting:
        """What it makes of a setting."""
        links = Made(base.links, partial(self._link, base.links))
        server = base.server_link
        if self.server_rate is not None:
            server = replace(server, up=self.server_rate, down=self.server_rate)
        fleet = base.fleet if self.speed is None else at_speed(base.fleet, self.speed)
        return replace(base, name=self.name, fleet=fleet, links=links, server_link=server)

    def _link(self, links: Mapping[str, Link], name: str) -> Link:
        return self.link(links[name])

    def link(self, link: Link) -> Link:
        """What it makes of a device's link.  A recorded one contains its share of a cell, so it is behind none."""
        traced = isinstance(self.down, Trace) or isinstance(self.up, Trace)
        made = replace(
            link,
            up=link.up if self.up is None else self.up,
            down=link.down if self.down is None else self.down,
            via=None if traced else link.via,
        )
        return made if self.latency is None else made.at(self.latency)


def loops(setting: Setting, seed: int, end: float) -> int:
    """How often the most repeated trace has started over by then, in one seed's runs."""
    varying = ((name, setting.links[name]) for name in some(setting.links))
    links = [link.starting(share(seed, "trace", name)) for name, link in varying if link.varies]
    ways = [way for link in links for way in (link.up, link.down)]
    return max((way.loops(0.0, end) for way in ways if isinstance(way, Trace)), default=0)


@dataclass(frozen=True)
class Uplink:
    """Where uplinks come from, when a trace has none."""

    files: Sequence[str] = ()
    ratio: float | None = None  # of the downlink
    symmetric: bool = False


@dataclass(frozen=True)
class Found:
    """The rates of one file, or of one number."""

    name: str
    down: Capacity | None = None
    up: Capacity | None = None
    said: tuple[str, ...] = field(default=())  # about it


def links_from(downs: Sequence[str], uplink: Uplink) -> Iterator[Condition]:
    """A condition for each downlink: a trace file, a folder of them, or a rate as 10Mbit/s.

    Without a downlink the scenario's stay, and each uplink is a condition.  Raises ValueError, in one sentence, for a
    damaged file, and for a downlink without an uplink where nothing says what it is.
    """
    ups = list(_found(uplink.files, "up"))
    if not downs:
        yield from (Condition(found.name, up=found.up, assumptions=found.said) for found in ups)
        return
    found = list(_found(downs, "down"))
    if len(ups) not in (0, 1, len(found)):
        raise ValueError(f"--up names {len(ups)} uplinks for {len(found)} downlinks; give 1, or as many")
    for number, down in enumerate(found):
        above = ups[number % len(ups)] if ups else None
        yield _paired(down, above, uplink)


def _paired(down: Found, above: Found | None, uplink: Uplink) -> Condition:
    if above is not None:
        said = f"uplink from {above.name}"
        return Condition(down.name, down.down, above.up, assumptions=(*down.said, *above.said, said))
    assert down.down is not None
    ratio = 1.0 if uplink.symmetric else uplink.ratio
    if ratio is not None:
        said = (
            "assumed: the uplink is as fast as the downlink"
            if ratio == 1
            else f"assumed: uplink = {ratio:g} x downlink"
        )
        up = down.down.scaled(ratio) if isinstance(down.down, Trace) else down.down * ratio
        return Condition(down.name, down.down, up, assumptions=(*down.said, said))
    if down.up is None:
        raise ValueError(
            f"{down.name} is a downlink only, and says nothing about the uplink; add --up TRACE, --up-ratio 0.2 or "
            "--symmetric"
        )
    return Condition(down.name, down.down, down.up, assumptions=down.said)


def _found(names: Sequence[str], way: Direction) -> Iterator[Found]:
    for name in names:
        path = Path(name)
        if path.is_dir():
            yield from _in_folder(path, way)
        elif name[:1].isdigit() and not path.exists():
            rate = RATE.value(name)
            yield Found(name, rate, None) if way == "down" else Found(name, None, rate)
        else:
            yield _read(path, way)


def _in_folder(folder: Path, way: Direction) -> Iterator[Found]:
    """Every trace in it; a pair of files NAME.down and NAME.up is one."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name[0] != ".")
    pairs = {file.with_suffix("") for file in files if file.suffix == ".down" and file.with_suffix(".up") in files}
    paths = dict.fromkeys(path for file in files if (path := _one_of(file, pairs)) is not None)
    if not paths:
        raise ValueError(f"{folder} holds no trace; give a folder of trace files, or the files")
    yield from (_read(path, way) for path in paths)


def _one_of(file: Path, pairs: set[Path]) -> Path | None:
    """The pair that it belongs to, or itself if it is the trace of a link."""
    if file.suffix in (".down", ".up") and file.with_suffix("") in pairs:
        return file.with_suffix("")
    try:
        return file if recognise(file) not in DEVICES else None
    except BadTrace:
        return None  # a text about the traces, say; a file that is named is never passed over


def _read(path: Path, way: Direction) -> Found:
    """Raises BadTrace, or ValueError for a trace that carries nothing at all."""
    traces = {trace.direction: trace for trace in read(path)} if way == "down" else {"up": read(path, None, "up")[0]}
    for trace in traces.values():
        if not trace.mean > 0:
            raise ValueError(f"{path} carries no byte {trace.direction}; nothing would ever arrive")
    if way not in traces:
        raise ValueError(f"{path} is an uplink; give it with --up")
    said = ["achieved throughput: an upper bound of what others would get"] * any(
        trace.kind == "achieved" for trace in traces.values()
    )
    if any(trace.latency is not None for trace in traces.values()):
        said.append("the trace's latencies win over the link's")
    return Found(path.name, traces.get("down"), traces.get("up"), tuple(said))


def onto(own: Setting, other: Scenario) -> tuple[Setting, str]:
    """The record's devices on another scenario's machines and links, and how they were matched.

    By name if all of them are there, else one to one in the order of names, evenly spaced where there are more.
    Raises ValueError if there are fewer.
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
        said = f"assumed: devices matched in the order of names, as {next(iter(own.fleet))} = {names[0]}"
    fleet = Made(own.fleet, partial(_in_place, new.fleet, matched))
    links = Made(own.fleet, partial(_link_in_place, new.links, matched))
    return replace(new, name=other.name, fleet=fleet, links=links), f"fleet and server of {other.name}; {said}"


def _in_place(fleet: Mapping[str, Device], matched: Mapping[str, str], name: str) -> Device:
    return replace(fleet[matched[name]], name=name)


def _link_in_place(links: Mapping[str, Link], matched: Mapping[str, str], name: str) -> Link:
    return links[matched[name]]


def at_speed(fleet: Mapping[str, Device], flops_per_s: float) -> Mapping[str, Device]:
    """The same devices, all computing at one speed."""
    return Made(fleet, partial(_at_speed, fleet, flops_per_s))


def _at_speed(fleet: Mapping[str, Device], flops_per_s: float, name: str) -> Device:
    return replace(fleet[name], profile=_faster(fleet[name].profile, flops_per_s))


@lru_cache(maxsize=1024)
def _faster(profile: Profile, flops_per_s: float) -> Profile:
    """With a name of its own: equal names are priced as equal machines."""
    return replace(profile, name=f"{profile.name} at {flops_per_s:g} FLOP/s", flops_per_s=flops_per_s)

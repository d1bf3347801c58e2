"""Reads the recorded links that a scenario names, and chooses the file that each device replays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from numpy.random import Generator

from network.foreign_files import BadFile, bad
from network.links.trace import Direction, Trace
from network.traces.trace_folders import Gathered, Traces, find, gather, summed
from scenarios.builders.own_code import kept_for_a_call
from scenarios.builders.random_values import generator, value
from scenarios.schema import link_keys
from scenarios.text.faults import BadScenario

MBIT = 1e6 / 8  # bytes
WAYS: tuple[Direction, Direction] = ("down", "up")


def rates(name: str, said: link_keys.AnyLink, seed: int) -> tuple[Trace, float | Trace]:
    """Returns the rates down and up of a device's link or a shared link: a randomly drawn recording for each, or for
    the uplink a constant number in bytes/s.

    Raises BadFile for files that are damaged, or from which the link cannot be determined.
    """
    assert said.trace
    mine = generator(seed, f"trace of {name}")
    downs = _recordings(said.trace, "down")
    number = int(mine.integers(len(downs)))
    down = downs[number]["down"]
    up: float | Trace
    if said.up_mbit_s is None:
        up = _uplink(downs, number, said.trace, mine)
    else:
        up = value(said.up_mbit_s, name, "up", seed) * MBIT
    if not isinstance(said, link_keys.Links):
        _refuse_achieved((down, up), "")
    elif said.via:
        _refuse_achieved((down, up), "leave link.via out, or ")
    return down, up


def _refuse_achieved(rates: Sequence[float | Trace], hint: str) -> None:
    """Raises BadFile if one of the rates is the recorded throughput of a single transfer, which devices cannot share.
    `hint`: what else the user may do."""
    for trace in rates:
        if isinstance(trace, Trace) and trace.kind == "achieved":
            reason = "is throughput that one transfer had, an upper bound that cannot be shared"
            raise bad(trace.name, None, f"{reason}; {hint}replay a capacity trace")


@contextmanager
def told(where: str) -> Iterator[None]:
    """A context that turns a BadFile into a BadScenario whose message begins with `where`, the name of the link."""
    try:
        yield
    except BadFile as error:
        raise BadScenario(f"{where}: {error}") from None


def notes(said: link_keys.AnyLink) -> Iterator[str]:
    """Yields remarks about the recordings of a link, each a part of a sentence for the user.

    Raises BadFile for recordings that cannot be read.
    """
    assert said.trace
    recorded = _recordings(said.trace, "down")
    yield from _assumed_uplinks(said.trace, recorded)
    yield from _passed(said.trace)
    downs = [each["down"] for each in recorded]
    if any(down.kind == "achieved" for down in downs):
        yield "what was recorded is the throughput of downloads, an upper bound for other transfers"
    yield from dict.fromkeys(down.remark for down in downs if down.remark)
    yield from _latencies(said, downs)


def _latencies(
    said: link_keys.AnyLink,
    downs: Sequence[Trace],
) -> Iterator[str]:
    """Yields remarks about recorded latencies that are not used, and about links for which no latency is known."""
    if not isinstance(said, link_keys.Links):
        if any(down.latency is not None or down.loss is not None for down in downs):
            yield "recorded latencies and losses are left out: what is shared has none, links have their own"
    elif said.latency_ms is None and any(down.latency is None for down in downs):
        yield "no latency was recorded or is said, so it is taken to be 0; give link.latency_ms"


def _assumed_uplinks(said: link_keys.Recorded, recorded: Sequence[Traces]) -> Iterator[str]:
    """Yields a remark if uplinks were not recorded, or not all, and are derived from the downlinks."""
    if said.up_ratio is None and not said.symmetric:
        return
    own = sum("up" in each for each in recorded)
    fast = "as fast as" if said.symmetric else f"{said.up_ratio:g} x"
    if not own:
        source = f" ({said.up_source})" if said.up_source else ""
        yield f"their uplink is taken to be {fast} the recorded downlink{source}"
    elif own < len(recorded):
        others = f"that of the others is taken to be {fast} the downlink"
        yield f"{own} of {len(recorded)} recordings have an uplink, which is replayed; {others}"
    else:
        key = "symmetric" if said.symmetric else "up_ratio"
        yield f"their recordings have an uplink, which is replayed; {key} is said of none"


def _passed(said: link_keys.Recorded) -> Iterator[str]:
    """Yields a remark for each folder of recordings in which files are skipped."""
    for way in WAYS:
        for path in link_keys.listed(said.down if way == "down" else said.up):
            if passed := _gathered((place(path),), said.format, way, Path.cwd()).passed:
                yield f"left out of {path}: {summed(passed)}"


def _uplink(downs: Sequence[Traces], number: int, said: link_keys.Recorded, mine: Generator) -> Trace:
    """Returns the uplink for the downlink with this number: one of the scenario's uplinks (that of the same number if
    there are as many, otherwise a drawn one), or else the recorded one, or else an assumed one."""
    down = downs[number]["down"]
    if said.up is not None:
        ups = _recordings(said, "up")
        return ups[number if len(ups) == len(downs) else int(mine.integers(len(ups)))]["up"]
    if "up" in downs[number]:
        return downs[number]["up"]
    if said.up_ratio is not None:
        return down.scaled(said.up_ratio)
    if said.symmetric:
        return down
    raise bad(down.name, None, "is a downlink only; give up_mbit_s, or trace.up, up_ratio (0.2, say) or symmetric")


@kept_for_a_call(maxsize=64)
def _gathered(
    places: tuple[Path, ...],
    format: str | None,
    way: Direction,
    here: Path,  # noqa: ARG001  the folder from which the places are seen
) -> Gathered:
    """Returns all recordings at these places for that direction, each with its other direction if the file has both.

    Raises BadFile also for a damaged recording in a folder, because without it devices would draw other files.
    """
    found = [gather(place, way, format) for place in places]
    passed = tuple(file for each in found for file in each.passed)
    for file in passed:
        if file.damaged:
            raise file.damaged
    return Gathered(tuple(recording for each in found for recording in each.recordings), passed)


def _recordings(said: link_keys.Recorded, way: Direction) -> list[Traces]:
    """Returns the recordings of a direction ("down" or "up") that a link names."""
    places = tuple(place(path) for path in link_keys.listed(said.down if way == "down" else said.up))
    return [each.traces for each in _gathered(places, said.format, way, Path.cwd()).recordings]


def place(path: str) -> Path:
    """Returns the path of a file, a folder or a pair of files that a scenario names: seen from the working directory,
    or from the folder of data. Raises BadFile."""
    return find(path, os.environ.get("FEDLAPSE_DATA"))

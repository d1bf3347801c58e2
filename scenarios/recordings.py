"""Recorded links that a scenario names: which files they are, and which of them a device replays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from numpy.random import Generator, default_rng

from network.trace import Direction, Trace
from network.traces.read import FORMATS, BadTrace, read, recognise
from scenarios import links
from scenarios.drawing import value
from scenarios.faults import BadScenario
from scenarios.schema import Scenario

MBIT = 1e6 / 8  # bytes

Recording = Mapping[Direction, Trace]  # of one file, or of a pair


def rates(name: str, said: links.Links, seed: int) -> tuple[Trace, float | Trace]:
    """What is replayed down and up on the link of one device: of the files, one that is drawn.

    Raises BadScenario for files that are damaged, or do not say what the link is.
    """
    assert said.trace
    mine = default_rng([seed, *f"trace of {name}".encode()])
    downs = _recordings(_places(said.trace.down), said.trace.format, "down", Path.cwd())
    number = int(mine.integers(len(downs)))
    down = downs[number]["down"]
    up = value(said.up_mbit_s, name, "up", seed) * MBIT if said.up_mbit_s is not None else None
    both = down, _uplink(downs, number, said.trace, mine) if up is None else up
    for trace in both:
        if said.via and isinstance(trace, Trace) and trace.kind == "achieved":
            raise BadScenario(
                f"fleet: {trace.name} is throughput that one transfer had, an upper bound that cannot be shared; leave "
                f"link.via out, or replay a capacity trace"
            )
    return both


def assumptions(scenario: Scenario) -> Iterator[str]:
    """What is taken for granted about links, a line each.  Raises BadScenario for recordings that cannot be read."""
    for group in scenario.fleet:
        if (said := group.link.trace) is None:
            continue
        called = group.name or group.profile
        if said.up_ratio is not None:
            yield f"{called}: their uplink is taken to be {said.up_ratio:g} x the recorded downlink"
        if said.symmetric:
            yield f"{called}: their uplink is taken to be as fast as the recorded downlink"
        downs = [each["down"] for each in _recordings(_places(said.down), said.format, "down", Path.cwd())]
        if any(down.kind == "achieved" for down in downs):
            yield f"{called}: what was recorded is the throughput of downloads, an upper bound for other transfers"
        if group.link.latency_ms is None and any(down.latency is None for down in downs):
            yield f"{called}: no latency was recorded or is said, so it is taken to be 0; give link.latency_ms"
    models = sorted({group.link.model or scenario.network.model for group in scenario.fleet})
    if len(models) > 1:
        yield f"links of the models {' and '.join(models)} meet at the server, and their shares of it do not compare"


def _uplink(downs: Sequence[Recording], number: int, said: links.Traces, mine: Generator) -> Trace:
    """What goes with a downlink.  As many uplinks as downlinks go in pairs, else one is drawn."""
    down = downs[number]["down"]
    if said.up_ratio is not None:
        return _part(down, said.up_ratio)
    if said.symmetric:
        return down
    if said.up is not None:
        ups = _recordings(_places(said.up), said.format, "up", Path.cwd())
        return ups[number if len(ups) == len(downs) else int(mine.integers(len(ups)))]["up"]
    if "up" not in downs[number]:
        raise BadScenario(
            f"fleet: {down.name} is a downlink only; give link.up_mbit_s, or trace.up, up_ratio (0.2, say) or symmetric"
        )
    return downs[number]["up"]


@lru_cache(maxsize=256)
def _part(trace: Trace, ratio: float) -> Trace:
    """Made once: a trace may be long, and a thousand devices may replay it."""
    return trace.scaled(ratio)


@lru_cache(maxsize=64)
def _recordings(
    places: tuple[Path, ...],
    format: str | None,
    way: Direction,
    here: Path,  # noqa: ARG001  the folder from which the places are seen
) -> list[Recording]:
    """All that were recorded in that direction, each with its other direction if the file has both."""
    found = [recording for place in places for recording in _at(place, format, way)]
    if not found:
        raise BadScenario(f"fleet: {', '.join(map(str, places))} holds no {way}link trace")
    for recording in found:
        if not recording[way].mean > 0:
            raise BadScenario(f"fleet: {recording[way].name} carries no byte {way}; nothing would ever arrive")
    return found


def _at(place: Path, format: str | None, way: Direction) -> Iterator[Recording]:
    """What a file holds; or of a folder each of its traces that has this direction."""
    try:
        if not place.is_dir():
            yield _read(place, format, way)
            return
        files = sorted(file for file in place.iterdir() if file.is_file() and file.name[0] != ".")
    except BadTrace as error:
        raise BadScenario(f"fleet: {error}") from None
    except OSError as error:
        raise BadScenario(f"fleet: {error.strerror}: {place}") from None
    pairs = {file.with_suffix("") for file in files if file.suffix == ".down" and file.with_suffix(".up") in files}
    for path in dict.fromkeys(file.with_suffix("") if file.with_suffix("") in pairs else file for file in files):
        if path in pairs or _is_trace(path):
            try:
                recording = _whole(path, format, way)
            except BadTrace as error:
                raise BadScenario(f"fleet: {error}") from None
            if way in recording:
                yield recording


def _is_trace(file: Path) -> bool:
    """Whether a file in a folder is the trace of a link: others may lie there, as a README."""
    try:
        return recognise(file) in FORMATS
    except BadTrace as error:
        return "name its format" in str(error)


def _read(path: Path, format: str | None, way: Direction) -> Recording:
    """The traces of a file that must have this direction.  Raises BadTrace."""
    found = _whole(path, format, way)
    return found if way in found else {trace.direction: trace for trace in read(path, format, way)}


def _whole(path: Path, format: str | None, way: Direction) -> Recording:
    """Both directions, if it has them; a Mahimahi file without a suffix is of the one wanted.  Raises BadTrace."""
    try:
        traces = read(path, format)
    except BadTrace:
        traces = read(path, format, way)
    return {trace.direction: trace for trace in traces}


def _places(said: str | tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(place(path) for path in links.listed(said))


def place(path: str) -> Path:
    """Where a file, a folder or a pair is: from here, or in the data's folder."""
    try:
        here, root = Path(path).expanduser(), os.environ.get("FEDLAPSE_DATA")
        if here.is_absolute() or _there(here) or not root:
            return here
        return Path(root) / here if _there(Path(root) / here) else here
    except (OSError, RuntimeError) as error:  # a name too long, or of a user who is not known
        raise BadScenario(f"fleet: {getattr(error, 'strerror', error)}: {path}") from None


def _there(path: Path) -> bool:
    return path.exists() or path.with_name(f"{path.name}.down").exists()

"""Trace files of any format, which is recognised from the content."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from network.foreign_files import bad, being_read, content, is_pickle, shown, table
from network.links.trace import Direction, Kind, Trace
from network.traces import columns, fedscale, flash, mahimahi, pensieve, ucc
from network.traces.trace_text import WIDEST, TraceText

NUMBER = r"[-+]?[\d.]+(?:[eE][-+]?\d+)?"

TABLE = (
    "write a table with the header time_s,down_mbit_s, in s and Mbit/s: columns separated by commas, not semicolons or "
    "tabs, decimals with a point, nothing in quotes"
)


@dataclass(frozen=True)
class FormatFacts:
    """The facts about a format of traces that are known before a file is read: kind of its rates, directions, and
    reader."""

    kind: Kind | None  # None: stated in the file
    down_only: bool
    read: Callable[[TraceText], Trace | tuple[Trace, ...]] | None  # None: the reader needs a direction


FORMATS = {
    "csv": FormatFacts(None, False, columns.read),
    "mahimahi": FormatFacts("capacity", False, None),
    "pensieve": FormatFacts("achieved", True, pensieve.read),  # also HSDPA and FCC
    "sigcomm21": FormatFacts("achieved", True, pensieve.read),
    "oboe": FormatFacts("achieved", True, pensieve.read_oboe),
    "ucc": FormatFacts("achieved", True, ucc.read),
}
DEVICES = {
    "fedscale-capacity": "it has one rate for each device: give it as up_mbit_s and down_mbit_s",
    "fedscale-behaviour": "`presence: {trace: FILE}` replays it",
    "flash-speeds": "it has a mean rate for each user: give it as up_mbit_s and down_mbit_s, or as radio: wifi",
    "flash-states": "`presence: {trace: FILE}` replays it",
}


def recognise(path: str | Path) -> str:
    """Returns the name of a file's format, a key of FORMATS or DEVICES, from the content and not from the file's name.
    Raises BadFile if no format fits, or several."""
    found = Path(path)
    pair = _pair(found)
    name = str(found)
    with being_read(name):
        data = content(pair[0] if pair else found)
        if _is_table(data):
            return _of_table(name, data)
        source = TraceText.of(name, data)
        del data  # saves one copy of a large file
        return _of_text(source)


def read(path: str | Path, format: str | None = None, direction: Direction | None = None) -> tuple[Trace, ...]:
    """Returns the traces of a file, downlink before uplink; if `direction` is given, only the trace of that direction.

    Without `format`, the format is recognised from the content.  The direction of a Mahimahi file is its suffix `.down`
    or `.up`, or must be given; a path P that does not exist stands for P.down and P.up if both exist.  Raises BadFile
    for a damaged file, for an unknown format, and if `up` is requested of a log of downloads (HSDPA, FCC, Oboe, UCC,
    SIGCOMM'21), which has no uplink.
    """
    found = Path(path)
    if direction not in (None, "down", "up"):
        raise bad(str(found), None, f"the direction asked for is {shown(direction)}; it must be down or up")
    if pair := _pair(found):
        traces = tuple(trace for half in pair for trace in read(half, format))
    else:
        with being_read(str(found)):
            traces = _one(str(found), content(found), format, direction)
    asked = tuple(trace for trace in traces if direction in (None, trace.direction))
    if not asked:
        raise bad(str(found), None, f"holds no trace of the direction {direction}, only {traces[0].direction}")
    return asked


def _one(name: str, data: bytes, format: str | None, direction: Direction | None) -> tuple[Trace, ...]:
    if format is None and _is_table(data):
        format = _of_table(name, data)
    if format not in (None, *FORMATS, *DEVICES):
        raise bad(name, None, f"there is no format {shown(format)}; known are {', '.join([*FORMATS, *DEVICES])}")
    if format not in DEVICES:
        source = TraceText.of(name, data)
        del data  # saves one copy of a large file
        format = format or _of_text(source)
    if format in DEVICES:
        raise bad(name, None, f"is {format}, which describes devices, not a link; {DEVICES[format]}")
    known = FORMATS[format]
    if known.down_only and direction == "up":
        raise bad(name, None, f"is {format}, a log of downloads: it says nothing about an uplink")
    if known.read is None:
        return (mahimahi.read(source, _way(name, direction)),)
    traces = known.read(source)
    return (traces,) if isinstance(traces, Trace) else traces


def _pair(path: Path) -> tuple[Path, Path] | None:
    """Returns the files PATH.down and PATH.up of a Mahimahi pair; None if PATH itself exists or either file is
    missing."""
    if not path.name:  # `.` or `/`
        return None
    halves = path.with_name(path.name + ".down"), path.with_name(path.name + ".up")
    try:
        return halves if not path.exists() and all(half.is_file() for half in halves) else None
    except OSError:  # a name too long for the file system: reading it reports the error
        return None


def _way(name: str, direction: Direction | None) -> Direction:
    suffix = Path(name).suffix[1:]
    if suffix not in ("down", "up"):
        if direction is None:
            raise bad(
                name,
                None,
                "is a Mahimahi file whose suffix is not .down or .up; its direction must be named",
                "direction",
            )
        return direction
    if direction not in (None, suffix):
        raise bad(name, None, f"has the suffix {suffix}, but the direction asked for is {direction}")
    return "down" if suffix == "down" else "up"


def _is_table(data: bytes) -> bool:
    return is_pickle(data) or data[:WIDEST].lstrip().startswith(b"{")


def _of_text(source: TraceText) -> str:
    line, row = source.start()
    if row.partition(",")[0].strip() == "time_s":
        return "csv"
    if row.startswith("Timestamp,"):
        return "ucc"
    if fedscale.is_columns(source):
        return "fedscale-capacity"
    if re.fullmatch(r"[-+]?\d+", row):
        return "mahimahi"
    if not re.fullmatch(rf"{NUMBER}\s+{NUMBER}", row):
        raise source.bad(line, f"{shown(row)} does not begin any known format{_hint(row)}", "trace")
    fitting = pensieve.sort_of(source)
    if len(fitting) > 1:
        raise source.bad(None, f"could be {' or '.join(fitting)}; name its format", "format")
    return fitting[0]


def _hint(row: str) -> str:
    """Returns the end of the error about a first line that fits no format: how to rewrite the file if the line
    resembles a known format, otherwise the names of all formats."""
    if re.match(r"(\"\"|'')?,", row):
        return "; leave the index out, the column without a name (pandas: index=False), and " + TABLE
    if re.search(r"[,;\t]|^\S+( +\S+){1,2}$", row):
        return "; " + TABLE
    if re.fullmatch(NUMBER, row):
        return "; a Mahimahi file has a whole number of ms a line"
    return f": {', '.join([*FORMATS, *DEVICES])}"


def _of_table(name: str, data: bytes) -> str:
    entries = table(name, data)
    first = next(iter(entries.values()))
    if fedscale.is_capacity(entries):
        return "fedscale-capacity"
    if flash.is_speeds(entries):
        return "flash-speeds"
    if isinstance(first, dict) and {"active", "inactive", "finish_time"} <= first.keys():
        return "fedscale-behaviour"
    if isinstance(first, dict) and "messages" in first:
        return "flash-states"
    raise bad(name, None, "is a mapping whose first entry fits no known format", "trace")

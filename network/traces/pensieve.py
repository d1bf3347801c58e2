"""Files with a time and a rate per line: Pensieve's form of HSDPA and FCC logs, SIGCOMM'21's 4G and 5G runs, Oboe's
sessions."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from network.links.trace import Floats, Trace
from network.traces.trace_text import FASTEST, LONGEST, TraceText

FAST = 20e9 / 8  # bytes/s: faster than any device's link, so that a larger rate must be in another unit
APART = 20.0  # mean step: chunks of video are some thousand ms apart, and no log has so many seconds between lines
SLOW = 100.0  # kbit/s that a session of Oboe exceeds; constant rates in Mbit/s would come in pairs, too
OTHER = re.compile(
    r"\b(ms|msecs?|milliseconds?|us|µs|microseconds?|[kKGT]?bits?|[kKGT]?bps|[kKMGT]?B(?:ps|/s)|bytes?)\b"
)
WRITE = "write a csv with the header time_s,down_mbit_s, or name the format pensieve if they are"


@dataclass(frozen=True)
class Pairs:
    """The two columns of a file, in the file's units."""

    times: Floats
    rates: Floats


def read(source: TraceText) -> Trace:
    """Returns the trace of a file whose lines are a time in s and a rate in Mbit/s.

    Rate i holds on (t[i-1], t[i]], and the first rate is ignored, as in Pensieve's load_trace (Mao et al., SIGCOMM'17).
    The replay starts at the first time and loops after the last.  A line that repeats the time before it is ignored; a
    decreasing time raises BadFile.  SIGCOMM'21 (Narayanan et al.) has the same format with one line per second.  All
    rates are goodput of downloads.
    """
    pairs = rows_of(source, 1.0, 1e6 / 8)
    return trace_of(source, pairs, 1.0, 1e6 / 8)


def read_oboe(source: TraceText) -> Trace:
    """Returns the trace of an Oboe file (Akhtar et al., SIGCOMM'18).  Its lines are a time in ms and a rate in kbit/s;
    two lines with the same rate are the start and the end of a video chunk's download.

    The pause before a chunk has that chunk's rate.  Oboe's authors propose a straight line between the rates of both
    chunks instead: on our samples the mean rate would differ by less than 0.1 %, and rates would not be piecewise
    constant.  Raises BadFile.
    """
    pairs = rows_of(source, 1e-3, 1e3 / 8)
    if not paired(pairs):
        raise source.bad(None, "its lines are not pairs of equal rates, as those of an Oboe trace are")
    return trace_of(source, pairs, 1e-3, 1e3 / 8)


def rows_of(source: TraceText, second: float, rate: float) -> Pairs:
    """Returns the two columns of a file.  `second` and `rate` are the units of its times and rates, in s and bytes/s,
    which determine the largest accepted values.  Raises BadFile."""
    source.check_length()
    start, row = source.start()
    table = source.table(start, "\t" if "\t" in row else " ", 2)
    tops = LONGEST / second, FASTEST / rate
    if not ((table >= 0).all() and (table <= tops).all() and (np.diff(table[:, 0]) >= 0).all()):
        table = table[:0]
    times, rates = (array("d", column.tobytes()) for column in table.T)
    del table  # two copies of a large file would take much memory
    last = times[-1] if times else -1.0
    for line, row in source.rows(start + len(times)):
        cells = row.split()
        if len(cells) != 2:
            raise source.bad(line, f"has {len(cells)} columns; a time and a rate are expected")
        time = source.number(line, cells[0], "time", tops[0])
        if time < last:
            raise source.bad(line, f"the time is {cells[0]} after {last!r}; times must not go back")
        times.append(time)
        rates.append(source.number(line, cells[1], "rate", tops[1]))
        last = time
    return Pairs(np.frombuffer(times), np.frombuffer(rates))


def trace_of(source: TraceText, pairs: Pairs, second: float, rate: float) -> Trace:
    """Returns the trace whose rate i holds from time i-1 to time i.  `second` and `rate` are the units of `pairs`, in s
    and bytes/s.  Raises BadFile if all times are equal."""
    lasting = np.flatnonzero(np.diff(pairs.times) > 0)
    if not len(lasting):
        raise source.bad(None, "all its times are equal; it needs two lines with different times")
    edges = np.append(pairs.times[:1], pairs.times[lasting + 1]) - pairs.times[0]
    rates = pairs.rates[lasting + 1] * rate
    return source.trace(edges * second, rates, "down", "achieved", remark=_remark(float(rates.max()), rate))


def _remark(most: float, rate: float) -> str:
    """Returns a warning if the file's rates are probably in another unit than the format's, because the largest, `most`
    times the unit `rate` in bytes/s, is too fast for a device; "" otherwise."""
    if most <= FAST:
        return ""
    unit, others = ("kbit/s", "bit/s") if rate < 1e6 / 8 else ("Mbit/s", "kbit/s or bit/s")
    return (
        f"its rates reach {most * 8 / 1e9:,.0f} Gbit/s, more than any device's link, as two columns without units are "
        f"read as {unit}: are they {others}? A csv names its units (time_s,down_mbit_s)"
    )


def paired(pairs: Pairs) -> bool:
    """Returns true if the lines come in pairs of equal rates, up to rounding, as in Oboe's files; false for an odd
    number of lines."""
    n = len(pairs.rates)
    return n >= 2 and n % 2 == 0 and bool(np.allclose(pairs.rates[::2], pairs.rates[1::2], rtol=1e-9, atol=0))


def sort_of(source: TraceText) -> Sequence[str]:
    """Returns the formats that a file of two columns may have, of `pensieve`, `sigcomm21` and `oboe`: several if the
    numbers do not decide.  Raises BadFile if the file seems to have other units than these formats."""
    pairs = rows_of(source, 1e-3, 1e3 / 8)
    steps = np.diff(pairs.times)
    in_ms = bool(len(steps)) and bool(steps.mean() > APART or pairs.times[-1] > LONGEST)
    if paired(pairs):
        if not in_ms:
            return "pensieve", "oboe"
        if pairs.rates.max() >= SLOW:
            return ("oboe",)
    if in_ms:
        apart = f"its times are {steps.mean():.4g} apart on average, which looks like ms, beside rates like Mbit/s"
        raise source.bad(None, f"{apart}: {WRITE} seconds", "format")
    _check_comments(source)
    whole = bool((pairs.times % 1 == 0).all())
    return ("sigcomm21",) if whole and len(steps) and np.median(steps) == 1 else ("pensieve",)


def _check_comments(source: TraceText) -> None:
    """Raises BadFile for a comment above the columns that names another unit than s and Mbit/s."""
    start, _ = source.start()
    for line, row in source.rows():
        if line >= start:
            return
        if other := OTHER.search(row):
            read_as = f"the comment names {other[0]}, but two columns are read as s and Mbit/s"
            raise source.bad(line, f"{read_as}: {WRITE} that", "format")

"""Reads and writes trace files for the `trace` commands, and lists what a format cannot hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import typer

from emulator.record.writing import replace_file
from emulator.terminal.reading import told_while_read
from network.links.trace import Direction, Trace
from network.traces import columns, mahimahi
from network.traces.read import read, recognise
from network.traces.trace_text import PACKET

STDOUT = Path("-")
SUFFIXES = {".csv": "csv", ".down": "mahimahi", ".up": "mahimahi"}
PICTURES = (".png", ".svg")
TARGETS = ("csv", "mahimahi")
LEFT_OUT = {  # by input format
    "ucc": "rows in State I (pauses of the app), UL_bitrate (acknowledgements) and the radio's columns were not read",
    "oboe": "the pauses between chunks have the rate of the chunk that follows",
}


def check_picture(path: Path | None) -> None:
    """Raises ValueError unless the name is a picture's, so that a trace is not overwritten by mistake."""
    if path is not None and path.suffix not in PICTURES:
        raise ValueError(f"--plot {path}: a picture's name ends in {' or '.join(PICTURES)}")


@told_while_read()
def format_of(path: Path) -> str:
    """The file's format.  Raises BadFile."""
    return recognise(path)


@told_while_read()
def traces_of(path: Path, format: str | None, way: str | None) -> tuple[Trace, ...]:
    """The traces in a file.  Raises BadFile."""
    return read(path, format, cast("Direction | None", way and str(way)))


def target(out: Path, to: str | None) -> str:
    """The format to write, from the option or the suffix.  Raises ValueError if neither names one."""
    if to is not None and to not in TARGETS:
        raise ValueError(f"--to {to}: there is no writer for it; there are {' and '.join(TARGETS)}")
    found = to or SUFFIXES.get(out.suffix)
    if found is None:
        raise ValueError(f"{out}: the name does not tell a format; end it in {', '.join(SUFFIXES)}, or say --to")
    return found


def fitting(traces: Sequence[Trace], to: str) -> Sequence[Trace]:
    """The traces as one file of this format can hold them: a CSV file replays both directions with one period, the
    shorter."""
    shortest = min(trace.period for trace in traces)
    return traces if to != "csv" else [trace.until(shortest) for trace in traces]


def save(traces: Sequence[Trace], out: Path, to: str, force: bool, comment: str = "") -> None:
    """Writes the traces, and prints the names of the files; `-` is the standard output.

    Raises ValueError for impossible options, and if a file exists already.
    """
    if out == STDOUT and to == "mahimahi" and len(traces) > 1:
        raise ValueError("a Mahimahi file has one direction, and there are two; say --direction")
    above = f"# {comment}\n" if comment else ""
    texts = {out: above + columns.written(traces)} if to == "csv" else _mahimahi(traces, out)
    if out == STDOUT:
        typer.echo(texts[out], nl=False)
    else:
        for path in texts:
            if path.exists() and not force:
                raise ValueError(f"{path} is there already; --force replaces it")
        if not out.parent.is_dir():
            out.parent.mkdir(parents=True)
            typer.echo(f"made the folder {out.parent}")
        for path, text in texts.items():
            replace_file(path, text)
            typer.echo(f"wrote {path}")


def _mahimahi(traces: Sequence[Trace], out: Path) -> dict[Path, str]:
    """The text of one file for each direction: OUT.down and OUT.up, unless OUT names a direction."""
    if out.suffix in (".down", ".up"):
        ways = [trace.direction for trace in traces]
        said = out.suffix[1:]
        if ways != [said]:
            other = "both directions" if len(ways) > 1 else f"the direction {ways[0]}"
            raise ValueError(
                f"{out} is for {said} alone, and what was read has {other}; leave the suffix out, or say --direction"
            )
    written: dict[Path, str] = {}
    for trace in traces:
        whole = out == STDOUT or out.suffix in (".down", ".up")
        path = out if whole else out.with_name(f"{out.name}.{trace.direction}")
        written[path] = mahimahi.written(trace)
    return written


def lost(traces: Sequence[Trace], format: str, to: str) -> list[str]:
    """Facts of the traces that the written format cannot hold, as phrases."""
    said = [LEFT_OUT[format]] if format in LEFT_OUT else []
    if to == "csv":
        return [*said, *_cut(traces)]
    first = traces[0]
    if first.kind == "achieved":
        said.append(
            "the kind: these are goodputs of downloads, and a Mahimahi file is taken for a capacity, so that TCP's "
            "start and headers are counted twice"
        )
    said += [f"the {name}" for name in ("latency", "loss") if getattr(first, name) is not None]
    said += [_rounded(trace) for trace in traces]
    return said


def _cut(traces: Sequence[Trace]) -> Iterator[str]:
    shortest = min(traces, key=lambda trace: trace.period)
    for trace in traces:
        if trace.period > shortest.period:
            over = trace.period - shortest.period
            yield f"the last {over:.6g} of {trace.period:.6g} s {trace.direction}, because the other way ends there"


def _rounded(trace: Trace) -> str:
    total = trace.carried(0.0, trace.period)
    carried = max(1, round(total / PACKET)) * PACKET
    period = max(1, round(trace.period * 1e3)) / 1e3
    turned = f"; the period of {trace.period!r} s is {period:g} s" if period != trace.period else ""
    return (
        f"{trace.direction}: the rate between packets of {PACKET} bytes at whole ms; "
        f"{carried:.0f} bytes of {total:.0f} a period{turned}"
    )

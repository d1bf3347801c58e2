"""`fedlapse trace`: recorded and synthetic links, looked at before anything is trained on them."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.group import Commands
from emulator.commands.help import Command
from emulator.commands.options import Format, FormatOption
from emulator.commands.trace import facts
from emulator.commands.trace.facts import TraceFacts
from emulator.commands.trace.files import (
    STDOUT,
    check_picture,
    fitting,
    format_of,
    lost,
    save,
    target,
    traces_of,
)
from emulator.commands.trace.transfer import text, transfers
from emulator.terminal.errors import BAD_INPUT, one_line, told_in_one_line
from emulator.wording.layout import columns, filled, grid, printed
from network.foreign_files import BadFile
from network.links.synth import MBIT, named, presets
from network.links.synth import synth as drawn
from network.links.tcp import Tcp
from scenarios.text.dimensions import SECONDS, SIZE

trace = typer.Typer(
    help="Inspect, convert and generate traces of links.",
    cls=Commands,
    add_completion=False,
)


class OneWay(StrEnum):
    down = "down"
    up = "up"


class Model(StrEnum):
    ideal = "ideal"
    tcp = "tcp"


From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FORMAT",
        help="Format of the input: csv, mahimahi, pensieve, sigcomm21, oboe, ucc. Default: recognised by its content.",
    ),
]
Direction = Annotated[
    OneWay | None,
    typer.Option("--direction", help="Only this direction; needed for a Mahimahi file without a suffix."),
]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw it, as .png or .svg.")]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="FORMAT", help="csv or mahimahi. Default: recognised from the file's suffix."),
]


Replace = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
STEM = "for a pair of Mahimahi files, the name without .down and .up."


@trace.command(cls=Command)
def info(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help=f"Trace files; {STEM}", readable=False)],
    direction: Direction = None,
    from_: From = None,
    plot: Plot = None,
    format: FormatOption = Format.text,
) -> None:
    """Show what traces contain.

    That is format, direction, kind, duration, mean, quantiles, outages, and a sparkline. A file that cannot be read is
    reported in one line, and the others are shown; the exit code is then 2.

    \b
    Example:
      fedlapse trace info norway_bus_1 Verizon-LTE-short.down --plot links.png
    """
    with told_in_one_line(ValueError):
        check_picture(plot)
        found, faults = _read(files, from_, direction)
        if format is Format.json:
            typer.echo(json.dumps({"traces": [one.plain for one in found], "errors": faults}, indent=1))
        elif found:
            typer.echo(facts.text(found))
        if plot is not None and found:
            from emulator.commands.trace import plot as drawn

            drawn.save(drawn.rates(found), plot)
            typer.echo(f"picture: {plot}", err=format is Format.json)
    for fault in faults:
        typer.echo(f"fedlapse: {fault}", err=True)
    if faults:
        raise typer.Exit(BAD_INPUT)


def _read(files: list[Path], format: str | None, direction: OneWay | None) -> tuple[list[TraceFacts], list[str]]:
    """Returns the traces that could be read, and a line for each file that could not."""
    found, faults = [], []
    for path in files:
        try:
            known = format or format_of(path)
            found += [facts.facts(path, known, one) for one in traces_of(path, known, direction)]
        except BadFile as error:
            faults.append(one_line(error))
    return found, faults


@trace.command(cls=Command)
def convert(
    in_: Annotated[Path, typer.Argument(metavar="IN", help=f"A trace file; {STEM}", readable=False)],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write: .csv, .down or .up; - is stdout.")],
    direction: Direction = None,
    from_: From = None,
    to: To = None,
    force: Replace = False,
) -> None:
    """Convert a trace to fedlapse's CSV or to Mahimahi's format, and name what is lost.

    With --to mahimahi and both directions, OUT.down and OUT.up are written.

    \b
    Examples:
      fedlapse trace convert Verizon-LTE-short lte.csv
      fedlapse trace convert 5g_trace_4_walking walk --to mahimahi
    """
    with told_in_one_line(ValueError):
        written_as = target(out, to)
        known = from_ or format_of(in_)
        traces = traces_of(in_, known, direction)
        save(fitting(traces, written_as), out, written_as, force)
        for loss in lost(traces, known, written_as) or ["nothing: rates, direction, kind, latency and loss are kept"]:
            typer.echo(f"lost: {loss}", err=out == STDOUT)


@trace.command(cls=Command)
def synth(
    preset: Annotated[
        str | None, typer.Argument(metavar="PRESET", help="Name of a preset. Default: list them.")
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="Length of the trace.")] = 600.0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="The same seed generates the same trace.")] = 1,
    step: Annotated[float, typer.Option(metavar="S", help="Seconds between changes of the rate.")] = 1.0,
    direction: Annotated[OneWay | None, typer.Option("--direction", help="Only this direction. Default: both.")] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="A .csv, or .down or .up for Mahimahi; - is stdout.")
    ] = STDOUT,
    to: To = None,
    force: Replace = False,
    format: FormatOption = Format.text,
) -> None:
    """Generate a trace from a preset, or list the presets.

    The rate is Markov-modulated, with outages.

    \b
    Example:
      fedlapse trace synth lte-driving --seconds 600 --seed 1 -o lte.csv
    """
    with told_in_one_line(ValueError):
        if preset is None:
            typer.echo(_listed(format))
            return
        written_as = target(out, to or ("csv" if out == STDOUT else None))
        ways = (OneWay.down, OneWay.up) if direction is None else (direction,)
        traces = [drawn(preset, seconds, seed, way.value, step=step) for way in ways]
        finer = "" if step == 1.0 else f" --step {step:g}"
        comment = f"made by fedlapse trace synth {preset} --seconds {seconds:g} --seed {seed}{finer}"
        save(traces, out, written_as, force, comment)
        if out != STDOUT:
            for loss in lost(traces, "csv", written_as):
                typer.echo(f"lost: {loss}")


def _listed(format: Format) -> str:
    """The presets, with what of them is assumed."""
    if format is Format.json:
        return json.dumps([_plain(name) for name in presets()], indent=1)
    numbers = ("down", "up", "cv", "outages", "ms")
    table = grid("Presets; mean rates in Mbit/s, latency one way", "preset", "stands for", numbers=numbers)
    table.columns[0].no_wrap = True
    for name, one in presets().items():
        said = _plain(name)
        assumed = ("~" if "assumed" in one.sources[what] else "" for what in ("rates_mbit_s", "up_ratio", "latency_ms"))
        rate, ratio, latency = assumed
        table.add_row(
            name,
            one.stands_for,
            f"{rate}{one.mean / MBIT:.3g}",
            f"{rate or ratio}{one.mean * one.up / MBIT:.3g}",
            f"{rate}{said['cv']:.2f}",
            f"{rate}{one.out:.1%}",
            f"{latency}{one.latency * 1e3:g}",
        )
    legend = "~ assumed, not measured. Each number's source is in --format json."
    return printed([table, filled(legend, columns())], columns())


def _plain(name: str) -> dict[str, object]:
    one = named(name)
    return {
        "name": name,
        "stands_for": one.stands_for,
        "mean_down_mbit_s": one.mean / MBIT,
        "mean_up_mbit_s": one.mean * one.up / MBIT,
        "cv": float(one.autocovariances(0.0)) ** 0.5 / one.mean,
        "outage_share": one.out,
        "latency_ms": one.latency * 1e3,
        "sources": dict(one.sources),
    }


@trace.command(cls=Command)
def transfer(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"A trace file; {STEM}", readable=False)],
    size: Annotated[str, typer.Option("--bytes", metavar="SIZE", help="Size of the payload, such as 6.65MB.")],
    every: Annotated[str, typer.Option(metavar="TIME", help="Time between two starts, such as 10s.")] = "10s",
    model: Annotated[
        Model,
        typer.Option(help="tcp: handshakes, slow start and headers; ideal: latency, then bytes at the rate."),
    ] = Model.tcp,
    latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="One way, such as 50ms. Default: the file's, or 0.")
    ] = None,
    direction: Direction = None,
    from_: From = None,
    plot: Plot = None,
    format: FormatOption = Format.text,
) -> None:
    """Compute how long a payload takes over a trace.

    A transfer begins every 10 s, alone and over a new connection. If the trace is of measured downloads, tcp adds only
    round trips: slow start and headers are in it already.

    \b
    Example:
      fedlapse trace transfer lte.csv --bytes 6.65MB --every 10s --latency 50ms
    """
    with told_in_one_line(ValueError):
        check_picture(plot)
        nbytes, apart = round(SIZE.value(size)), SECONDS.value(every)
        one_way = None if latency is None else SECONDS.value(latency)
        tcp = Tcp(model=model.value)
        found = [transfers(one, nbytes, apart, tcp, one_way) for one in traces_of(file, from_, direction)]
        title = f"{size} over {file.name}, a start every {every}"
        if format is Format.json:
            typer.echo(json.dumps({"file": str(file), "model": model, "links": [one.plain for one in found]}, indent=1))
        else:
            typer.echo(text(found, title, [_modelled(model, latency)]))
        if plot is not None:
            from emulator.commands.trace import plot as drawn

            drawn.save(drawn.durations(found, title), plot)
            typer.echo(f"picture: {plot}", err=format is Format.json)


def _modelled(model: Model, latency: str | None) -> str:
    one_way = "the file's latency, or 0 if it has none" if latency is None else f"{latency} one way"
    return f"Model {model}, with {one_way}; no other device uses the link."

"""`fedlapse replay`: what finished runs would have cost on other links, or on another fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from emulator.commands.folder import alone, clear, folder
from emulator.commands.group import flat
from emulator.commands.lines import say
from emulator.commands.options import MOST_WORKERS, Force, Format
from emulator.commands.playing import Playing
from emulator.commands.reading import told_while_read
from emulator.commands.reliance import soundness_told
from emulator.commands.replay.files import Layout, as_json, begin, finish, refuse_runs
from emulator.commands.replay.play import Play, Played, play_all
from emulator.commands.replay.text import text
from emulator.commands.stopping import uninterrupted
from emulator.ledger.place import KEEP_STATES
from emulator.record.folders import home
from emulator.replay.batch import Batch, Order, Source
from emulator.replay.conditions import Condition, Uplink, links_from
from emulator.replay.findings import Finding, finding
from scenarios.load import load
from scenarios.text.dimensions import RATE, SECONDS

SEVERAL = ("--down", "--up")
REPLAYED = "replayed"  # what the only setting is called where nothing else names it


class Several(TyperCommand):
    """A command some of whose options take all words up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_repeated(args)))


def _repeated(args: Sequence[str]) -> Iterator[str]:
    """`--down a b` as `--down a --down b`."""
    current = ""
    for number, word in enumerate(args):
        if word.startswith("-"):
            current = word
        elif current in SEVERAL and args[number - 1] != current:
            yield current
        yield word


Run = Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `compare` or `run` wrote, or one run in it.")]
Down = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACE...", help="Downlinks of all devices: trace files, folders of them, or 10Mbit/s."),
]
Up = Annotated[
    list[str] | None, typer.Option(metavar="TRACE...", help="Uplinks likewise: one for all, or one for each downlink.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FORMAT",
        help="The format of the traces, such as `oboe`. Default: recognised from the content.",
    ),
]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway",
        help="Go on where a decision differs (who is asked, whose reply counts). From there on accuracies are assumed: "
        "those recorded after equally many rounds with enough replies. What the record cannot tell stays not known.",
    ),
]
Train = Annotated[
    bool,
    typer.Option(
        "--train",
        help="Go on where a decision differs, and train what the ledger lacks: each setting is a run of its own.",
    ),
]
ServerRate = Annotated[
    str | None,
    typer.Option(
        metavar="RATE", help="Rate of the server's link in each direction, such as 100Mbit/s. Default: as in the run."
    ),
]
Fleet = Annotated[
    str | None,
    typer.Option(metavar="SCENARIO", help="Take devices, links and server from another scenario."),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--algorithm", "-a", help="Only the algorithm with this label. May be given several times."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=0, max=MOST_WORKERS, help="Worker processes. Default: one per core, if there is enough to do."),
]


@dataclass(frozen=True)
class Recorded:
    """The options of which runs are replayed, on which devices, and how far."""

    run: Run
    server_rate: ServerRate = None
    fleet: Fleet = None
    algorithm: Only = None
    anyway: Anyway = False
    train: Train = False

    def batch(self) -> Batch:
        """Reads the runs.  The algorithms of the scenario of --fleet do not matter, so they are not looked at."""
        if self.anyway and self.train:
            raise ValueError("--anyway and --train are given; --anyway assumes what --train trains, so one is enough")
        with told_while_read():
            other = None if self.fleet is None else load(self.fleet, recordings=True, algorithms=False)
        return Batch(Source(self.run, other, self.anyway, self.train, tuple(self.algorithm or ())))


@dataclass(frozen=True)
class Replaying(Playing):
    """The options of how runs are replayed."""

    workers: Workers = None

    def player(self, batch: Batch) -> Play:
        """Returns what plays the runs of a batch.  Raises ValueError for an option that has no effect."""
        if batch.source.train:
            from emulator.commands.replay.train import Trainer  # torch

            return Trainer(batch, self.settings()).play_all
        given = {"--ledger": self.ledger, "--no-ledger": self.no_ledger, "--executor": self.cluster}
        given |= {"--device": self.device != "cpu", "--keep-states": self.keep_states != KEEP_STATES}
        for option in filter(given.get, given):
            raise ValueError(f"{option} is for --train, which is not given")
        return partial(play_all, batch, workers=self.workers, quiet=self.quiet)


UpRatio = Annotated[
    float | None,
    typer.Option(min=1e-6, max=1e6, help="Uplinks have this share of the downlink's rate."),
]
Symmetric = Annotated[bool, typer.Option("--symmetric", help="Uplinks are as fast as downlinks.")]
Latency = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Latency of all devices, one way, such as 40ms."),
]
Events = Annotated[
    bool,
    typer.Option("--events", help="Write timelines even if there are several settings."),
]
Out = Annotated[Path | None, typer.Option(help="A new folder. Default: runs/NAME-replay-NNNN.")]


def replay(
    *,
    down: Down = None,
    up: Up = None,
    up_ratio: UpRatio = None,
    symmetric: Symmetric = False,
    source: From = None,
    latency: Latency = None,
    recorded: Recorded,
    events: Events = False,
    out: Out = None,
    force: Force = False,
    replaying: Replaying,
) -> None:
    """Plays finished runs again, without training, on other links or another fleet.

    Sizes, work and accuracies come from the record; with --down, each trace is a row of the table. A replay is exact
    until a decision differs (who is asked, whose reply counts); it stops there, unless --train trains the rest. Exit
    codes: 0; 1 a worker was killed, or an algorithm failed; 2 bad input; 130 Ctrl-C.
    """
    if recorded.train:
        replaying.have_workers_ready()
    with soundness_told([home(recorded.run)]):
        passed: list[str] = []
        with told_while_read():
            rates = list(_rates(down or (), up or (), up_ratio, symmetric, source, passed))
        batch = recorded.batch()
        conditions = _conditions(rates, latency, recorded.server_rate, _called(batch))
        play = replaying.player(batch)
        if out is not None:
            refuse_runs(out, batch.home)
        layout = Layout(folder(out, f"{batch.scenario.name}-replay"), conditions, events)
        with alone(layout.out):
            clear(layout.out, force, layout.coming(batch))
            played = _played(batch, layout, play, [*passed, *batch.notes], replaying.format)
        if not played.whole:
            say(f"fedlapse: {played.why}; what was replayed until then is in {layout.out}", err=True)
        if played.code:
            raise typer.Exit(played.code)


command = typer.Typer(add_completion=False)
command.command(cls=Several)(flat(replay))


def _played(batch: Batch, layout: Layout, play: Play, passed: Sequence[str], format: Format) -> Played:
    """Plays all settings, writes what came of them to OUT, and prints it."""
    begin(batch, layout, batch.recorded, passed)
    played = play(list(_orders(batch, layout)))
    with uninterrupted():
        findings = [batch.recorded, *_findings(batch, layout.conditions, played)]
        finish(batch, layout, findings, passed, played.whole)
    if format is Format.json:
        typer.echo(as_json(batch, findings, passed, played.whole))
    else:
        typer.echo(text(batch, findings, passed, layout.out))
        if played.trained:
            say(played.trained)
    return played


def _rates(
    downs: Sequence[str],
    ups: Sequence[str],
    ratio: float | None,
    symmetric: bool,
    format: str | None,
    passed: list[str],
) -> Iterator[Condition]:
    """The links of all settings; what was passed over is added to `passed`."""
    ways = {"--up": bool(ups), "--up-ratio": ratio is not None, "--symmetric": symmetric}
    said = [option for option, given in ways.items() if given]
    if len(said) > 1:
        raise ValueError(f"{' and '.join(said)} are given; an uplink comes from one of them")
    if said and not ups and not downs:
        raise ValueError(f"{said[0]} needs a downlink; add --down TRACE")
    yield from links_from(downs, Uplink(ups, ratio, symmetric), format, passed.append)


def _called(batch: Batch) -> str:
    """What a setting without links of its own is called: as the scenario of the other fleet."""
    other = batch.source.fleet
    return REPLAYED if other is None or other.name == batch.scenario.name else other.name


def _conditions(
    rates: Sequence[Condition], latency: str | None, server_rate: str | None, otherwise: str
) -> list[Condition]:
    """The settings; one, which has the name `otherwise`, if no links are named."""
    seconds = None if latency is None else SECONDS.value(latency)
    rate = None if server_rate is None else RATE.value(server_rate)
    other = "" if otherwise == REPLAYED else f"{otherwise}, "
    named = [replace(each, name=f"{other}{each.name}") for each in rates] or [Condition(otherwise)]
    return [replace(each, name=name, latency=seconds, server_rate=rate) for name, each in _distinct(named)]


def _distinct(found: Sequence[Condition]) -> Iterator[tuple[str, Condition]]:
    """With names of which each is there once."""
    names: set[str] = set()
    for each in found:
        name, number = each.name, 2
        while name in names:
            name, number = f"{each.name}-{number}", number + 1
        names.add(name)
        yield name, each


def _orders(batch: Batch, layout: Layout) -> Iterator[Order]:
    for condition in layout.conditions:
        where = layout.of(condition)
        for number, script in enumerate(batch.scripts):
            yield Order(number, condition, where and where / script.name)


def _findings(batch: Batch, conditions: Sequence[Condition], played: Played) -> Iterator[Finding]:
    """One for each condition of which something was played."""
    runs = len(batch.scripts)
    for number, condition in enumerate(conditions):
        results = played.results[number * runs : (number + 1) * runs]
        if not results:
            return
        said = [*condition.about(batch.base), *([batch.match] if batch.match else [])]
        rest = [batch.unplayed(run) for run in range(len(results), runs)]
        yield finding(condition.name, said, [*results, *rest])

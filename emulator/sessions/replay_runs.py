"""Replays of finished runs in other settings: the choice of runs and links, and the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.ledger.place import KEEP_STATES
from emulator.replay.batch import Batch, Order, Source
from emulator.replay.conditions import Condition, Uplink, links_from
from emulator.replay.findings import Finding, finding
from emulator.sessions.computing import MOST_WORKERS, SCENARIO, TRAINING, Playing
from emulator.sessions.folder import alone, clear, folder
from emulator.sessions.replay_files import Layout, begin, finish, plain, refuse_runs
from emulator.sessions.replaying import Play, Played, play_all
from emulator.terminal.reading import told_while_read
from emulator.terminal.stopping import uninterrupted
from scenarios.load import load
from scenarios.schema.scenario import Scenario
from scenarios.text.dimensions import RATE, SECONDS

LINKS, DIFFERS = "Links and devices", "If the replay leaves the record"  # groups of options in --help
REPLAYED = "replayed"  # name of the only setting if nothing else names it


@dataclass(frozen=True)
class ReplayLinks:
    """Options for the links on which runs are replayed."""

    down: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRACE...",
            help="Downlinks of all devices: trace files, folders of them, or 10Mbit/s.",
            rich_help_panel=LINKS,
        ),
    ] = None
    up: Annotated[
        list[str] | None,
        typer.Option(metavar="TRACE...", help="Uplinks: one for all, or one for each downlink.", rich_help_panel=LINKS),
    ] = None
    up_ratio: Annotated[
        float | None,
        typer.Option(
            min=1e-6, max=1e6, metavar="X", help="Uplinks have X times the downlink's rate.", rich_help_panel=LINKS
        ),
    ] = None
    symmetric: Annotated[
        bool, typer.Option("--symmetric", help="Uplinks are as fast as downlinks.", rich_help_panel=LINKS)
    ] = False
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            help="Format of the traces, such as `oboe`. Default: recognised from the content.",
            rich_help_panel=LINKS,
        ),
    ] = None
    latency: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Latency of all devices, one way, such as 40ms.", rich_help_panel=LINKS),
    ] = None

    def rates(self, passed: list[str]) -> list[Condition]:
        """Returns one condition for each setting, with its links; [] if these options name no links.

        Adds notes on skipped files to `passed`.  Raises ValueError for options that do not fit together.
        """
        ways = {"--up": bool(self.up), "--up-ratio": self.up_ratio is not None, "--symmetric": self.symmetric}
        said = [option for option, given in ways.items() if given]
        if len(said) > 1:
            raise ValueError(f"{' and '.join(said)} are given; an uplink comes from one of them")
        if said and not self.up and not self.down:
            raise ValueError(f"{said[0]} needs a downlink; add --down TRACE")
        with told_while_read():
            uplink = Uplink(self.up or (), self.up_ratio, self.symmetric)
            return list(links_from(self.down or (), uplink, self.source, passed.append))


@dataclass(frozen=True)
class ReplayChoice:
    """Options on which runs are replayed, on which devices, and what happens where a decision differs from the
    record."""

    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A folder that `compare` or `run` wrote, or one run in it.")
    ]
    server_rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Rate of the server's link in each direction, such as 100Mbit/s. Default: as in the run.",
            rich_help_panel=LINKS,
        ),
    ] = None
    fleet: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="Take devices, links and server from another scenario.",
            rich_help_panel=LINKS,
        ),
    ] = None
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithm", "-a", metavar="LABEL", help="Only this algorithm. Can be repeated.", rich_help_panel=SCENARIO
        ),
    ] = None
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Continue where other devices would be selected or aggregated, and assume the accuracies recorded "
            "after as many rounds.",
            rich_help_panel=DIFFERS,
        ),
    ] = False
    train: Annotated[
        bool,
        typer.Option(
            "--train",
            help="Continue there, and train what the ledger does not have.",
            rich_help_panel=DIFFERS,
        ),
    ] = False

    def batch(self, fleet: Scenario | None = None) -> Batch:
        """Reads the runs to replay.

        `fleet`: a scenario whose devices, links and server replace those of the runs; the option --fleet names a file
        instead.  The algorithms of that scenario do not matter, and those in a file are not checked.
        """
        if self.anyway and self.train:
            raise ValueError("--anyway and --train are given; --anyway assumes what --train trains, so one is enough")
        if self.fleet is not None:
            with told_while_read():
                fleet = load(self.fleet, recordings=True, algorithms=False)
        return Batch(Source(self.run, fleet, self.anyway, self.train, tuple(self.algorithm or ())))


@dataclass(frozen=True)
class Replaying(Playing):
    """Options for playing replays."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MOST_WORKERS,
            metavar="N",
            help="Worker processes. Default: one per core, if there is enough to do.",
            rich_help_panel=TRAINING,
        ),
    ] = None

    def player(self, batch: Batch) -> Play:
        """Returns the function that replays the runs of a batch, with training if the batch asks for it.

        Raises ValueError for an option that has an effect only on training, if there is none.
        """
        if batch.source.train:
            from emulator.sessions.trainer import Trainer  # imports torch

            return Trainer(batch, self).play_all
        given = {"--ledger": self.ledger, "--no-ledger": self.no_ledger, "--executor": self.cluster}
        given |= {"--device": self.device != "cpu", "--keep-states": self.keep_states != KEEP_STATES}
        for option in filter(given.get, given):
            raise ValueError(f"{option} is for --train, which is not given")
        return partial(play_all, batch, workers=self.workers, quiet=self.quiet)


@dataclass(frozen=True)
class ReplayedRuns:
    """Replays and their findings: the first finding is about the recorded runs, each other about one setting."""

    batch: Batch
    findings: Sequence[Finding]
    passed: Sequence[str]  # notes on skipped files and runs
    out: Path
    played: Played

    @property
    def plain(self) -> dict[str, Any]:
        """The content of replay.json, as a dict."""
        return plain(self.batch, self.findings, self.passed, self.played.whole)


def replay(
    links: ReplayLinks,
    recorded: ReplayChoice,
    replaying: Replaying,
    *,
    events: bool = False,
    out: Path | None = None,
    force: bool = False,
    fleet: Scenario | None = None,
) -> ReplayedRuns:
    """Replays finished runs in each setting, and writes the results to OUT.

    `events`: also writes timelines if there are several settings; a single setting always has them.  `force`: replaces
    earlier results in OUT.  `fleet` is as in `ReplayChoice.batch`.  Raises ValueError if there is nothing to replay, or
    if OUT cannot be used.
    """
    passed: list[str] = []
    rates = links.rates(passed)
    batch = recorded.batch(fleet)
    otherwise = _called(batch)
    seconds = None if links.latency is None else SECONDS.value(links.latency)
    rate = None if recorded.server_rate is None else RATE.value(recorded.server_rate)
    other = "" if otherwise == REPLAYED else f"{otherwise}, "
    named = [replace(each, name=f"{other}{each.name}") for each in rates] or [Condition(otherwise)]
    conditions = [replace(each, name=name, latency=seconds, server_rate=rate) for name, each in _distinct(named)]
    play = replaying.player(batch)
    if out is not None:
        refuse_runs(out, batch.home)
    layout = Layout(folder(out, f"{batch.scenario.name}-replay"), conditions, events)
    with alone(layout.out):
        clear(layout.out, force, layout.coming(batch))
        passed += batch.notes
        begin(batch, layout, batch.recorded, passed)
        played = play(list(_orders(batch, layout)))
        with uninterrupted():
            findings = [batch.recorded, *_findings(batch, layout.conditions, played)]
            finish(batch, layout, findings, passed, played.whole)
    return ReplayedRuns(batch, findings, passed, layout.out, played)


def _called(batch: Batch) -> str:
    """Returns the name of a setting for which no links are given: the name of the scenario whose fleet is used, or
    REPLAYED if that is the runs' own scenario."""
    other = batch.source.fleet
    return REPLAYED if other is None or other.name == batch.scenario.name else other.name


def _distinct(found: Sequence[Condition]) -> Iterator[tuple[str, Condition]]:
    """Yields each condition with a unique name; a repeated name gets a number, as in `lte-2`."""
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
    """Yields a finding for each condition in which at least one run was replayed.

    Runs that were not replayed there, because the command was stopped, count as not played.
    """
    runs = len(batch.scripts)
    for number, condition in enumerate(conditions):
        results = played.results[number * runs : (number + 1) * runs]
        if not results:
            return
        said = [*condition.about(batch.base), *([batch.match] if batch.match else [])]
        rest = [batch.unplayed(run) for run in range(len(results), runs)]
        yield finding(condition.name, said, [*results, *rest])

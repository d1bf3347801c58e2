"""What `compare` and `run` share: play a scenario's runs over one pool, and leave OUT in order."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import time
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from emulator.commands.code import begin, code_text, or_go_on, why_otherwise
from emulator.commands.compiling import compile_network
from emulator.commands.conclude import REPORT, Ending, conclude
from emulator.commands.errors import FAILED
from emulator.commands.folder import alone, folder, make_ready
from emulator.commands.lines import say
from emulator.commands.machine import machine
from emulator.commands.on_a_page import on_a_page
from emulator.commands.options import Format
from emulator.commands.playing import Settings, crew_of
from emulator.commands.stopping import Stopped, code_of, heard_by, uninterrupted
from emulator.compute.crew import Workers, executor, no_more
from emulator.compute.executor import Executor, Tally
from emulator.compute.executors import Cluster
from emulator.compute.garbage import let_stay
from emulator.compute.gpu import gpus
from emulator.compute.remembering import Disagreed, remembering
from emulator.compute.workers import why_broken
from emulator.forecast.deadline import check_deadline
from emulator.lab.build import built
from emulator.lab.doubts import about_data, about_model
from emulator.lab.lab import Lab
from emulator.ledger.ledger import opened
from emulator.ledger.place import KEEP_STATES, default_folder
from emulator.play.conduct import Conduct
from emulator.play.progress import Progress, about
from emulator.play.run import run_virtual
from emulator.play.stage import Outcome, Row
from emulator.play.watcher import Watcher, status_of
from emulator.record.again import Otherwise
from emulator.record.given import keep
from emulator.record.host import FOLDERS, note, of_scenario
from emulator.record.record import Earlier, replace_file
from emulator.record.run import Run
from emulator.record.seal import CODE, SEAL
from emulator.record.writing import told
from emulator.results.results import targets
from emulator.trackers.destination import Destination
from emulator.trackers.tracking import Tracking
from scenarios.builders.assumed import assumptions
from scenarios.builders.roster import MANY
from scenarios.load import dump
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

if TYPE_CHECKING:
    from emulator.live.server import Live

AT_ONCE = 4  # runs for each worker: enough that none waits, and few models lie about


def play_scenario(scenario: Scenario, settings: Settings) -> int:
    """Plays a scenario and prints what came of it; the exit code.  Raises BadScenario before anything is written."""
    places = gpus.found(settings.device)
    workers = crew_of(settings.workers, places, settings.cluster)
    if settings.world == "sockets":
        _make_room(scenario, workers)
    scenario, lab = built(scenario, places)
    lab = replace(lab, over_sockets=settings.world == "sockets")
    check_deadline(lab, scenario)
    for doubt in about_model(lab):
        say(f"fedlapse: {doubt}", err=True, tone="warning")
    compile_network(scenario)
    if settings.world == "virtual" and isinstance(workers, int):
        settings = replace(settings, at_once=max(AT_ONCE * workers, len(scenario.algorithms)))
    assumed = list(assumptions(scenario))
    out = folder(settings.out, scenario.name)
    _keep_apart(out, settings.track)
    with alone(out):
        over_sockets = settings.world == "sockets"
        settings = replace(settings, force=make_ready(out, scenario, settings.force, over_sockets))
        # first of all: what is broken off over sockets cannot be resumed, and what is killed at once is known as ours
        note(out, of_scenario(scenario), **(_world(settings) if over_sockets else {}))
        if settings.given:
            keep(out, settings.given)
        replace_file(out / "scenario.yaml", dump(scenario))  # from here on `resume` can go on
        with on_a_page(scenario, settings.live) as live:
            return _concluded(scenario, lab, settings, out, workers, assumed, live)


def _concluded(
    scenario: Scenario,
    lab: Lab,
    settings: Settings,
    out: Path,
    workers: int | Cluster,
    assumed: Sequence[str],
    live: Live | None,
) -> int:
    began = time.monotonic()
    try:
        with Tracking(settings.track, scenario, out, lambda text: say(text, err=True)) as tracking:
            watchers: list[Watcher] = [live.watching, tracking] if live else [tracking]
            sitting = play_runs(scenario, lab, settings, out, workers, watchers)
    except KeyboardInterrupt as stop:
        typer.echo(f"fedlapse: stopped; what was written is in {out}", err=True)
        _tell_how_to_resume(settings, out)
        return code_of(stop)
    except (BrokenExecutor, Disagreed, OSError) as error:
        say(f"fedlapse: {why_ended(error)}", err=True)
        if not isinstance(error, Disagreed):  # it would again
            _tell_how_to_resume(settings, out)
        return FAILED
    with uninterrupted():
        host = host_text(time.monotonic() - began, sitting.outcomes, sitting.session)
        ending = Ending(
            sitting.outcomes, host, sitting.session.stopped, assumed, list(about_data(lab, scenario.data.split))
        )
        exit_code = conclude(out, ending, settings.format)
        if live and (out / REPORT).is_file():
            live.report = out / REPORT
        if sitting.tally and settings.format is Format.text:
            typer.echo(sitting.tally.sentence())
        if not (out / SEAL).is_file():  # stopped, or something could not be written
            _tell_how_to_resume(settings, out)
        return exit_code


@dataclass(frozen=True)
class Sitting:
    """All runs of one scenario, as they ended."""

    session: Session
    outcomes: list[Outcome]
    tally: Tally | None  # None: there is no ledger

    @property
    def unfinished(self) -> bool:
        """Whether somebody stopped them, or a record could not be written."""
        return self.session.stopped > 0 or any(each.unwritten for each in self.outcomes)


def play_runs(
    scenario: Scenario,
    lab: Lab,
    settings: Settings,
    out: Path,
    workers: Workers,
    watchers: Sequence[Watcher] = (),
) -> Sitting:
    """Plays all runs over one pool.

    Raises BadScenario if one that was broken off comes out otherwise than its record, as far as that goes,
    KeyboardInterrupt if they are stopped at once, and BrokenExecutor, Disagreed or OSError if all must end.
    """
    # The loop comes first: where too many files are open, Python cannot take back one that is half made.
    with asyncio.Runner() as loop, pool_of(scenario, lab, settings.ledger, workers, settings.keep_states) as pool:
        session = Session(scenario, lab, settings, out, pool, watchers)
        try:
            with loop:  # closed before the workers end, so that it does not complain of what they had not done
                outcomes = loop.run(session.play())
        except asyncio.CancelledError:
            pool.stop()
            raise Stopped(session.stopped) from None
        except KeyboardInterrupt:
            pool.stop()
            raise
        except Otherwise as error:
            pool.stop()
            raise BadScenario(f"{error}: {why_otherwise(out, session.code)}\n{or_go_on(out)}") from None
        sitting = Sitting(session, outcomes, pool.tally)
        pool.broken_off = sitting.unfinished
    return sitting


def why_ended(error: BrokenExecutor | Disagreed | OSError) -> str:
    """Why all runs had to end, in one line."""
    match error:
        case BrokenExecutor():
            return why_broken(error)
        case Disagreed():
            ways = "`fedlapse ledger verify` says what else differs, and --no-ledger trains everything"
            return f"{error}: done again, it gave other bits than the ledger has; {ways}"
        case _:
            return told(error)


def _keep_apart(out: Path, tracked: Sequence[Destination]) -> None:
    """Raises BadScenario if a tracker would write into the folder of the results, which holds nothing else."""
    for each in tracked:
        if each.folder.resolve().is_relative_to(out.resolve()):
            raise BadScenario(f"--track {each.said} lies in the folder of the results, {out}; give one beside it")


def pool_of(
    scenario: Scenario, lab: Lab, place: Path | None, workers: Workers, keep_states: int = KEEP_STATES
) -> Executor:
    """Workers, with the ledger in the folder `place` if there is one that can be used."""
    let_stay()
    # Every device of every run may be training at once; more workers would have nothing to do.
    count = no_more(workers, len(lab.algorithms) * len(lab.splits) * len(lab.names))
    if place is None:
        return executor(lab, count)
    try:
        ledger = opened(place, lambda text: say(f"fedlapse: {text}", err=True))
    except OSError as error:
        say(f"fedlapse: no ledger: {told(error)}; everything is trained anew", err=True)
        return executor(lab, count)
    noted_under = ledger.facts.about(dump(scenario))
    return remembering(lab, ledger, count, noted_under, keep_states=keep_states)


def _tell_how_to_resume(settings: Settings, out: Path) -> None:
    """Says, in the last line, how to resume what was broken off."""
    if settings.world == "sockets":
        return
    usual = settings.ledger == default_folder(os.environ)
    where = [] if usual else ["--ledger", str(settings.ledger)] if settings.ledger else ["--no-ledger"]
    twice = "nothing trained twice" if settings.ledger else "everything trained anew"
    words = ["fedlapse", "resume", *(["--force"] if settings.force else []), str(out), *where]
    say(f"fedlapse: to go on, with {twice}: {shlex.join(words)}", err=True)


def _make_room(scenario: Scenario, workers: int | Cluster) -> None:
    """Raises BadScenario if a run over sockets cannot have so many devices: each is a task with a connection."""
    if scenario.devices > MANY:
        raise BadScenario(f"fleet: {scenario.devices} devices; over sockets it must be {MANY} at most")
    from emulator.play.over_sockets import make_room

    runs = len(scenario.algorithms) * len(scenario.seeds)
    make_room(scenario.devices, runs, workers if isinstance(workers, int) else 0)


class Session:
    """All runs of one command, concurrently in one event loop over one pool."""

    def __init__(
        self,
        scenario: Scenario,
        lab: Lab,
        settings: Settings,
        out: Path,
        pool: Executor,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self.scenario, self.lab, self.settings = scenario, lab, settings
        self.out, self.pool, self.watchers = out, pool, watchers
        self.conduct = Conduct.of(scenario)
        self.progress = Progress(
            targets(scenario),
            self.conduct.rules.max,
            labels=lab.algorithms,
            runs=len(lab.algorithms) * len(scenario.seeds),
            early=bool(scenario.rounds.stop_at or scenario.rounds.until_s),
            until=scenario.rounds.until_s,
            quiet=settings.quiet,
        )
        self.progress.title = settings.title
        self.stopped = 0  # by this signal
        self.turn = asyncio.Semaphore(settings.at_once)
        self.code = code_text(scenario, pool.numerics)

    async def play(self) -> list[Outcome]:
        """Ctrl-C, SIGTERM or SIGHUP once: every run ends its round.  Twice: stop now; the records stay valid."""
        goes_on = begin(self.out, self.scenario, self.code, _split(self.lab), self.settings.force)
        with self.progress:
            runs = [Run(label, seed) for label in self.lab.algorithms for seed in self.scenario.seeds]
            # seed by seed, so that a stop leaves some of them whole
            by_seed = sorted(runs, key=lambda run: self.scenario.seeds.index(run.seed))
            tasks = {run: asyncio.ensure_future(self._run(run)) for run in by_seed}
            everything = asyncio.gather(*(tasks[run] for run in runs))
            with heard_by(asyncio.get_running_loop(), partial(self._stop, everything)):
                outcomes = await everything
        if goes_on and not (self.stopped or any(each.unwritten for each in outcomes)):
            replace_file(self.out / CODE, self.code)  # with which all of it has come, again or anew
        return outcomes

    async def _run(self, run: Run) -> Outcome:
        async with self.turn:
            if self.stopped:
                return Outcome(run, interrupted=True)
            for each in self.watchers:
                each.begin(run)
            outcome = await self._played(run)
            for each in self.watchers:
                each.end(run, status_of(outcome))
            return outcome

    def _tell(self, run: Run, row: Row) -> None:
        self.progress.tell(run, row)
        for each in self.watchers:
            each.tell(run, row)

    async def _played(self, run: Run) -> Outcome:
        where, tell = self.out / run.name, self._tell
        if self.settings.world == "sockets":
            from emulator.play.over_sockets import run_sockets

            speedup = self.settings.speedup
            return await run_sockets(self.lab, run, self.conduct, self.pool, where, self._going_on, tell, speedup)
        earlier: Earlier = "cut" if self.settings.force else "compared"
        return await run_virtual(self.lab, run, self.conduct, self.pool, where, self._going_on, tell, earlier)

    def _stop(self, everything: asyncio.Future[Any], number: int) -> None:
        if everything.done():
            return  # nothing is left to be stopped
        if self.stopped:
            everything.cancel()
        else:
            again = "press Ctrl-C again" if number == signal.SIGINT else f"send {signal.Signals(number).name} again"
            seconds = self.progress.round_of_all()
            soon = "" if seconds is None else f", in {about(seconds)}"
            self.progress.say(f"fedlapse: every run ends its round{soon}; {again} to stop now")
        self.stopped = number

    def _going_on(self) -> bool:
        return not self.stopped


def _split(lab: Lab) -> str:
    """split.json: how many training examples of each class each device holds, under each seed.

    In a large fleet whose devices draw examples, `devices` has some of them, and `of` says how many there are.
    """
    counts = {str(seed): lab.label_counts(seed) for seed in lab.splits}
    fleet = len(lab.fleet)
    seeds = {seed: {"devices": of, **({"of": fleet} if len(of) < fleet else {})} for seed, of in counts.items()}
    classes = lab.dataset.classes if lab.dataset else 0
    return json.dumps({"classes": classes, "seeds": seeds}, sort_keys=True) + "\n"


def host_text(seconds: float, outcomes: Sequence[Outcome], session: Session) -> str:
    """host.json: what belongs to this machine and moment, and may differ between equal runs."""
    host = {
        **machine(session.lab.trains_on),
        "real_seconds": seconds,
        **_world(session.settings),
        "overruns": {o.run.name: o.overruns for o in outcomes if o.overruns},
        "strangers": {o.run.name: o.strangers for o in outcomes if o.strangers},
        FOLDERS: of_scenario(session.scenario),
    }
    return json.dumps(host, indent=1) + "\n"


def _world(settings: Settings) -> dict[str, Any]:
    """The world of host.json, and how fast its time passes."""
    return {"world": settings.world} | ({"speedup": settings.speedup} if settings.world == "sockets" else {})

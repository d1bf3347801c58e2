"""Plays all runs of a scenario concurrently, in one event loop and with one pool of workers."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.compute.executor import Executor, Tally
from emulator.compute.remembering import Disagreed
from emulator.compute.workers import why_broken
from emulator.lab.lab import Lab
from emulator.play.conduct import conducts_of
from emulator.play.progress import Progress, about
from emulator.play.run import run_virtual
from emulator.play.stage import Outcome, Row
from emulator.play.watcher import Watcher, status_of
from emulator.record.host import FOLDERS, of_scenario
from emulator.record.record import Earlier
from emulator.record.repeated import Otherwise
from emulator.record.run import Run
from emulator.record.seal import CODE
from emulator.record.writing import replace_file, told
from emulator.results.results import targets
from emulator.sessions.code import begin, code_text, or_go_on, why_otherwise
from emulator.sessions.machine import machine
from emulator.sessions.pool import Pool
from emulator.terminal.stopping import Stopped, loop_of_its_own, run_heard
from scenarios.builders.roster import sample
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario


@dataclass(frozen=True)
class Manner:
    """Options on how runs are played, and how their progress is shown."""

    force: bool = False  # replaces records that differ
    speedup: float | None = None  # modelled seconds per real second over sockets; None: virtual time
    quiet: bool = False
    at_once: int = sys.maxsize  # concurrent runs
    title: str = ""  # title of the progress line
    watchers: Sequence[Watcher] = ()


@dataclass(frozen=True)
class Sitting:
    """The outcomes of all runs of one scenario, after they were played."""

    session: Session
    outcomes: list[Outcome]
    tally: Tally | None  # None: no ledger

    @property
    def unfinished(self) -> bool:
        """True if a signal stopped the runs, or the record of a run could not be written."""
        return self.session.stopped > 0 or any(each.unwritten for each in self.outcomes)


def play_runs(scenario: Scenario, lab: Lab, out: Path, pool: Pool, manner: Manner) -> Sitting:
    """Plays all runs of a scenario with one pool of workers, and writes their records to the folder OUT.

    Raises BadScenario if a resumed run differs from its record, KeyboardInterrupt if the user stops the runs within a
    round, and BrokenExecutor, Disagreed or OSError if an error ends all runs.
    """
    # The loop comes first: with too many open files, Python cannot clean up a half-made loop.
    with loop_of_its_own() as loop, pool.open(scenario, lab) as doing:
        session = Session(scenario, lab, out, doing, manner)
        try:  # closes the loop before the workers, so that asyncio does not complain about unfinished work
            outcomes = run_heard(loop, session.play(), session.stop)
        except asyncio.CancelledError:
            doing.stop()
            raise Stopped(session.stopped) from None
        except KeyboardInterrupt:
            doing.stop()
            raise
        except Otherwise as error:
            doing.stop()
            raise BadScenario(f"{error}: {why_otherwise(out, session.code)}\n{or_go_on(out)}") from None
        sitting = Sitting(session, outcomes, doing.tally)
        doing.broken_off = sitting.unfinished
    return sitting


def why_ended(error: BrokenExecutor | Disagreed | OSError) -> str:
    """Returns one line on the error that ended all runs."""
    match error:
        case BrokenExecutor():
            return why_broken(error)
        case Disagreed():
            ways = "`fedlapse ledger verify` says what else differs, and --no-ledger trains everything"
            return f"{error}: done again, it gave other bits than the ledger has; {ways}"
        case _:
            return told(error)


def progress_of(scenario: Scenario, lab: Lab, manner: Manner) -> Progress:
    """Returns the display of the progress of a scenario's runs, at their beginning."""
    devices, conducts = len(sample(lab.fleet)), conducts_of(scenario, lab.algorithms)
    return Progress(
        targets(scenario),
        scenario.rounds.max,
        labels={label: conduct.rules.max for label, conduct in conducts.items()},
        runs=len(lab.algorithms) * len(scenario.seeds),
        early=bool(scenario.rounds.stop_at or scenario.rounds.until_s),
        until=scenario.rounds.until_s,
        at_once=manner.at_once,
        last=max(conduct.last_round(devices) for conduct in conducts.values()),
        main=scenario.task.main,
        lower=scenario.task.is_lower("validation"),
        quiet=manner.quiet,
    )


class Session:
    """All runs of one scenario while they are played, concurrently in one event loop."""

    def __init__(self, scenario: Scenario, lab: Lab, out: Path, pool: Executor, manner: Manner) -> None:
        self.scenario, self.lab, self.out, self.pool, self.manner = scenario, lab, out, pool, manner
        self.conducts = conducts_of(scenario, lab.algorithms)
        self.progress = progress_of(scenario, lab, manner)
        self.progress.title = manner.title
        self.stopped = 0  # number of the signal that stopped the runs, or 0
        self.everything: asyncio.Future[list[Outcome]] | None = None  # all runs, once started
        self.turn = asyncio.Semaphore(manner.at_once)
        self.code = code_text(scenario, pool.numerics)

    async def play(self) -> list[Outcome]:
        """Plays all runs, and returns their outcomes, by algorithm and then by seed.

        After a first Ctrl-C, SIGTERM or SIGHUP every run completes its round.  After a second one all runs end at once;
        their records stay valid.
        """
        goes_on = begin(self.out, self.scenario, self.code, _split(self.lab), self.manner.force)
        with self.progress:
            runs = [Run(label, seed) for label in self.lab.algorithms for seed in self.scenario.seeds]
            # seed by seed, so that a stop leaves some seeds complete
            by_seed = sorted(runs, key=lambda run: self.scenario.seeds.index(run.seed))
            tasks = {run: asyncio.ensure_future(self._run(run)) for run in by_seed}
            self.everything = asyncio.gather(*(tasks[run] for run in runs))
            outcomes = await self.everything
        if goes_on and not (self.stopped or any(each.unwritten for each in outcomes)):
            replace_file(self.out / CODE, self.code)  # now all records come from this code
        return outcomes

    async def _run(self, run: Run) -> Outcome:
        async with self.turn:
            if self.stopped:
                return Outcome(run, interrupted=True)
            for each in self.manner.watchers:
                each.begin(run)
            outcome = await self._played(run)
            for each in self.manner.watchers:
                each.end(run, status_of(outcome))
            return outcome

    def _tell(self, run: Run, row: Row) -> None:
        self.progress.tell(run, row)
        for each in self.manner.watchers:
            each.tell(run, row)

    async def _played(self, run: Run) -> Outcome:
        where, tell, conduct = self.out / run.name, self._tell, self.conducts[run.label]
        if (speedup := self.manner.speedup) is not None:
            from emulator.play.over_sockets import run_sockets

            return await run_sockets(self.lab, run, conduct, self.pool, where, self._going_on, tell, speedup)
        earlier: Earlier = "cut" if self.manner.force else "compared"
        return await run_virtual(self.lab, run, conduct, self.pool, where, self._going_on, tell, earlier)

    def stop(self, number: int) -> None:
        """Handles a signal, given by its number: at the first one every run completes its round; at a second one all
        runs end at once."""
        if self.everything and self.everything.done():
            return  # nothing is left to be stopped
        if self.stopped and self.everything:
            self.everything.cancel()
        else:
            again = "press Ctrl-C again" if number == signal.SIGINT else f"send {signal.Signals(number).name} again"
            seconds = self.progress.round_of_all()
            soon = "" if seconds is None else f", in {about(seconds)}"
            self.progress.say(f"fedlapse: every run ends its round{soon}; {again} to stop now")
        self.stopped = number

    def _going_on(self) -> bool:
        return not self.stopped


def _split(lab: Lab) -> str:
    """Returns the text of split.json: for each seed, how many training examples of each class each device has.

    For a large fleet whose examples are drawn at random, `devices` has only a sample of the devices, and `of` is the
    size of the fleet.
    """
    counts = {str(seed): lab.label_counts(seed) for seed in lab.splits}
    fleet = len(lab.fleet)
    seeds = {seed: {"devices": of, **({"of": fleet} if len(of) < fleet else {})} for seed, of in counts.items()}
    classes = lab.kinds if lab.dataset else 0
    return json.dumps({"classes": classes, "seeds": seeds}, sort_keys=True) + "\n"


def host_text(seconds: float, outcomes: Sequence[Outcome], session: Session) -> str:
    """Returns the text of host.json, which describes this machine and moment, so it may differ between equal runs.

    `seconds`: the real time that the command took.
    """
    host = {
        **machine(session.lab.trains_on),
        "real_seconds": seconds,
        **world(session.manner.speedup),
        "overruns": {o.run.name: o.overruns for o in outcomes if o.overruns},
        "strangers": {o.run.name: o.strangers for o in outcomes if o.strangers},
        FOLDERS: of_scenario(session.scenario),
    }
    return json.dumps(host, indent=1) + "\n"


def world(speedup: float | None) -> dict[str, Any]:
    """Returns the part of host.json on the world (virtual time or sockets), with the speed-up of sockets.

    `speedup`: modelled seconds per real second over sockets; None: virtual time.
    """
    return {"world": "virtual"} if speedup is None else {"world": "sockets", "speedup": speedup}

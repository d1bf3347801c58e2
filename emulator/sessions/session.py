"""All runs of a scenario, concurrently in one event loop over one pool."""

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
from emulator.play.conduct import Conduct
from emulator.play.progress import Progress, about
from emulator.play.run import run_virtual
from emulator.play.stage import Outcome, Row
from emulator.play.watcher import Watcher, status_of
from emulator.record.again import Otherwise
from emulator.record.host import FOLDERS, of_scenario
from emulator.record.record import Earlier, replace_file
from emulator.record.run import Run
from emulator.record.seal import CODE
from emulator.record.writing import told
from emulator.results.results import targets
from emulator.sessions.code import begin, code_text, or_go_on, why_otherwise
from emulator.sessions.machine import machine
from emulator.sessions.pool import Pool
from emulator.terminal.stopping import Stopped, loop_of_its_own, run_heard
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario


@dataclass(frozen=True)
class Manner:
    """How runs are played, and who looks on."""

    force: bool = False  # what comes out otherwise than its record is replaced
    speedup: float | None = None  # over sockets; None: in virtual time
    quiet: bool = False
    at_once: int = sys.maxsize  # runs that are under way at the same time
    title: str = ""  # what the runs are, for progress
    watchers: Sequence[Watcher] = ()


@dataclass(frozen=True)
class Sitting:
    """All runs of one scenario, as they ended."""

    session: Session
    outcomes: list[Outcome]
    tally: Tally | None  # None: there is no ledger

    @property
    def unfinished(self) -> bool:
        """True: somebody stopped the runs, or a record could not be written."""
        return self.session.stopped > 0 or any(each.unwritten for each in self.outcomes)


def play_runs(scenario: Scenario, lab: Lab, out: Path, pool: Pool, manner: Manner) -> Sitting:
    """Plays all runs over one pool.

    Raises BadScenario if one that was broken off comes out otherwise than its record, as far as that goes,
    KeyboardInterrupt if they are stopped at once, and BrokenExecutor, Disagreed or OSError if all must end.
    """
    # The loop comes first: where too many files are open, Python cannot take back one that is half made.
    with loop_of_its_own() as loop, pool.open(scenario, lab) as doing:
        session = Session(scenario, lab, out, doing, manner)
        try:  # the loop ends before the workers, so that it does not complain of what they had not done
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
    """Why all runs had to end, in one line."""
    match error:
        case BrokenExecutor():
            return why_broken(error)
        case Disagreed():
            ways = "`fedlapse ledger verify` says what else differs, and --no-ledger trains everything"
            return f"{error}: done again, it gave other bits than the ledger has; {ways}"
        case _:
            return told(error)


class Session:
    """All runs of one command, concurrently in one event loop over one pool."""

    def __init__(self, scenario: Scenario, lab: Lab, out: Path, pool: Executor, manner: Manner) -> None:
        self.scenario, self.lab, self.out, self.pool, self.manner = scenario, lab, out, pool, manner
        self.conduct = Conduct.of(scenario)
        self.progress = Progress(
            targets(scenario),
            self.conduct.rules.max,
            labels=lab.algorithms,
            runs=len(lab.algorithms) * len(scenario.seeds),
            early=bool(scenario.rounds.stop_at or scenario.rounds.until_s),
            until=scenario.rounds.until_s,
            quiet=manner.quiet,
        )
        self.progress.title = manner.title
        self.stopped = 0  # by this signal
        self.everything: asyncio.Future[list[Outcome]] | None = None  # all runs, once they have begun
        self.turn = asyncio.Semaphore(manner.at_once)
        self.code = code_text(scenario, pool.numerics)

    async def play(self) -> list[Outcome]:
        """Ctrl-C, SIGTERM or SIGHUP once: every run ends its round.  Twice: stop now; the records stay valid."""
        goes_on = begin(self.out, self.scenario, self.code, _split(self.lab), self.manner.force)
        with self.progress:
            runs = [Run(label, seed) for label in self.lab.algorithms for seed in self.scenario.seeds]
            # seed by seed, so that a stop leaves some of them whole
            by_seed = sorted(runs, key=lambda run: self.scenario.seeds.index(run.seed))
            tasks = {run: asyncio.ensure_future(self._run(run)) for run in by_seed}
            self.everything = asyncio.gather(*(tasks[run] for run in runs))
            outcomes = await self.everything
        if goes_on and not (self.stopped or any(each.unwritten for each in outcomes)):
            replace_file(self.out / CODE, self.code)  # with which all of it has come, again or anew
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
        where, tell = self.out / run.name, self._tell
        if (speedup := self.manner.speedup) is not None:
            from emulator.play.over_sockets import run_sockets

            return await run_sockets(self.lab, run, self.conduct, self.pool, where, self._going_on, tell, speedup)
        earlier: Earlier = "cut" if self.manner.force else "compared"
        return await run_virtual(self.lab, run, self.conduct, self.pool, where, self._going_on, tell, earlier)

    def stop(self, number: int) -> None:
        """This signal has come: every run ends its round; at a second one all end now."""
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
        **world(session.manner.speedup),
        "overruns": {o.run.name: o.overruns for o in outcomes if o.overruns},
        "strangers": {o.run.name: o.strangers for o in outcomes if o.strangers},
        FOLDERS: of_scenario(session.scenario),
    }
    return json.dumps(host, indent=1) + "\n"


def world(speedup: float | None) -> dict[str, Any]:
    """The world of host.json, and how fast its time passes."""
    return {"world": "virtual"} if speedup is None else {"world": "sockets", "speedup": speedup}

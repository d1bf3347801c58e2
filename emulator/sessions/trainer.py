"""`replay --train`: plays recorded runs again in other settings, with training, in virtual time.

Trainings whose results are in the ledger are not done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import replace

from rich.console import Console

from emulator.compute.executor import Executor, Tally
from emulator.compute.remembering import Disagreed
from emulator.lab.build import lab_of
from emulator.lab.faulty import Faulty
from emulator.lab.jobs import start
from emulator.lab.lab import Lab
from emulator.play.conduct import conducts_of
from emulator.play.progress import Progress
from emulator.play.run import run_virtual
from emulator.play.stage import Outcome
from emulator.replay.batch import Batch, Order
from emulator.replay.findings import ReplayResult, result_of
from emulator.replay.replayer import Replayed
from emulator.results.units import counted
from emulator.sessions.compiling import compile_replays
from emulator.sessions.computing import Playing
from emulator.sessions.replaying import Played, gathered
from emulator.sessions.session import why_ended
from emulator.terminal.errors import FAILED
from emulator.terminal.lines import say
from emulator.terminal.reading import told_while_read
from emulator.terminal.stopping import Stopped, loop_of_its_own, run_heard
from scenarios.builders.roster import sample
from scenarios.load import load
from scenarios.text.faults import placed


class Trainer:
    """Plays recorded runs anew in other settings, with training; one pool of workers and one ledger serve all of them.

    Raises BadScenario if this computer cannot play the scenario.
    """

    def __init__(self, batch: Batch, playing: Playing) -> None:
        self.batch, self.pool, self.quiet = batch, playing.pool(), playing.quiet
        with told_while_read():
            self.scenario = load(str(batch.home / "scenario.yaml"), recordings=True)
        with placed(self.scenario.source):
            self.lab = lab_of(self.scenario, self.pool.places)
        self.conducts = conducts_of(self.scenario, batch.labels)
        rounds = {label: conduct.rules.max for label, conduct in self.conducts.items()}
        most, runs, task = self.scenario.rounds.max, len(batch.scripts), self.scenario.task
        self.progress = Progress(
            batch.targets,
            most,
            labels=rounds,
            runs=runs,
            main=task.main,
            lower=task.is_lower("validation"),
            quiet=self.quiet,
        )
        self.tally: Tally | None = None  # None: no ledger
        self.fault: Faulty | None = None  # the first error of an algorithm
        self.signal = 0  # number of the signal that stopped the runs, or 0
        self.everything: asyncio.Future[list[Outcome]] | None = None  # all runs of a setting, once started

    def play_all(self, orders: Sequence[Order]) -> Played:
        """Plays these replays, setting by setting, with progress on stderr; returns their results.

        `orders`: for each setting in turn, one order for each run of the batch.
        """
        compile_replays(self.batch, orders)
        played = gathered(self._all(orders), orders, Console(quiet=True))
        trained = (
            self.tally.sentence() if self.tally else "training: everything was computed, because there was no ledger"
        )
        played = replace(played, trained=trained)
        if self.fault:
            say(f"fedlapse: {self.fault}", err=True)
            return replace(played, code=played.code or FAILED)
        if self.tally and not played.whole:
            say("fedlapse: what was trained is in the ledger; the same command does not train it again", err=True)
        return played

    def _all(self, orders: Sequence[Order]) -> Generator[ReplayResult, None, None]:
        """Yields the results in the sequence of `orders`.  Raises ChildProcessError if an error ends all replays, for
        example a killed worker."""
        with self.pool.open(self.scenario, self.lab) as pool:
            try:
                runs = len(self.batch.scripts)
                self._tell_before(pool, len(orders) // runs)
                with self.progress:
                    for first in range(0, len(orders), runs):
                        self.progress.begin(_title(orders, first, runs))
                        yield from self._setting(orders[first : first + runs], pool)
            except (BrokenExecutor, Disagreed) as error:
                raise ChildProcessError(why_ended(error)) from None
            except KeyboardInterrupt:
                pool.stop()
                raise
            pool.broken_off = False

    def _setting(self, orders: Sequence[Order], pool: Executor) -> Generator[ReplayResult, None, None]:
        """Plays all runs of one setting concurrently, and yields their results."""
        setting = orders[0].condition.setting(self.batch.base)
        lab = replace(self.lab, **setting.parts)
        try:
            with loop_of_its_own() as loop:
                outcomes = run_heard(loop, self._play(lab, orders, pool), self._stop)
        except asyncio.CancelledError:
            raise Stopped(self.signal) from None
        for outcome in outcomes:
            if outcome.unwritten:
                raise outcome.unwritten
            self.fault = self.fault or outcome.fault
            yield self._result(outcome)
        pool.settle()
        if self.signal:
            raise Stopped(self.signal)

    async def _play(self, lab: Lab, orders: Sequence[Order], pool: Executor) -> list[Outcome]:
        """Plays the runs of one setting, and returns their outcomes.

        A signal stops them at once.  No round is completed first, because incomplete timelines are removed anyway.
        """
        tell = self.progress.tell
        runs = [(self.batch.scripts[order.run].run, order.folder) for order in orders]
        played = (run_virtual(lab, run, self.conducts[run.label], pool, folder, progress=tell) for run, folder in runs)
        self.everything = asyncio.gather(*played)
        if self.signal:
            self.everything.cancel()
        return await self.everything

    def _stop(self, number: int) -> None:
        self.signal = number
        if self.everything:
            self.everything.cancel()

    def _result(self, outcome: Outcome) -> ReplayResult:
        run, rows = outcome.run, outcome.rows
        loops, _ = outcome.looped
        played = Replayed(run.label, run.seed, rows, None, 0, outcome.why, loops)
        return result_of(played, self.batch.targets, len(rows), self.batch.compared(run.label))

    # --- what it will cost ----------------------------------------------------------------------------------------

    def _tell_before(self, pool: Executor, settings: int) -> None:
        """Prints about how many device-rounds must be trained, because the ledger does not have the recorded runs.

        `settings`: the number of settings in which the runs are replayed.
        """
        self.tally = pool.tally
        new = [script.run for script in self.batch.scripts if not pool.knows(start, script.run)]  # how it begins
        if self.quiet or not new:
            return
        rounds = sum(self._device_rounds(number) for number, each in enumerate(self.batch.scripts) if each.run in new)
        if self.tally:
            whose, more = f"the ledger does not have {counted(len(new), 'run')} of the record", ", and what differs"
        else:
            whose, more = "there is no ledger", f" in each of {settings} settings" if settings > 1 else ""
        say(f"fedlapse: {whose}: about {rounds} device-rounds are trained{more}", err=True)

    def _device_rounds(self, run: int) -> int:
        """Returns the number of device trainings in a recorded run, given by its number in the batch.

        Includes the trainings with which the metric `personalised` is measured.
        """
        rounds, fleet = self.batch.scripts[run].rounds, len(sample(self.lab.fleet))
        return sum(len(each.asked) + fleet * (each.row.get("personalised") is not None) for each in rounds)


def _title(orders: Sequence[Order], first: int, runs: int) -> str:
    """Returns a setting's title for progress, such as `lte.csv (2 of 5)`; "" if there is only one setting.

    `first`: the number of the setting's first order.  `runs`: orders for each setting.
    """
    settings = len(orders) // runs
    return f"{orders[first].condition.name} ({first // runs + 1} of {settings})" if settings > 1 else ""

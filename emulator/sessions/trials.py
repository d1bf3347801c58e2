"""Plays many scenarios one after the other for `tune` and `study`, without printing the results of each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from emulator.compute.batches import Job
from emulator.compute.executor import Executor, Tally
from emulator.compute.executors import Team
from emulator.compute.remembering import Disagreed
from emulator.forecast.deadline import check_deadline
from emulator.lab.build import built
from emulator.lab.doubts import about_data
from emulator.lab.lab import Lab
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.play.stage import Row
from emulator.record.host import note, of_scenario
from emulator.record.run import Run
from emulator.record.seal import SEAL, seal_results
from emulator.record.writing import replace_file
from emulator.results.results import results_of
from emulator.sessions.compiling import compile_network
from emulator.sessions.computing import Playing
from emulator.sessions.ending import Ending, added_up, summary_text
from emulator.sessions.folder import refuse_links, replaced, why_not
from emulator.sessions.pool import AT_ONCE, Pool
from emulator.sessions.session import Manner, host_text, play_runs, why_ended
from emulator.terminal.errors import FAILED, Unfinished
from emulator.terminal.stopping import code, code_of, uninterrupted
from emulator.worlds.virtual import at_once
from scenarios.builders.assumed import assumptions
from scenarios.load import dump
from scenarios.schema.scenario import Scenario

Runs = Mapping[str, Mapping[int, Sequence[Mapping[str, Any]]]]  # label -> seed -> rows


class Trials:
    """Plays scenarios into folders.  A folder that holds all runs of its scenario is not played again."""

    def __init__(self, playing: Playing) -> None:
        """Raises BadScenario if --device or --workers is not possible here."""
        self.pool, self.quiet = playing.pool(), playing.quiet
        self.tally = Tally()  # over all scenarios played

    def play(self, scenario: Scenario, out: Path, title: str = "", hopeless: bool = False) -> Runs:
        """Plays the scenario into the folder `out`, unless the folder has all of its runs.  Returns the rows of their
        rounds, by label and seed.

        `title`: for the progress line.  `hopeless`: also plays algorithms whose replies can never meet the deadline, so
        that they fail.  Raises BadScenario if the scenario cannot be played, Unfinished if the user or an error stopped
        the runs.
        """
        scenario, lab = built(scenario, self.pool.places)
        if not hopeless:
            check_deadline(lab, scenario)
        compile_network(scenario)
        out.mkdir(parents=True, exist_ok=True)
        if not complete(out, scenario):
            if why_not(out, dump(scenario)):
                replaced(out, "results", of_scenario(scenario), tell=False)
            refuse_links(out, of_scenario(scenario))
            note(out, of_scenario(scenario))
            replace_file(out / "scenario.yaml", dump(scenario))
            self._play(scenario, lab, out, title)
        return results_of(out, scenario).runs

    @cached_property
    def team(self) -> Pool:
        """The pool whose workers serve all scenarios; the workers end at `close`, or else with this process."""
        workers = self.pool.workers
        staying = Team(workers, self.pool.places) if isinstance(workers, int) and workers else workers
        return replace(self.pool, workers=staying)

    def close(self) -> None:
        """Stops the workers of `team`, if they were started."""
        if "team" in vars(self) and isinstance(self.team.workers, Team):
            self.team.workers.close()

    def known(self, scenario: Scenario) -> tuple[Runs | None, int]:
        """Returns what the ledger knows of the scenario's runs.  Nothing is trained.

        Returns the rows of all runs, by label and seed (None if the ledger lacks a part of any run), and the number of
        device-rounds that the ledger has.
        """
        scenario, lab = built(scenario, self.pool.places)
        runs = {}
        if self.pool.ledger is None:
            return None, 0
        with replace(self.pool, workers=0).open(scenario, lab) as pool:
            if pool.tally is None:
                return None, 0
            pool.broken_off = False
            for label in lab.algorithms:
                conduct = Conduct.of(scenario.under(label))
                runs[label] = {seed: _known(lab, Run(label, seed), conduct, pool) for seed in scenario.seeds}
        whole = {label: {seed: rows for seed, rows in of.items() if rows is not None} for label, of in runs.items()}
        complete = all(len(whole[label]) == len(scenario.seeds) for label in whole)
        return whole if complete else None, pool.tally.known

    def _play(self, scenario: Scenario, lab: Lab, out: Path, title: str) -> None:
        manner, began = Manner(quiet=self.quiet, at_once=AT_ONCE * self.pool.processes, title=title), time.monotonic()
        try:
            sitting = play_runs(scenario, lab, out, self.team, manner)
        except KeyboardInterrupt as stop:
            raise Unfinished(code_of(stop)) from None
        except (BrokenExecutor, Disagreed, OSError) as error:
            raise Unfinished(FAILED, why_ended(error)) from None
        if sitting.tally:
            self.tally.add(sitting.tally)
        if sitting.session.stopped:
            raise Unfinished(code(sitting.session.stopped))
        if unwritten := [each.unwritten for each in sitting.outcomes if each.unwritten]:
            raise Unfinished(FAILED, why_ended(unwritten[0]))
        with uninterrupted():
            host = host_text(time.monotonic() - began, sitting.outcomes, sitting.session)
            replace_file(out / "host.json", host)
            doubted = list(about_data(lab, scenario.data.split))
            ending = Ending(sitting.outcomes, host, assumed=list(assumptions(scenario)), doubts=doubted)
            replace_file(out / "summary.json", summary_text(added_up(out, ending)))
            seal_results(out)


def _known(lab: Lab, run: Run, conduct: Conduct, pool: Executor) -> list[Row] | None:
    """Returns the rows of a run's rounds if the ledger has all of its jobs (trainings and evaluations); else None."""
    try:
        return at_once(run_virtual(lab, run, conduct, Knowing(pool), None)).rows
    except UnknownJob:
        return None


def complete(out: Path, scenario: Scenario) -> bool:
    """Returns True if the folder holds exactly this scenario, and a seal, which is written after all of its runs."""
    try:
        same = (out / "scenario.yaml").read_text(encoding="utf-8") == dump(scenario)
    except (OSError, ValueError):
        return False
    return same and (out / SEAL).is_file()


class UnknownJob(Exception):  # noqa: N818  a state, and not an error
    """The signal that the ledger does not have the result of a job."""


class Knowing(Executor):
    """An executor that computes nothing: it takes the results of jobs from the ledger."""

    def __init__(self, ledger: Executor) -> None:
        self.ledger, self.store = ledger, ledger.store

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        """Returns the result of a job from the ledger.  Raises UnknownJob if the ledger does not have it."""
        if not self.ledger.knows(job, *args):
            raise UnknownJob(job.__name__)
        return self.ledger.submit(job, *args)

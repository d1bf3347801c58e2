"""Plays the papers' full settings, one row (algorithm) and one seed at a time: each that ends leaves one CSV, and is
never played again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from emulator.play.progress import about
from emulator.record.lines import object_of
from emulator.record.writing import replace_file
from emulator.results.full_runs import FORECAST, GPU, FullRun, Played, digest, finished, foreseen, pace, read, written
from emulator.sessions.checking import planned
from emulator.sessions.computing import Playing
from emulator.sessions.folder import alone, folder
from emulator.sessions.machine import machine
from emulator.sessions.pool import Pool
from emulator.sessions.trials import Trials
from emulator.terminal.errors import Unfinished
from emulator.terminal.lines import say
from emulator.terminal.stopping import code_of, uninterrupted
from scenarios.load import load, shipped
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario, did_you_mean

RUNNING = ".running"  # records of runs that have not ended
MACHINE = ("processor", "gpu", "workers")  # facts of machines that take equally long
CODE = ("algorithms", "devices", "emulator", "network", "scenarios")
COMMIT = "FEDLAPSE_COMMIT"  # environment variable: the commit, where there is no git


def settings(names: Sequence[str], changes: Sequence[str] = ()) -> dict[str, Scenario]:
    """Returns the papers' settings with these names, or with names that begin so, in this order; all, if no name is
    given; with `path=value` changes.  Raises BadScenario for a name that is none."""
    known = [name.removeprefix("papers/") for name in shipped() if name.startswith("papers/")]
    found: dict[str, Scenario] = {}
    for said in names or known:
        name = said.removeprefix("papers/")
        begun = [name] if name in known else [each for each in known if name and each.startswith(name)]
        if not begun:
            raise BadScenario(f"{said}: no setting of the papers; {did_you_mean(name, known)}")
        found |= {each: load(f"papers/{each}", changes) for each in begun if each not in found}
    return found


def runs_of(found: Mapping[str, Scenario], rows: Sequence[str], seeds: int) -> list[FullRun]:
    """Returns the runs of these settings, seed by seed: of all algorithms, or of those with the labels `rows`.

    `seeds`: how many; the scenario's own first, and then the numbers that follow.  Raises BadScenario for a row that no
    setting has.
    """
    labels = dict.fromkeys(entry.name for scenario in found.values() for entry in scenario.algorithms)
    for row in rows:
        if row not in labels:
            raise BadScenario(f"--rows {row}: no algorithm of {', '.join(found)}; {did_you_mean(row, labels)}")
    return [
        FullRun.of(name, scenario, entry.name, seed)
        for name, scenario in found.items()
        for seed in islice(chain(scenario.seeds, count(max(scenario.seeds) + 1)), seeds)
        for entry in scenario.algorithms
        if not rows or entry.name in rows
    ]


class FullRuns:
    """The runs of a command, of which each leaves its CSV in the folder `out`."""

    def __init__(
        self,
        found: Mapping[str, Scenario],
        rows: Sequence[str],
        seeds: int,
        out: Path,
        playing: Playing,
        force: bool = False,
    ) -> None:
        """Raises BadScenario for faulty options, for a setting that cannot be played here, if `out` cannot be made,
        and, without `force`, if a CSV of another version of a setting is in the way."""
        self.began, self.out, self.force = time.monotonic(), out, force
        self.runs = runs_of(found, rows, seeds)
        self.due = [run for run in self.runs if self._is_due(run)]
        self.trials, self.quiet = Trials(playing), playing.quiet
        folder(out, "papers")
        self.here = _here(self.trials.pool)
        self.forecast = {name: self._forecast(name, scenario) for name, scenario in found.items()}
        played = [(path.parent.name, read(path)) for path in self.out.glob("*/*.csv")]
        self.computed = [(name, of.facts) for name, of in played if of.is_computed(found.get(name))]

    def play(self, limit: float | None = None) -> list[FullRun]:
        """Plays the runs that have not ended, and returns those for which the time was too short.

        `limit`: seconds since this object was made; no run begins that is expected to end later.  Raises Unfinished if
        the user or an error stopped a run; what it has played is kept.
        """
        over = list[FullRun]()
        try:
            for number, run in enumerate(self.due):
                if not self._is_due(run):  # by now another command has played it
                    continue
                if limit is not None and time.monotonic() - self.began + self.expected(run) > limit:
                    over.append(run)
                    continue
                rest = sum(map(self.expected, self.due[number:]))
                self._play(run, f"{run.text}, {number + 1} of {len(self.due)}, {about(rest)} left for all")
        except (KeyboardInterrupt, Unfinished) as stop:
            exit_code, lines = (stop.code, stop.lines) if isinstance(stop, Unfinished) else (code_of(stop), ())
            others = "what others have run is kept" if self.trials.pool.ledger else "others begin anew (no ledger)"
            raise Unfinished(exit_code, *lines, f"{self.done}, and {others}; the same command goes on") from None
        finally:
            self.trials.close()
        if not any((self.out / RUNNING).glob("*/*")):  # otherwise records of other commands
            shutil.rmtree(self.out / RUNNING, ignore_errors=True)
        return over

    @property
    def done(self) -> str:
        """The number of runs that are done, as a sentence: `3 of 21 runs are done`."""
        return f"{sum(finished(run, self.out) is not None for run in self.runs)} of {len(self.runs)} runs are done"

    def expected(self, run: FullRun) -> float:
        """Returns the seconds that a run is expected to take: its forecast, times what others that were computed to
        their end took here over their forecasts, those of the same setting if there are any."""
        here = [each for each in self.computed if all(each[1].get(key) == self.here[key] for key in MACHINE)]
        like = [facts for name, facts in here if name == run.name] or [facts for _, facts in here]
        usual = 1.0 / GPU if self.here["gpu"] else 1.0
        return self.forecast[run.name][run.run.label] * (pace(like, "host_s") or usual)

    def _is_due(self, run: FullRun) -> bool:
        """Returns False for a run that has ended.  Raises BadScenario, without `force`, if its CSV is of another
        version of the setting, which may have taken hours."""
        path = run.file(self.out)
        due = finished(run, self.out) is None
        if due and path.exists() and not self.force:
            raise BadScenario(f"{path} is of another version of the setting; give another --out, or --force to replace")
        return due

    def _forecast(self, name: str, scenario: Scenario) -> Mapping[str, float]:
        """Returns the core-seconds of a run of each algorithm, by label: those in the folder, or a new forecast."""
        if known := foreseen(self.out, name, scenario):
            return known
        like = FullRun.of(name, scenario, scenario.algorithms[0].name, scenario.seeds[0]).scenario
        plan = planned(like.model_copy(update={"algorithms": scenario.algorithms}), workers=1)
        usual = sum(price.flops for price in plan.prices.values()) / len(plan.prices)
        flops = {entry.name: getattr(plan.prices.get(entry.name), "flops", usual) for entry in scenario.algorithms}
        each = plan.effort.seconds / (usual * len(plan.prices))
        core = {label: float(f"{each * of:.4g}") for label, of in flops.items()}
        path = self.out / FORECAST
        said = object_of(path.read_bytes(), str(path)) if path.is_file() else {}
        said[name] = {"of": digest(scenario), "core_s": core}
        replace_file(path, json.dumps(said, indent=1, sort_keys=True) + "\n")
        return core

    def _play(self, run: FullRun, title: str) -> None:
        place = self.out / RUNNING / run.name / run.run.name
        place.mkdir(parents=True, exist_ok=True)
        with ExitStack() as locked:
            try:
                locked.enter_context(alone(place))
            except BadScenario:
                say(f"fedlapse: {run.text}: another fedlapse is running it", err=True)
                return
            kept = place.with_name(f"{place.name}.seconds")  # spent by earlier commands: of the clock, of this process
            spent = json.loads(kept.read_bytes()) if kept.is_file() else [0.0, 0.0]
            began, before = (time.monotonic(), time.process_time()), self.trials.tally.known
            try:
                rows = self.trials.play(run.scenario, place, title)[run.run.label][run.run.seed]
            finally:
                spent = [spent[0] + time.monotonic() - began[0], spent[1] + time.process_time() - began[1]]
                replace_file(kept, json.dumps(spent))
            with uninterrupted():
                facts = self._facts(run, place, spent, self.trials.tally.known - before)
                written(run.file(self.out), facts, rows)
                if Played(facts, rows).is_computed(run.scenario):
                    self.computed.append((run.name, facts))
                kept.unlink()
                shutil.rmtree(place)
        if not self.quiet:
            say(f"fedlapse: {run.text}: {len(rows)} rounds in {about(spent[0])}; {run.file(self.out)}", err=True)

    def _facts(self, run: FullRun, place: Path, spent: Sequence[float], known: int) -> dict[str, Any]:
        """Returns the facts about a run that has ended in the folder `place`.

        `known`: device-rounds that the ledger had, so that the time spent says little.
        """
        summary = json.loads((place / "summary.json").read_bytes())
        warned = [each["text"] for each in summary["labels"].get(run.run.label, {"warnings": []})["warnings"]]
        told = [*summary.get("failures", {}).get(run.run.label, ()), *warned]
        alone = self.here["workers"] == 0  # otherwise other processes have trained
        return {
            "run": run.digest,
            **self.here,
            "host_s": round(spent[0], 1),
            **({"cpu_s": round(spent[1], 1)} if alone else {}),
            "forecast_s": self.forecast[run.name][run.run.label],
            **({"known": known} if known else {}),
            **({"told": told} if told else {}),
        }


def _here(pool: Pool) -> dict[str, Any]:
    """Returns the facts about this machine and version that each CSV repeats; `workers` is 0 if this process trains."""
    found = machine(pool.places)
    versions = {package: found["versions"][package] for package in ("fedlapse", "torch")}
    return {
        **versions,
        "commit": commit(),
        **{key: found["machine"][key] for key in ("processor", "cores")},
        "gpu": found["device"].get("model"),
        "workers": pool.workers if pool.workers == 0 else pool.processes,
    }


def commit() -> str | None:
    """Returns the commit of this fedlapse, with `-changed` if its code differs from it; $FEDLAPSE_COMMIT, or None,
    where that is not known, as in an installed fedlapse."""
    home = Path(__file__).parents[2]
    try:
        head = _git(home, "rev-parse", "--short=12", "HEAD") if (home / ".git").exists() else ""
        changed = "-changed" if head and _git(home, "diff", "--name-only", "HEAD", "--", *CODE) else ""
    except (OSError, subprocess.CalledProcessError):
        head = changed = ""
    return head + changed or os.environ.get(COMMIT)


def _git(home: Path, *words: str) -> str:
    command = ["git", "-C", str(home), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603

"""What `compare` and `run` share: play a scenario's runs over one pool, and leave OUT in order."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import platform
import signal
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer

from emulator.commands.table import table
from emulator.jobs import Run
from emulator.record import replace_file
from emulator.report.page import page
from emulator.run import Conduct, Outcome, Row, run_virtual, study_of
from emulator.study import Study
from emulator.summary import round_bytes, summarise
from emulator.targets import Target
from emulator.workshop import Executor, executor
from scenarios.load import BadScenario, build, dump, load
from scenarios.schema import Scenario

PACKAGES = ("fedlapse", "torch", "numpy", "simpy", "aiohttp", "msgpack", "scikit-learn")
INTERRUPTED = 130


@dataclass(frozen=True)
class Settings:
    """What the command line says beside the scenario."""

    workers: int | None = None
    seed: int | None = None
    rounds: int | None = None
    out: Path | None = None
    quiet: bool = False
    algorithm: str | None = None  # None: all of the scenario
    world: str = "virtual"
    speedup: float = 1.0


def play_scenario(path: str, settings: Settings) -> int:
    """Plays a scenario and prints its table; the exit code."""
    try:
        scenario = _settled(load(path), settings)
        study = study_of(scenario)
        out = _folder(settings.out, scenario.name)
    except BadScenario as error:
        typer.echo(f"fedlapse: {error}", err=True)
        return 2
    began = time.monotonic()
    gc.collect()
    gc.freeze()  # the study stays: looking through it again and again would make a round's cost grow with the fleet
    with executor(study, os.cpu_count() or 1 if settings.workers is None else settings.workers) as pool:
        session = Session(scenario, study, settings, out, pool)
        try:
            outcomes = asyncio.run(session.play())
        except BrokenProcessPool:
            typer.echo("fedlapse: a worker process was killed (out of memory?); try fewer --workers", err=True)
            return 1
        except (KeyboardInterrupt, asyncio.CancelledError):
            _stop_workers(pool)
            typer.echo(f"fedlapse: stopped; what was written is in {out}", err=True)
            return INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from here on it takes milliseconds, and must be whole
    _write_host(out, time.monotonic() - began, outcomes, session)
    return _conclude(scenario, outcomes, out, session.interrupted)


class Session:
    """All runs of one command, concurrently in one event loop over one pool."""

    def __init__(self, scenario: Scenario, study: Study, settings: Settings, out: Path, pool: Executor) -> None:
        self.scenario, self.study, self.settings = scenario, study, settings
        self.out, self.pool = out, pool
        self.conduct = Conduct.of(scenario)
        self.interrupted = False
        self.began = time.monotonic()

    async def play(self) -> list[Outcome]:
        """Ctrl-C once: every run ends its round. Twice: stop now; the records stay valid."""
        replace_file(self.out / "scenario.yaml", dump(self.scenario))
        everything = asyncio.gather(
            *(self._run(Run(label, seed)) for label in self.study.algorithms for seed in self.scenario.seeds)
        )
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt, everything)
        try:
            return await everything
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _run(self, run: Run) -> Outcome:
        folder = self.out / f"{run.label}-s{run.seed}"
        if self.settings.world == "sockets":
            from emulator.sockets import run_sockets

            return await run_sockets(
                self.study,
                run,
                self.conduct,
                self.pool,
                folder,
                self._going_on,
                self._tell,
                self.settings.speedup,
            )
        return await run_virtual(self.study, run, self.conduct, self.pool, folder, self._going_on, self._tell)

    def _interrupt(self, everything: asyncio.Future[Any]) -> None:
        if self.interrupted:
            everything.cancel()
        else:
            self.interrupted = True
            typer.echo("fedlapse: every run ends its round; press Ctrl-C again to stop now", err=True)

    def _going_on(self) -> bool:
        return not self.interrupted

    def _tell(self, run: Run, row: Row) -> None:
        """One plain line a round; two clocks."""
        if self.settings.quiet:
            return
        accuracy = "" if row["accuracy"] is None else f" · accuracy {row['accuracy']:.3f}"
        typer.echo(
            f"{time.strftime('%H:%M:%S')} {run.label} seed {run.seed}"
            f" · round {row['round'] + 1}/{self.conduct.plan.max}"
            f" · {_clock(row['time_s'])} simulated · {_clock(time.monotonic() - self.began)} real"
            f" · {round_bytes(row) / 1e6:.1f} MB{accuracy}",
            err=True,
        )


def _settled(scenario: Scenario, settings: Settings) -> Scenario:
    """The scenario as the command line changes it."""
    raw = json.loads(scenario.model_dump_json())
    if settings.seed is not None:
        raw["seeds"] = [settings.seed]
    if settings.rounds is not None:
        raw["rounds"]["max"] = settings.rounds
    if settings.algorithm is not None:
        raw["algorithms"] = [entry for entry in raw["algorithms"] if entry["name"] == settings.algorithm]
        if not raw["algorithms"]:
            names = ", ".join(entry.name for entry in scenario.algorithms)
            raise BadScenario(f"the scenario has no algorithm {settings.algorithm!r}; it has {names}")
    return build(raw, scenario.name)


def _folder(out: Path | None, name: str) -> Path:
    """A new folder: the one asked for, or the next runs/NAME-NNNN.  Raises BadScenario if it holds something."""
    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            if any(out.iterdir()):
                raise BadScenario(f"--out {out} is not empty; give a new folder")
            return out
        for number in range(1, 10_000):
            folder = Path("runs") / f"{name}-{number:04}"
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                continue
            return folder
    except OSError as error:
        raise BadScenario(f"cannot make the output folder: {error}") from None
    raise BadScenario(f"runs/ holds 9,999 runs of {name}; clear some away")


def _conclude(scenario: Scenario, outcomes: list[Outcome], out: Path, interrupted: bool) -> int:
    runs: dict[str, dict[int, list[Row]]] = {entry.name: {} for entry in scenario.algorithms}
    for outcome in outcomes:
        runs[outcome.run.label][outcome.run.seed] = outcome.rows
    targets = [Target(said.metric, said.value, said.hold) for said in scenario.rounds.targets]
    momentum = {
        e.name: float(e.options.get("training", {}).get("momentum", scenario.training.momentum))
        for e in scenario.algorithms
    }
    summary = summarise(runs, targets, momentum)
    replace_file(out / "summary.json", json.dumps(summary, indent=1, sort_keys=True) + "\n")
    replace_file(out / "report.html", page(scenario.name, dump(scenario), summary, runs))
    typer.echo(table(scenario, summary))
    for label, entry in summary["labels"].items():
        for warning in entry["warnings"]:
            typer.echo(f"fedlapse: {label}: {warning}", err=True)
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    for failure in failures:
        typer.echo(f"fedlapse: {failure}", err=True)
    _tell_overruns(outcomes)
    typer.echo(f"results: {out}")
    return INTERRUPTED if interrupted else 1 if failures else 0


def _tell_overruns(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.overruns:
            typer.echo(
                f"fedlapse: {outcome.run.label} seed {outcome.run.seed}: {len(outcome.overruns)} jobs took longer than "
                f"their modelled time, by up to {max(outcome.overruns):.2f} s; {outcome.advice}",
                err=True,
            )


def _write_host(out: Path, seconds: float, outcomes: list[Outcome], session: Session) -> None:
    """What belongs to this machine and moment, and may differ between equal runs."""
    host = {
        "command": ["fedlapse", *sys.argv[1:]],
        "versions": {"python": platform.python_version()} | {package: version(package) for package in PACKAGES},
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()},
        "real_seconds": seconds,
        "world": session.settings.world,
        "overruns": {f"{o.run.label}-s{o.run.seed}": o.overruns for o in outcomes if o.overruns},
    }
    replace_file(out / "host.json", json.dumps(host, indent=1) + "\n")


def _stop_workers(pool: Any) -> None:
    """Now, not after their jobs."""
    for process in list(getattr(getattr(pool, "pool", None), "_processes", {}).values()):
        process.terminate()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"

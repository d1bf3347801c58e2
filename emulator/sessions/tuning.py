"""Plays the runs of a tuning, and writes its findings to OUT.

A tuning searches for the best settings of each algorithm.  A configuration is one choice of values for them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from emulator.analysis.protocol import ranked, share_of
from emulator.compute.executor import Tally
from emulator.forecast.plan import Forecast, forecast_of
from emulator.play.progress import about
from emulator.record.host import note
from emulator.record.writing import replace_file
from emulator.replay.batch import Batch, Order, Source
from emulator.replay.conditions import Condition
from emulator.replay.findings import ReplayResult
from emulator.sessions.computing import ExecutorName, Playing
from emulator.sessions.folder import alone, folder, replaced
from emulator.sessions.replaying import play_all
from emulator.sessions.trials import Runs, Trials
from emulator.terminal.errors import Unfinished
from emulator.terminal.stopping import uninterrupted
from emulator.tuning import results
from emulator.tuning.check import check
from emulator.tuning.digest import digest
from emulator.tuning.elsewhere import condition
from emulator.tuning.search import Trial
from emulator.tuning.space import Configuration, applied
from emulator.tuning.strengths import ROUNDS, automatic, filled, strengths, tuned
from emulator.tuning.together import (
    HOLD,
    Asks,
    Names,
    by_rounds,
    remade,
    searched,
    spaces,
    step,
    steps_of,
    target_of,
    trial,
    tune_of,
    untested,
)
from scenarios.schema.entries import Entry
from scenarios.schema.scenario import Scenario
from scenarios.schema.tuning import AUTO, Aim
from scenarios.text.faults import BadScenario

DONE = "tune.json"
SHARE = 0.95  # of the best validation accuracy, for a target `auto` without a study


@dataclass(frozen=True)
class Tuned:
    """The findings of a tuning, and the folder with its files."""

    out: Path
    scenario: Scenario
    founds: results.Founds
    plain: Mapping[str, object]  # the content of tune.json
    tally: Tally | None  # None: no ledger


@dataclass(frozen=True)
class SearchCost:
    """The cost of a tuning.  A device-round is one device that trains in one round."""

    scenario: Scenario
    steps: Sequence[int]  # numbers of rounds after which the better half of the configurations continues
    total: int  # device-rounds to train
    known: int  # device-rounds that the ledger has
    exact: bool  # True: the total is not an estimate
    seconds: float  # of this computer, for the device-rounds that the ledger does not have
    workers: int


class Tuning:
    """The search for the best settings of a scenario's algorithms.

    Raises BadScenario if the scenario's section `tune:` does not fit the rest of the scenario.
    """

    def __init__(self, scenario: Scenario, playing: Playing, trials: Trials | None = None) -> None:
        """`trials`: the object that plays the runs of the search; None: a new one."""
        check(scenario)
        self.scenario, self.playing = under(scenario, scenario.protocol or digest(scenario)), playing
        self.target = target_of(scenario)
        self.trials = trials or Trials(playing)
        self.names = Names({})
        self.folders: dict[tuple[str, Configuration], Path] = {}  # folder of each configuration's latest run
        self.steps = 0
        self.began = 0.0  # start of the search, by time.monotonic, s
        self.done, self.due = 0, _due(scenario)  # played so far, and in total: configurations x rounds
        self.tune = tune_of(scenario)
        self.links: Mapping[str, Condition] = {name: condition(name, of) for name, of in self.tune.links.items()}

    def into(self, out: Path | None = None, force: bool = False) -> Tuned:
        """Plays the searches of all algorithms, and writes their findings to OUT.

        `force`: replaces another tuning in OUT.  Raises Unfinished if the user or an error stopped the searches.
        """
        out = folder(out, f"{self.scenario.name}-tune")
        with alone(out):
            mine = out / "asked.json"
            said = self.scenario.model_dump_json(indent=1) + "\n"
            held = [path.name for path in out.iterdir() if not path.name.endswith(".partial")]
            if held and not mine.is_file():
                raise BadScenario(f"--out {out} holds files that are not a tuning's; give a new folder")
            if held and mine.read_text(encoding="utf-8") != said:
                if not force:
                    raise BadScenario(f"--out {out} holds another tuning; give a new folder, or --force to replace it")
                replaced(out, "search", {})
            replace_file(mine, said)
            note(out, {})
            try:
                founds = self.run(out)
            except Unfinished as end:
                again = f"what was tried is in {out}; the same command with --out {out} goes on"
                raise Unfinished(end.code, *end.lines, again) from None
            finally:
                self.trials.close()
            with uninterrupted():
                plain = self.write(out, founds)
        return Tuned(out, self.scenario, founds, plain, self.trials.tally if self.trials.pool.ledger else None)

    def cost(self) -> SearchCost:
        """Returns the approximate amount of training, the part that the ledger has, and the seconds that the rest takes
        on this computer.  Nothing is trained."""
        known, all_known = self._known()
        total = known if all_known else max(self.due * self._each, known)
        seconds = self.seconds_each * _epochs(self.scenario) * (total - known)
        return SearchCost(
            self.scenario, steps_of(self.scenario), total, known, all_known, seconds, self.trials.pool.processes
        )

    @cached_property
    def forecast(self) -> Forecast:
        """The forecast of what the scenario costs with its untuned settings and the seeds of the search."""
        return forecast_of(self._base(), self.trials.pool.processes, self.trials.pool.places, draws=1)

    @property
    def seconds_each(self) -> float:
        """Seconds that this computer takes for one device-round, by forecast."""
        forecast = self.forecast
        each = sum(course.turns * course.asked for course in forecast.courses.values())
        return forecast.effort.seconds / (len(self.tune.seeds) * each)

    @property
    def _each(self) -> int:
        """The device-rounds (trainings) of one configuration in one round: seeds x asked devices."""
        return len(self.tune.seeds) * self.scenario.asked

    def _base(self) -> Scenario:
        """Returns the scenario with its untuned settings, but with the seeds and the evaluations of the search, and
        without targets."""
        rounds = self.scenario.rounds.model_copy(update={"targets": (), "stop_at": None})
        return remade(self.scenario, seeds=self.tune.seeds, rounds=rounds, evaluate=untested(self.scenario))

    def _known(self) -> tuple[int, bool]:
        """Returns the number of the search's device-rounds that the ledger has, and True if it has all of them.

        Follows the search with results from the ledger, up to the first step for which the ledger lacks a run.
        """
        found = 0
        if automatic(self.scenario):
            return found, False  # the strengths to try are not known before some rounds are played

        def play(asks: Asks, folder: Path) -> dict[str, dict[Configuration, Trial]]:
            nonlocal found
            made: dict[str, dict[Configuration, Trial]] = {}
            for rounds, some in by_rounds(asks):
                scenario = step(self.scenario, some, self.names)
                runs, known = self.trials.known(scenario)
                found += known
                if runs is None:
                    raise Unfinished(0)
                there = self._known_elsewhere(scenario, folder / f"{found}-{rounds}", some) if self.links else {}
                made |= {label: dict(self._trials(label, some, rounds, runs, there)) for label in some}
            return made

        with TemporaryDirectory(prefix="fedlapse-tune-") as folder:
            try:
                searched(self.scenario, lambda asks: play(asks, Path(folder)))
            except Unfinished as end:
                if end.code:
                    raise
                return found, False
        return found, True

    def _known_elsewhere(self, scenario: Scenario, where: Path, asks: Asks) -> dict[str, list[ReplayResult]]:
        """Returns the replays of one step's runs on the scenario's other links, by link.  The ledger has these runs.

        The search needs them because configurations that are good on other links continue, too.  `where`: an empty
        folder for the runs.
        """
        aside = replace(self.playing, workers=0, executor=ExecutorName.processes, ray_address=None, quiet=True)
        try:
            Trials(aside).play(scenario, where, hopeless=True)
        except Unfinished as end:
            raise Unfinished(end.code, *end.lines, "stopped") from None
        return self._elsewhere(where, asks)

    def run(self, out: Path) -> results.Founds:
        """Runs the searches of all algorithms to their ends, and returns their findings.  Raises Unfinished if the user
        or an error stopped them."""
        self._find_strengths(out / "trials")
        self._find_target(out / "trials")
        self.began = time.monotonic()  # not when it was made: a study makes the searches of all regimes first
        return searched(self.scenario, lambda asks: self._play(asks, out / "trials"))

    def _find_strengths(self, out: Path) -> None:
        """Replaces each `auto` of the grid by strengths, for which it plays some rounds with the first seed."""
        entries = automatic(self.scenario)
        if not entries:
            return
        first = self.tune.seeds[0]
        each = {entry.name: entry for entry in entries.values()}
        runs = self._beforehand(out / "00-strengths", list(each.values()), ROUNDS, "the range of each strength")
        known = {}
        for path, entry in entries.items():
            training = {**self.scenario.training.model_dump(), **(entry.options.get("training") or {})}
            given = entry.options[path.rpartition(".")[2]]
            known[path] = strengths(given, runs[entry.name][first], training["momentum"])
        self.scenario = filled(self.scenario, known)

    def _find_target(self, out: Path) -> None:
        """Replaces a target `auto` by a share of the best validation accuracy that an algorithm that may win reaches
        with its own settings, at a learning rate of the grid, under the first seed."""
        if self.tune.target != AUTO:
            return
        study = self.scenario.study
        names = ranked(self.scenario) if study else [entry.name for entry in self.scenario.algorithms]
        rates: list[Configuration] = [(("training.lr", rate),) for rate in self.tune.grid.get("training.lr", ())]
        entries = [
            applied(entry, rate, f"{entry.name}.{number}")
            for entry in self.scenario.algorithms
            if entry.name in names
            for number, rate in enumerate(rates or [()], 1)
        ]
        runs = self._beforehand(out / "00-target", entries, steps_of(self.scenario)[-1], "the target")
        every = [row["validation"] for of in runs.values() for rows in of.values() for row in rows]
        known, lower = [value for value in every if value is not None] or [0.0], self.target.lower
        best = (min if lower else max)(known)
        shares = sorted(study.shares) if study else []
        share = shares[len(shares) // 2] if shares else SHARE
        aim = Aim(value=round(share_of(best, share, lower), 3), hold=study.hold if study else HOLD)
        self.scenario = tuned(self.scenario, target=aim)
        self.target = target_of(self.scenario)

    def _beforehand(self, where: Path, entries: Sequence[Entry], rounds: int, what: str) -> Runs:
        """Plays these algorithms with the first seed of the search, to find out what the search has to know."""
        where.parent.mkdir(parents=True, exist_ok=True)
        note(where.parent.parent, {f"{where.parent.name}/{where.name}": "results"})
        scenario = remade(
            self.scenario,
            seeds=self.tune.seeds[:1],
            algorithms=tuple(entries),
            rounds=self.scenario.rounds.model_copy(update={"max": rounds, "targets": (), "stop_at": None}),
            evaluate=untested(self.scenario),
        )
        return self.trials.play(scenario, where, f"tune: {what}", hopeless=True)

    def write(self, out: Path, founds: results.Founds) -> Mapping[str, object]:
        """Writes tuned.yaml, tune.json and tune.html; returns the content of tune.json."""
        from emulator.report.tuned import page  # altair takes a second to import

        found = results.as_json(self.scenario, founds)
        replace_file(out / "tuned.yaml", results.tuned_yaml(self.scenario, founds))
        replace_file(out / "tune.html", page(self.scenario, founds))
        replace_file(out / DONE, json.dumps(found, indent=1) + "\n")
        return found

    def _play(self, asks: Asks, out: Path) -> dict[str, dict[Configuration, Trial]]:
        """Plays one step of all searches, and returns the trials by algorithm and configuration.

        `asks`: the configurations that each search wants to try.  Configurations with the same number of rounds are
        played together.
        """
        found: dict[str, dict[Configuration, Trial]] = {}
        for rounds, some in by_rounds(asks):
            self.steps += 1
            scenario = step(self.scenario, some, self.names)
            where = out / f"{self.steps:02}-{rounds}-rounds"
            out.mkdir(parents=True, exist_ok=True)
            note(out.parent, {f"{out.name}/{where.name}": "results"})
            runs = self.trials.play(scenario, where, self._title(some, rounds), hopeless=True)
            self.folders |= {(label, each): where for label, ask in some.items() for each in ask.configurations}
            elsewhere = self._elsewhere(where, some)
            self.done += sum(len(ask.configurations) for ask in some.values()) * rounds
            found |= {label: dict(self._trials(label, some, rounds, runs, elsewhere)) for label in some}
        return found

    def _trials(
        self, label: str, asks: Asks, rounds: int, runs: Runs, elsewhere: Mapping[str, Sequence[ReplayResult]]
    ) -> Mapping[Configuration, Trial]:
        (entry,) = (each for each in self.scenario.algorithms if each.name == label)
        made = {}
        for each in asks[label].configurations:
            name = self.names.of(label, each)
            there = {link: [one for one in of if one.label == name] for link, of in elsewhere.items()}
            own = applied(entry, each).options.get("training") or {}
            momentum = own.get("momentum", self.scenario.training.momentum)
            made[each] = trial(runs[name], self.target, rounds, there, momentum)
        return made

    def _elsewhere(self, where: Path, asks: Asks) -> dict[str, list[ReplayResult]]:
        """Returns the replays of one step's runs on the scenario's other links, by link, for all algorithms that are
        compared there; {} if there are no such links or algorithms.  `where`: the folder of the runs."""
        own_links_only = self.scenario.study.own_links_only if self.scenario.study else ()
        away = [
            (label, each) for label, ask in asks.items() if label not in own_links_only for each in ask.configurations
        ]
        if not (self.links and away):
            return {}
        batch = Batch(Source(where, only=tuple(self.names.of(*each) for each in away), targets=(self.target,)))
        orders = [Order(run, of) for of in self.links.values() for run in range(len(batch.scripts))]
        console = Console(stderr=True, quiet=self.playing.quiet)
        played = play_all(batch, orders, self.playing.workers, console=console)
        if not played.whole:
            raise Unfinished(played.code, played.why)
        runs = len(batch.scripts)
        return {name: list(played.results[n * runs : (n + 1) * runs]) for n, name in enumerate(self.links)}

    def _title(self, asks: Asks, rounds: int) -> str:
        """Returns a title for progress, such as `tune, coarse: 24 configurations for 15 rounds; ~4 min left`."""
        tried = sum(len(ask.configurations) for ask in asks.values())
        phases = " and ".join(sorted({ask.phase for ask in asks.values()}))
        took = time.monotonic() - self.began
        left = f"; {about(took / self.done * max(0, self.due - self.done))} left" if self.done else ""
        return f"tune, {phases}: {tried} configurations for {rounds} rounds{left}"


def under(scenario: Scenario, protocol: str) -> Scenario:
    """Returns the scenario with this digest of a protocol, which the records of its runs repeat."""
    made = scenario.model_copy(update={"protocol": protocol})
    vars(made)["source"] = scenario.source
    return made


def _epochs(scenario: Scenario) -> float:
    """Returns the mean of the epochs that the search tries, divided by the scenario's epochs; 1 if it tries none."""
    said = [float(value) for value in tune_of(scenario).grid.get("training.epochs", ())]
    return sum(said) / len(said) / scenario.training.epochs if said else 1.0


def _due(scenario: Scenario) -> int:
    """Returns an estimate of how much all searches play: configurations x rounds, as if each step began at round 0.

    The number of configurations is halved after each step.
    """
    rounds, budget = steps_of(scenario), tune_of(scenario).budget
    tried = sum(budget if space.dimensions else 1 for space in spaces(scenario).values())
    left, total = float(tried), 0.0
    for count in rounds:
        total += left * count
        left /= 2
    return round(total)

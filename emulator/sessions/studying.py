"""Plays a study, which finds the fastest algorithm for a scenario by a protocol: from the search for settings to the
report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

from emulator.analysis import analysis, cells
from emulator.analysis.answer import Answer
from emulator.analysis.comparisons import comparisons
from emulator.analysis.protocol import main_target, pairs, protocol_of, ranked, targets
from emulator.analysis.stamps import KeptSettings
from emulator.compute.executor import Tally
from emulator.play.conduct import Conduct
from emulator.record.host import Kinds, note
from emulator.record.removal import remove, written
from emulator.record.targets import Target
from emulator.record.writing import replace_file
from emulator.results.comparison import OWN
from emulator.results.leverage import leverages
from emulator.results.observed import Observed, Runs
from emulator.results.results import read
from emulator.results.why import pace
from emulator.sessions.computing import Playing
from emulator.sessions.folder import alone, folder, replaced
from emulator.sessions.places import Places
from emulator.sessions.replays import Replays
from emulator.sessions.trials import Runs as Rows
from emulator.sessions.trials import Trials
from emulator.sessions.tuning import SearchCost, Tuning, under
from emulator.terminal.errors import Unfinished
from emulator.terminal.lines import say
from emulator.terminal.stopping import uninterrupted
from emulator.tuning.digest import digest
from emulator.tuning.elsewhere import condition
from emulator.tuning.results import Founds
from emulator.tuning.search import OWN as OWN_CLOCK
from emulator.tuning.space import Configuration, applied, training
from emulator.tuning.together import remade, steps_of, untested
from emulator.wording.study_files import tables
from emulator.wording.study_page import markdown
from emulator.wording.study_verdict import short, verdict
from emulator.wording.tables import failures, warnings
from scenarios.load import dump, parse
from scenarios.schema.entries import Entry
from scenarios.schema.scenario import Scenario
from scenarios.schema.training import Rounds, Stop
from scenarios.schema.training import Target as Aim
from scenarios.text.faults import BadScenario

PROTOCOL = "protocol.yaml"
Variants = Mapping[str, Mapping[str, Configuration]]  # by algorithm, by the label that plays the configuration


@dataclass(frozen=True)
class Studied:
    """The result of a study: its answers (all findings), and the folder with its files."""

    out: Path
    answers: Mapping[str, Answer]  # by regime; "" if the study names none
    plain: Mapping[str, Any]  # the content of study.json, without the names of the tables
    tally: Tally | None  # None: no ledger

    @property
    def warnings(self) -> list[str]:
        """The warnings about the runs, after the name of their regime if there are several."""
        return [f"{name}: {text}".removeprefix(": ") for name, of in self.answers.items() for text in of.warnings]


@dataclass(frozen=True)
class StudyCost:
    """The cost of a study.  Trainings are counted in device-rounds: one device that trains in one round."""

    search: SearchCost
    seconds_each: float  # seconds of a device-round on this computer
    reported: float  # trainings with the seeds of the scenario, whose results the study reports
    cells: int  # cells of the map
    traces: bool  # recorded links are replayed


class Studying:
    """A study in progress.  Raises BadScenario if its protocol does not fit the scenario."""

    def __init__(self, scenario: Scenario, playing: Playing) -> None:
        self.protocol, self.quiet = protocol_of(scenario), playing.quiet
        self.digest = digest(scenario)
        self.scenario = scenario
        self.recorded = self.digest  # the protocol under which the records in OUT were made
        self.trials = Trials(playing)
        self.tuning = Tuning(scenario, playing, self.trials)
        self._check()

    def _check(self) -> None:
        """Raises BadScenario or ValueError for faulty links, which would otherwise appear only after hours of
        training."""
        for name, said in self.protocol.links.items():
            condition(name, said)

    def into(self, out: Path | None = None, force: bool = False, exploratory: bool = False) -> Studied:
        """Plays the study, and writes its answer to OUT.  Raises Unfinished if it was stopped.

        If OUT holds records of another protocol, `force` replaces them, and `exploratory` continues them, which the
        report then says.  Without either, raises BadScenario.
        """
        out = folder(out, f"{self.scenario.name}-study")
        with alone(out):
            if before := claim(out, self.scenario, self._folders(), force, exploratory):
                self.recorded = digest(before)
                self.tuning.scenario = under(self.scenario, self.recorded)
            note(out, self._folders())
            try:
                answer = self.run(out)
            except Unfinished as end:
                again = f"what was done is in {out}; the same command with --out {out} goes on"
                raise Unfinished(end.code, *end.lines, again) from None
            finally:
                self.trials.close()
            plain = _write(out, answer)
        return Studied(out, {"": answer}, plain, self.trials.tally if self.trials.pool.ledger else None)

    def cost(self) -> StudyCost:
        """Returns the cost of the search, and estimates of the training after it.  Nothing is trained."""
        each = {label: of.asked * self._rounds(label) for label, of in self.tuning.forecast.courses.items()}
        reported = len(self.scenario.seeds) * sum(each.values())
        places = len(cells.grid(self.protocol.map)) if self.protocol.map else 0
        seconds = self.tuning.seconds_each
        return StudyCost(self.tuning.cost(), seconds, reported, places, bool(self.protocol.traces))

    def _rounds(self, label: str) -> float:
        """Returns the predicted number of rounds of a run, by its algorithm's label: the scenario's maximum, or as many
        as fit the protocol's horizon.  The length of a round is that with settings before tuning."""
        rounds, span = self.scenario.rounds.max, self.tuning.forecast.prices[label].span_s
        horizon = self.protocol.horizon_s
        return min(rounds, horizon / (span / rounds)) if horizon else rounds

    def _folders(self) -> Kinds:
        """Returns the folders of the study, relative to OUT, with their kinds as in host.json."""
        results = dict.fromkeys(("tops", "reporting"), "results")
        return {"tuning": "search", **results, "tables": "tables", "figures": "figures"}

    # --- what is played -------------------------------------------------------------------------------------------

    def run(self, out: Path) -> Answer:
        """Plays the whole study, and returns its answer: the search for settings, the best of each algorithm, from
        which the targets follow, and then all algorithms with the reported seeds."""
        founds = self.tuning.run(out / "tuning")
        self.tuning.write(out / "tuning", founds)
        best = self._best(out / "tops", founds)
        goals = targets(self.protocol, best, self.scenario.task)
        variants = self._variants(founds)
        entries = []
        for entry in self.scenario.algorithms:
            each = variants.get(entry.name)
            entries += [applied(entry, options, name) for name, options in each.items()] if each else [entry]
        rows = self._reporting(out / "reporting", entries, goals, variants)
        origin = {name: label for label, named in variants.items() for name in named}
        runs = {name: self._observed(of, goals[-1], origin.get(name, name)) for name, of in rows.items()}
        return self._answer(out, founds, best, goals, variants, runs)

    def _made(self, **changes: object) -> Scenario:
        """Returns a scenario for some of the study's runs: the study's scenario with these changes to its fields.

        It carries the protocol's digest, which the records of its runs repeat.
        """
        evaluate = self.scenario.evaluate.model_copy(update={"personalise_every": "never"})
        made = remade(self.scenario, **{"evaluate": evaluate, **changes}, study=None, protocol=self.recorded)
        vars(made)["source"] = None
        return made

    def _best(self, out: Path, founds: Founds) -> float:
        """Plays the ranked algorithms with their best settings and the seeds of the search, as long as the search's
        last step.  Returns the best validation accuracy of any of them in any round, as a mean over the seeds."""
        first = ranked(self.scenario)
        entries = [
            applied(entry, founds[entry.name].best()) if entry.name in founds else entry
            for entry in self.scenario.algorithms
            if entry.name in first
        ]
        last = min(self.scenario.rounds.max, steps_of(self.scenario)[-1])
        rounds = self._until(None).model_copy(update={"max": last})
        scenario = self._made(
            seeds=self.tuning.tune.seeds, algorithms=tuple(entries), rounds=rounds, evaluate=untested(self.scenario)
        )
        runs = self.trials.play(scenario, out, "the best settings of each, for the targets")
        lower = self.scenario.task.is_lower("validation")
        top, worst = (min, inf) if lower else (max, 0.0)
        tops = (
            [top((row["validation"] or worst for row in rows), default=worst) for rows in of.values()]
            for of in runs.values()
        )
        return top(map(fmean, tops))

    def _variants(self, founds: Founds) -> dict[str, dict[str, Configuration]]:
        """Returns, by algorithm, the configurations to play, each by the label of its runs.

        A tuned algorithm has the best configuration for the study's own links, under its own label, and the best ones
        for other links, if they differ, under its label with a number.  Algorithms that are compared on the study's own
        links alone have only the first.  Nulls (algorithms without a penalty) have the baseline's training options.
        """
        found: dict[str, dict[str, Configuration]] = {}
        for label, of in founds.items():
            own, *others = of.on_links
            away = (
                {}
                if label in self.protocol.own_links_only
                else {self.tuning.names.of(label, each): each for each in others}
            )
            found[label] = {label: own, **away}
        baseline = founds.get(self.scenario.algorithms[0].name)
        return found | {null: {null: training(baseline.best())} for null in self.protocol.nulls if baseline}

    def _reporting(self, out: Path, entries: Sequence[Entry], goals: Sequence[Target], variants: Variants) -> Rows:
        """Plays all algorithms with the seeds of the scenario until the last target is reached; returns the rows of
        their rounds, by label and seed."""
        every = tuple(Aim(metric=each.metric, value=each.value, hold=each.hold) for each in goals)
        stop = Stop(metric=goals[-1].metric, value=goals[-1].value, hold=goals[-1].hold)
        rounds = self._until(stop).model_copy(update={"targets": every})
        own, other = "by the study, for its own links", "by the study, for other links"
        tuned = {name: own if name == label else other for label, of in variants.items() for name in of}
        scenario = self._made(algorithms=tuple(entries), rounds=rounds, tuned=tuned)
        return self.trials.play(scenario, out, "all algorithms, with the seeds that are reported")

    def _until(self, stop: Stop | None) -> Rounds:
        """Returns the scenario's rules for rounds, without targets, but with this stop (None: no stop), and with the
        study's horizon as the end of a run."""
        changes = {"targets": (), "stop_at": stop, "until_s": self.protocol.horizon_s}
        return self.scenario.rounds.model_copy(update=changes)

    def _observed(self, of: Mapping[int, Sequence[Mapping[str, Any]]], last: Target, label: str) -> dict[int, Observed]:
        due, until = Conduct.of(self.scenario.under(label)).rules.max, self._until(None).until_s
        return {seed: Observed.of(rows, due, last, until) for seed, rows in of.items()}

    def _say(self, text: str) -> None:
        if not self.quiet:
            say(f"fedlapse: {text}", err=True)

    def _answer(
        self,
        out: Path,
        founds: Founds,
        best: float,
        goals: Sequence[Target],
        variants: Variants,
        runs: Runs,
    ) -> Answer:
        seen = read(out / "reporting").summary
        replays = Replays(self.tuning.playing.workers, KeptSettings(out / "replays.npz"), self.quiet)
        at = Places(self.scenario, self.tuning, out / "reporting", founds, variants, runs, replays)
        own = analysis.chosen(runs, at.variants(OWN_CLOCK))
        on, unknown = at.on_links(own)
        found = analysis.all_values(on, goals)
        compared = comparisons(found, pairs(self.scenario))
        main = main_target(self.protocol, best, goals)
        if self.protocol.map or self.protocol.traces:
            self._say("replays on the map and on recorded links")
        answer = Answer(
            scenario=self.scenario.model_copy(update={"tune": self.tuning.scenario.tune}),
            digest=self.digest,
            exploratory=self.recorded != self.digest,
            founds=founds,
            best=best,
            targets=goals,
            values=found,
            comparisons=compared,
            whys=list(analysis.reasons(found, own, pairs(self.scenario), OWN)),
            paces=[pace(label, of) for label, of in own.items()],
            leverages=[
                each
                for label, of in own.items()
                if label in self._told
                for seed, run in of.items()
                for each in leverages(label, seed, run.rows)
            ],
            nulls=analysis.nulls(runs, self.protocol.nulls, self.scenario.algorithms[0].name),
            unknown=unknown,
            warnings=[text for _, text in failures(seen)]
            + [f"{label}: {text}" for label, text in warnings(seen) if label in self._told],
        )
        drawn = at.map(main)
        traces, between, assumed = at.traces(main)
        duels = at.duels(main)
        borders = [border for each in (drawn, *duels.values()) for border in at.borders(each, main)]
        replays.kept.write()
        answer = replace(answer, cells=drawn, duels=duels, borders=borders)
        return replace(answer, traces=traces, trace_duels=between, assumptions=assumed)

    @property
    def _told(self) -> list[str]:
        """The labels of warnings to show: `links`, and all algorithms except nulls, whose penalty is 0 on purpose."""
        names = (each.name for each in self.scenario.algorithms)
        return ["links", *(name for name in names if name not in self.protocol.nulls)]


def claim(out: Path, scenario: Scenario, folders: Kinds, force: bool, exploratory: bool) -> Scenario | None:
    """Claims OUT for a study: writes protocol.yaml before anything else, or compares it with the one in OUT.

    Another protocol in OUT is replaced with all records if `force`; if `exploratory` it is kept, and returned.  Else
    raises BadScenario, as for files that are not a study's.  `folders`: those that the study will write in OUT.
    """
    path = out / PROTOCOL
    said = dump(scenario.model_copy(update={"protocol": None}))
    held = [each.name for each in out.iterdir() if not each.name.endswith(".partial")]
    if not path.is_file():
        if held:
            raise BadScenario(f"--out {out} holds files that are not a study's; give a new folder")
        replace_file(path, said)
        return None
    before = path.read_text(encoding="utf-8")
    if before == said:
        return None
    if force:
        replaced(out, "study", folders)
        replace_file(path, said)
        return None
    if not exploratory:
        ways = "give a new folder, --force to replace them, or --exploratory, which the report then says"
        raise BadScenario(f"--out {out}: its records belong to another protocol; {ways}")
    return parse(before, str(path))


def _write(out: Path, answer: Answer) -> Mapping[str, Any]:
    """Writes tables, figures, study.md and study.json; returns the content of study.json."""
    from emulator.report.studied import pictures  # altair takes a second to import

    with uninterrupted():
        for kind in ("tables", "figures"):  # an earlier report may have had more files
            (out / kind).mkdir(exist_ok=True)
            remove(written(out / kind, kind))
        named = tables(answer)
        for name, each in named.items():
            replace_file(out / "tables" / name, each.csv)
        drawn = dict(pictures(answer))
        for name, content in drawn.items():
            replace_file(out / "figures" / name, content)
        shown = {Path(name).stem: f"figures/{name}" for name in drawn if name.endswith(".png")}
        replace_file(out / "study.md", markdown(answer, shown))
        said = {"digest": answer.digest, "exploratory": answer.exploratory, "verdict": verdict(answer)}
        said |= {"short": short(answer), "main": answer.main.name}
        replace_file(out / "study.json", json.dumps({**said, "tables": sorted(named)}, indent=1) + "\n")
    return said

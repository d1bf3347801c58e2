"""Follows a study's protocol from its first training to its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from emulator.commands.folder import alone, folder
from emulator.commands.lines import say
from emulator.commands.options import Format
from emulator.commands.play import Settings
from emulator.commands.replay.play import play_all
from emulator.commands.stopping import uninterrupted
from emulator.commands.trials import Runs as Rows
from emulator.commands.trials import Trials, Unfinished
from emulator.commands.tune.play import Tuning
from emulator.record.digest import digest as record_digest
from emulator.record.record import replace_file
from emulator.record.targets import Target
from emulator.replay.batch import Batch, Order, Source
from emulator.replay.conditions import Condition, Uplink, links_from
from emulator.replay.findings import Result
from emulator.studies import analysis, cells
from emulator.studies.answer import Answer, Moved
from emulator.studies.comparisons import comparisons
from emulator.studies.observed import Observed, Runs
from emulator.studies.protocol import METRIC, OWN, digest, pairs, protocol_of, ranked, targets
from emulator.studies.replays import Kept, Stamps, key, stamps
from emulator.studies.why import pace
from emulator.tuning.elsewhere import condition
from emulator.tuning.results import Founds, clocks
from emulator.tuning.scores import retimed, scores
from emulator.tuning.search import OWN as OWN_CLOCK
from emulator.tuning.search import ROUNDS
from emulator.tuning.space import Configuration, applied
from emulator.tuning.together import remade
from emulator.worlds.remembering import Tally
from scenarios.load import dump, parse
from scenarios.schema.entries import Entry
from scenarios.schema.rounds import Rounds, Stop
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

PROTOCOL = "protocol.yaml"
FOR_ROUNDS = f"{OWN}, tuned for rounds"
CHUNK = 4000  # replays after which what is known is kept; some minutes


class Studying:
    """A study under way.  Raises BadScenario if its protocol does not fit."""

    def __init__(self, scenario: Scenario, settings: Settings, exploratory: bool) -> None:
        self.protocol = protocol_of(scenario)
        self.settings, self.exploratory = settings, exploratory
        self.digest = digest(scenario)
        self.scenario = scenario
        self.recorded = self.digest  # of the protocol that the records in OUT were made by
        self.tuning = Tuning(self._plain(scenario), settings)
        self.trials = Trials(settings)

    def _plain(self, scenario: Scenario) -> Scenario:
        """Without `study:`, and without what is known of nulls before the baseline is tuned."""
        assert scenario.tune
        fixed = tuple(dict.fromkeys([*scenario.tune.fixed, *self.protocol.nulls]))
        made = scenario.model_copy(update={"study": None, "tune": scenario.tune.model_copy(update={"fixed": fixed})})
        vars(made)["source"] = scenario.source
        return made

    def run_and_tell(self) -> None:
        """Raises Unfinished if it was stopped."""
        out = folder(self.settings.out, f"{self.scenario.name}-study")
        with alone(out):
            self._claim(out)
            try:
                answer = self.run(out)
            except Unfinished:
                say(f"fedlapse: what was done is in {out}; the same command with --out {out} goes on", err=True)
                raise
            self._write(out, answer)

    def _claim(self, out: Path) -> None:
        """The protocol comes first.  Raises BadScenario if OUT has another one, unless that is said to be all right."""
        path = out / PROTOCOL
        said = dump(self.scenario.model_copy(update={"protocol": None}))
        held = [each.name for each in out.iterdir() if not each.name.endswith(".partial")]
        if not path.is_file():
            if held:
                raise BadScenario(f"--out {out} holds files that are not a study's; give a new folder")
            replace_file(path, said)
            return
        before = path.read_text(encoding="utf-8")
        if before == said:
            return
        if not self.exploratory:
            message = (
                "its records belong to another protocol; give a new folder, or --exploratory, which the report says"
            )
            raise BadScenario(f"--out {out}: {message}")
        self.recorded = digest(parse(before, str(path)))

    # --- what is played -------------------------------------------------------------------------------------------

    def run(self, out: Path) -> Answer:
        """Everything, in the protocol's order."""
        founds = self.tuning.run(out / "tuning")
        self.tuning.write(out / "tuning", founds)
        best = self._best(out / "baseline", founds)
        goals = targets(self.protocol, best)
        variants = self._variants(founds)
        entries = self._entries(founds, variants)
        rows = self._reporting(out / "reporting", entries, goals)
        runs = {name: self._observed(of, goals[-1]) for name, of in rows.items()}
        return self._answer(out, founds, best, goals, variants, runs)

    def _made(self, **changes: object) -> Scenario:
        """The scenario of some of the study's runs; their records carry the protocol's digest."""
        evaluate = self.scenario.evaluate.model_copy(update={"personalise_every": "never"})
        made = remade(self.scenario, **{"evaluate": evaluate, **changes}, study=None, protocol=self.recorded)
        vars(made)["source"] = None
        return made

    def _best(self, out: Path, founds: Founds) -> float:
        """The best validation accuracy that the tuned baseline comes to under the seeds of the search, their mean."""
        first = self.scenario.algorithms[0]
        entry = applied(first, founds[first.name].best()) if first.name in founds else first
        assert self.scenario.tune
        scenario = self._made(seeds=self.scenario.tune.seeds, algorithms=(entry,), rounds=self._until(None))
        runs = self.trials.play(scenario, out, "the tuned baseline, for the targets")[first.name]
        tops = [max(row["validation"] or 0.0 for row in rows) for rows in runs.values()]
        return sum(tops) / len(tops)

    def _variants(self, founds: Founds) -> dict[str, dict[str, Configuration]]:
        """The best configuration of each tuned algorithm by each clock, under the label that plays it.

        That for its own links is called as the algorithm; others that differ get a number.
        """
        found: dict[str, dict[str, Configuration]] = {}
        for label, of in founds.items():
            own = of.best()
            known: dict[Configuration, str] = {own: label}
            for clock in clocks(of):
                known.setdefault(of.best(clock), self.tuning.names.of(label, of.best(clock)))
            found[label] = {name: configuration for configuration, name in known.items()}
        return found

    def _entries(self, founds: Founds, variants: Mapping[str, Mapping[str, Configuration]]) -> list[Entry]:
        """All that is played with the seeds that are reported."""
        baseline = self.scenario.algorithms[0].name
        found = []
        for entry in self.scenario.algorithms:
            if entry.name in variants:
                found += [applied(entry, each, name) for name, each in variants[entry.name].items()]
            elif entry.name in self.protocol.nulls and baseline in founds:
                own = tuple((k, v) for k, v in founds[baseline].best() if k.startswith("training."))
                found.append(applied(entry, own))
            else:
                found.append(entry)
        return found

    def _reporting(self, out: Path, entries: Sequence[Entry], goals: Sequence[Target]) -> Rows:
        """All algorithms with the seeds that are reported, until the last target is reached."""
        stop = Stop(metric=METRIC, value=goals[-1].value, hold=goals[-1].hold)
        scenario = self._made(algorithms=tuple(entries), rounds=self._until(stop))
        return self.trials.play(scenario, out, "all algorithms, with the seeds that are reported")

    def _until(self, stop: Stop | None) -> Rounds:
        """Rounds until a target is reached, or the study's horizon."""
        changes = {"targets": (), "stop_at": stop, "until_s": self.protocol.horizon_s}
        return self.scenario.rounds.model_copy(update=changes)

    def _observed(self, of: Mapping[int, Sequence[Mapping[str, Any]]], last: Target) -> dict[int, Observed]:
        rounds = self._until(None)
        return {seed: Observed.of(rows, rounds.max, last, rounds.until_s) for seed, rows in of.items()}

    # --- what is replayed -----------------------------------------------------------------------------------------

    def _replayed(
        self, where: Path, wanted: Sequence[Condition], kept: Kept, labels: Sequence[str] = ()
    ) -> list[Stamps]:
        """When the rounds of the runs in a folder end in each of these settings."""
        record = f"{record_digest(where)} {','.join(labels)}"
        names = [key(each, record) for each in wanted]
        new = [number for number, name in enumerate(names) if name not in kept.known]
        if new:
            batch = Batch(Source(where, only=tuple(labels), targets=()))
            rounds = {(script.label, script.seed): len(script.rounds) for script in batch.scripts}
            each = len(batch.scripts)
            step = max(1, CHUNK // each)
            for first in range(0, len(new), step):
                some = new[first : first + step]
                results = self._play(batch, [Order(run, wanted[n]) for n in some for run in range(each)])
                kept.add({names[n]: stamps(results[p * each : (p + 1) * each], rounds) for p, n in enumerate(some)})
                with uninterrupted():
                    kept.path.write_bytes(kept.content())
                if first + len(some) < len(new):
                    self._say(f"replays: {first + len(some)} of {len(new)} settings")
        return [kept.known[name] for name in names]

    def _play(self, batch: Batch, orders: Sequence[Order]) -> Sequence[Result]:
        workers = self.trials.workers if isinstance(self.trials.workers, int) else None
        played = play_all(batch, orders, workers, console=Console(stderr=True, quiet=self.settings.quiet))
        if not played.whole:
            say(f"fedlapse: {played.why}", err=True)
            raise Unfinished(played.code)
        return played.results

    def _say(self, text: str) -> None:
        if not self.settings.quiet:
            say(f"fedlapse: {text}", err=True)

    def _answer(
        self,
        out: Path,
        founds: Founds,
        best: float,
        goals: Sequence[Target],
        variants: Mapping[str, Mapping[str, Configuration]],
        runs: Runs,
    ) -> Answer:
        kept = Kept(out / "replays.npz")
        at = Places(self, out, founds, variants, runs, kept)
        own = analysis.chosen(runs, at.variants(OWN_CLOCK))
        on, unknown = at.on_links(own)
        found = analysis.all_values(on, goals, self.protocol.horizon_s)
        compared = comparisons([each for each in found if each.link != FOR_ROUNDS], pairs(self.scenario))
        main = goals[len(goals) // 2]
        self._say("replays on the map and on traces")
        answer = Answer(
            scenario=self.scenario,
            digest=self.digest,
            exploratory=self.recorded != self.digest,
            founds=founds,
            best=best,
            targets=goals,
            values=found,
            comparisons=compared,
            whys=list(analysis.reasons(found, own, pairs(self.scenario), OWN)),
            paces=[pace(label, of) for label, of in own.items()],
            nulls=analysis.nulls(own, self.protocol.nulls, self.scenario.algorithms[0].name, goals),
            unknown=unknown,
        )
        drawn = at.map(main)
        traces, assumed = at.traces(main)
        moved = self._sensitivity(out, founds, goals)
        return replace(
            answer, cells=drawn, borders=at.borders(drawn, main), traces=traces, assumptions=assumed, moved=moved
        )

    def _sensitivity(self, out: Path, founds: Founds, goals: Sequence[Target]) -> list[Moved]:
        """One factor at a time, with the settings that were tuned without it; to the first target."""
        said = self.protocol.sensitivity
        if said is None:
            return []
        baseline, goal = self.scenario.algorithms[0].name, goals[0]
        labels = dict.fromkeys([baseline, *said.algorithms])
        entries = [
            applied(entry, founds[entry.name].best()) if entry.name in founds else entry
            for entry in self.scenario.algorithms
            if entry.name in labels
        ]
        stop = Stop(metric=METRIC, value=goal.value, hold=goal.hold)
        base = dump(self._made(algorithms=tuple(entries), seeds=said.seeds, rounds=self._until(stop)))
        found = []
        factors: dict[str, dict[str, dict[str, Any]]] = {"as it is": {"as it is": {}}, **said.factors}
        for factor, settings in factors.items():
            for name, changes in settings.items():
                where = f"{factor}, {name}"
                words = [f"{path}={json.dumps(value)}" for path, value in changes.items()]
                scenario = parse(base, f"study.sensitivity: {where}", words)
                rows = self.trials.play(scenario, out / "sensitivity" / f"{factor}-{name}".replace(" ", "-"), where)
                runs = {
                    label: {
                        seed: Observed.of(each, scenario.rounds.max, goal, scenario.rounds.until_s)
                        for seed, each in of.items()
                    }
                    for label, of in rows.items()
                }
                found += analysis.moved(factor, name, runs, baseline, goal)
        return found

    # --- what is left ---------------------------------------------------------------------------------------------

    def _write(self, out: Path, answer: Answer) -> None:
        from emulator.report.studied import pictures  # altair takes a second to import
        from emulator.studies.page import markdown
        from emulator.studies.tables import tables
        from emulator.studies.verdict import verdict

        with uninterrupted():
            for folder_ in ("tables", "figures"):
                (out / folder_).mkdir(exist_ok=True)
            named = tables(answer)
            for name, each in named.items():
                replace_file(out / "tables" / name, each.csv)
            drawn = dict(pictures(answer))
            for name, content in drawn.items():
                replace_file(out / "figures" / name, content)
            shown = {Path(name).stem: f"figures/{name}" for name in drawn if name.endswith(".png")}
            replace_file(out / "study.md", markdown(answer, shown))
            said = {"digest": answer.digest, "exploratory": answer.exploratory, "verdict": verdict(answer)}
            replace_file(out / "study.json", json.dumps({**said, "tables": sorted(named)}, indent=1) + "\n")
        if self.settings.format is Format.json:
            typer.echo(json.dumps({"out": str(out), **said}, indent=1))
            return
        for line in verdict(answer):
            say(line)
        for tally in (self.trials.tally, self.tuning.trials.tally):
            self.total.add(tally)
        say(self.total.sentence())
        say(f"study: {out / 'study.md'}")

    @cached_property
    def total(self) -> Tally:
        """Of all that was trained or known."""
        return Tally()


class Places:
    """The runs of a study on other links, on the points of its map, and on traces."""

    def __init__(
        self,
        study: Studying,
        out: Path,
        founds: Founds,
        variants: Mapping[str, Mapping[str, Configuration]],
        runs: Runs,
        kept: Kept,
    ) -> None:
        self.study, self.protocol, self.scenario = study, study.protocol, study.scenario
        self.folder, self.founds, self.names, self.runs, self.kept = out / "reporting", founds, variants, runs, kept

    def variants(self, clock: str) -> dict[str, str]:
        """The label under which each algorithm is played in its best configuration by this clock, or else its own."""
        found = {entry.name: entry.name for entry in self.scenario.algorithms}
        for label, of in self.founds.items():
            best = of.best(clock if clock in clocks(of) else OWN_CLOCK)
            found[label] = next(name for name, each in self.names[label].items() if each == best)
        return found

    def on_links(self, own: Runs) -> tuple[dict[str, Runs], list[str]]:
        """The runs on their own links and on those that the study names; and sentences on what is not known."""
        on: dict[str, Runs] = {OWN: own}
        if (for_rounds := self.variants(ROUNDS)) != self.variants(OWN_CLOCK):
            on[FOR_ROUNDS] = analysis.chosen(self.runs, for_rounds)
        wanted = {name: condition(name, said) for name, said in self.protocol.links.items()}
        there = self.study._replayed(self.folder, list(wanted.values()), self.kept)
        unknown = []
        for (name, _), ends in zip(wanted.items(), there, strict=True):
            which = self.variants(name)
            on[name], lost = analysis.elsewhere(analysis.chosen(self.runs, which), analysis.renamed(ends, which))
            unknown += [f"{label} is not known on {name}: a decision there comes out otherwise" for label in lost]
        return on, unknown

    def map(self, goal: Target) -> list[cells.Cell]:
        """Who is first at each point of the study's grid."""
        if self.protocol.map is None:
            return []
        grid = cells.grid(self.protocol.map)
        return self._cells([place for place, _ in grid], [each for _, each in grid], goal)

    def traces(self, goal: Target) -> tuple[list[cells.Cell], list[str]]:
        """Who is first on each trace, and what was assumed about them."""
        found: list[Condition] = []
        assumed: list[str] = []
        for name in self.protocol.traces:
            try:
                found += links_from([name], Uplink(ratio=self.protocol.up_ratio), tell=assumed.append)
            except (ValueError, OSError) as error:
                assumed.append(f"{name} is left out: {error}")
        for each in found:
            assumed += [f"{each.name}: {said}" for said in each.about(self.base)]
        made = self._cells([{"trace": each.name} for each in found], found, goal) if found else []
        return made, list(dict.fromkeys(assumed))

    @cached_property
    def base(self) -> Any:
        """The setting that the runs were played in."""
        return Batch(Source(self.folder, only=(self.scenario.algorithms[0].name,), targets=())).base

    def _labels(self) -> list[str]:
        """Those that may win, in all their configurations."""
        return [name for label in ranked(self.scenario) for name in self.names.get(label, {label: ()})]

    def _cells(
        self, places: Sequence[Mapping[str, float | str]], wanted: Sequence[Condition], goal: Target
    ) -> list[cells.Cell]:
        there = self.study._replayed(self.folder, wanted, self.kept, self._labels())
        return analysis.cells(places, there, self._best(wanted), self.runs, goal)

    def _best(self, wanted: Sequence[Condition]) -> list[dict[str, str]]:
        """The configuration of each ranked algorithm that is best in each setting, by the runs of the search."""
        own = self.variants(OWN_CLOCK)
        found = [{label: own[label] for label in ranked(self.scenario)} for _ in wanted]
        for label, several in self.names.items():
            if len(several) > 1 and label in found[0]:
                for chosen, name in zip(found, self._by_search(label, wanted), strict=True):
                    chosen[label] = name
        return found

    def _by_search(self, label: str, wanted: Sequence[Condition]) -> list[str]:
        """Under which name an algorithm is played with the configuration that is best in each setting."""
        names = {each: name for name, each in self.names[label].items()}
        trials = {each: self.founds[label].finals[each][OWN_CLOCK] for each in names}
        seeds = sorted(self.scenario.tune.seeds) if self.scenario.tune else []
        there: dict[Configuration, list[Stamps]] = {}
        for each in names:
            played = self.study.tuning.names.of(label, each)
            where = self.study.tuning.folders[label, each]
            there[each] = [_only(of, played) for of in self.study._replayed(where, wanted, self.kept, [played])]
        found = []
        for number in range(len(wanted)):
            pool = {
                each: [
                    _retimed(made, there[each][number][""][seed])
                    for made, seed in zip(trials[each], seeds, strict=True)
                    if there[each][number][""].get(seed) is not None
                ]
                for each in names
            }
            known = {each: curves for each, curves in pool.items() if len(curves) == len(seeds)}
            ranks = scores(known)
            best = min(ranks, key=lambda each: ranks[each][:2]) if ranks else self.founds[label].best()
            found.append(names[best])
        return found

    def borders(self, drawn: Sequence[cells.Cell], goal: Target) -> list[cells.Border]:
        """The uplinks at which the first algorithm changes."""

        def ratio(place: Mapping[str, float], one: str, other: str) -> float:
            at = cells.at_point(*(place[axis] for axis in cells.AXES))
            (made,) = self._cells([place], [at], goal)
            return made.means[one] / made.means[other]

        return list(cells.borders(drawn, ratio))


def _only(of: Stamps, label: str) -> Stamps:
    return {"": of.get(label, {})}


def _retimed(made: Any, ends: Sequence[float] | None) -> Any:
    """A run of the search where its rounds end at other times."""
    assert ends is not None
    place = made.times.index(made.reached) if made.reached is not None else None
    return retimed(made, ends, None if place is None else ends[place], made.end if made.end == inf else ends[-1])

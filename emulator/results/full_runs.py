"""Runs of the papers' full settings, each kept as one CSV of a few kB: a line of facts about it, and a row for each
evaluated round."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from emulator.record.lines import object_of
from emulator.record.run import Run
from emulator.record.writing import replace_file
from emulator.results.summary import FINALS, Rows
from scenarios.schema.scenario import Scenario

FORECAST = "forecast.json"  # core-seconds of a run, by setting: {of: its digest, core_s: by label}
GPU = 50.0  # core-seconds that a GPU is taken to do in a second, until one has played runs
FACTS = "# "  # what the first line begins with
WAYS = ("down", "up")
TEXT = (str, type(None))
KNOWN: Mapping[str, type | tuple[type, ...]] = {  # facts that every CSV has
    **dict.fromkeys(("run", "fedlapse", "torch", "processor"), str),
    **dict.fromkeys(("commit", "gpu"), TEXT),
    **dict.fromkeys(("host_s", "forecast_s"), (int, float)),
    "cores": (int, type(None)),
    "workers": int,
}
MOST = 1e12  # seconds that a run can have taken
SAID = {"name", "published", "small", "expect"}  # keys of a scenario that no run depends on


@dataclass(frozen=True)
class FullRun:
    """One row (algorithm) of a paper's setting with one seed: a scenario of this one run."""

    name: str  # of the setting
    scenario: Scenario

    @classmethod
    def of(cls, name: str, scenario: Scenario, label: str, seed: int) -> FullRun:
        """Returns the run of a setting's algorithm with this seed.

        Personalised models are evaluated only if a published number or a target is about them, because every device
        trains once more for it.
        """
        chosen = tuple(entry for entry in scenario.algorithms if entry.name == label)
        wanted = {each.metric for each in scenario.published} | {each.metric for each in scenario.rounds.targets}
        each = {} if "personalised" in wanted else {"personalise_every": "never"}
        changes = {
            "seeds": (seed,),
            "algorithms": chosen,
            "evaluate": scenario.evaluate.model_copy(update=each),
            "expect": (),
            "published": (),
        }
        return cls(name, scenario.model_copy(update=changes))

    @property
    def run(self) -> Run:
        return Run(self.scenario.algorithms[0].name, self.scenario.seeds[0])

    @property
    def text(self) -> str:
        """The run in words: `fedcl-fig1-mnist-alpha1 fedcl seed 1`."""
        return f"{self.name} {self.run.label} seed {self.run.seed}"

    @property
    def digest(self) -> str:
        """The first 16 hex digits of the SHA-256 of all that the run depends on: the scenario without its name, labels,
        targets and published numbers, and without values that are the default."""
        return digest(self.scenario)

    def file(self, out: Path) -> Path:
        return out / self.name / f"{self.run.name}.csv"


def digest(scenario: Scenario) -> str:
    """Returns the first 16 hex digits of the SHA-256 of all that runs depend on."""
    said = scenario.model_dump(mode="json", exclude_defaults=True, exclude=SAID)
    said["algorithms"] = [{entry.key: entry.options} for entry in scenario.algorithms]
    said.get("rounds", {}).pop("targets", None)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Played:
    """A run that has ended: facts such as `run` (its digest), `commit` and `host_s`, and the rows of its evaluated
    rounds, which have `round` (from 0), `time_s`, `bytes` (since the beginning, by way) and all metrics."""

    facts: Mapping[str, Any]
    rows: Rows

    @property
    def last(self) -> int:
        """The number of the last round, from 1; 0 if there is none."""
        return int(self.rows[-1]["round"]) + 1 if self.rows else 0

    def is_computed(self, scenario: Scenario | None) -> bool:
        """Returns True if the run tells how long others take: no round of it came from the ledger, and it was not
        stopped.

        `scenario`: its setting; None if unknown, when a run with a failure or a warning may have been stopped.
        """
        stopped = "told" in self.facts and (scenario is None or self.last < scenario.rounds.max)
        return "known" not in self.facts and not stopped


def written(path: Path, facts: Mapping[str, Any], rows: Rows) -> None:
    """Writes the CSV of a run: round (from 1), virtual seconds, bytes down and up since the beginning, and the metrics
    that were measured at all.  Numbers have nine digits."""
    totals = {way: list(accumulate(sum(row["bytes"][way].values()) for row in rows)) for way in WAYS}
    metrics = [metric for metric in FINALS if any(row[metric] is not None for row in rows)]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("round", "time_s", *(f"{way}_bytes" for way in WAYS), *metrics))
    for number, row in enumerate(rows):
        if number + 1 == len(rows) or any(row[metric] is not None for metric in metrics):
            values = ("" if row[metric] is None else f"{row[metric]:.9g}" for metric in metrics)
            moved = (totals[way][number] for way in WAYS)
            table.writerow((row["round"] + 1, f"{row['time_s']:.9g}", *moved, *values))
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, f"{FACTS}{json.dumps(facts)}\n{text.getvalue()}")


def read(path: Path) -> Played:
    """Returns the run in a CSV that `written` wrote.  Raises ValueError, naming it, for any other file."""
    try:
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
        facts = object_of(first.removeprefix(FACTS).encode(), str(path))
        rows = [_row(each) for each in csv.DictReader(io.StringIO(rest))]
        rounds = [row["round"] for row in rows]
        told = facts.get("told", [])
        sound = all(isinstance(facts[key], of) for key, of in KNOWN.items()) and all(isinstance(t, str) for t in told)
        numbers = all(0 <= facts[key] <= MOST for key in ("host_s", "forecast_s", "cpu_s") if key in facts)
        if not (sound and numbers and isinstance(told, list) and (rows or told) and rest.endswith("\n")):
            raise ValueError
        if rounds != sorted(set(rounds)) or min(rounds, default=0) < 0:
            raise ValueError
    except (LookupError, TypeError, ValueError, csv.Error):
        raise ValueError(f"{path} is not as `fedlapse papers run` writes it; remove it to run it again") from None
    return Played(facts, rows)


def _row(said: Mapping[str, str]) -> dict[str, Any]:
    metrics = {metric: float(said[metric]) if said.get(metric) else None for metric in FINALS}
    moved = {way: int(said[f"{way}_bytes"]) for way in WAYS}
    if not all(share is None or 0 <= share <= 1 for share in metrics.values()):
        raise ValueError
    return {"round": int(said["round"]) - 1, "time_s": float(said["time_s"]), "bytes": moved, **metrics}


def finished(run: FullRun, out: Path) -> Played | None:
    """Returns the finished run from its CSV in the folder `out`; None if there is none, or if its row of the scenario
    has changed since.  Raises ValueError if it cannot be read."""
    path = run.file(out)
    played = read(path) if path.is_file() else None
    if played is None or played.facts["run"] != run.digest:
        return None
    rules, last = run.scenario.rounds, played.last
    early = "told" in played.facts or rules.stop_at or rules.until_s
    if last > rules.max or (last < rules.max and not early):
        raise ValueError(f"{path} ends with round {last} of {rules.max}; remove it to run it again")
    return played


def pace(facts: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """Returns the ratio of the seconds `key` that runs took to those foreseen; None if none were foreseen."""
    foreseen = sum(each["forecast_s"] for each in facts)
    return float(sum(each[key] for each in facts) / foreseen) if foreseen else None


@dataclass(frozen=True)
class Setting:
    """A paper's full setting, with its runs that have ended and those that have not."""

    scenario: Scenario
    done: Mapping[str, Mapping[int, Played]]  # by label and seed; every label has an entry
    open: Sequence[FullRun]
    stale: Sequence[Path]  # CSVs of another version of the setting
    forecast: Mapping[str, float]  # core-seconds of a run, by label; {} if unknown
    why: str  # what somebody has written about the differences, in NAME/why.txt

    @property
    def runs(self) -> Mapping[str, Mapping[int, Rows]]:
        return {label: {seed: of.rows for seed, of in seeds.items()} for label, seeds in self.done.items()}


def setting(name: str, scenario: Scenario, out: Path) -> Setting:
    """Returns a setting with what is known of it in the folder `out`."""
    seeds = {_seed(file) for file in (out / name).glob("*-s*.csv")} | {*scenario.seeds}
    labels = [entry.name for entry in scenario.algorithms]
    every = [FullRun.of(name, scenario, label, seed) for label in labels for seed in sorted(seeds)]
    found = {run.run: finished(run, out) for run in every}
    done = {label: {run.seed: of for run, of in found.items() if of and run.label == label} for label in labels}
    files = {run.file(out) for run in every if found[run.run]}
    why = out / name / "why.txt"
    return Setting(
        scenario,
        done,
        [run for run in every if not found[run.run] and run.run.seed in scenario.seeds],
        sorted({*(out / name).glob("*.csv")} - files),
        foreseen(out, name, scenario),
        _text(why) if why.is_file() else "",
    )


def _seed(file: Path) -> int:
    said = file.stem.rpartition("-s")[2]
    if not said.isdecimal() or str(int(said)) != said:
        raise ValueError(f"{file}: its name must be LABEL-sSEED.csv")
    return int(said)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except ValueError:
        raise ValueError(f"{path} must be UTF-8 text") from None


def foreseen(out: Path, name: str, scenario: Scenario) -> Mapping[str, float]:
    """Returns the core-seconds of a run of each algorithm, by label, from the folder's forecast; {} if it has none.
    Raises ValueError, naming the file, if it is faulty."""
    path = out / FORECAST
    said = object_of(path.read_bytes(), str(path)).get(name) if path.is_file() else None
    try:
        if said is None or said["of"] != digest(scenario):
            return {}
        core = dict(said["core_s"])
        if not all(0 <= seconds <= MOST for seconds in core.values()):
            raise ValueError
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"{path}: {name} is not as `fedlapse papers run` writes it; remove the file") from None
    return core if core.keys() >= {entry.name for entry in scenario.algorithms} else {}

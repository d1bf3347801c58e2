"""A study's answer, made of rows that are written by hand: no training, no replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from emulator.analysis import analysis
from emulator.analysis.answer import Answer, Null
from emulator.analysis.cells import Border, Cell, cell
from emulator.analysis.comparisons import comparisons
from emulator.analysis.protocol import pairs
from emulator.record.targets import Target
from emulator.results.comparison import OWN
from emulator.results.observed import Observed, Runs
from emulator.results.why import pace
from emulator.tuning.digest import digest
from emulator.tuning.scores import ScoreCurve
from emulator.tuning.search import ROUNDS, SearchResult
from emulator.tuning.space import Dimension, Space
from scenarios.load import build
from scenarios.schema.scenario import Scenario

TARGET = Target("accuracy", 0.8, 1)
ALGORITHMS = ("fedavg", "fedcl", "fedcurv")
TRIED = ((("training.lr", 0.01),), (("training.lr", 0.1),), (("training.lr", 1.0),))


def scenario(seeds: int = 8, algorithms: Sequence[Any] = ALGORITHMS, **study: Any) -> Scenario:
    return build(
        {
            "name": "tiny",
            "seeds": list(range(1, seeds + 1)),
            "rounds": {"max": 10},
            "fleet": [{"profile": "phone-mid", "count": 2, "link": {"up_mbit_s": 1, "down_mbit_s": 1}}],
            "algorithms": list(algorithms),
            "tune": {"grid": {"training.lr": [0.01, 0.1, 1.0]}, "budget": 3, "target": {"value": 0.8, "hold": 1}},
            "study": {"pairs": [["fedcl", "fedcurv"]], "hold": 1, **study},
        }
    )


def row(number: int, time: float, accuracy: float, seconds: float, importance: bool) -> dict[str, Any]:
    """A round of so many seconds: half of them down (with importance, a quarter each), a quarter compute and up."""
    quarter = seconds / 4
    down = {"weights": quarter, "importance": quarter} if importance else {"weights": 2 * quarter}
    return {
        "round": number,
        "time_s": time,
        "accuracy": accuracy,
        "bytes": {"down": {"weights": 1000, **({"importance": 1000} if importance else {})}, "up": {"weights": 1000}},
        "joules": {"phone-mid-1": 2.0 * seconds, "phone-mid-2": 3.0 * seconds},
        "critical": {
            "device": "phone-mid-1",
            "setup_s": 0.0,
            "down_s": down,
            "compute_s": {"train": quarter},
            "up_s": {"weights": quarter},
            "server_s": {},
            "wait_s": 0.0,
        },
    }


def run(rounds: int, seconds: float, importance: bool = False, of: int = 10, early: int | None = None) -> Observed:
    """A run that reaches the target in this round; each round takes this many seconds.  `early`: a round in which the
    run only touches the target."""
    rows = [
        row(n, (n + 1) * seconds, 0.9 if n + 1 >= rounds or n + 1 == early else 0.5, seconds, importance)
        for n in range(of)
    ]
    return Observed.of(rows, of)


def found(label: str, times: Sequence[float]) -> SearchResult:
    """A search of three learning rates, of which the first is fastest in seconds and the second in rounds."""
    space = Space(label, (Dimension("training.lr", (0.01, 0.1, 1.0)),))
    finals = {
        configuration: {
            OWN: (ScoreCurve((time,), (0.8,), time, 100.0),),
            ROUNDS: (ScoreCurve((1.0,), (0.8,), float(number), 10.0),),
        }
        for configuration, time, number in zip(TRIED, times, (6, 4, 8), strict=True)
    }
    return SearchResult(space, tried=list(TRIED), finals=dict(finals))


def runs_of(seeds: int) -> dict[str, dict[int, Observed]]:
    """FedAvg takes 4 rounds of 10 s; FedCL 5 of 12 s; FedCurv 4 or 5 of 9 or 11 s, so nothing is decided there."""
    every = range(1, seeds + 1)
    return {
        "fedavg": {seed: run(4, 10.0) for seed in every},
        "fedcl": {seed: run(5, 12.0, importance=True) for seed in every},
        "fedcurv": {seed: run(4 + seed % 2, 9.0 if seed % 2 else 11.0) for seed in every},
    }


def place(at: Mapping[str, float | str], runs: Runs) -> Cell:
    times = {label: {seed: each.timed(TARGET) for seed, each in of.items()} for label, of in runs.items()}
    return cell(at, times, {label: label for label in runs})


def answer(seeds: int = 8, runs: Runs | None = None, said: Scenario | None = None, **changes: Any) -> Answer:
    """A whole one: two cells and a trace, one null that agrees."""
    runs, said = runs or runs_of(seeds), said or scenario(seeds)
    values = analysis.all_values({OWN: runs, "fast": runs}, [TARGET])
    without = {label: of for label, of in runs.items() if label != "fedcl"}
    at = {"up_mbit_s": 1.0, "down_over_up": 5.0, "round_trip_ms": 20.0, "speed_gflop_s": 5.0}
    made = Answer(
        scenario=said,
        digest=digest(said),
        exploratory=False,
        founds={"fedavg": found("fedavg", (30.0, 40.0, 50.0))},
        best=0.9,
        targets=[TARGET],
        values=values,
        comparisons=comparisons(values, pairs(said)),
        whys=list(analysis.reasons(values, runs, pairs(said), OWN)),
        paces=[pace(label, of) for label, of in runs.items()],
        nulls=[Null("fedcl-0", seed, 4, None) for seed in runs["fedavg"]],
        cells=[place(at, {k: runs[k] for k in ("fedavg", "fedcl")}), place({**at, "up_mbit_s": 10.0}, without)],
        borders=[Border({"down_over_up": 5.0, "round_trip_ms": 20.0, "speed_gflop_s": 5.0}, "fedavg", "fedcurv", 2.5)],
        traces=[place({"trace": "walk"}, {k: runs[k] for k in ("fedavg", "fedcl")})],
        assumptions=["walk: an assumption"],
    )
    return replace(made, **changes)

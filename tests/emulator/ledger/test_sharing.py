"""Jobs with one key have one result: of every algorithm, under options that they share, and in whole runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from algorithms.agentimportance import AgentImportance
from algorithms.algorithm import Message, Party, Reply
from algorithms.fedasync import FedAsync
from algorithms.fedavg import FedAvg
from algorithms.fedcl import FedCL
from algorithms.fedcurv import FedCurv
from algorithms.fedprox import FedProx
from emulator.compute.executors import Inline
from emulator.lab.build import lab_of
from emulator.lab.lab import Lab
from emulator.lab.scoring import Scores
from emulator.ledger.key import PARTS, Keys
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.record.run import Run
from scenarios.builders import plugins
from scenarios.load import build
from tests.conftest import SMALL, merged
from tests.emulator.ledger.rounds import rounds
from tests.emulator.ledger.small import TRAINING, lab

Done = Sequence[tuple[str, str, Any]]  # job and round, key, result


def plain(result: Any) -> Any:
    return (
        [each.tolist() for each in (*result.rows.values(), result.counted, result.loss)]
        if isinstance(result, Scores)
        else result
    )


def contradictions(*runs: Done) -> set[str]:
    """Jobs of which two have one key, and different results."""
    known: dict[str, Any] = {}
    pairs = ((job, plain(result), known.setdefault(key, plain(result))) for run in runs for job, key, result in run)
    return {job for job, result, first in pairs if result != first}


def shared(one: Done, other: Done) -> list[str]:
    return [job for job, key, _ in one if key in {key for _, key, _ in other}]


# Algorithms whose penalty has a strength, and whether trainings of round 0, before anything but a model came down, are
# shared by all strengths but 0.
PENALISED: dict[str, tuple[Any, bool]] = {
    "fedprox": (FedProx(TRAINING), False),
    "fedasync": (FedAsync(TRAINING, mu=0.1), False),
    "fedcurv": (FedCurv(TRAINING), True),
    "fedcurv, lean": (FedCurv(TRAINING, upload="lean"), True),
    "fedcurv, shuffled": (FedCurv(TRAINING, placebo="shuffled"), True),
    "fedcurv, last round": (FedCurv(TRAINING, participation="last_round"), True),
    "agents": (AgentImportance(TRAINING), True),
    "agents without ewc": (AgentImportance(TRAINING, ewc=False), True),
    "agents, rwalk": (AgentImportance(TRAINING, importance="rwalk"), True),
    "fedcl, Ω in each round": (FedCL(TRAINING), False),
    "fedcl, identity": (FedCL(TRAINING, "sq", 2, "identity"), False),
    "fedcl, keep_last": (FedCL(TRAINING, "sq", 2), False),
    "fedcl, keep_last, identity": (FedCL(TRAINING, "sq", 2, "keep_last", "identity"), False),
    "fedcl, keep_last, send": (FedCL(TRAINING, "sq", 2, "keep_last", "send"), False),
    "fedcl, catch_up": (FedCL(TRAINING, "sq", 2, "catch_up"), False),
    "fedcl, local_estimate": (FedCL(TRAINING, "sq", 2, "local_estimate"), False),
    "fedcl, local_estimate, shuffled": (
        FedCL(TRAINING, "sq", 2, "local_estimate", placebo="shuffled"),
        False,
    ),
    "fedcl, none": (FedCL(TRAINING, "sq", 2, "none"), False),
}


def with_other_options(algorithm: Any) -> list[Any]:
    """The algorithm with other values of the options of its penalty, 0 among them."""
    own = {name: getattr(algorithm, name) for name in algorithm.penalty_options}
    return [replace(algorithm, **{name: times * value}) for name, value in own.items() for times in (2, 0)]


def test_no_algorithm_with_a_penalty_is_left_out() -> None:
    kinds = {kind for kind in plugins.kinds().values() if kind.penalty_options}
    assert kinds == {type(algorithm) for algorithm, _ in PENALISED.values()}


@pytest.mark.slow
@pytest.mark.parametrize("which", PENALISED)
def test_jobs_that_strengths_share_have_the_same_results(which: str) -> None:
    algorithm, from_start = PENALISED[which]
    own, *others = map(lab, (algorithm, *with_other_options(algorithm)))
    assert not contradictions(rounds(own, *others, rounds=4))
    first, second = rounds(own, rounds=1), rounds(others[0], rounds=1)
    assert ("train 0" in shared(first, second)) is from_start
    assert {"start 0", "request 0"} <= set(shared(first, second))


def test_an_algorithm_that_hides_what_its_server_reads_is_found_out() -> None:
    """So the test above can fail."""

    @dataclass(frozen=True)
    class Lying(FedAvg):
        penalty_options: ClassVar[Sequence[str]] = ("step",)
        step: float = 1.0

        def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
            mean = super().combine(state, replies, server)["weights"]
            return {"weights": {name: self.step * value for name, value in mean.items()}}

    one, other = (rounds(lab(Lying(TRAINING, step)), rounds=1) for step in (0.5, 1.0))
    assert contradictions(one, other) == {"combine 0"}


@pytest.mark.slow
def test_algorithms_share_the_evaluation_of_equal_models_and_nothing_else() -> None:
    """FedProx without a penalty trains as FedAvg does."""
    one, other = rounds(lab(FedAvg(TRAINING))), rounds(lab(FedProx(TRAINING, mu=0.0)))
    assert not contradictions(one, other)
    assert {job.split()[0] for job in shared(one, other)} == {"evaluate"}
    assert len(shared(one, other)) == 6  # of three rounds, on test and validation examples


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted(plugins.kinds()))
def test_a_second_run_has_the_same_keys_and_results(key: str) -> None:
    made = plugins.kinds()[key](TRAINING)
    first, second = (rounds(lab(made), rounds=2) for _ in range(2))
    assert [key for _, key, _ in first] == [key for _, key, _ in second]
    assert not contradictions(first, second)


# ---- whole runs


class Keyed(Inline):
    """Computes everything, and notes the key of what has one."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.keys = Keys(lab, "here")
        self.done: list[tuple[str, str]] = []  # job and round, key

    def submit(self, job: Any, *args: Any) -> Future[Any]:
        if job in PARTS:
            round = next((arg for arg in args if type(arg) is int), 0)
            self.done.append((f"{job.__name__} {round}", self.keys.key(job, args)))
        future = super().submit(job, *args)
        self.keys.note(future.result())
        return future


def played(folder: Path, algorithm: Any = "fedcurv", **changes: Any) -> dict[str, set[str]]:
    """The keys of a run of SMALL, by job and round."""
    scenario = build(merged(SMALL, {**changes, "algorithms": [algorithm], "seeds": [1]}))
    lab = lab_of(scenario)
    executor = Keyed(lab)
    run = Run(scenario.algorithms[0].name, 1)
    asyncio.run(run_virtual(lab, run, Conduct.of(scenario), executor, folder / "run"))
    found: dict[str, set[str]] = {}
    for job, key in executor.done:
        found.setdefault(job, set()).add(key)
    return found


@pytest.mark.slow
def test_runs_of_two_strengths_share_the_round_before_the_penalty_acts(tmp_path: Path) -> None:
    weak, strong = (played(tmp_path / str(each), {"fedcurv": {"strength": each}}) for each in (1.0, 2.0))
    assert len(weak["train 0"]) == len(weak["train 1"]) == 4
    assert {job for job in weak if weak[job] == strong[job]} >= {"start 0", "request 0", "train 0", "combine 0"}
    assert {job for job in weak if not weak[job] & strong[job]} == {"train 1", "personalise_stack 1", "combine 1"}


SLOWER = {"up_mbit_s": 1, "down_mbit_s": 2, "latency_ms": 200}
ELSEWHERE: dict[str, dict[str, Any]] = {
    "links": {"fleet": [{**group, "link": SLOWER} for group in SMALL["fleet"]], "network": {"model": "tcp"}},
    "a deadline that nobody misses": {"rounds": {"deadline_s": 100_000}},
    "another label": {"algorithm": {"fedcurv": {}, "name": "other"}},
    "a name": {"name": "other"},
    "the server's link": {"server": {"link": {"up_mbit_s": 10}}},
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ELSEWHERE)
def test_a_run_elsewhere_shares_every_job(what: str, tmp_path: Path) -> None:
    assert played(tmp_path / "there", **ELSEWHERE[what]) == played(tmp_path / "here")

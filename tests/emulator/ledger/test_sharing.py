"""Jobs with one key have one result: of every algorithm, under options that they share, and in whole runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from algorithms.agentimportance import AgentImportance
from algorithms.algorithm import Message, Party, Reply
from algorithms.fedavg import FedAvg
from algorithms.fedcl import FedCL
from algorithms.fedcurv import FedCurv
from algorithms.fedprox import FedProx
from emulator.ledger.key import PARTS, Keys
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.record.run import Run
from emulator.study.build import study_of
from emulator.study.jobs import Scores
from emulator.study.study import Study
from emulator.worlds.executors import Inline
from scenarios.build import plugins
from scenarios.load import build
from tests.conftest import SMALL, merged
from tests.emulator.ledger.rounds import rounds
from tests.emulator.ledger.small import TRAINING, study

Done = Sequence[tuple[str, str, Any]]  # job and round, key, result


def plain(result: Any) -> Any:
    return [each.tolist() for each in vars(result).values()] if isinstance(result, Scores) else result


def contradictions(*runs: Done) -> set[str]:
    """Jobs of which two have one key, and different results."""
    known: dict[str, Any] = {}
    pairs = ((job, plain(result), known.setdefault(key, plain(result))) for run in runs for job, key, result in run)
    return {job for job, result, first in pairs if result != first}


def shared(one: Done, other: Done) -> list[str]:
    return [job for job, key, _ in one if key in {key for _, key, _ in other}]


STRENGTHS = (0.0, 0.3, 0.6)

# Algorithms whose penalty has a strength, and whether its trainings of round 0 (before anything but a model came down)
# are shared by two strengths above 0.
PENALISED: dict[str, tuple[Callable[[float], Any], bool]] = {
    "fedprox": (lambda strength: FedProx(TRAINING, mu=strength), False),
    "fedcurv": (lambda strength: FedCurv(TRAINING, strength=strength), True),
    "fedcurv, lean": (lambda strength: FedCurv(TRAINING, strength=strength, upload="lean"), True),
    "fedcurv, last round": (lambda strength: FedCurv(TRAINING, strength=strength, participation="last_round"), True),
    "agents": (lambda strength: AgentImportance(TRAINING, strength=strength), True),
    "agents without ewc": (lambda strength: AgentImportance(TRAINING, strength=strength, ewc=False), True),
    "agents, rwalk": (lambda strength: AgentImportance(TRAINING, strength=strength, importance="rwalk"), True),
    "fedcl": (lambda strength: FedCL(TRAINING, strength=strength), False),
    **{
        f"fedcl, {fallback}, {first}": (
            lambda strength, options=(fallback, first): FedCL(TRAINING, "sq", 2, *options, strength), False
        )
        for fallback in ("keep_last", "identity", "catch_up", "local_estimate", "none")
        for first in ("none", "identity", "send")
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("which", PENALISED)
def test_jobs_that_strengths_share_have_the_same_results(which: str) -> None:
    make, from_start = PENALISED[which]
    none, weak, strong = (rounds(study(make(strength)), rounds=4) for strength in STRENGTHS)
    assert not contradictions(none, weak, strong)
    assert ("train 0" in shared(weak, strong)) is from_start
    assert {"start 0", "request 0"} <= set(shared(weak, strong))


def test_an_algorithm_that_hides_what_its_server_reads_is_found_out() -> None:
    """So the test above can fail."""

    @dataclass(frozen=True)
    class Lying(FedAvg):
        penalty_options: ClassVar[Sequence[str]] = ("step",)
        step: float = 1.0

        def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
            mean = super().combine(state, replies, server)["weights"]
            return {"weights": {name: self.step * value for name, value in mean.items()}}

    one, other = (rounds(study(Lying(TRAINING, step)), rounds=1) for step in (0.5, 1.0))
    assert contradictions(one, other) == {"combine 0"}


@pytest.mark.slow
def test_algorithms_share_the_evaluation_of_equal_models_and_nothing_else() -> None:
    """FedProx without a penalty trains as FedAvg does."""
    one, other = rounds(study(FedAvg(TRAINING))), rounds(study(FedProx(TRAINING, mu=0.0)))
    assert not contradictions(one, other)
    assert {job.split()[0] for job in shared(one, other)} == {"evaluate"}
    assert len(shared(one, other)) == 6  # of three rounds, on test and validation examples


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted(plugins.kinds()))
def test_a_second_run_has_the_same_keys_and_results(key: str) -> None:
    made = plugins.kinds()[key](TRAINING)
    first, second = (rounds(study(made), rounds=2) for _ in range(2))
    assert [key for _, key, _ in first] == [key for _, key, _ in second]
    assert not contradictions(first, second)


# ---- whole runs


class Keyed(Inline):
    """Computes everything, and notes the key of what has one."""

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self.keys = Keys(study, "here")
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
    study = study_of(scenario)
    executor = Keyed(study)
    run = Run(scenario.algorithms[0].name, 1)
    asyncio.run(run_virtual(study, run, Conduct.of(scenario), executor, folder / "run"))
    found: dict[str, set[str]] = {}
    for job, key in executor.done:
        found.setdefault(job, set()).add(key)
    return found


@pytest.mark.slow
def test_runs_of_two_strengths_share_the_round_before_the_penalty_acts(tmp_path: Path) -> None:
    weak, strong = (played(tmp_path / str(each), {"fedcurv": {"strength": each}}) for each in (1.0, 2.0))
    assert len(weak["train 0"]) == len(weak["train 1"]) == 4
    assert {job for job in weak if weak[job] == strong[job]} >= {"start 0", "request 0", "train 0", "combine 0"}
    assert {job for job in weak if not weak[job] & strong[job]} == {"train 1", "personalise 1", "combine 1"}


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

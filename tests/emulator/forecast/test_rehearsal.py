"""A rehearsal tells what the run will do: the law is that both have the same timeline."""

import asyncio
from dataclasses import dataclass, replace

import pytest
import torch

from algorithms.algorithm import Phase, Request
from algorithms.fedavg import FedAvg
from emulator.compute.executors import Inline
from emulator.forecast.rehearsal import rehearse
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.metrics import NAMES
from emulator.play.run import run_virtual
from emulator.record.lines import read_lines
from emulator.record.run import Run
from scenarios.load import build
from tests.conftest import SMALL, merged
from tests.golden.scenarios import AWAY, FLEET
from tests.golden.timeline import without_digests
from tests.runs.network import small

pytestmark = pytest.mark.slow

TRAINED = {*NAMES, "leverage", "numbers"}  # what of a row depends on trained values
ALGORITHMS = (
    "fedavg",
    {"fedprox": {"mu": 0.1}},
    {"fedcl": {"interval": 2}},
    {"fedcl": {"interval": 2, "fallback": "keep_last"}},
    {"fedcurv": {}},
)


def rehearsed(algorithm, at_most=11, **changes):
    scenario = build(merged(SMALL, {**changes, "algorithms": [algorithm]}))
    return rehearse(lab_of(scenario), Run(scenario.algorithms[0].name, 1), Conduct.of(scenario), at_most)


def timeline(rows):
    return [{key: value for key, value in row.items() if key not in TRAINED} for row in rows]


KINDS = {
    "all": {"rounds": {"max": 3}},
    "first-k": {"fleet": FLEET, "rounds": {"max": 3, "fraction": 0.5, "ask": 3}},
    "deadline": {"fleet": FLEET, "rounds": {"max": 3, "deadline_s": 1.3}},
    "finish": {"fleet": FLEET, "rounds": {"max": 4, "deadline_s": 1.1, "stragglers": "finish"}},
    "away": {"fleet": AWAY, "rounds": {"max": 4}},
    "dirichlet": {"fleet": FLEET, "rounds": {"max": 3}, "data": {"split": {"kind": "dirichlet", "alpha": 0.3}}},
}
PAIRS = [(algorithm, "all") for algorithm in ALGORITHMS] + [
    (algorithm, kind) for algorithm in ALGORITHMS[-2:] for kind in KINDS if kind != "all"
]


@pytest.mark.parametrize(("algorithm", "kind"), PAIRS, ids=str)
def test_a_rehearsal_has_the_timeline_of_the_run(play, algorithm, kind):
    changes = KINDS[kind]
    run, rehearsal = play(algorithm, **changes), rehearsed(algorithm, **changes)
    assert list(without_digests(event.plain for event in rehearsal.events)) == list(without_digests(run.events))
    assert timeline(rehearsal.rows) == timeline(run.rounds)
    assert rehearsal.failure == run.outcome.failure


def test_a_rehearsal_is_the_beginning_of_a_longer_run(play):
    run, rehearsal = play({"fedcurv": {}}, rounds={"max": 4}), rehearsed({"fedcurv": {}}, at_most=2)
    lines = list(without_digests(event.plain for event in rehearsal.events))
    assert lines == list(without_digests(run.events))[: len(lines)]
    assert [row["round"] for row in rehearsal.rows] == [0, 1]


def test_a_rehearsal_fails_where_the_run_fails(play):
    changes = {"fleet": FLEET, "rounds": {"max": 9, "deadline_s": 0.1}}
    run, rehearsal = play(**changes), rehearsed("fedavg", **changes)
    assert "3 rounds in a row" in rehearsal.failure
    assert rehearsal.failure == run.outcome.failure
    assert len(rehearsal.rows) == 3


def test_what_devices_receive_send_and_keep_is_told_by_kind():
    """FedCurv sends and receives three times the model (53,002 float32), and keeps two of them in float64."""
    rehearsal = rehearsed({"fedcurv": {}})
    model = 4 * 53_002
    assert rehearsal.downloaded == dict.fromkeys(("fisher", "fisher_theta", "weights"), model)
    assert rehearsal.uploaded == dict.fromkeys(("fisher", "fisher_theta", "weights"), model)
    assert rehearsal.kept == dict.fromkeys(("fisher", "fisher_theta"), 2 * model)


def test_fedavg_keeps_nothing():
    assert rehearsed("fedavg").kept == {}


@dataclass(frozen=True)
class Sender(FedAvg):
    """A user's own: the server sends its proxy examples to one device, and computes nothing for that."""

    downloads = ("weights", "examples")

    def request(self, state, names, server):
        return Request({"weights": state["weights"]}, {names[0]: {"examples": {"x": server.x}}})


def test_a_server_that_computes_nothing_sends_its_own_examples_all_of_them(tmp_path):
    scenario = build(SMALL)
    lab = lab_of(scenario)
    lab = replace(lab, algorithms={"fedavg": Sender(lab.algorithms["fedavg"].training)})
    conduct, run = Conduct.of(scenario), Run("fedavg", 1)
    asyncio.run(run_virtual(lab, run, conduct, Inline(lab), tmp_path))
    rehearsal = rehearse(lab, run, conduct)
    assert rehearsal.downloaded["examples"] == 4 * 64 * len(lab.splits[1].proxy)
    assert list(without_digests(event.plain for event in rehearsal.events)) == list(
        without_digests(read_lines(tmp_path / "events.jsonl"))
    )


@dataclass(frozen=True)
class Diligent(FedAvg):
    """A user's own: counts the examples that it was given, wherever it is."""

    seen = []  # noqa: RUF012  the test looks at it

    def train(self, download, device):
        self.seen.append(len(device.y))
        return super().train(download, device)

    def request(self, state, names, server):
        self.seen.append(len(server.y))
        return super().request(state, names, server)

    def request_work(self, load):
        return (Phase("look", "forward", load.examples, 64),)


def test_jobs_see_next_to_nothing_and_devices_alike_are_trained_once():
    scenario = build(SMALL)
    lab = lab_of(scenario)
    lab = replace(lab, algorithms={"fedavg": Diligent(lab.algorithms["fedavg"].training)})
    Diligent.seen.clear()
    rehearsal = rehearse(lab, Run("fedavg", 1), Conduct.of(scenario))
    assert len(rehearsal.rows) == 2
    assert Diligent.seen == [2, 2] * 2  # a request and a training in each of two rounds, for four devices
    assert torch.get_num_threads() == 1


def test_more_rounds_build_no_more_networks(monkeypatch):
    built = []

    def counted(classes=10):
        built.append(classes)
        return small(classes)

    monkeypatch.setattr("tests.runs.network.small", counted)
    numbers = []
    for rounds in (3, 3, 9):  # the first also builds what a process shares
        built.clear()
        rehearsed({"fedcl": {"interval": 2}}, model="tests.runs.network:small", rounds={"max": rounds})
        numbers.append(len(built))
    assert numbers[1] == numbers[2] > 0

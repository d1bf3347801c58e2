"""A mistake in an algorithm's own code is one line that says where, and ends only the runs of that algorithm."""

import asyncio
import inspect
import json
from dataclasses import dataclass, replace

import pytest
import torch

from algorithms.algorithm import Phase, Reply, Request
from algorithms.fedavg import FedAvg
from emulator.compute.executors import Processes
from emulator.forecast.rehearsal import rehearse
from emulator.lab.build import lab_of
from emulator.lab.faulty import Faulty
from emulator.play.conduct import Conduct
from emulator.play.over_sockets import run_sockets
from emulator.play.run import run_virtual
from emulator.record.run import Run
from scenarios.load import build
from tests.conftest import SMALL, audit_run, merged

FILE = "test_own_errors.py"


@dataclass(frozen=True)
class Slips(FedAvg):
    """FedAvg with one mistake, made in round `since`, on one device."""

    slip: str = ""
    since: int = 0

    def __post_init__(self):
        if self.slip == "post_init":
            raise RuntimeError("no such luck")

    @property
    def encodings(self):
        return {}["up"] if self.slip == "encodings" else super().encodings

    def upload_form(self, round, model):
        return {}["form"] if self.slip == "upload_form" else super().upload_form(round, model)

    def download_form(self, server):
        return {}["form"] if self.slip == "download_form" else super().download_form(server)

    def device_floats(self, load):
        return float("nan") if self.slip == "device_floats" else super().device_floats(load)

    def start(self, weights, server):
        return weights if self.slip == "start" else super().start(weights, server)

    def cohort(self, round, names, count, seed):
        wrong = {"stranger": ["nobody"], "nobody": [], "a name": names[0], "twice": [names[0]] * 2}
        return wrong.get(self.slip) if self.slip in wrong else super().cohort(round, names, count, seed)

    def request(self, state, names, server):
        wrong = {"state": state, "undeclared": Request({"weights": state["weights"], "more": {}})}
        return wrong.get(self.slip) or super().request(state, names, server)

    def penalty(self, download, device):
        norm = sum(value.square().sum() for value in download["weights"].values())
        return {"loss": norm, "number": 0.5, "function": lambda name, parameter, grad: None}.get(self.slip)

    def train(self, download, device):
        reply = super().train(download, device)
        weights = reply.upload["weights"]
        if device.name != "pi-4-1" or device.round < self.since:
            return reply
        if self.slip == "raise":
            raise RuntimeError("boom\n  and more")
        if self.slip == "leave":
            raise SystemExit(3)
        wrong = {
            "upload": reply.upload,
            "nothing": None,
            "bare": Reply(weights, reply.examples),
            "undeclared upload": replace(reply, upload={**reply.upload, "more": weights}),
            "flat": replace(reply, upload={"weights": {name: value.flatten() for name, value in weights.items()}}),
            "few": replace(reply, upload={"weights": dict(list(weights.items())[1:])}),
            "graph": replace(reply, upload={"weights": {n: v.clone().requires_grad_() for n, v in weights.items()}}),
            "count": replace(reply, examples=torch.tensor(3)),
        }
        return wrong.get(self.slip, reply) if self.slip in wrong else reply

    def combine(self, state, replies, server):
        weights = super().combine(state, replies, server)["weights"]
        if server.round < self.since:
            return {"weights": weights}
        if self.slip == "combine":
            return {}["x"]
        wrong = {
            "bare model": weights,
            "nan": {"weights": {name: value * float("nan") for name, value in weights.items()}},
            "double": {"weights": {name: value.double() for name, value in weights.items()}},
        }
        return wrong.get(self.slip, {"weights": weights})

    def device_work(self, load):
        return 3.0 if self.slip == "device_work" else super().device_work(load)

    def combine_work(self, load):
        return Phase("combine", "batch", 0, 1) if self.slip == "combine_work" else super().combine_work(load)


SLIPS = f"{Slips.__module__}:Slips"


def line_of(words):
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    return next(number for number, line in enumerate(lines, 1) if words in line)


PENALTY = "it must return a penalty, as algorithms.training.local.Quadratic(anchor, strength, importance), or None"
ON_DEVICE = ", device pi-4-1"
TOLD = {
    "start": 'start() must return {"weights": ...}',
    "stranger": "'nobody' is none of them",
    "nobody": "cohort() must return 1 to 4 of the names, or all of them; it returned 0",
    "a name": "cohort() must return a list of device names, not a str",
    "twice": "cohort() must name each device once",
    "state": "request() must return a Request",
    "undeclared": "request() sends more; `downloads` must name every kind, and has weights",
    "leave": f"{ON_DEVICE}: train() raised SystemExit: 3",
    "upload": f'{ON_DEVICE}: train() must return a Reply, as Reply({{"weights": ...}}, examples), not a dict',
    "nothing": f'{ON_DEVICE}: train() must return a Reply, as Reply({{"weights": ...}}, examples), not nothing',
    "bare": "it must be a mapping of names to tensors",
    "undeclared upload": "train() uploads more, weights; `upload_form` says weights",
    "flat": "as float32 (288,); it must be float32 (32, 1, 3, 3)",
    "few": "train() returned weights without 'conv1.weight'",
    "graph": "detach() it",
    "count": "must say how many `examples` it used as an int, not a Tensor",
    "bare model": 'combine() must return {"weights": ...}',
    "nan": "combine() returned weights that are not finite (conv1.",
    "double": "as float64",
    **{
        slip: f"penalty() returned a {what}; {PENALTY}"
        for slip, what in {"loss": "Tensor", "number": "float", "function": "function"}.items()
    },
    "post_init": f"making it raised RuntimeError: no such luck ({FILE}:",
    "encodings": f"encodings raised KeyError: 'up' ({FILE}:",
    "upload_form": f"round 0: upload_form() raised KeyError: 'form' ({FILE}:",
    "device_floats": "device_floats() must return a number that is 0 or more, and finite, not nan",
    "device_work": "device_work() must return a tuple of Phases, as (Phase(...),), not a float",
    "combine_work": "combine_work() must return a tuple of Phases, as (Phase(...),), not a Phase",
}


def slipping(slip, since=0):
    return {"algorithm": SLIPS, "options": {"slip": slip, "since": since}, "name": "mine"}


def test_without_a_slip_it_is_fedavg(play):
    assert play(slipping("")).model == play().model


def test_what_train_raises_is_one_line_with_run_round_device_and_place(play):
    run = play(slipping("raise", since=1))
    at = line_of('raise RuntimeError("boom')
    said = f"mine, seed 1, round 1, device pi-4-1: train() raised RuntimeError: boom and more ({FILE}:{at})"
    assert run.outcome.failure == said
    assert [row["round"] for row in run.rounds] == [0]  # the round before it counts, and its model is kept
    assert run.model


def test_what_combine_raises_has_its_place_too(play):
    failure = play(slipping("combine")).outcome.failure
    at = line_of('return {}["x"]')
    assert failure == f"mine, seed 1, round 0: combine() raised KeyError: 'x' ({FILE}:{at})"


@pytest.mark.slow
@pytest.mark.parametrize("slip", TOLD)
def test_what_has_the_wrong_form_is_told_in_words(play, slip):
    failure = play(slipping(slip)).outcome.failure
    assert failure.startswith("mine, seed 1")
    assert TOLD[slip] in failure
    assert "\n" not in failure


def test_all_of_it_is_shown_on_demand(play, monkeypatch, capfd):
    assert "Traceback" not in capfd.readouterr().err
    play(slipping("raise"))
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("FEDLAPSE_TRACEBACK", "1")
    play(slipping("raise"))
    shown = capfd.readouterr().err
    assert "Traceback" in shown
    assert "raise RuntimeError(" in shown


def test_a_rehearsal_raises_it_as_bad_input():
    scenario = build(merged(SMALL, {"algorithms": [slipping("combine")], "seeds": [1]}))
    with pytest.raises(Faulty, match=r"^mine, seed 1, round 0: combine\(\) raised KeyError"):
        rehearse(lab_of(scenario), Run("mine", 1), Conduct.of(scenario))


@pytest.fixture(scope="module")
def both():
    """A scenario whose `mine-0` and `mine-1` slip in round 0 and in round 1, its lab, and a worker for it."""
    algorithms = [slipping("raise", since) | {"name": f"mine-{since}"} for since in (0, 1)]
    scenario = build(merged(SMALL, {"algorithms": algorithms, "seeds": [1], "evaluate": {"every": 0}}))
    lab = lab_of(scenario)
    with Processes(lab, 1) as pool:
        yield scenario, lab, pool


@pytest.mark.slow
@pytest.mark.parametrize("world", [run_virtual, run_sockets])
@pytest.mark.parametrize("since", [0, 1])
def test_it_is_the_same_from_workers_and_over_sockets(both, tmp_path, capfd, world, since):
    (scenario, lab, pool), label = both, f"mine-{since}"
    folder = tmp_path / f"{label}-s1"
    outcome = asyncio.run(world(lab, Run(label, 1), Conduct.of(scenario), pool, folder))
    assert f"{label}, seed 1, round {since}, device pi-4-1: train() raised RuntimeError: boom" in outcome.failure
    assert len(outcome.rows) == since
    assert audit_run(folder) == []
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_the_other_algorithms_of_a_comparison_go_on(fedlapse, tmp_path):
    (tmp_path / "small.yaml").write_text(json.dumps({**SMALL, "algorithms": ["fedavg", slipping("raise")]}))
    done = fedlapse("compare", "small.yaml", "--workers", "0", "--seed", "1", "--quiet", "--out", "out")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("fedlapse: mine, seed 1, round 0, device pi-4-1: train() raised RuntimeError: boom")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["labels"]["fedavg"]["rounds"] == {"1": 2}
    assert audit_run(tmp_path / "out" / "mine-s1") == []
    checked = fedlapse(
        "check",
        "small.yaml",
        "algorithms=[fedavg, {algorithm: " + json.dumps(SLIPS) + ", options: {slip: bare model}}]",
    )
    assert (checked.returncode, checked.stderr.count("\n")) == (2, 1)
    assert 'combine() must return {"weights": ...}' in checked.stderr


EARLY = ("post_init", "encodings", "upload_form", "download_form", "device_work", "device_floats", "start")


@pytest.mark.slow
@pytest.mark.parametrize("slip", EARLY)
def test_one_that_fails_before_any_round_takes_no_other_with_it(fedlapse, tmp_path, slip):
    """With a deadline, for then work is priced before the runs; `download_form` is asked for by `check` only."""
    algorithms = ["fedavg", slipping(slip)]
    patient = {"rounds": {**SMALL["rounds"], "deadline_s": 100.0}, "seeds": [1]}
    (tmp_path / "small.yaml").write_text(json.dumps({**SMALL, **patient, "algorithms": algorithms}))
    if slip != "download_form":
        done = fedlapse("compare", "small.yaml", "--workers", "0", "--quiet", "--out", "out")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert done.stderr.startswith("fedlapse: mine, seed 1")
        summary = json.loads((tmp_path / "out" / "summary.json").read_text())
        assert summary["labels"]["fedavg"]["rounds"] == {"1": 2}
        assert list(summary["failures"]) == ["mine"]
        assert audit_run(tmp_path / "out" / "mine-s1") == []
    checked = fedlapse("check", "small.yaml", "--workers", "0", "--format", "json")
    assert (checked.returncode, checked.stderr.count("\n")) == (2, 1)
    plan = json.loads(checked.stdout)
    assert (list(plan["failing"]), list(plan["prices"])) == (["mine"], ["fedavg"])
    listed = fedlapse("algorithms", "small.yaml", "--format", "json")
    assert listed.returncode == 0
    known = {one["name"]: one for one in json.loads(listed.stdout)}
    assert known["fedavg"]["cost"]["down"] == 1
    assert known["mine"]["cost"] is None
    assert known["mine"]["why_not"].startswith("mine")

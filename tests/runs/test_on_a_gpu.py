"""Properties that only a GPU can show: the same bytes in each run, and the CPU's results up to rounding."""

import json

import pytest
import torch
from safetensors.torch import load_file

from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Reply
from algorithms.training import stack_graph
from emulator.lab import training
from emulator.messages import flat
from emulator.sessions.computing import Playing
from emulator.sessions.one_scenario import play_scenario
from scenarios.builders import plugins
from scenarios.load import build
from tests.conftest import SMALL, digests, merged

GPU = "cuda"
BOTH = ("fedavg", {"fedcurv": {"strength": 0.01}})
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: what --device cuda computes was not tested"),
]


def played(out, device, algorithms=BOTH, workers=0, model="images", rounds=3, ledger=None, **training):
    """Its folder; devices in stacks of 2, and a network with convolutions and dropout."""
    changes = {
        "model": f"tests.runs.network:{model}",
        "training": {"stack": 2, "epochs": 2, "batch": 64, "momentum": 0.5, **training},
        "rounds": {"max": rounds},
        "algorithms": list(algorithms),
    }
    playing = Playing(workers=workers, quiet=True, device=device, ledger=ledger, no_ledger=ledger is None)
    assert play_scenario(build(merged(SMALL, changes)), playing, out=out).code == 0
    return out


def model(out, label="fedcurv"):
    return load_file(out / f"{label}-s1" / "final.safetensors")


def near(one, other):
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_two_runs_are_equal_byte_for_byte(tmp_path, precision):
    one, other = (played(tmp_path / name, GPU, precision=precision) for name in ("one", "other"))
    assert digests(one) == digests(other)


@pytest.mark.parametrize("model", ["small", "images"])
def test_so_are_runs_whose_steps_are_not_recorded(tmp_path, monkeypatch, model):
    one = played(tmp_path / "one", GPU, model=model)
    assert any(replay for kept in stack_graph._kept.values() for replay in kept.graphs.values())
    monkeypatch.setattr(stack_graph, "SEEN", 10**9)
    stack_graph.forget()
    assert digests(one) == digests(played(tmp_path / "other", GPU, model=model))


def test_so_are_runs_of_two_processes_that_share_the_gpu(tmp_path):
    one, other = (played(tmp_path / str(workers), GPU, workers=workers) for workers in (1, 2))
    assert digests(one) == digests(other)


def test_so_are_those_that_had_to_make_room(tmp_path, monkeypatch):
    """Once, in the middle: uploads go to the CPU's memory, and graphs are recorded again."""
    one = played(tmp_path / "one", GPU)
    true, calls = training._together, []

    def full(*args):
        calls.append(args)
        if len(calls) == 4:
            raise torch.OutOfMemoryError("full")
        return true(*args)

    monkeypatch.setattr(training, "_together", full)
    assert digests(one) == digests(played(tmp_path / "other", GPU))


def test_so_are_those_that_a_ledger_knows_in_part(tmp_path):
    """The ledger has no uploads: jobs that follow, and jobs that need some uploads again, give the same bits."""
    ledger = tmp_path / "ledger"
    played(tmp_path / "before", GPU, ledger=ledger)
    went_on = played(tmp_path / "went-on", GPU, rounds=5, ledger=ledger)
    assert digests(went_on) == digests(played(tmp_path / "anew", GPU, rounds=5))


def test_it_differs_from_the_cpu_in_rounding_only(tmp_path):
    """Without dropout, whose masks are others."""
    near(model(played(tmp_path / "here", "cpu", model="small")), model(played(tmp_path / "there", GPU, model="small")))


def test_every_algorithm_does(tmp_path):
    kinds = [kind for kind in plugins.kinds() if kind != "continual"]
    here, there = (played(tmp_path / device, device, kinds, model="small", epochs=1) for device in ("cpu", GPU))
    for kind in kinds:
        near(model(here, kind), model(there, kind))


def test_a_network_that_waits_for_a_value_trains_too(tmp_path):
    near(model(played(tmp_path / "here", "cpu", model="waits")), model(played(tmp_path / "there", GPU, model="waits")))


def test_a_mean_has_the_bits_of_the_cpus():
    generator = torch.Generator().manual_seed(1)
    form = {"weights": {"a": ("float32", (100_003,))}}
    sent = [{"weights": {"a": torch.randn(100_003, generator=generator)}} for _ in range(7)]
    there = flat.flattened([{"weights": {"a": each["weights"]["a"].cuda()}} for each in sent], form)
    here, found = (
        weighted_mean({str(k): Reply(each, 3 * k + 1) for k, each in enumerate(messages)})
        for messages in (sent, there or ())
    )
    assert torch.equal(here["a"], found["a"])


def test_the_record_says_what_computed(tmp_path):
    host = json.loads((played(tmp_path / "out", GPU) / "host.json").read_text())
    assert host["device"] == {"torch": ["cuda:0"], "model": torch.cuda.get_device_name()}

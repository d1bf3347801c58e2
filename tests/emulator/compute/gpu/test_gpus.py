"""--device: what it may say, what a computer without such a GPU answers, and what is set for one that has it."""

import os
from types import SimpleNamespace

import pytest
import torch

from emulator.compute.gpu import gpus
from emulator.lab.build import lab_of
from emulator.sessions.computing import workers_of
from scenarios.load import build
from scenarios.text.faults import BadScenario
from tests.conftest import SMALL, merged

MODELS = {"cuda:0": "A", "cuda:1": "A", "cuda:2": "B"}


@pytest.fixture
def three(monkeypatch):
    """A computer with three GPUs, the last of another model."""
    monkeypatch.setenv(gpus.WORKSPACE, "")  # so that it is as before in the end
    monkeypatch.delenv(gpus.WORKSPACE)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_name", MODELS.__getitem__)


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ("cpu", ("cpu",)),
        ("cuda", ("cuda:0",)),
        ("cuda:1", ("cuda:1",)),
        ("cuda:1,cuda:0", ("cuda:1", "cuda:0")),
        ("auto", ("cuda:0",)),
    ],
)
def test_it_names_the_cpu_or_gpus(three, said, places):
    assert gpus.found(said) == places


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("gpu", "'gpu' is no device; it must be cpu, cuda, cuda:0,cuda:1 or auto"),
        ("cuda:x", "'cuda:x' is no device"),
        ("cuda:0,cpu", "'cpu' is no device"),
        ("cuda:0,cuda", "names a GPU twice"),
        ("cuda:3", "there is no cuda:3; this computer has cuda:0 to cuda:2"),
        ("cuda:0,cuda:2", "cuda:0 is A and cuda:2 is B; results of two models differ"),
    ],
)
def test_what_it_may_not_name_is_refused(three, said, why):
    with pytest.raises(BadScenario, match=why):
        gpus.found(said)


def test_without_cuda_it_says_what_is_installed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(BadScenario, match=rf"torch {torch.__version__.replace('+', '[+]')} .* built without it"):
        gpus.found("cuda")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    with pytest.raises(BadScenario, match=r"for CUDA 12\.8, and finds no GPU or no driver; use --device cpu"):
        gpus.found("cuda")
    assert gpus.found("auto") == ("cpu",)


@pytest.fixture
def flags():
    """torch's flags, which have their old values again at the end."""
    found = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [each.allow_tf32 for each in found], torch.backends.cudnn.benchmark
    yield found
    for each, value in zip(found, before[0], strict=True):
        each.allow_tf32 = value
    torch.backends.cudnn.benchmark = before[1]


def test_a_gpu_computes_in_full_precision_and_repeatably(three, flags, monkeypatch):
    chosen = list[str]()
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    for each in flags:
        each.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    gpus.use("cpu")
    assert [each.allow_tf32 for each in flags] == [True, True]
    gpus.use("cuda:1")
    assert chosen == ["cuda:1"]
    assert [each.allow_tf32 for each in flags] == [False, False]
    assert not torch.backends.cudnn.benchmark
    assert os.environ[gpus.WORKSPACE] == ":4096:8"


def test_each_gpu_has_a_worker():
    assert workers_of(None, ("cuda:0", "cuda:1")) == 2
    assert workers_of(4, ("cuda:0", "cuda:1")) == 4
    assert workers_of(0, ("cuda:0",)) == 0
    with pytest.raises(BadScenario, match="--workers 1 is less than the 2 GPUs"):
        workers_of(1, ("cuda:0", "cuda:1"))


def test_the_ledger_tells_gpus_apart(monkeypatch):
    from emulator.ledger.probe import _hardware

    def known(name, memory=80):
        gpu = SimpleNamespace(name=name, major=9, minor=0, multi_processor_count=132, total_memory=memory)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
        return _hardware("cuda:0")

    assert len({_hardware("cpu"), known("H100"), known("H200"), known("H100", 94)}) == 4


def test_tf32_is_refused_where_it_has_no_meaning():
    tf32, bf16 = (build(merged(SMALL, {"training": {"precision": how}})) for how in ("tf32", "bf16"))
    with pytest.raises(BadScenario, match="fedavg: training.precision: tf32 needs --device cuda"):
        lab_of(tf32, ("cpu",))
    assert lab_of(tf32, ("cuda:0",)).trains_on == ("cuda:0",)
    assert lab_of(bf16, ("cpu",)).trains_on == ("cpu",)

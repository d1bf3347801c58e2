"""FedCurv's declared work: FLOPs against torch's counter, and floats moved against what operations really move."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from algorithms import fedcurv, models
from algorithms.algorithm import Load, Message, Party, Reply, Tensors, Training
from algorithms.counting.cost import FloatCounter, Meter
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.fedcurv import FedCurv
from tests.algorithms import made

TRAINING = Training(lr=0.1, epochs=2, batch=8, momentum=0.9)
EXAMPLES, N = 20, 10_000
OPTIONS: list[dict[str, Any]] = [
    {},
    {"centred": True},
    {"upload": "lean"},
    {"upload": "lean", "centred": True},
    {"participation": "last_round"},
    {"participation": "last_round", "centred": True},
    {"participation": "last_round", "upload": "lean"},
    {"keep": 0.1},
]


def party(name: str = "a", memory: Message | None = None) -> Party:
    given = {"shape": (1, 8, 8), "classes": 10, "devices": 4, "round": 1, "seed": 1, "memory": memory or {}}
    return made.party(models.build("digits-cnn", 0), name, EXAMPLES, draw=ord(name), **given)


def flops(algorithm: FedAvg, download: Message) -> float:
    with FlopCounterMode(display=False) as counter:
        algorithm.train(download, party())
    return float(counter.get_total_flops())


@pytest.mark.slow
@pytest.mark.parametrize("fisher", ["empirical", "exact", "sampled", "batch_squared"])
def test_declared_flops_are_those_that_torch_counts(fisher: Any) -> None:
    algorithm = FedCurv(TRAINING, 0.1, fisher=fisher)
    weights: Tensors = {name: value.clone() for name, value in party().model.state_dict().items()}
    sums = {
        kind: {name: torch.zeros_like(value) for name, value in weights.items()} for kind in ("fisher", "fisher_theta")
    }
    meter = Meter(party().model, (1, 8, 8), models.cross_entropy)
    load = Load(1, EXAMPLES, sum(value.numel() for value in weights.values()), kinds=("weights", *sums))
    declared = sum(meter.flops(phase) for phase in algorithm.device_work(load))
    done = flops(algorithm, {"weights": weights} | sums)
    plain = flops(FedAvg(TRAINING), {"weights": weights})
    train = sum(meter.flops(phase) for phase in FedAvg(TRAINING).device_work(load))
    assert declared == pytest.approx(done, rel=0.01)
    assert declared - train == pytest.approx(done - plain, rel=0.01)  # of the Fisher pass alone


# ---- floats moved


def drawn(seed: int) -> Tensors:
    return {"w": torch.rand(N, generator=torch.Generator().manual_seed(seed))}


def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training that moves nothing, and a Fisher diagonal that is there."""
    trained, fisher = drawn(5), drawn(6)

    def fitting(*_: object) -> Course[Reply]:
        yield from ()
        return Reply({"weights": trained}, 20)

    def estimating(*_: object) -> Course[Tensors]:
        yield from ()
        return fisher

    monkeypatch.setattr(fedcurv, "fitting", fitting)
    monkeypatch.setattr(fedcurv, "estimating", estimating)


def moved(algorithm: FedCurv, rounds: int, replies: int) -> tuple[float, float]:
    """Floats that in the last of these rounds a device moves beside its training, and the server beside its mean."""
    state: Message = {"weights": drawn(1)}
    memory: dict[str, Message] = {name: {} for name in "abcdefgh"[:replies]}
    on_device = on_server = 0.0
    for round in range(rounds):
        server = replace(party(), round=round)
        with FloatCounter() as requested:
            down = algorithm.request(state, list(memory), server).download
        answers = {}
        for name, kept in memory.items():
            device = replace(party(name, kept), round=round)
            with FloatCounter() as trained:
                answers[name] = algorithm.train(down, device)
            on_device = trained.floats
        with FloatCounter() as combined:
            state = algorithm.combine(state, answers, server)
        with FloatCounter() as averaged:
            FedAvg(TRAINING).combine(state, answers, server)
        on_server = requested.floats + combined.floats - averaged.floats
        memory = {name: kept | answers[name].if_counted for name, kept in memory.items()}
    return on_device, on_server


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_declared_traffic_is_what_operations_move(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], rounds: int
) -> None:
    pretended(monkeypatch)
    algorithm = FedCurv(TRAINING, 0.1, **options)
    on_device, on_server = moved(algorithm, rounds, replies=4)
    kinds = ("weights", "fisher", "fisher_theta") if rounds > 1 else ("weights",)
    load = Load(rounds - 1, EXAMPLES, N, kinds, kinds if rounds > 1 else (), replies=4, devices=4)
    declared = sum(phase.traffic for phase in algorithm.device_work(load) if phase.name == "sums")
    assert declared == pytest.approx(on_device, rel=0.1, abs=0.1 * N)
    (combine,), (mean,) = algorithm.combine_work(load), FedAvg(TRAINING).combine_work(load)
    assert combine.traffic - mean.traffic == pytest.approx(on_server, rel=0.1 if rounds > 1 else 0.25)


# ---- floats held


class Held(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's has no types
    """The most floats that live at once of those that operations have made."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive: dict[int, int] = {}
        self.most = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                memory = tensor.untyped_storage()
                if memory._cdata not in self.alive:
                    self.alive[memory._cdata] = memory.nbytes()
                    weakref.finalize(memory, self.alive.pop, memory._cdata, None)
        self.most = max(self.most, sum(self.alive.values()) / 4)
        return result


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_declared_memory_is_what_a_device_holds_beside_its_messages(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    pretended(monkeypatch)
    algorithm = FedCurv(TRAINING, 0.1, **options)
    state: Message = {"weights": drawn(1)}
    memory: dict[str, Message] = {name: {} for name in "abcd"}
    for round in range(2):
        down = algorithm.request(state, "abcd", replace(party(), round=round)).download
        answers = {}
        for name, kept in memory.items():
            device = replace(party(name, kept), round=round)
            with Held() as held:
                answers[name] = algorithm.train(down, device)
        state = algorithm.combine(state, answers, replace(party(), round=round))
        memory = {name: kept | answers[name].if_counted for name, kept in memory.items()}
    load = Load(1, EXAMPLES, N, down.keys(), memory["a"].keys())
    # It may take the place of gradients and uploads; after training, where paper has its peak, there is Î too.
    room, fisher = {"paper": (3 * N, N), "lean": (2 * N, 0)}[algorithm.upload]
    found, declared = held.most + fisher, algorithm.device_floats(load) + room
    assert found <= declared <= found + 1.1 * N

"""FedDyn: on unlike devices it ends at the optimum of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from algorithms.algorithm import Load, Message, Party, Training
from algorithms.counting.cost import PULL_PLAIN, sgd_traffic
from algorithms.feddyn import MOVED, SHIFT, FedDyn
from algorithms.fedprox import FedProx

A, C, ALPHA = (1.0, 1.5, 2.0, 3.0), (3.0, -1.0, 0.5, 2.0), 1.0  # losses ½ a (θ - c)²
OPTIMUM = sum(a * c for a, c in zip(A, C, strict=True)) / sum(A)
EXACT = Training(epochs=25, batch=1, lr=0.32)  # the way left shrinks by 1 - 0.32 (a + α), 0.36 at most: 8e-12


def half_square(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y) ** 2


def number(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


class Play:
    """Rounds among the four quadratics from θ = 0."""

    def __init__(self, algorithm: FedDyn | FedProx) -> None:
        self.algorithm, self.memory, self.round = algorithm, dict[str, Message](), 0
        self.state: Message = algorithm.start({"weight": number(0.0)}, self.device(0))

    def device(self, k: int) -> Party:
        x, model = number(A[k] ** 0.5), nn.Linear(1, 1, bias=False).double()
        return Party(str(k), 4, model, half_square, x, C[k] * x[0], 0, 0, 1, self.memory.get(str(k), {}))

    def play(self, asked: Sequence[int] = range(4), counted: Sequence[int] | None = None) -> None:
        down = self.algorithm.request(self.state, [str(k) for k in asked], self.device(0)).download
        replies = {str(k): self.algorithm.train(down, self.device(k)) for k in asked}
        kept = {str(k): replies[str(k)] for k in (asked if counted is None else counted)}
        self.state = self.algorithm.combine(self.state, kept, self.device(0))
        self.memory |= {name: reply.if_counted for name, reply in kept.items()}

    @property
    def theta(self) -> float:
        return self.state["weights"]["weight"].item()

    @property
    def h(self) -> float:
        return self.state["h"]["weight"].item()


@pytest.mark.slow
def test_on_quadratics_that_are_solved_exactly_it_ends_in_the_global_optimum_and_fedprox_does_not() -> None:
    dyn, prox = Play(FedDyn(EXACT, alpha=ALPHA)), Play(FedProx(EXACT, mu=ALPHA))
    for round in range(30):
        dyn.play()
        if round < 12:
            prox.play()
    assert dyn.theta == pytest.approx(OPTIMUM, abs=1e-5)
    shares = [a / (a + ALPHA) for a in A]  # how far each device goes to its own optimum
    ends = sum(share * c for share, c in zip(shares, C, strict=True)) / sum(shares)
    assert prox.theta == pytest.approx(ends, abs=1e-3)
    assert abs(ends - OPTIMUM) > 0.02
    slopes = {str(k): A[k] * (OPTIMUM - C[k]) for k in range(4)}  # g_k ends as the gradient at the optimum
    found = {name: memory["gradient"]["weight"].item() for name, memory in dyn.memory.items()}
    assert found == pytest.approx(slopes, abs=2e-4)


@pytest.mark.slow
def test_h_is_the_mean_of_all_g_though_devices_are_away_and_replies_are_lost() -> None:
    draw, dyn = np.random.default_rng(0), Play(FedDyn(replace(EXACT, epochs=5), alpha=ALPHA))
    for _ in range(20):
        asked = sorted(int(k) for k in draw.choice(4, 3, replace=False))
        dyn.play(asked, asked[: int(draw.integers(1, 4))])
        kept = sum(memory["gradient"]["weight"].item() for memory in dyn.memory.values())
        assert dyn.h == pytest.approx(kept / 4, rel=1e-12, abs=1e-13)


def test_two_rounds_by_hand() -> None:
    """One step a round, η = 0.1, α = 1; two of the four devices, then one."""
    dyn = Play(FedDyn(Training(epochs=1, batch=1, lr=0.1), alpha=1.0))
    dyn.play([0, 1])
    steps = [0.1 * A[k] * C[k] for k in (0, 1)]  # from 0, where the penalty is 0 and g_k too
    h = -sum(steps) / 4
    theta = sum(steps) / 2 - h
    assert (dyn.theta, dyn.h) == pytest.approx((theta, h), rel=1e-14)
    dyn.play([1])
    g = -steps[1]
    after = theta - 0.1 * (A[1] * (theta - C[1]) - g)
    h -= (after - theta) / 4
    assert (dyn.theta, dyn.h) == pytest.approx((after - h, h), rel=1e-13)
    assert dyn.memory["1"]["gradient"]["weight"].item() == pytest.approx(g - (after - theta), rel=1e-13)


def test_the_work_of_a_round() -> None:
    algorithm, load = FedDyn(EXACT), Load(0, examples=20, parameters=1000, replies=4)
    for kept, moved, held in ((), PULL_PLAIN, 0), (("gradient",), PULL_PLAIN + SHIFT, 1000):
        (phase,) = algorithm.device_work(replace(load, memory=kept))
        assert phase.traffic == sgd_traffic(1000, 0.0) + 1000 * moved
        assert algorithm.device_floats(replace(load, memory=kept)) == held
    (combine,) = algorithm.combine_work(load)
    assert combine.traffic == 1000 * (4 + 1 + 4 + MOVED)


def test_an_alpha_of_0_is_refused() -> None:
    with pytest.raises(ValueError, match="alpha is 0"):
        FedDyn(EXACT, alpha=0.0)

"""FedYogi: what its v does that FedAdam's does not; what all adaptive steps share is in test_pseudogradient.py."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import copysign, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algorithms.fedadam import FedAdam
from algorithms.fedavg import FedAvg
from algorithms.fedyogi import FedYogi
from tests.algorithms.test_pseudogradient import TRAINING, line, one, party, played
from tests.all_of import all_of

TAU = 2.0**-10  # a power of two: its square and its sums are exact
LARGE = 2.0**40


@dataclass(frozen=True)
class Turned(FedYogi):
    """A control: the sign is the wrong way round."""

    def variance(self, before: Tensor, square: Tensor) -> Tensor:
        return before + (1 - self.beta2) * square * (before - square).sign()


def thetas(algorithm: FedAvg, *means: float) -> list[float]:
    """The one weight, 1 at first, after each round in which the devices' mean is at these values."""
    model, state = one()
    return line(model, algorithm.start(state["weights"], replace(party(), model=model)), algorithm, *means)


def variances(algorithm: FedYogi | FedAdam, v: float, *changes: float) -> list[float]:
    """v, and what becomes of it."""
    found = [torch.tensor(v, dtype=torch.float64)]
    for change in changes:
        found.append(algorithm.variance(found[-1], torch.tensor(change, dtype=torch.float64).square()))
    return [value.item() for value in found]


# ---- the step


def by_hand(*means: float) -> list[float]:
    theta, m, v, found = 1.0, 0.0, 0.001**2, []
    for mean in means:
        delta = mean - theta
        m = 0.9 * m + 0.1 * delta
        v -= 0.01 * delta**2 * copysign(1.0, v - delta**2)
        theta += 0.01 * m / (sqrt(v) + 0.001)
        found.append(theta)
    return found


def test_yogi_by_hand() -> None:
    """Four rounds of m ← 0.9 m + 0.1 Δ, v ← v - 0.01 Δ² sign(v - Δ²), θ ← θ + 0.01 m / (√v + 0.001): v goes up, up,
    down and up."""
    means = (3.0, 0.5, 0.99, 9.0)
    assert thetas(FedYogi(TRAINING), *means) == pytest.approx(by_hand(*means), rel=1e-13)
    for wrong in (FedAdam(TRAINING), Turned(TRAINING), FedYogi(TRAINING, beta1=0.8), FedYogi(TRAINING, beta2=0.98)):
        assert thetas(wrong, *means) != pytest.approx(by_hand(*means), rel=1e-6)


def test_the_first_step_in_numbers() -> None:
    # Δ = 2: m = 0.2, v = 1e-6 + 0.01 x 4 = 0.040001; θ = 1 + 0.01 x 0.2 / (0.2000025 + 0.001) = 1.00995012...
    assert thetas(FedYogi(TRAINING), 3.0) == pytest.approx([1 + 0.002 / (sqrt(0.040001) + 0.001)], rel=1e-15)


@pytest.mark.parametrize("delta", [1.5, -0.25, 0.002])
def test_its_first_v_is_fedadam_s_and_what_that_forgets_of_tau(delta: float) -> None:
    """Δ² > τ²: v = τ² + (1 - β₂) Δ², FedAdam's is β₂ τ² + (1 - β₂) Δ²; so FedYogi's step is the smaller."""
    yogi, adam = (variances(kind(TRAINING), 1e-6, delta)[1] for kind in (FedYogi, FedAdam))
    assert yogi - adam == pytest.approx(0.01 * 1e-6, rel=1e-7)
    steps = [abs(thetas(kind(TRAINING), 1.0 + delta)[0] - 1.0) for kind in (FedYogi, FedAdam)]
    assert steps[0] < steps[1]
    # (θ' - θ)(√v + τ) = η m of both
    assert steps[0] * (sqrt(yogi) + 0.001) == pytest.approx(steps[1] * (sqrt(adam) + 0.001), rel=1e-9)


def test_it_is_fedadam_bit_for_bit_where_each_change_is_as_large_as_v_says() -> None:
    options = {"tau": TAU, "beta1": 0.0, "server_lr": 2 * TAU}  # a step is then the change
    means = [1 + TAU, 1.0, 1 - TAU, 1.0]  # each ±τ away, where v = τ²
    yogi, adam, turned = (thetas(kind(TRAINING, **options), *means) for kind in (FedYogi, FedAdam, Turned))
    assert yogi == adam == turned == means  # sign(0) = 0: v stays
    beyond = [1 + 2 * TAU, 1.0]
    assert thetas(FedYogi(TRAINING, **options), *beyond) != thetas(FedAdam(TRAINING, **options), *beyond)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_with_a_large_tau_it_is_fedavg_bit_for_bit(dtype: torch.dtype) -> None:
    """v stays τ², to the last bit, so with η = 2 τ and β₁ = 0 a step is Δ.  FedAdam's v forgets τ², and it is not."""
    options = {"tau": LARGE, "server_lr": 2 * LARGE, "beta1": 0.0}
    yogi, adam, plain = (
        [state["weights"] for state in played(algorithm, 3, dtype)]
        for algorithm in (FedYogi(TRAINING, **options), FedAdam(TRAINING, **options), FedAvg(TRAINING))
    )
    for mine, mean in zip(yogi, plain, strict=True):
        assert all_of(torch.equal(mine[name], value) for name, value in mean.items())
    assert not torch.equal(adam[-1]["0.weight"], plain[-1]["0.weight"])


# ---- v


CHANGES = st.floats(-1e3, 1e3)
VARIANCES = st.floats(1e-12, 1e6)
BETAS = st.floats(0.0, 1 - 1e-9)


def slack(*values: float) -> float:
    """The largest error that rounding may add."""
    return 4 * torch.finfo(torch.float64).eps * max(map(abs, values))


def holds(algorithm: FedYogi | FedAdam, v: float, change: float) -> bool:
    """v moves by (1 - β₂) Δ² and no more, towards Δ² or not at all, and stays positive."""
    _, after = variances(algorithm, v, change)
    square, moved = change**2, after - v
    most = (1 - algorithm.beta2) * square
    return abs(moved) <= most + slack(v, square) and moved * (square - v) >= 0 and after > 0


@given(VARIANCES, CHANGES, BETAS)
def test_v_moves_by_at_most_1_minus_beta2_of_the_square_and_towards_it(v: float, change: float, beta2: float) -> None:
    assert holds(FedYogi(TRAINING, beta2=beta2), v, change)


@given(VARIANCES, st.lists(CHANGES, min_size=1, max_size=20), BETAS)
def test_v_never_falls_by_more_than_all_squares_together(v: float, changes: list[float], beta2: float) -> None:
    *_, after = variances(FedYogi(TRAINING, beta2=beta2), v, *changes)
    total = (1 - beta2) * sum(change**2 for change in changes)
    assert after > 0
    assert abs(after - v) <= total + len(changes) * slack(v, total, *(change**2 for change in changes))


def test_other_rules_break_that_law() -> None:
    assert holds(FedYogi(TRAINING), 1.0, 0.1)
    assert not holds(FedAdam(TRAINING), 1.0, 0.1)  # falls by 0.01 (v - Δ²), 99 times as much
    assert not holds(Turned(TRAINING), 1.0, 0.1)
    assert not holds(Turned(TRAINING), 0.1, 1.0)
    assert not holds(Turned(TRAINING, beta2=0.0), 0.1, 1.0)  # v < 0


def test_v_forgets_nothing_while_nothing_moves() -> None:
    assert variances(FedYogi(TRAINING), 1.0, *[0.0] * 50)[-1] == 1.0
    assert variances(FedAdam(TRAINING), 1.0, *[0.0] * 50)[-1] == pytest.approx(0.99**50)

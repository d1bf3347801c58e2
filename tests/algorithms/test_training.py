"""The change of the learning rate from round to round, against torch's own schedulers."""

from typing import Any

import pytest
import torch

from algorithms.algorithm import Training


def rates(scheduler: str, lr: float, rounds: int, **options: float) -> list[float]:
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    it = getattr(torch.optim.lr_scheduler, scheduler)(optimiser, **options)
    found = []
    for _ in range(rounds):
        found.append(float(optimiser.param_groups[0]["lr"]))
        optimiser.step()
        it.step()
    return found


@pytest.mark.slow  # the first import of the schedulers takes seconds
def test_the_exponential_schedule_is_torchs() -> None:
    training = Training(epochs=1, batch=32, lr=0.005, lr_decay=0.99)
    expected = rates("ExponentialLR", 0.005, 60, gamma=0.99)
    assert [training.rate(t) for t in range(60)] == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow  # the first import of the schedulers takes seconds
def test_the_cosine_is_torchs() -> None:
    """FedCL's authors go from 5e-3 to 1e-4 in 500 rounds; here in 50."""
    training = Training(epochs=1, batch=32, lr=5e-3, lr_schedule="cosine", lr_end=1e-4, lr_rounds=50)
    expected = rates("CosineAnnealingLR", 5e-3, 51, T_max=50, eta_min=1e-4)
    assert [training.rate(t) for t in range(51)] == pytest.approx(expected, rel=1e-9)


def test_after_its_rounds_the_cosine_stays_at_its_end() -> None:
    training = Training(epochs=1, batch=32, lr=5e-3, lr_schedule="cosine", lr_end=1e-4, lr_rounds=50)
    assert (training.rate(0), training.rate(50), training.rate(500)) == pytest.approx((5e-3, 1e-4, 1e-4), rel=1e-12)
    assert training.rate(25) == pytest.approx((5e-3 + 1e-4) / 2)


@pytest.mark.slow  # the first import of the schedulers takes seconds
@pytest.mark.parametrize(
    ("options", "scheduler", "its"),
    [
        ({"lr_schedule": "step", "lr_decay": 0.5, "lr_rounds": 7}, "StepLR", {"step_size": 7, "gamma": 0.5}),
        (
            {"lr_schedule": "linear_warmup", "lr_rounds": 8},  # from an eighth in round 0 to all in round 7
            "LinearLR",
            {"start_factor": 1 / 8, "end_factor": 1.0, "total_iters": 7},
        ),
        ({"lr_schedule": "constant", "lr_decay": 0.5}, "ConstantLR", {"factor": 1.0}),
    ],
)
def test_steps_warm_up_and_constant_are_torchs(options: dict[str, Any], scheduler: str, its: dict[str, Any]) -> None:
    training = Training(lr=0.02, **options)
    assert [training.rate(t) for t in range(30)] == pytest.approx(rates(scheduler, 0.02, 30, **its), rel=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lr_schedule": "linear"}, "lr_schedule is 'linear'; it must be 'exponential', 'cosine', 'step', "),
        ({"lr_schedule": "linear_warmup"}, "lr_rounds is 0; a warm-up takes 1 or more"),
        ({"lr_schedule": "cosine"}, "lr_rounds is 0; a cosine takes 1 or more, as {lr_schedule: cosine"),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Training(**options)  # type: ignore[arg-type]

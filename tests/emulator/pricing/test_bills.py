"""Jitter of priced work: by the seed, the device and the round, and the same for training whatever stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from devices.device import Device, profiles
from devices.jitter import factor
from devices.presence import StatedPresence
from emulator.lab.seeds import seed
from emulator.pricing.bills import jitter
from emulator.record.work import Piece, steps_of

CV, STEPS = 0.06, 9


def device(cv: float = CV) -> Device:
    return Device("d-0", replace(profiles()["pixel-4"], jitter=cv), StatedPresence())


def drawn(*phases: str, root: int = 1, round: int = 3, cv: float = CV) -> Mapping[str, float]:
    pieces = [Piece.of(phase, 1e6, STEPS, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0) for phase in phases]
    return jitter(steps_of(tuple(pieces)), device(cv), root, round)


def test_each_phase_draws_from_the_generator_of_its_device_and_round() -> None:
    rng = np.random.default_rng(seed(1, "jitter", "d-0", 3))
    assert drawn("train", "fisher") == {"train": factor(CV, STEPS, rng), "fisher": factor(CV, STEPS, rng)}


@pytest.mark.parametrize(
    "phases", [("omega", "train"), ("decode", "omega", "train", "encode"), ("train", "fisher", "sums")]
)
def test_training_is_as_uneven_as_by_itself_whatever_is_computed_before_it(phases: tuple[str, ...]) -> None:
    found = drawn(*phases)
    assert found["train"] == drawn("train")["train"]
    assert found.keys() == set(phases)
    assert len(set(found.values())) == len(phases)


def test_work_without_training_draws_in_its_order() -> None:
    rng = np.random.default_rng(seed(1, "jitter", "d-0", 3))
    assert list(drawn("retrain", "fisher").values()) == [factor(CV, STEPS, rng), factor(CV, STEPS, rng)]


def test_other_rounds_and_seeds_draw_otherwise_and_even_machines_not_at_all() -> None:
    assert len({drawn("train", root=root, round=round)["train"] for root in (1, 2) for round in (0, 1)}) == 4
    assert drawn("train", cv=0.0) == {}

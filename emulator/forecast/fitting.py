"""Fits a device's profile (speeds and rates) to the measured seconds of training steps of several networks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from algorithms.counting.step_counts import StepCounts
from devices.device import Device, Profile

Name = TypeVar("Name", bound=Hashable)
Cell = tuple[StepCounts, float]  # a step, and its measured seconds
Judged = tuple[str, float, float]  # a step by name, its measured seconds, and those that a fit to all others predicts
LIKE = 1.0  # weight of "the rates are those of the profile that is like it, times one factor": that of one measurement
TOLD = 0.05  # share of a step's seconds from which on the step tells a rate
ENDLESS = 1e30  # 1/s
FAR = 0.15  # of log(predicted / measured): errors beyond it weigh as their size, not its square
RATES = (
    "conv_flops_per_s",
    "dense_flops_per_s",
    "recurrent_flops_per_s",
    "grouped_flops_per_s",
    "pointwise_flops_per_s",
    "memory_bytes_per_s",
    "conv_bytes_per_s",
)


def fitted(cells: Sequence[Cell], like: Profile, weight: float = LIKE, far: float = FAR) -> Profile:
    """Returns `like` with those RATES that fit the measured seconds of all cells best, by log(predicted / measured).

    The rates are drawn to those of `like` times one common factor; a rate that no network depends on becomes exactly
    that, or stays unnamed if `like` does not name it.  Overheads stay as they are.  Raises ValueError if there are no
    cells.
    """
    if not cells:
        raise ValueError("no step was measured; a fit needs at least one")
    begin = np.log([rate_of(like, rate) for rate in RATES])

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        profile, moved = with_rates(like, np.exp(logs)), logs - begin
        errors = [np.log(predicted(step, profile) / seconds) for step, seconds in cells]
        return np.array([*errors, *(np.sqrt(weight) * (moved - moved.mean()))])

    first = begin + np.median([np.log(predicted(step, like) / seconds) for step, seconds in cells])
    found = with_rates(like, np.exp(least_squares(residuals, first, loss="soft_l1", f_scale=far).x))
    known = told([step for step, _ in cells], found)
    unnamed: dict[str, Any] = {rate: None for rate in RATES if getattr(like, rate) is None and rate not in known}
    return replace(found, **unnamed)


def left_out(
    cells: Mapping[Name, Sequence[Cell]], like: Profile, weight: float = LIKE, far: float = FAR
) -> dict[Name, list[float]]:
    """Returns, for each group of cells, the seconds that a fit to all other groups predicts for the steps of the
    group."""
    found = {}
    for name, own in cells.items():
        others = [cell for other, those in cells.items() if other != name for cell in those]
        profile = fitted(others, like, weight, far)
        found[name] = [predicted(step, profile) for step, _ in own]
    return found


def told(steps: Sequence[StepCounts], profile: Profile) -> list[str]:
    """Returns those RATES, of those that the profile names, on which at least TOLD of the seconds of some step depend.

    The other rates are hardly more than those of the profile that the fit was drawn to.
    """
    found = []
    for rate in (rate for rate in RATES if getattr(profile, rate) is not None):
        twice = replace(profile, **{rate: 2 * getattr(profile, rate)})
        if any(2 * (1 - predicted(step, twice) / predicted(step, profile)) >= TOLD for step in steps):
            found.append(rate)
    return found


def off(judged: Sequence[Judged]) -> str:
    """Returns the relative errors of the predictions in words: `12 % in the median, 31 % at worst`."""
    errors = [abs(seconds / took - 1) for _, took, seconds in judged]
    return f"{100 * median(errors):.0f} % in the median, {100 * max(errors):.0f} % at worst"


def predicted(step: StepCounts, profile: Profile) -> float:
    """Returns the seconds of one step on a device with this profile."""
    return Device("predicted", profile).seconds(step, 1)


def overhead(step: StepCounts, profile: Profile) -> float:
    """Returns the seconds of one step on a device with this profile if all its rates were endless."""
    return predicted(step, with_rates(profile, [ENDLESS] * len(RATES)))


def rate_of(profile: Profile, rate: str) -> float:
    """Returns one of RATES in SI units; if the profile does not name it, that of the rate by which it is replaced."""
    defaults = {
        "grouped_flops_per_s": "conv_flops_per_s",
        "pointwise_flops_per_s": "conv_flops_per_s",
        "conv_bytes_per_s": "memory_bytes_per_s",
    }
    value = getattr(profile, rate)
    if value is not None:
        return float(value)
    return rate_of(profile, defaults[rate]) if rate in defaults else profile.flops_per_s


def with_rates(profile: Profile, rates: Sequence[float] | NDArray[np.float64]) -> Profile:
    """Returns the profile with these values of RATES.

    Its single speed becomes that of a network with half of its FLOPs in convolutions and half in dense layers.
    """
    named: dict[str, Any] = dict(zip(RATES, map(float, rates), strict=True))
    one = 2 / (1 / named["conv_flops_per_s"] + 1 / named["dense_flops_per_s"])
    return replace(profile, flops_per_s=one, **named)

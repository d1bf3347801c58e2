"""Draws values that differ from device to device, and that are the same for all seeds of a scenario."""

from __future__ import annotations

import numpy as np

from scenarios.schema.draws import Draw
from scenarios.text.faults import BadScenario

LEAST, MOST = 1e-6, 1e6  # bounds of draws, in the unit of the key
BOUNDS = f"draws must lie between {LEAST:g} and {MOST:g}"
SIGMAS = 7.0


def generator(root: int, use: str) -> np.random.Generator:
    """Returns the same generator as numpy's `default_rng([root, *use])`, with `use` as bytes, in a third of its time:
    numpy checks the type of each byte."""
    words = [root >> shift & 0xFFFFFFFF for shift in range(0, max(1, root.bit_length()), 32)]
    return np.random.default_rng(np.array([*words, *use.encode()], np.uint32))


def value(amount: float | Draw, device: str, what: str, seed: int) -> float:
    """Returns the amount if it is a number, and otherwise the value that this device draws from it.  Raises BadScenario
    for a drawn value out of bounds."""
    if not isinstance(amount, Draw):
        return amount
    value = drawn(amount, generator(seed, f"{what} of {device}"))
    if not _bounded(value, what):
        raise BadScenario(f"fleet: {device} drew {value:g} as its {what}; {BOUNDS}")
    return value


def highest(amount: float | Draw) -> float:
    """Returns the highest value that a device has or may draw; a lognormal draw exceeds it once in 10^12."""
    return _extremes(amount)[1] if isinstance(amount, Draw) else amount


def check_range(amount: float | Draw, group: str, what: str) -> None:
    """Raises BadScenario if a device of the group may draw a value out of bounds."""
    for value in _extremes(amount) if isinstance(amount, Draw) else ():
        if not _bounded(value, what):
            raise BadScenario(f"fleet: one of many in {group} may draw {value:g} as its {what}; {BOUNDS}")


def _extremes(draw: Draw) -> tuple[float, float]:
    """Returns the lowest and the highest value of a draw; a lognormal draw lies outside them once in 10^12."""
    if draw.lognormal:
        factor = float(np.exp(SIGMAS * draw.lognormal.sigma))
        return draw.lognormal.median / factor, draw.lognormal.median * factor
    if draw.uniform:
        return draw.uniform.low, draw.uniform.high
    assert draw.choice
    return min(draw.choice), max(draw.choice)


def _bounded(value: float, what: str) -> bool:
    return value <= MOST and (value >= LEAST or what in ("latency", "overhead"))


def drawn(draw: Draw, rng: np.random.Generator) -> float:
    if draw.lognormal:
        return float(draw.lognormal.median * np.exp(draw.lognormal.sigma * rng.standard_normal()))
    if draw.uniform:
        return float(rng.uniform(draw.uniform.low, draw.uniform.high))
    assert draw.choice
    return float(draw.choice[rng.integers(len(draw.choice))])

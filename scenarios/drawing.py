"""Values that differ from device to device, drawn once for all seeds."""

from __future__ import annotations

import numpy as np

from scenarios.draws import Draw
from scenarios.faults import BadScenario

LEAST, MOST = 1e-6, 1e6  # what a draw may give, in the unit of its key


def value(amount: float | Draw, device: str, what: str, seed: int) -> float:
    """A number as it is, or one drawn for this device.  Raises BadScenario for a draw that is out of all bounds."""
    if not isinstance(amount, Draw):
        return amount
    value = drawn(amount, np.random.default_rng([seed, *f"{what} of {device}".encode()]))
    if value > MOST or (value < LEAST and what not in ("latency", "overhead")):
        bounds = f"draws must lie between {LEAST:g} and {MOST:g}"
        raise BadScenario(f"fleet: {device} drew {value:g} as its {what}; {bounds}")
    return value


def drawn(draw: Draw, rng: np.random.Generator) -> float:
    if draw.lognormal:
        return float(draw.lognormal.median * np.exp(draw.lognormal.sigma * rng.standard_normal()))
    if draw.uniform:
        return float(rng.uniform(draw.uniform.low, draw.uniform.high))
    assert draw.choice
    return float(draw.choice[rng.integers(len(draw.choice))])

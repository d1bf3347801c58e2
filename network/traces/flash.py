"""FLASH's speed_distri.json: the speed of each user's Wi-Fi, as normal distributions (Yang et al., WWW'21)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from network.foreign_files import Table, bad, figure, shown, table
from network.traces.trace_text import FASTEST

COLUMNS = ("down_u", "down_sigma", "up_u", "up_sigma")


@dataclass(frozen=True)
class Speeds:
    """One user's mean and standard deviation each way, bytes/s; each transfer draws a speed."""

    user: str
    down: float
    down_sigma: float
    up: float
    up_sigma: float

    def draw(self, rng: np.random.Generator) -> tuple[float, float]:
        """Returns bytes/s down and up, each drawn again while it is not positive, as FLASH does."""
        return _positive(rng, self.down, self.down_sigma), _positive(rng, self.up, self.up_sigma)


def _positive(rng: np.random.Generator, mean: float, sigma: float) -> float:
    speed = -math.inf
    while speed <= 0:  # the mean is positive, so at least every other draw is
        speed = float(rng.normal(mean, sigma))
    return speed


def read(name: str, data: bytes) -> tuple[Speeds, ...]:
    """Returns every user of the file (JSON, or a pickle of the same), in its order; the file has kB/s. Raises
    BadFile."""
    return tuple(_speeds(name, user, entry) for user, entry in table(name, data).items())


def is_speeds(entries: Table) -> bool:
    entry = next(iter(entries.values()))
    return isinstance(entry, dict) and set(COLUMNS) <= entry.keys()


def _speeds(name: str, user: str, entry: object) -> Speeds:
    if not isinstance(entry, dict) or not set(COLUMNS) <= entry.keys():
        raise bad(name, None, f"user {shown(user)} is not a mapping with {', '.join(COLUMNS)}")
    values = [figure(name, entry[column], f"{column} of user {shown(user)}", FASTEST / 1e3) * 1e3 for column in COLUMNS]
    if not values[0] or not values[2]:
        raise bad(name, None, f"a mean speed of user {shown(user)} is 0; it must be above")
    return Speeds(user, *values)

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
    """The normal distributions of one user's download and upload speed: means and standard deviations in bytes/s."""

    user: str
    down: float
    down_sigma: float
    up: float
    up_sigma: float

    def draw(self, rng: np.random.Generator) -> tuple[float, float]:
        """Returns a random download speed and a random upload speed, bytes/s; a speed that is not positive is drawn
        again, as FLASH does."""
        return _positive(rng, self.down, self.down_sigma), _positive(rng, self.up, self.up_sigma)


def _positive(rng: np.random.Generator, mean: float, sigma: float) -> float:
    speed = -math.inf
    while speed <= 0:  # the mean is positive, so at least every other draw is
        speed = float(rng.normal(mean, sigma))
    return speed


def read(name: str, data: bytes) -> tuple[Speeds, ...]:
    """Returns the speeds of every user of a JSON file, or of a pickle with the same content, in the file's order.  The
    file states them in kB/s, and the result is in bytes/s.  Raises BadFile."""
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

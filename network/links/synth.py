"""Synthetic links from seeds: a Markov-modulated rate with Gilbert-Elliott outages, by presets.

At each step the rate is `m[s] exp(sigma z - sigma^2 / 2)`, or 0 in an outage.  The state `s` is redrawn from its
weights after exponential times, so its dwell times are geometric; `z` is a normal AR(1) process, so rates are lognormal
around their state's mean; the outage is a chain of two states (Gilbert 1960, Elliott 1963).  The three are independent,
and moments and autocorrelation have closed forms. docs/traces.md describes the fit of the presets and its errors.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from network.links.trace import Direction, Floats, Trace

Whole = npt.NDArray[np.intp]

MOST = 20_000_000  # steps of a trace
STEP = 1.0  # s: the samples to which the presets were fitted have one value per second
MBIT = 1e6 / 8  # bytes


@dataclass(frozen=True)
class Preset:
    """Parameters of a generated link; times in s, rates in bytes/s.  Raises ValueError for impossible values."""

    name: str
    rates: tuple[float, ...]  # the mean rate of each state of the downlink
    weights: tuple[float, ...]  # the share of time in each
    dwell: float  # mean time until the state is redrawn; it may stay the same
    sigma: float  # deviation of the logarithm of the rate within a state
    noise: float  # time after which its autocorrelation is 1/e; 0 is white
    outage: float = 0.0  # mean length; 0 if there are none
    every: float = math.inf  # mean time between the end of one and the next
    up: float = 1.0  # uplink over downlink
    together: float = 1.0  # similarity of both directions, 0 to 1; they always share outages
    latency: float = 0.0  # one way
    stands_for: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)  # source of each number, by its name in presets.csv

    def __post_init__(self) -> None:
        if not self.rates or len(self.rates) != len(self.weights) or not math.isclose(sum(self.weights), 1.0):
            raise ValueError(
                f"{self.name} has {len(self.rates)} rates and the weights {self.weights}; as many, which sum to 1"
            )
        bounds: tuple[tuple[str, Sequence[float], float, float], ...] = (
            ("rate", self.rates, 0.0, math.inf),
            ("weight", self.weights, 0.0, 1.0),
            ("dwell", [self.dwell], 1e-6, math.inf),
            ("sigma", [self.sigma], 0.0, 5.0),
            ("noise", [self.noise], 0.0, math.inf),
            ("outage", [self.outage], 0.0, 1e9),
            ("every", [self.every], 1e-6, math.inf),
            ("up", [self.up], 1e-6, 1e6),
            ("together", [self.together], 0.0, 1.0),
            ("latency", [self.latency], 0.0, 1e6),
        )
        for name, values, least, most in bounds:
            if not all(least <= value <= most for value in values):
                raise ValueError(f"a {name} of {self.name} is in {list(values)}; it must be from {least:g} to {most:g}")

    @property
    def out(self) -> float:
        """The share of time in outages: p / (p + r) of Gilbert and Elliott's chain."""
        return self.outage / (self.outage + self.every) if self.outage else 0.0

    @property
    def mean(self) -> float:
        """Mean rate of the downlink, outages included, bytes/s."""
        return (1 - self.out) * float(np.dot(self.weights, self.rates))

    def moments(self, lags: npt.ArrayLike) -> Floats:
        """Returns for each lag, s, the mean product of the downlink's rates at two times that far apart, (bytes/s)^2;
        at lag 0 this is the mean square."""
        lags = np.asarray(lags, dtype=np.float64)
        weights, rates = np.array(self.weights), np.array(self.rates)
        kept = np.exp(-lags / self.dwell)
        states = kept * (weights @ rates**2) + (1 - kept) * (weights @ rates) ** 2
        memory = np.exp(-lags / self.noise) if self.noise else np.where(lags == 0, 1.0, 0.0)
        on = (1 - self.out) ** 2 + (1 - self.out) * self.out * np.exp(-lags * self.turning)
        product: Floats = states * np.exp(self.sigma**2 * memory) * on
        return product

    def autocovariances(self, lags: npt.ArrayLike) -> Floats:
        """Returns the autocovariance of the downlink's rate at each lag, s, in (bytes/s)^2; at lag 0 this is its
        variance."""
        return self.moments(lags) - self.mean**2

    @property
    def turning(self) -> float:
        """The decay rate of the autocorrelation of outages, 1/s: a step of Gilbert and Elliott's chain keeps the share
        exp(-step * turning) = 1 - p - r.  0 without outages."""
        return 1 / self.outage + 1 / self.every if self.outage else 0.0


def synth(
    preset: Preset | str,
    seconds: float,
    seed: int | Sequence[int],
    direction: Direction = "down",
    *,
    step: float = STEP,
) -> Trace:
    """Returns a generated capacity trace of a preset.  The same arguments give the same trace, and a shorter duration
    gives the start of a longer one.

    Both directions of one seed belong to one radio: they share outages and the times of state changes; how similar
    their states and noise are is the preset's `together`.  Raises ValueError for an unknown preset, or a duration or
    step that is not positive and finite.
    """
    if isinstance(preset, str):
        preset = named(preset)
    n = _steps(seconds, step)
    states, noise, outages = (np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(3))
    way = 0 if direction == "down" else 1
    state = _states(preset, n, step, states)[way]
    z = _noise(preset, n, step, noise)[way]
    rates = np.array(preset.rates)[state] * np.exp(preset.sigma * z - preset.sigma**2 / 2)
    draws = outages.random((n, 2))
    out: npt.NDArray[np.bool_] = (draws[:, 1] < preset.out)[chain(draws[:, 0], math.exp(-step * preset.turning))]
    rates[out] = 0.0
    # whole bytes/s: exp may differ in its last bit from one processor to the next
    rates = np.round(rates * (1.0 if direction == "down" else preset.up))
    edges = np.append(np.arange(n) * step, seconds)
    return Trace(edges, rates, direction, "capacity", f"{preset.name}, seed {seed}", latency=np.full(n, preset.latency))


def chain(draws: Floats, kept: float) -> Whole:
    """Returns for each step the index of the latest step so far at which a chain draws its state anew: each step whose
    draw is at least `kept`, so with probability 1 - kept, and always the first."""
    anew = draws >= kept
    anew[0] = True
    last: Whole = np.maximum.accumulate(np.where(anew, np.arange(len(draws)), 0))
    return last


def _states(preset: Preset, n: int, step: float, rng: np.random.Generator) -> tuple[Whole, Whole]:
    """Returns the state at each step, an index into `preset.rates`, for the downlink and for the uplink."""
    draws = rng.random((n, 4))
    bounds = np.cumsum(preset.weights)[:-1]
    down, other = (np.searchsorted(bounds, draws[:, column], side="right") for column in (1, 2))
    up = np.where(draws[:, 3] < preset.together, down, other)
    last = chain(draws[:, 0], math.exp(-step / preset.dwell))
    return down[last], up[last]


def _noise(preset: Preset, n: int, step: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Returns two AR(1) processes of variance 1 and n values, for the downlink and the uplink, with the correlation
    `preset.together`."""
    phi = math.exp(-step / preset.noise) if preset.noise else 0.0
    own, other = rng.standard_normal((n, 2)).T
    up = preset.together * own + math.sqrt(1 - preset.together**2) * other
    return _autoregressive(own, phi), _autoregressive(up, phi)


def _autoregressive(shocks: Floats, phi: float) -> Floats:
    """Returns y[t] = phi y[t-1] + sqrt(1 - phi^2) shocks[t], by doubling the length of partial sums instead of a
    loop."""
    y = shocks * math.sqrt(1 - phi**2)
    y[0] = shocks[0]
    reach = 1
    while reach < len(y) and phi > 1e-18:
        y[reach:] += phi * y[:-reach]
        phi, reach = phi * phi, reach * 2
    return y


def _steps(seconds: float, step: float) -> int:
    for name, value in (("duration", seconds), ("step", step)):
        if not 1e-3 <= value < math.inf:
            raise ValueError(f"the {name} is {value} s; it must be finite and at least 0.001")
    n = math.ceil(round(seconds / step, 6))
    if n > MOST:
        raise ValueError(f"{seconds:g} s in steps of {step:g} s are {n} steps; at most {MOST} are drawn")
    return max(1, n)


# --- presets


@lru_cache(maxsize=1)
def presets() -> Mapping[str, Preset]:
    """Returns the presets that come with fedlapse, by name."""
    lines = resources.files("network.links").joinpath("presets.csv").read_text(encoding="utf-8").splitlines()
    return read_presets(lines)


def named(name: str) -> Preset:
    """Returns the preset of this name. Raises ValueError, with all names, if there is none."""
    if name not in presets():
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(presets())}")
    return presets()[name]


def read_presets(lines: Sequence[str]) -> dict[str, Preset]:
    """Returns the presets, by name, from the lines of a CSV with the columns name, parameter, value and source.  Raises
    ValueError for a bad table."""
    rows: dict[str, dict[str, tuple[str, str]]] = {}
    for row in csv.DictReader(lines):
        rows.setdefault(row["name"], {})[row["parameter"]] = (row["value"], row["source"])
    return {name: _preset(name, said) for name, said in rows.items()}


def _preset(name: str, said: Mapping[str, tuple[str, str]]) -> Preset:
    known: dict[str, Any] = {"name": name, "sources": {what: source for what, (_, source) in said.items()}}
    for what, (value, _) in said.items():
        if what == "stands_for":
            known[what] = value
        elif what in LISTS:
            known[LISTS[what][0]] = tuple(float(one) * LISTS[what][1] for one in value.split())
        elif what in NUMBERS:
            known[NUMBERS[what][0]] = float(value) * NUMBERS[what][1]
        else:
            raise ValueError(f"{name} has the parameter {what!r}; known are {', '.join([*LISTS, *NUMBERS])}")
    return Preset(**known)


LISTS = {"rates_mbit_s": ("rates", MBIT), "shares": ("weights", 1.0)}
NUMBERS = {
    "dwell_s": ("dwell", 1.0),
    "sigma": ("sigma", 1.0),
    "noise_s": ("noise", 1.0),
    "outage_s": ("outage", 1.0),
    "outage_every_s": ("every", 1.0),
    "up_ratio": ("up", 1.0),
    "together": ("together", 1.0),
    "latency_ms": ("latency", 1e-3),
}

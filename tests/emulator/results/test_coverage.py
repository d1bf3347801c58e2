"""How often the intervals of made-up studies hold the true value, and how often a difference is called where there is
none.  The figures are cited in docs/design/statistics.md, §3."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from emulator.results.holm import holm
from emulator.results.restricted import Timed, contrast, horizon

pytestmark = pytest.mark.slow

STUDIES, SEEDS, RATIO = 1000, 10, 1.3
NORMAL = NormalDist()
SPREADS = (0.1, 0.3, 0.6)  # standard deviation of the log of a time


def pairs(rng: np.random.Generator, spread: float, seeds: int = SEEDS) -> np.ndarray:
    """Lognormal times of two algorithms, 2 x seeds; half of the variance of their logs is the seed's own."""
    shared, own = rng.normal(size=(1, seeds)), rng.normal(size=(2, seeds))
    return np.exp(spread * math.sqrt(0.5) * (shared + own)) * [[RATIO], [1.0]]


def mean(median: float, spread: float, tau: float) -> float:
    """The mean of a lognormal time restricted to τ."""
    full = median * math.exp(spread**2 / 2)
    if tau == math.inf:
        return full
    z = math.log(tau / median) / spread
    return full * NORMAL.cdf(z - spread) + tau * NORMAL.cdf(-z)


def cut(spread: float, share: float) -> float:
    """The τ that this share of all runs of both algorithms surpasses."""
    low, high = 0.01, 100.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        beyond = sum(NORMAL.cdf(-math.log(middle / median) / spread) for median in (RATIO, 1.0)) / 2
        low, high = (middle, high) if beyond > share else (low, middle)
    return low


def runs(times: np.ndarray, tau: float) -> dict[int, Timed]:
    return {seed: Timed(float(t), float(t)) if t <= tau else Timed(None, tau) for seed, t in enumerate(times)}


def percentile(times: np.ndarray, picks: np.ndarray) -> tuple[float, float]:
    """The interval of the plain percentile bootstrap, for comparison."""
    means = times[:, picks].mean(axis=2)
    low, high = np.quantile(means[0] / means[1], (0.025, 0.975))
    return low, high


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("spread", SPREADS)
def test_intervals_hold_the_true_ratio_in_95_percent_of_studies(spread, share):
    tau = cut(spread, share) if share else math.inf
    true = mean(RATIO, spread, tau) / mean(1.0, spread, tau)
    rng = np.random.default_rng(1)
    held = lost = 0
    for _ in range(STUDIES):
        one, base = (runs(times, tau) for times in pairs(rng, spread))
        found = contrast(one, base, tau)
        assert found is not None
        held += found.low <= true <= found.high
        lost += horizon([*one.values(), *base.values()]) < math.inf
    assert 0.93 <= held / STUDIES <= 0.97
    assert lost == (0 if share == 0 else pytest.approx(STUDIES, rel=0.02))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_those_of_five_seeds_hold_it_no_less_often(share):
    tau = cut(0.3, share) if share else math.inf
    true = mean(RATIO, 0.3, tau) / mean(1.0, 0.3, tau)
    rng = np.random.default_rng(1)
    found = [contrast(*(runs(times, tau) for times in pairs(rng, 0.3, seeds=5)), tau) for _ in range(STUDIES)]
    assert sum(each is not None and each.low <= true <= each.high for each in found) / STUDIES >= 0.93


def test_those_of_the_percentile_bootstrap_do_not():
    rng = np.random.default_rng(1)
    picks = np.random.default_rng(2).integers(0, SEEDS, (1000, SEEDS))
    intervals = (percentile(pairs(rng, 0.3), picks) for _ in range(STUDIES))
    assert sum(low <= RATIO <= high for low, high in intervals) / STUDIES < 0.91


TARGETS, LINKS = 3, 4


def played(rng: np.random.Generator, seeds: np.ndarray) -> np.ndarray:
    """Seconds of one algorithm's runs to each target over each link: seeds x targets x links.

    Rounds are those of one training, whatever the link, and a later target takes all rounds of the earlier ones;
    `seeds` is what both algorithms of a seed share.  A link's seconds per round vary a little.
    """
    steps = 10 * np.exp(0.3 * (seeds + rng.normal(size=(SEEDS, TARGETS))))
    rounds = np.ceil(np.cumsum(steps, axis=1))
    pace = np.array([1.0, 3.0, 8.0, 20.0]) * np.exp(0.05 * rng.normal(size=(SEEDS, LINKS)))
    return rounds[:, :, None] * pace[:, None, :]


def lowest(rng: np.random.Generator) -> float:
    """The least adjusted p-value of a study of an algorithm against itself; 40 rounds are played on each link."""
    seeds = rng.normal(size=(SEEDS, 1))
    one, base = played(rng, seeds), played(rng, seeds)
    ps = {}
    for target in range(TARGETS):
        for link, pace in enumerate((1.0, 3.0, 8.0, 20.0)):
            cells = [runs(times[:, target, link], 40 * pace) for times in (one, base)]
            found = contrast(cells[0], cells[1], 40 * pace)
            assert found is not None
            ps[target, link] = found.p
    return min(holm(ps).values())


def test_an_algorithm_against_itself_is_hardly_ever_called_different():
    rng = np.random.default_rng(3)
    called = sum(lowest(rng) < 0.05 for _ in range(200))
    assert called <= 10

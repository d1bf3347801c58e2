import math

import numpy as np
import pytest

from devices.jitter import factor, least, parameters


def drawn(cv, steps, n=20_000):
    rng = np.random.default_rng(1)
    return np.array([factor(cv, steps, rng) for _ in range(n)])


@pytest.mark.parametrize(("cv", "steps"), [(0.06, 1), (0.18, 1), (0.18, 9)])
def test_the_mean_is_one_and_the_variance_that_of_a_mean_of_steps(cv, steps):
    found, sd = drawn(cv, steps), cv / math.sqrt(steps)
    assert found.mean() == pytest.approx(1, abs=5 * sd / math.sqrt(len(found)))
    assert found.std() == pytest.approx(sd, rel=0.05)


@pytest.mark.parametrize("cv", [0.0, 0.06, 0.5, 2.0])
def test_nobody_draws_less_than_the_least(cv):
    assert 0 < least(cv) <= min(drawn(cv, 1, 2000).min(), drawn(cv, 5, 200).min())
    assert least(0.0) == 1


def test_one_step_is_lognormal():
    # of a lognormal, the logarithm is normal: no skewness, and the median is 1 / sqrt(1 + cv^2)
    found = np.log(drawn(0.5, 1))
    assert ((found - found.mean()) ** 3).mean() / found.std() ** 3 == pytest.approx(0, abs=0.1)
    assert math.exp(np.median(found)) == pytest.approx(1 / math.sqrt(1.25), rel=0.02)


def test_a_sum_of_two_is_nearly_what_the_approximation_says():
    rng = np.random.default_rng(2)
    mu, sigma = parameters(1.0, 0.18)
    sums, one = rng.lognormal(mu, sigma, (200_000, 2)).mean(1), drawn(0.18, 2)
    for q in (0.05, 0.5, 0.95):
        assert np.quantile(one, q) == pytest.approx(np.quantile(sums, q), rel=0.01)


def test_a_phase_in_two_pieces_varies_as_in_one():
    rng = np.random.default_rng(3)
    pieces = [(3 * factor(0.1, 3, rng) + 7 * factor(0.1, 7, rng)) / 10 for _ in range(20_000)]
    assert np.mean(pieces) == pytest.approx(1, abs=0.002)
    assert np.std(pieces) == pytest.approx(0.1 / math.sqrt(10), rel=0.05)


@pytest.mark.parametrize(("mean", "cv"), [(1.0, 0.06), (3600.0, 1.5)])
def test_parameters_give_back_their_moments(mean, cv):
    mu, sigma = parameters(mean, cv)
    assert math.exp(mu + sigma**2 / 2) == pytest.approx(mean)
    assert math.sqrt(math.expm1(sigma**2)) == pytest.approx(cv)


def test_without_variation_nothing_is_drawn():
    rng, untouched = np.random.default_rng(4), np.random.default_rng(4)
    assert factor(0.0, 10, rng) == factor(0.1, 0, rng) == 1
    assert rng.random() == untouched.random()


@pytest.mark.parametrize(("cv", "steps"), [(-0.1, 1), (math.nan, 1), (math.inf, 1), (0.1, -1), (0.1, math.inf)])
def test_what_is_no_variation_is_refused(cv, steps):
    with pytest.raises(ValueError, match="must be 0 or more|has 0 or more"):
        factor(cv, steps, np.random.default_rng(0))

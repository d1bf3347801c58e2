"""Synthetic links: what a seed fixes, and moments against closed forms within what chance allows."""

from __future__ import annotations

import math
import os
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from network.links.synth import Preset, named, presets, read_presets, synth
from tests.all_of import all_of

SIGMAS = 4.5  # of the sampling error: 1 in 150,000 for each check, and the seeds are fixed
TWO = Preset("two", rates=(1e6, 5e6), weights=(0.3, 0.7), dwell=10.0, sigma=0.0, noise=0.0)
NOISY = Preset("noisy", rates=(4e6,), weights=(1.0,), dwell=1.0, sigma=0.5, noise=5.0)
BROKEN = Preset("broken", rates=(1e6,), weights=(1.0,), dwell=1.0, sigma=0.0, noise=0.0, outage=4.0, every=12.0)


def over_seeds(preset, statistic, seeds=60, seconds=1500):
    """Mean of a statistic over independent seeds, and its standard error."""
    values = [statistic(synth(preset, seconds, seed).rates) for seed in range(seeds)]
    return np.mean(values), np.std(values, ddof=1) / math.sqrt(seeds)


def agrees(found, expected):
    mean, error = found
    return abs(mean - expected) <= SIGMAS * error


# --- what a seed fixes


def test_a_seed_draws_the_same_link_again() -> None:
    one, same, other = (synth("lte-driving", 300, seed) for seed in (1, 1, 2))
    assert one.rates.tobytes() == same.rates.tobytes()
    assert not np.array_equal(one.rates, other.rates)


@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_shorter_link_is_the_start_of_a_longer_one(direction) -> None:
    short, long = (synth("3g-driving", seconds, 5, direction) for seconds in (137, 1000))
    assert np.array_equal(short.rates, long.rates[:137])


def test_both_directions_are_one_radio() -> None:
    down, up = (synth("3g-driving", 2000, 3, way) for way in ("down", "up"))
    assert (down.direction, up.direction, down.kind) == ("down", "up", "capacity")
    assert np.array_equal(down.rates == 0, up.rates == 0)
    assert (down.rates == 0).any()


def test_wholly_alike_directions_differ_by_the_ratio_alone() -> None:
    alike = Preset("alike", (1e6, 5e6), (0.5, 0.5), 10.0, 0.3, 2.0, up=0.5, together=1.0)
    down, up = (synth(alike, 500, 3, way).rates for way in ("down", "up"))
    assert np.allclose(up, down * 0.5, atol=1)  # rates are whole bytes/s


def test_the_last_step_ends_with_the_link() -> None:
    link = synth("wifi", 2.5, 1)
    assert link.edges.tolist() == [0, 1, 2, 2.5]
    assert synth("wifi", 0.3, 1, step=0.1).edges.tolist() == pytest.approx([0, 0.1, 0.2, 0.3])


def test_a_link_has_the_latency_of_its_preset() -> None:
    assert synth("5g-mmwave-walking", 10, 1).latency_at(3) == pytest.approx(0.0315)  # half of Ookla's 63 ms


# --- closed forms


@pytest.mark.parametrize("name", list(presets()))
def test_the_mean_is_as_near_as_chance_allows(name) -> None:
    preset, n = named(name), 20_000
    lags = np.arange(1, n)
    variance = preset.autocovariances(np.arange(n))
    error = math.sqrt((n * variance[0] + 2 * (n - lags) @ variance[1:]) / n**2)
    assert abs(synth(preset, n, 7).rates.mean() - preset.mean) < SIGMAS * error


@pytest.mark.parametrize("lag", [0, 1, 5, 20])
def test_the_autocorrelation_of_two_states_falls_geometrically(lag) -> None:
    mean, variance = 0.3 * 1e6 + 0.7 * 5e6, 0.3 * 0.7 * (5e6 - 1e6) ** 2
    expected = mean**2 + variance * math.exp(-lag / 10.0)
    assert TWO.moments(lag) == pytest.approx(expected)
    assert agrees(over_seeds(TWO, lambda x: np.mean(x[: len(x) - lag] * x[lag:])), expected)


def test_a_state_dwells_geometrically() -> None:
    rates = synth(TWO, 60_000, 1).rates
    runs = [len(list(run)) for high, run in groupby(rates > 3e6) if high]
    leaves = (1 - math.exp(-0.1)) * 0.3  # drawn anew, and comes out as the other
    assert abs(np.mean(runs) - 1 / leaves) < SIGMAS * math.sqrt((1 - leaves) / leaves**2 / len(runs))


@pytest.mark.parametrize("lag", [0, 1, 5, 20])
def test_noise_within_a_state_is_lognormal_and_autoregressive(lag) -> None:
    expected = 4e6**2 * math.exp(0.25 * math.exp(-lag / 5.0))  # E[exp(sX + sY - s^2)] of normals X, Y
    assert NOISY.moments(lag) == pytest.approx(expected)
    assert agrees(over_seeds(NOISY, lambda x: np.mean(x[: len(x) - lag] * x[lag:])), expected)
    assert agrees(over_seeds(NOISY, lambda x: np.mean(np.log(x[: len(x) - lag] / 4e6) + 0.125)), 0.0)


def test_outages_are_gilbert_and_elliotts() -> None:
    out = synth(BROKEN, 60_000, 2).rates == 0
    kept = math.exp(-(1 / 4 + 1 / 12))
    p, r = 0.25 * (1 - kept), 0.75 * (1 - kept)
    assert p / (p + r) == BROKEN.out == 0.25
    begun, ended = (np.mean(out[1:][out[:-1] == was] != was) for was in (False, True))
    for found, chance, tries in ((begun, p, (~out).sum()), (ended, r, out.sum())):
        assert abs(found - chance) < SIGMAS * math.sqrt(chance * (1 - chance) / tries)
    # The variance of a correlated share is that of an independent one times (1 + kept) / (1 - kept).
    error = math.sqrt(0.25 * 0.75 / len(out) * (1 + kept) / (1 - kept))
    assert abs(out.mean() - 0.25) < SIGMAS * error


@pytest.mark.parametrize("second", [0, 30])
def test_a_link_begins_as_it_goes_on(second) -> None:
    out = [synth(BROKEN, 31, seed).rates[second] == 0 for seed in range(300)]
    assert abs(np.mean(out) - 0.25) < SIGMAS * math.sqrt(0.25 * 0.75 / 300)


def test_an_outages_correlation_is_in_the_moments() -> None:
    # good now and later: g (g + (1 - g) kept^lag)
    expected = 1e12 * 0.75 * (0.75 + 0.25 * math.exp(-3 * (1 / 4 + 1 / 12)))
    assert BROKEN.moments(3) == pytest.approx(expected)
    assert agrees(over_seeds(BROKEN, lambda x: np.mean(x[:-3] * x[3:])), expected)


@pytest.mark.parametrize("together", [0.0, 0.4, 1.0])
def test_directions_are_as_alike_as_the_preset_says(together) -> None:
    half = Preset("half", (1e6, 5e6), (0.3, 0.7), 3.0, 0.0, 0.0, together=together)
    pairs = [tuple(synth(half, 1000, seed, way).rates for way in ("down", "up")) for seed in range(40)]
    mean = 0.3 * 1e6 + 0.7 * 5e6
    values = [np.mean((down - mean) * (up - mean)) for down, up in pairs]
    found = np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))
    assert agrees(found, together * 0.3 * 0.7 * 4e6**2)


def test_finer_steps_are_the_same_link_seen_more_closely() -> None:
    fine = over_seeds(TWO, lambda x: x.mean())
    coarse = [synth(TWO, 1500, seed, step=0.25).rates for seed in range(60)]
    second = np.array([np.mean(x[:-20] * x[20:]) for x in coarse])  # 5 s apart
    assert agrees(fine, 3.8e6)
    assert agrees((second.mean(), second.std(ddof=1) / math.sqrt(60)), float(TWO.moments(5)))


# --- presets and what is refused


def test_every_number_of_a_preset_has_a_source() -> None:
    for preset in presets().values():
        assert {"rates_mbit_s", "shares", "dwell_s", "sigma", "noise_s", "up_ratio", "latency_ms"} <= set(
            preset.sources
        )
        assert all_of(preset.sources.values())
        assert preset.stands_for
    assert named("satellite-leo").sources["rates_mbit_s"] == "assumed"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"preset": "4g"}, "no preset '4g'; there are 3g, "),
        ({"seconds": math.nan}, "the duration is nan s"),
        ({"seconds": 0}, "the duration is 0 s"),
        ({"step": -1.0}, "the step is -1.0 s"),
        ({"seconds": 1e9}, "at most 20000000 are drawn"),
        ({"direction": "sideways"}, "must be down or up"),
    ],
)
def test_what_cannot_be_drawn_is_refused(asked, said) -> None:
    with pytest.raises(ValueError, match=said):
        synth(**{"preset": "wifi", "seconds": 10, "seed": 1, **asked})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weights": (0.5, 0.4)}, "sum to 1"),
        ({"rates": (1.0,)}, "as many"),
        ({"rates": (-1.0, 1.0)}, "a rate of x"),
        ({"together": 1.5}, "a together of x"),
        ({"sigma": math.nan}, "a sigma of x"),
    ],
)
def test_a_preset_that_cannot_be_is_refused(changes, said) -> None:
    with pytest.raises(ValueError, match=said):
        Preset(
            **{"name": "x", "rates": (1.0, 2.0), "weights": (0.5, 0.5), "dwell": 1, "sigma": 0, "noise": 0, **changes}
        )


def test_a_parameter_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="the parameter 'speed'"):
        read_presets(["name,parameter,value,source", "x,speed,3,assumed"])


# --- real samples


@pytest.mark.slow
def test_presets_are_near_the_real_samples() -> None:
    root = Path(os.environ.get("FEDLAPSE_DATA") or Path(__file__).parents[3] / "../shared/data").resolve() / "traces"
    if not (root / "README.md").is_file():
        pytest.skip(f"NO REAL TRACES: {root} has no README.md; set FEDLAPSE_DATA to a folder that has traces/")
    from benchmarks.synth_samples import SAMPLES, figures, parts_of

    for sample in SAMPLES:
        real, preset = figures(parts_of(sample, root)), named(sample.preset)
        variance = float(preset.autocovariances(0))
        assert preset.mean == pytest.approx(real.mean, rel=0.1), sample.preset
        assert math.sqrt(variance) / preset.mean == pytest.approx(real.cv, rel=0.15), sample.preset
        assert preset.out == pytest.approx(real.out, abs=0.005), sample.preset
        for lag, found in zip((1, 5), real.acf, strict=False):
            assert float(preset.autocovariances(lag)) / variance == pytest.approx(found, abs=0.12), sample.preset

"""Airtime that stations share: by hand, by the max-min certificate, and against bisection."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.flow import Shared
from network.fluid import Fluid
from tests.network.naive_cases import few, is_max_min, play
from tests.network.naive_sharing import Opening, Steps, on_air, value

MB = 1e6  # bytes

# --- airtime ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radios", [[6e6, 54e6], [1e6, 2e6, 5.5e6, 11e6], [3e6] * 5])
def test_stations_share_the_time_on_air_and_not_the_bytes(radios: list[float]) -> None:
    """n stations have 1/n of the time, so each runs at its radio's rate over n."""
    fluid = Fluid(1e12, {"wifi": Shared(1.0, airtime=True)})
    for station, radio in enumerate(radios):
        fluid.open(0.0, station, MB, radio, via="wifi")

    rates = fluid.rates(0.0)
    assert rates == {i: pytest.approx(radio / len(radios), rel=1e-12) for i, radio in enumerate(radios)}


def test_a_station_alone_on_air_has_its_whole_radio() -> None:
    assert play([Opening(0.0, MB, 2 * MB, via="wifi")], 1e12, {"wifi": Shared(1.0, airtime=True)})[0] == {0: 0.5}


def test_airtime_that_a_slow_line_leaves_goes_to_others() -> None:
    """A radio of 10 whose line carries 1 takes a tenth of the time; the other has the rest: 18 of 20 bytes/s."""
    fluid = Fluid(1e12, {"wifi": Shared(1.0, airtime=True)})
    fluid.open(0.0, "line", 10.0, 1.0, via="wifi", radio=10.0)
    fluid.open(0.0, "free", 180.0, 20.0, via="wifi")

    assert fluid.rates(0.0) == {"line": 1.0, "free": pytest.approx(18.0)}


def test_weights_and_capacity_of_airtime() -> None:
    """0.8 s of sending in a second, three parts and one: radios of 10 and 40 bytes/s run at 6 and 8."""
    fluid = Fluid(1e12, {"wifi": Shared(0.8, airtime=True)})
    fluid.open(0.0, "a", 10.0, 10.0, weight=3.0, via="wifi")
    fluid.open(0.0, "b", 10.0, 40.0, via="wifi")

    assert fluid.rates(0.0) == {"a": pytest.approx(6.0), "b": pytest.approx(8.0)}


def test_a_radio_that_hears_nothing_takes_no_time() -> None:
    fluid = Fluid(1e12, {"wifi": Shared(1.0, airtime=True)})
    fluid.open(0.0, "gone", 10.0, Steps((0.0, 5.0), (0.0, 10.0)), via="wifi")
    fluid.open(0.0, "near", 100.0, 10.0, via="wifi")

    assert fluid.rates(0.0) == {"gone": 0.0, "near": 10.0}
    assert fluid.rates(5.0) == {"gone": pytest.approx(5.0), "near": pytest.approx(5.0)}


def test_a_server_that_is_full_shares_bytes_though_the_air_is_shared_by_time() -> None:
    """Radios of 10 and 100 on air, 6 bytes/s for both and one on a wire: 2 each, which takes 0.22 s of airtime."""
    fluid = Fluid(6.0, {"wifi": Shared(1.0, airtime=True)})
    for name, cap, via in (("slow", 10.0, "wifi"), ("fast", 100.0, "wifi"), ("wire", 50.0, None)):
        fluid.open(0.0, name, 10.0, cap, via=via)

    assert fluid.rates(0.0) == {name: pytest.approx(2.0) for name in ("slow", "fast", "wire")}


@st.composite
def airs(draw: st.DrawFn) -> tuple[list[Opening], float, dict[str, Shared], dict[int, float]]:
    shared = {"a": Shared(1.0, airtime=True), "b": Shared(draw(st.floats(0.1, 1.0)), airtime=True), "c": Shared(7.0)}
    opening = st.builds(
        Opening,
        t=st.just(0.0),
        nbytes=st.floats(1, 12),
        cap=st.floats(0.5, 20),
        weight=st.sampled_from([1.0, 1.0, 0.5, 3.0]),
        via=st.sampled_from([None, "a", "a", "b", "c"]),
    )
    openings = draw(st.lists(opening, min_size=1, max_size=7))
    radios = {i: draw(st.floats(1.0, 30.0)) for i in range(len(openings))}
    capped = [each._replace(cap=min(value(each.cap, 0.0), radios[i])) for i, each in enumerate(openings)]
    return capped, draw(st.floats(0.5, 40)), shared, radios


@pytest.mark.slow
@settings(few, max_examples=300)
@given(airs())
def test_airtime_below_a_server_agrees_with_bisection(
    case: tuple[list[Opening], float, dict[str, Shared], dict[int, float]],
) -> None:
    openings, capacity, shared, radios = case
    fluid = Fluid(capacity, shared)
    for i, opening in enumerate(openings):
        fluid.open(0.0, i, *opening[1:], radio=radios[i])
    rates = fluid.rates(0.0)
    weights = {i: opening.weight for i, opening in enumerate(openings)}
    caps = {i: value(opening.cap, 0.0) for i, opening in enumerate(openings)}
    places = {i: opening.via for i, opening in enumerate(openings)}

    wanted = on_air(caps, weights, radios, places, shared, capacity)

    assert rates == {i: pytest.approx(rate, rel=1e-9) for i, rate in wanted.items()}
    is_max_min(rates, openings, capacity, shared, radios)

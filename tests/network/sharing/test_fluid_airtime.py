"""Airtime that stations share: by hand, and by the max-min certificate at each instant until all have ended."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.links.ramp import Ramp
from network.links.rate import Rate
from network.sharing.flow import SharedLink, as_rate
from network.sharing.fluid import Back, Fluid
from network.sharing.tree import Tree
from tests.network.sharing.naive_cases import few, is_max_min, of_rates, play
from tests.network.sharing.naive_sharing import Opening, Steps

MB = 1e6  # bytes

# --- airtime ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radios", [[6e6, 54e6], [1e6, 2e6, 5.5e6, 11e6], [3e6] * 5])
def test_stations_share_the_time_on_air_and_not_the_bytes(radios: list[float]) -> None:
    """n stations have 1/n of the time, so each runs at its radio's rate over n."""
    fluid = Fluid(1e12, {"wifi": SharedLink(1.0, airtime=True)})
    for station, radio in enumerate(radios):
        fluid.open(0.0, station, MB, radio, via="wifi")

    rates = fluid.rates(0.0)
    assert rates == {i: pytest.approx(radio / len(radios), rel=1e-12) for i, radio in enumerate(radios)}


def test_a_station_alone_on_air_has_its_whole_radio() -> None:
    assert play([Opening(0.0, MB, 2 * MB, via="wifi")], 1e12, {"wifi": SharedLink(1.0, airtime=True)})[0] == {0: 0.5}


def test_airtime_that_a_slow_line_leaves_goes_to_others() -> None:
    """A radio of 10 whose line carries 1 takes a tenth of the time; the other has the rest: 18 of 20 bytes/s."""
    fluid = Fluid(1e12, {"wifi": SharedLink(1.0, airtime=True)})
    fluid.open(0.0, "line", 10.0, 1.0, via="wifi", radio=10.0)
    fluid.open(0.0, "free", 180.0, 20.0, via="wifi")

    assert fluid.rates(0.0) == {"line": 1.0, "free": pytest.approx(18.0)}


def test_a_radios_scheduler_knows_no_weights() -> None:
    """0.8 s of sending in a second, half for each: radios of 10 and 40 bytes/s run at 4 and 16."""
    fluid = Fluid(1e12, {"wifi": SharedLink(0.8, airtime=True)})
    fluid.open(0.0, "a", 10.0, 10.0, weight=3.0, via="wifi")
    fluid.open(0.0, "b", 10.0, 40.0, via="wifi")

    assert fluid.rates(0.0) == {"a": pytest.approx(4.0), "b": pytest.approx(16.0)}


@pytest.mark.parametrize("radios", [(10.0, 40.0), (1e3, 4e3)])  # the air is full, or far from it
def test_devices_on_one_air_weigh_the_same_above_it_too(radios: tuple[float, float]) -> None:
    """Weights of 3 and 1 on air are 2 and 2, beside 2 on a wire: a third of 12 each, which takes 0.4 + 0.1 s on air."""
    fluid = Fluid(12.0, {"wifi": SharedLink(1.0, airtime=True)})
    fluid.open(0.0, "a", 10.0, radios[0], weight=3.0, via="wifi")
    fluid.open(0.0, "b", 10.0, radios[1], weight=1.0, via="wifi")
    fluid.open(0.0, "wire", 10.0, 50.0, weight=2.0)

    assert fluid.rates(0.0) == {name: pytest.approx(4.0) for name in ("a", "b", "wire")}
    fluid.close(0.0, "b")
    assert fluid.rates(0.0) == {"a": pytest.approx(7.2), "wire": pytest.approx(4.8)}


def test_two_lines_that_cannot_fill_the_air_weigh_the_same_above_it() -> None:
    """Lines of 3 on radios of 10 take at most 0.6 s; 4 bytes/s for both are 2 each, whatever the weights."""
    fluid = Fluid(4.0, {"wifi": SharedLink(1.0, airtime=True)})
    for name, weight in (("a", 3.0), ("b", 1.0)):
        fluid.open(0.0, name, 10.0, 3.0, weight=weight, via="wifi", radio=10.0)

    assert fluid.rates(0.0) == {"a": pytest.approx(2.0), "b": pytest.approx(2.0)}


def test_a_wifi_behind_a_dsl_line_until_the_last_has_ended() -> None:
    """Radios of 2, 20 and 20 bytes/s, a line of 9: both are full with 11/9, 35/9 and 35/9.

    For 11/9/2 + 2 * 35/9/20 = 1.  The fast ones have carried 35 bytes in 9 s, the slow one 11; its last 4 take 2 s.
    """
    shared = {"dsl": SharedLink(9.0), "wifi": SharedLink(1.0, "dsl", airtime=True)}
    openings = [Opening(0.0, nbytes, radio, via="wifi") for nbytes, radio in ((15.0, 2.0), (35.0, 20.0), (35.0, 20.0))]

    assert play(openings, 1e12, shared)[0] == {
        0: pytest.approx(11.0),
        1: pytest.approx(9.0),
        2: pytest.approx(9.0),
    }


def test_a_radio_that_hears_nothing_takes_no_time() -> None:
    fluid = Fluid(1e12, {"wifi": SharedLink(1.0, airtime=True)})
    fluid.open(0.0, "gone", 10.0, Steps((0.0, 5.0), (0.0, 10.0)), via="wifi")
    fluid.open(0.0, "near", 100.0, 10.0, via="wifi")

    assert fluid.rates(0.0) == {"gone": 0.0, "near": 10.0}
    assert fluid.rates(5.0) == {"gone": pytest.approx(5.0), "near": pytest.approx(5.0)}


def test_a_server_that_is_full_shares_bytes_though_the_air_is_shared_by_time() -> None:
    """Radios of 10 and 100 on air, 6 bytes/s for both and one on a wire: 2 each, which takes 0.22 s of airtime."""
    fluid = Fluid(6.0, {"wifi": SharedLink(1.0, airtime=True)})
    for name, cap, via in (("slow", 10.0, "wifi"), ("fast", 100.0, "wifi"), ("wire", 50.0, None)):
        fluid.open(0.0, name, 10.0, cap, via=via)

    assert fluid.rates(0.0) == {name: pytest.approx(2.0) for name in ("slow", "fast", "wire")}


HOMES = {f"line {k}": SharedLink(3.0 + k % 4) for k in range(6)}
HOMES |= {f"home {k}": SharedLink(0.5 + k % 2 / 2, f"line {k}" if k < 6 else None, airtime=True) for k in range(30)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("both", [False, True])
def test_flows_in_thirty_homes_that_come_and_go_are_max_min_fair_after_each_event(seed: int, both: bool) -> None:
    """Behind a server that is full; some homes have a line that may be full, too."""
    draws = np.random.default_rng(seed)
    back = (40.0, HOMES) if both else None
    fluid, openings = Fluid(40.0, HOMES, back), list[Opening]()
    for number in range(200):
        via = f"home {draws.integers(30)}"
        nbytes, cap, radio = draws.uniform((1.0, 0.2, 1.0), (20.0, 5.0, 9.0)).tolist()
        turned = both and bool(draws.integers(2))
        openings.append(Opening(fluid.now, nbytes, cap, float(draws.choice([1.0, 3.0])), via, radio, turned))
        fluid.open(fluid.now, number, *openings[-1][1:])
        if number > 100:
            fluid.advance(fluid.next_finish())
            is_max_min(fluid.rates(fluid.now), openings, 40.0, HOMES, back)


def test_a_second_device_in_a_home_moves_nobody_in_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is full; 4 and 6 bytes/s on radios of 8 fill no air for long, and in a home of one none."""
    shared = {f"home {k}": SharedLink(1.0, airtime=True) for k in range(20)}
    fluid = Fluid(20.0, shared)
    for home in range(20):
        for device in range(1 if home == 7 else 2):
            fluid.open(0.0, (home, device), 100.0, 4.0, via=f"home {home}", radio=8.0)
    fluid.next_finish()
    moved: list[object] = []
    enter = Tree.enter
    monkeypatch.setattr(Tree, "enter", lambda tree, flow, t: (moved.append(flow.name), enter(tree, flow, t)))

    fluid.open(1.0, (7, 1), 100.0, 6.0, via="home 7", radio=8.0)

    assert moved == [(7, 1)]
    assert set(fluid.rates(1.0).values()) == {0.5}


On_air = tuple[list[Opening], float | Rate, dict[str, SharedLink], Back | None]


@st.composite
def airs(draw: st.DrawFn) -> On_air:
    """Wi-Fi at the root and behind a line, which one or both directions use.

    A flow there is bounded by its radio, and some by a window or slow start.
    """
    shared = {
        "dsl": SharedLink(draw(of_rates(1, 20))),
        "a": SharedLink(1.0, draw(st.sampled_from([None, "dsl"])), airtime=True),
        "b": SharedLink(draw(st.sampled_from([0.25, 0.5, 1.0])), "dsl", airtime=True),
    }
    openings: list[Opening] = []
    both = draw(st.booleans())
    for _ in range(draw(st.integers(1, 7))):
        radio = as_rate(draw(of_rates(1, 30)))
        bounds = [radio, radio.under(draw(st.sampled_from([0.5, 2.0, 6.0]))), Ramp(radio, 0.0, 0.25, 0.5)]
        weight, via = draw(st.sampled_from([1.0, 1.0, 0.5, 3.0])), draw(st.sampled_from([None, "dsl", "a", "a", "b"]))
        cap, turned = draw(st.sampled_from(bounds)), both and draw(st.booleans())
        openings.append(Opening(0.0, draw(st.floats(1, 40)), cap, weight, via, radio, turned))
    other = draw(of_rates(1, 40)), {**shared, "dsl": SharedLink(draw(of_rates(1, 20)))}
    return openings, draw(of_rates(1, 40)), shared, other if both else None


@pytest.mark.slow
@settings(few, max_examples=40)
@given(airs())
def test_airtime_is_shared_fairly_at_each_instant(case: On_air) -> None:
    """At each instant max-min by its certificate, which only one sharing has; and each carries what its rates say.

    All rates change at quarters of a second.
    """
    openings, capacity, shared, back = case
    fluid = Fluid(capacity, shared, back)
    for i, opening in enumerate(openings):
        fluid.open(0.0, i, *opening[1:])
    carried = dict.fromkeys(range(len(openings)), 0.0)
    while carried and fluid.now < 8:
        now, rates = fluid.now, fluid.rates(fluid.now)
        is_max_min(rates, openings, capacity, shared, back, now)
        stop = min(max(fluid.next_finish(), now), (math.floor(now * 4) + 1) / 4)
        ended = fluid.advance(stop)
        carried = {flow: done + rates[flow] * (stop - now) for flow, done in carried.items()}
        for flow in ended:
            assert carried.pop(int(str(flow))) == pytest.approx(openings[int(str(flow))].nbytes, rel=1e-9)
    for flow, done in carried.items():
        assert fluid.carried(fluid.now, flow) == pytest.approx(done, rel=1e-9)

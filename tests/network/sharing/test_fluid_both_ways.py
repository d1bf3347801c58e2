"""Air that both directions share (Wi-Fi is half duplex), below links that each direction has for itself."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.sharing.flow import SharedLink
from network.sharing.fluid import Fluid
from tests.network.sharing.naive_cases import (
    Both,
    acting,
    agrees_with_the_definition,
    both_ways,
    few,
    is_max_min,
    many,
    opened,
    play,
)
from tests.network.sharing.naive_sharing import Act, Opening, links_of, route, value

MB = 1e6  # bytes
WIDE = 1e12  # bytes/s
WIFI = {"wifi": SharedLink(1.0, airtime=True)}

# --- by hand ----------------------------------------------------------------------------------------------


def test_a_download_and_an_upload_take_turns_on_air() -> None:
    """20 Mbit/s are 2.5 MB/s: 5 MB take 2 s alone, and two of them 4 s, whatever their directions."""
    for ways in itertools.product((False, True), repeat=2):
        openings = [Opening(0.0, 5 * MB, 2.5 * MB, via="wifi", back=back) for back in ways]
        assert play(openings, WIDE, WIFI, back=(WIDE, WIFI))[0] == {0: pytest.approx(4.0), 1: pytest.approx(4.0)}


@pytest.mark.parametrize("ways", list(itertools.product((False, True), repeat=3)))
def test_slow_and_fast_radios_have_equal_time_whatever_their_directions(ways: tuple[bool, ...]) -> None:
    fluid, radios = Fluid(WIDE, WIFI, (WIDE, WIFI)), (1 * MB, 6 * MB, 54 * MB)
    for station, (radio, back) in enumerate(zip(radios, ways, strict=True)):
        fluid.open(0.0, station, MB, radio, via="wifi", back=back)

    assert fluid.rates(0.0) == {i: pytest.approx(radio / 3, rel=1e-12) for i, radio in enumerate(radios)}


def test_a_wire_above_the_air_is_another_one_each_way() -> None:
    """Both have all of a line of 1 byte/s each way; 0.1 s of the air for each are enough."""
    shared = {"dsl": SharedLink(1.0), "wifi": SharedLink(1.0, "dsl", airtime=True)}
    openings = [Opening(0.0, 5.0, 10.0, via="wifi", back=back) for back in (False, True)]

    assert play(openings, WIDE, shared, back=(WIDE, shared))[0] == {0: 5.0, 1: 5.0}


def test_time_that_a_full_wire_leaves_goes_to_the_other_direction() -> None:
    """Radios of 10: 2 bytes/s down take 0.2 s, so that 8 go up; after its 20 bytes at 2.5 s, the first is alone."""
    shared = {"dsl": SharedLink(2.0), "wifi": SharedLink(1.0, "dsl", airtime=True)}
    fluid = Fluid(WIDE, shared, (WIDE, {**shared, "dsl": SharedLink(50.0)}))
    fluid.open(0.0, "down", 10.0, 10.0, via="wifi")
    fluid.open(0.0, "up", 20.0, 10.0, via="wifi", back=True)

    assert fluid.rates(0.0) == {"down": 2.0, "up": pytest.approx(8.0)}
    assert fluid.next_finish() == pytest.approx(2.5)
    assert fluid.advance(3.0) == ["up"]
    assert fluid.rates(3.0) == {"down": 2.0}


def test_the_air_and_the_wires_of_both_directions_may_all_be_full() -> None:
    """Radios of 2 and 20 up through 4, and of 20 down through 5: h s for the slow one, which carries 2 h.

    h + (4 - 2 h)/20 + 5/20 = 1, so h = 11/18.
    """
    shared = {"dsl": SharedLink(5.0), "wifi": SharedLink(1.0, "dsl", airtime=True)}
    fluid = Fluid(WIDE, shared, (WIDE, {**shared, "dsl": SharedLink(4.0)}))
    for name, radio, back in (("slow", 2.0, True), ("fast", 20.0, True), ("down", 20.0, False)):
        fluid.open(0.0, name, 10.0, radio, via="wifi", back=back)

    assert fluid.rates(0.0) == {
        "slow": pytest.approx(11 / 9, rel=1e-12),
        "fast": pytest.approx(25 / 9, rel=1e-12),
        "down": pytest.approx(5.0, rel=1e-12),
    }


def test_two_airs_meet_on_the_wires_of_both_directions() -> None:
    """5 bytes/s each way.  On a the slow radio of 2 sends up and the fast one of 20 down, on b the other way round.

    The slow ones have x s each: 2 x + 20 (1 - x) = 5, so x = 5/6.
    """
    shared = {"dsl": SharedLink(5.0), **{name: SharedLink(1.0, "dsl", airtime=True) for name in "ab"}}
    fluid = Fluid(WIDE, shared, (WIDE, shared))
    for via, slow in (("a", True), ("b", False)):
        fluid.open(0.0, ("slow", via), 10.0, 2.0, via=via, back=slow)
        fluid.open(0.0, ("fast", via), 10.0, 20.0, via=via, back=not slow)

    rates = {"slow": pytest.approx(5 / 3, rel=1e-12), "fast": pytest.approx(10 / 3, rel=1e-12)}
    assert fluid.rates(0.0) == {(what, via): rates[what] for what in rates for via in "ab"}


def test_cells_beside_a_wifi_are_shared_in_each_direction_for_itself() -> None:
    shared = {**WIFI, "cell": SharedLink(4.0)}
    fluid = Fluid(WIDE, shared, (WIDE, {**shared, "cell": SharedLink(3.0)}))
    for flow, back in enumerate((False, False, True, True)):
        fluid.open(0.0, flow, 10.0, 9.0, via="cell", back=back)

    assert fluid.rates(0.0) == {0: 2.0, 1: 2.0, 2: 1.5, 3: 1.5}


def test_directions_that_do_not_match_are_refused_by_name() -> None:
    for other in (
        {},
        {"wifi": SharedLink(1.0)},
        {"wifi": SharedLink(1.0, "dsl", airtime=True), "dsl": SharedLink(1.0)},
    ):
        with pytest.raises(ValueError, match="'wifi' needs a twin|'dsl' needs a twin"):
            Fluid(1.0, WIFI, (1.0, other))
    with pytest.raises(ValueError, match="'a' goes back; these links have one direction"):
        Fluid(1.0, WIFI).open(0.0, "a", 1.0, 1.0, back=True)


# --- laws -------------------------------------------------------------------------------------------------


@few
@given(both_ways(), acting, st.lists(st.floats(0, 6), max_size=4))
def test_it_agrees_with_the_definition_in_both_directions(case: Both, acts: list[Act], looks: list[float]) -> None:
    agrees_with_the_definition(case[:3], acts, looks, case[3])


@pytest.mark.slow
@many
@given(both_ways(), acting, st.lists(st.floats(0, 6), max_size=4))
def test_it_agrees_with_the_definition_in_both_directions_of_many_trees(
    case: Both, acts: list[Act], looks: list[float]
) -> None:
    agrees_with_the_definition(case[:3], acts, looks, case[3])


@few
@given(both_ways(), st.lists(st.sampled_from([1.0, 4.0, 5.0, 40.0]), min_size=7, max_size=7))
def test_shares_in_both_directions_are_max_min_fair(case: Both, radios: list[float]) -> None:
    """Also of radios that differ; of the air there is never more than there is, in both directions together."""
    openings, capacity, shared, back = case
    unlike = [each._replace(radio=each.radio and radio) for each, radio in zip(openings, radios, strict=False)]

    rates = opened(unlike, capacity, shared, back).rates(0.0)

    is_max_min(rates, unlike, capacity, shared, back)
    for place in ((False, "y"), (False, "z")):
        there = [i for i, each in enumerate(unlike) if place in route(each, shared)]
        used = sum(rates[i] / value(unlike[i].radio or 1.0, 0.0) for i in there)
        assert used <= value(links_of(capacity, shared, back)[place].capacity, 0.0) * (1 + 1e-12)


@few
@given(both_ways(), st.randoms(use_true_random=False))
def test_the_order_of_opening_at_one_instant_does_not_matter_in_both_directions(case: Both, chance: object) -> None:
    openings, capacity, shared, back = case
    together = [opening._replace(t=1.0) for opening in openings]
    order = list(range(len(together)))
    chance.shuffle(order)  # type: ignore[attr-defined]

    ends, _ = play(together, capacity, shared, back=back)
    shuffled, _ = play([together[flow] for flow in order], capacity, shared, back=back)

    assert {order[int(str(place))]: t for place, t in shuffled.items()} == {
        flow: pytest.approx(t, rel=1e-12) for flow, t in ends.items()
    }


@few
@given(both_ways())
def test_turned_round_all_is_the_same(case: Both) -> None:
    """Which direction is called back does not matter."""
    openings, capacity, shared, back = case
    turned = [opening._replace(back=not opening.back) for opening in openings]

    assert play(turned, *back, back=(capacity, shared))[0] == {
        flow: pytest.approx(t, rel=1e-12) for flow, t in play(openings, capacity, shared, back=back)[0].items()
    }

"""Laws of max-min sharing (docs/design/network.md §3), and a second, exact implementation to agree with."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.links.rate import Constant
from network.sharing.flow import Flow, LinkState
from network.sharing.fluid import Fluid
from network.sharing.hierarchy import Hierarchy
from tests.all_of import all_of

MB = 1e6  # bytes


class Opening(NamedTuple):
    t: float
    nbytes: float
    cap: float


def fluid_of(openings: list[Opening], capacity: float) -> Fluid:
    fluid = Fluid(capacity)
    for number, opening in sorted(enumerate(openings), key=lambda each: each[1].t):
        fluid.open(opening.t, number, opening.nbytes, opening.cap)
    return fluid


def ends(openings: list[Opening], capacity: float, looks: int = 0) -> dict[Hashable, float]:
    """When each flow ends, asking the fluid for one event after the other, and `looks` times in between."""
    fluid, pending = Fluid(capacity), sorted(enumerate(openings), key=lambda each: each[1].t)
    found: dict[Hashable, float] = {}
    while pending or fluid.next_finish() < math.inf:
        if pending and pending[0][1].t <= fluid.next_finish():
            number, opening = pending.pop(0)
            fluid.open(opening.t, number, opening.nbytes, opening.cap)
            continue
        until = fluid.next_finish()
        for t in [*(until - (until - fluid.now) / 2**look for look in range(1, looks + 1)), until]:
            found.update(dict.fromkeys(fluid.advance(t), t))
    return found


def exact_shares(caps: dict[int, Fraction], capacity: Fraction) -> dict[int, Fraction]:
    """Progressive filling: who wants less than an equal share gets it, the others divide the rest."""
    shares: dict[int, Fraction] = {}
    while len(shares) < len(caps):
        rest = {flow: cap for flow, cap in caps.items() if flow not in shares}
        equal = (capacity - sum(shares.values())) / len(rest)
        modest = {flow: cap for flow, cap in rest.items() if cap <= equal}
        shares.update(modest or dict.fromkeys(rest, equal))
    return shares


def exact_ends(openings: list[Opening], capacity: float) -> dict[Hashable, Fraction]:
    """The ends of all flows from the definition alone, in rationals, O(n^2)."""
    pending = sorted((Fraction(opening.t), number) for number, opening in enumerate(openings))
    left: dict[int, Fraction] = {}
    found: dict[Hashable, Fraction] = {}
    now = Fraction(0)
    while pending or left:
        rates = exact_shares({flow: Fraction(openings[flow].cap) for flow in left}, Fraction(capacity))
        until = min([now + left[flow] / rates[flow] for flow in left] + [t for t, _ in pending[:1]])
        left = {flow: nbytes - rates[flow] * (until - now) for flow, nbytes in left.items()}
        now = until
        for flow in [flow for flow, nbytes in left.items() if nbytes == 0]:
            found[flow] = now
            del left[flow]
        while pending and pending[0][0] == now:
            flow = pending.pop(0)[1]
            left[flow] = Fraction(openings[flow].nbytes)
    return found


def close_to(value: float | Fraction) -> object:
    return pytest.approx(float(value), rel=1e-12, abs=1e-12)


def rounding(openings: list[Opening]) -> float:
    """Bytes that floats may lose: V and what is left are sums as large as all the bytes there are."""
    return 16 * sys.float_info.epsilon * sum(opening.nbytes for opening in openings)


def nearly(ends: Mapping[Hashable, float | Fraction], openings: list[Opening], capacity: float) -> object:
    """These ends to 1e-12, and to what the slowest possible flow takes for the bytes lost in rounding."""
    slowest = min(capacity / len(openings), *(opening.cap for opening in openings))
    lost = rounding(openings) / slowest
    return {flow: pytest.approx(float(t), rel=1e-12, abs=1e-12 + lost) for flow, t in ends.items()}


whole = st.lists(  # numbers that meet often: equal caps, equal times, ends that fall together
    st.builds(
        Opening,
        t=st.integers(0, 12).map(lambda n: n / 4),
        nbytes=st.integers(0, 8).map(float),
        cap=st.integers(1, 8).map(float),
    ),
    min_size=1,
    max_size=8,
)
rough = st.lists(
    st.builds(Opening, t=st.floats(0, 30), nbytes=st.floats(0, 1e8), cap=st.floats(1e3, 1e7)),
    min_size=1,
    max_size=8,
)
capacities = st.integers(1, 20).map(float)
few = settings(max_examples=40, deadline=None, derandomize=True)
many = settings(max_examples=300, deadline=None, derandomize=True)


# --- by hand ----------------------------------------------------------------------------------------------


def test_one_megabyte_at_8_mbit_s_takes_one_second() -> None:
    assert ends([Opening(0.0, MB, 8e6 / 8)], capacity=1e9) == {0: 1.0}
    assert ends([Opening(0.0, MB, 1e9)], capacity=8e6 / 8) == {0: 1.0}
    assert ends([Opening(0.0, MB, 8e6 / 8)], capacity=8e6 / 8) == {0: 1.0}


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 49, 100])
@pytest.mark.parametrize("cap", [MB, 1e9])
def test_n_equal_flows_take_n_times_one(n: int, cap: float) -> None:
    fluid = fluid_of([Opening(0.0, MB, cap)] * n, capacity=MB)

    assert fluid.next_finish() == float(n)
    assert fluid.advance(float(n)) == list(range(n))


@pytest.mark.parametrize("n", [3, 100])
def test_n_equal_flows_take_n_times_one_late_in_a_run_too(n: int) -> None:
    openings = [Opening(86_400.1, MB, MB)] * n

    assert ends(openings, MB) == {flow: close_to(86_400.1 + n) for flow in range(n)}


def test_a_slow_flow_leaves_its_share_to_the_others() -> None:
    """10 bytes/s for caps 2, 20, 20: the slow one takes 2, the others 4 each; from 2 s on 5 each."""
    fluid = fluid_of([Opening(0.0, 4.0, 2.0), Opening(0.0, 18.0, 20.0), Opening(0.0, 28.0, 20.0)], 10.0)

    assert fluid.rates(0.0) == {0: 2.0, 1: 4.0, 2: 4.0}
    assert fluid.advance(2.0) == [0]
    assert fluid.rates(2.0) == {1: 5.0, 2: 5.0}
    assert fluid.advance(4.0) == [1]
    assert fluid.rates(4.0) == {2: 10.0}
    assert fluid.next_finish() == 5.0


def test_closing_a_flow_gives_what_it_carried_and_frees_its_share() -> None:
    fluid = fluid_of([Opening(0.0, 100.0, 50.0), Opening(0.0, 100.0, 50.0)], 10.0)

    assert fluid.close(4.0, 0) == 20.0
    assert fluid.rates(4.0) == {1: 10.0}
    assert fluid.next_finish() == 12.0
    assert fluid.advance(12.0) == [1]


def test_a_flow_closed_at_the_instant_it_ends_has_carried_everything_and_is_not_reported() -> None:
    fluid = fluid_of([Opening(0.0, 10.0, 5.0)], 10.0)

    assert fluid.close(2.0, 0) == 10.0
    assert fluid.advance(2.0) == []
    assert fluid.next_finish() == math.inf


def test_a_flow_of_no_bytes_ends_at_once() -> None:
    fluid = fluid_of([Opening(0.0, 30.0, 5.0), Opening(0.0, 30.0, 50.0)], 10.0)
    fluid.open(1.0, "empty", 0.0, 5.0)

    assert fluid.next_finish() == 1.0
    assert fluid.advance(1.0) == ["empty"]
    assert fluid.next_finish() > 1.0


def test_ends_are_reported_by_time_and_then_by_order_of_opening() -> None:
    fluid = Fluid(100.0)
    for name, nbytes, cap in [("late", 9.0, 3.0), ("b", 4.0, 2.0), ("a", 2.0, 1.0), ("early", 1.0, 1.0)]:
        fluid.open(0.0, name, nbytes, cap)

    assert fluid.advance(10.0) == ["early", "b", "a", "late"]


def test_ends_at_one_instant_are_in_order_of_opening_whether_at_their_cap_or_not() -> None:
    """3 bytes/s for caps 10 and 1: 2 and 1; so 4 and 2 bytes both take 2 s."""
    for names in (["wide", "narrow"], ["narrow", "wide"]):
        fluid = Fluid(3.0)
        for name in names:
            fluid.open(0.0, name, *{"wide": (4.0, 10.0), "narrow": (2.0, 1.0)}[name])
        assert fluid.advance(2.0) == names


def test_an_end_passed_over_by_another_call_is_reported_by_the_next_advance() -> None:
    fluid = fluid_of([Opening(0.0, 10.0, 5.0)], 10.0)
    fluid.open(7.0, "next", 10.0, 5.0)

    assert fluid.next_finish() == 7.0
    assert fluid.carried(7.0, 0) == 10.0
    assert fluid.advance(7.0) == [0]
    assert fluid.next_finish() == 9.0


def test_without_a_bound_of_the_server_each_runs_at_its_cap() -> None:
    assert ends([Opening(0.0, 8.0, 4.0), Opening(0.0, 8.0, 1.0)], math.inf) == {0: 2.0, 1: 8.0}


def test_a_name_is_free_once_its_end_is_reported() -> None:
    fluid = fluid_of([Opening(0.0, 10.0, 10.0)], 10.0)
    with pytest.raises(ValueError, match="open already"):
        fluid.open(0.5, 0, 1.0, 1.0)
    with pytest.raises(ValueError, match="open already"):
        fluid.open(1.5, 0, 1.0, 1.0)

    fluid.advance(1.5)
    fluid.open(1.5, 0, 10.0, 10.0)

    assert fluid.next_finish() == 2.5


def test_time_does_not_go_back() -> None:
    fluid = fluid_of([Opening(2.0, 10.0, 1.0)], 10.0)
    for step in (
        lambda: fluid.advance(1.9),
        lambda: fluid.open(1.9, "b", 1.0, 1.0),
        lambda: fluid.close(1.9, 0),
        lambda: fluid.carried(1.9, 0),
        lambda: fluid.rates(1.9),
        lambda: fluid.advance(math.nan),
        lambda: fluid.advance(math.inf),
    ):
        with pytest.raises(ValueError, match="time must not go back"):
            step()
    assert fluid.now == 2.0


def test_what_cannot_be_carried_is_refused_with_its_value() -> None:
    fluid = Fluid(1.0)
    for nbytes in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"{nbytes} bytes"):
            fluid.open(0.0, "a", nbytes, 1.0)
    for cap in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"cap of {cap} bytes/s"):
            fluid.open(0.0, "a", 1.0, cap)
    for capacity in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=f"capacity is {capacity} bytes/s"):
            Fluid(capacity)
    for question in (fluid.close, fluid.carried):
        with pytest.raises(ValueError, match="'nobody' is not open"):
            question(0.0, "nobody")


def test_many_openings_at_one_instant_are_one_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    fluid, solve = Fluid(10.0), Hierarchy._solve
    solves: list[int] = []

    def counted(hierarchy: Hierarchy) -> None:
        solves.append(1)
        solve(hierarchy)

    monkeypatch.setattr(Hierarchy, "_solve", counted)
    for flow in range(50):
        fluid.open(3.0, flow, 1.0, 1.0)
    fluid.next_finish()
    fluid.next_finish()

    assert len(solves) == 1


# --- laws -------------------------------------------------------------------------------------------------


def agrees_with_the_definition(openings: list[Opening], capacity: float) -> None:
    found, wanted = ends(openings, capacity), exact_ends(openings, capacity)
    assert found.keys() == wanted.keys()
    assert found == nearly(wanted, openings, capacity)


def shares_are_max_min_fair(openings: list[Opening], capacity: float) -> None:
    """No link above capacity; each flow at its cap, or at the highest rate of a link that is full."""
    fluid = fluid_of(openings, capacity)
    rates = fluid.rates(fluid.now)
    total = sum(rates.values())
    assert total <= capacity * (1 + 1e-12)
    for flow, rate in rates.items():
        at_cap = rate == openings[int(str(flow))].cap
        assert at_cap or (total == close_to(capacity) and rate == max(rates.values()))
        assert rate <= openings[int(str(flow))].cap


def bytes_are_conserved(openings: list[Opening], capacity: float) -> None:
    """Each flow carries what its rates say, and all of its bytes by its end.

    To the rounding of sums of all bytes, and of time: an end at 16 s is known to 4e-15 s, and the bytes to
    that times the rate.
    """
    fluid = fluid_of(openings, capacity)
    for _ in range(2 * len(openings)):
        due, rates = fluid.next_finish(), fluid.rates(fluid.now)
        fluid.advance(fluid.now)
        if not (rates and due > fluid.now):
            continue
        half = (due - fluid.now) / 2
        before = {flow: fluid.carried(fluid.now, flow) for flow in rates}
        fine = {flow: rounding(openings) + 4 * math.ulp(due) * rate for flow, rate in rates.items()}
        for flow, rate in rates.items():
            there = fluid.carried(fluid.now + half, flow)
            assert there == pytest.approx(before[flow] + rate * half, rel=1e-12, abs=fine[flow])
        for flow in fluid.advance(due):
            last = before[flow] + rates[flow] * 2 * half
            assert last == pytest.approx(openings[int(str(flow))].nbytes, rel=1e-12, abs=fine[flow])
    assert fluid.next_finish() == math.inf


@few
@given(whole, capacities)
def test_it_agrees_with_the_definition(openings: list[Opening], capacity: float) -> None:
    agrees_with_the_definition(openings, capacity)


@few
@given(rough, st.floats(1e3, 1e8))
def test_shares_are_max_min_fair(openings: list[Opening], capacity: float) -> None:
    shares_are_max_min_fair(openings, capacity)


@few
@given(rough, st.floats(1e3, 1e8))
def test_bytes_are_conserved(openings: list[Opening], capacity: float) -> None:
    bytes_are_conserved(openings, capacity)


@pytest.mark.slow
@many
@given(whole, capacities)
def test_it_agrees_with_the_definition_on_many_whole_cases(openings: list[Opening], capacity: float) -> None:
    agrees_with_the_definition(openings, capacity)
    shares_are_max_min_fair(openings, capacity)
    bytes_are_conserved(openings, capacity)


@pytest.mark.slow
@settings(many)
@given(rough, st.floats(1e3, 1e8))
def test_it_agrees_with_the_definition_on_many_rough_cases(openings: list[Opening], capacity: float) -> None:
    agrees_with_the_definition(openings, capacity)
    shares_are_max_min_fair(openings, capacity)
    bytes_are_conserved(openings, capacity)


@few
@given(rough, st.floats(1e3, 1e8), st.randoms(use_true_random=False))
def test_the_order_of_opening_at_one_instant_does_not_matter(
    openings: list[Opening], capacity: float, chance: object
) -> None:
    together = [opening._replace(t=1.0) for opening in openings]
    order = list(range(len(together)))
    chance.shuffle(order)  # type: ignore[attr-defined]

    shuffled = ends([together[flow] for flow in order], capacity)

    assert {order[int(str(place))]: t for place, t in shuffled.items()} == ends(together, capacity)


@few
@given(st.floats(0, 1e6), st.floats(1, 1e9), st.floats(1, 1e9), st.floats(1, 1e9))
def test_more_capacity_never_makes_a_single_flow_later(nbytes: float, cap: float, one: float, two: float) -> None:
    opening = Opening(0.0, nbytes, cap)

    assert ends([opening], max(one, two))[0] <= ends([opening], min(one, two))[0]


@few
@given(rough, st.floats(1e3, 1e8), st.floats(0, 60))
def test_asking_changes_nothing(openings: list[Opening], capacity: float, later: float) -> None:
    asked, left_alone = fluid_of(openings, capacity), fluid_of(openings, capacity)
    for flow in asked.rates(asked.now):
        asked.carried(asked.now + later, flow)
    asked.rates(asked.now + later)

    while (t := asked.next_finish()) < math.inf:
        assert left_alone.next_finish() == t
        assert left_alone.advance(t) == asked.advance(t)


def test_looking_ever_closer_to_an_end_does_not_put_it_off() -> None:
    """The last steps carry less than the rounding of the 1e8 bytes before them; they must not be lost."""
    fluid = fluid_of([Opening(0.0, 1e8, 10.0), Opening(0.0, 1e8 + 7, 10.0)], capacity=3.0)
    due = fluid.next_finish()

    for look in range(1, 200):
        fluid.advance(min(math.nextafter(due, 0.0), due - due / 2**look))
        assert fluid.next_finish() == due
    assert fluid.advance(due) == [0]


@few
@given(rough, st.floats(1e3, 1e8), st.integers(1, 20))
def test_looking_more_often_changes_no_end(openings: list[Opening], capacity: float, looks: int) -> None:
    assert ends(openings, capacity, looks) == ends(openings, capacity)


@pytest.mark.slow
def test_sixty_flows_of_many_rates_agree_with_the_definition() -> None:
    openings = [Opening(n * n % 17 / 4, float(7 * n % 41), float(1 + 5 * n % 13)) for n in range(60)]

    agrees_with_the_definition(openings, capacity=100.0)


@few
@given(rough, st.floats(1e3, 1e8), st.floats(1e6, 1e9))
def test_every_question_brings_it_forward_even_where_an_instant_is_coarse(
    openings: list[Opening], capacity: float, start: float
) -> None:
    """At 1e9 s two floats are 1.2e-7 s apart: leftover bytes must not fall due at one instant for ever."""
    fluid = fluid_of([opening._replace(t=start + opening.t) for opening in openings], capacity)
    reported = fluid.advance(fluid.now)
    for _ in openings:
        if fluid.next_finish() < math.inf:
            ended = fluid.advance(fluid.next_finish())
            assert ended
            reported += ended
    assert sorted(reported, key=str) == [*range(len(openings))]


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_flows_whose_own_links_just_fill_a_shared_one_are_bounded_by_their_own(n: int) -> None:
    """Each has a cap of just its share.  It makes no difference to rates, but a flow that its own link bounds needs no
    look when another one comes or goes."""
    link = LinkState(None, Constant(n * MB), None)
    link.above, link.below = (link,), [link]
    shared = Hierarchy([link], 0.0)
    flows = [Flow(number, number, MB, Constant(MB), 1.0, None, (link,), MB) for number in range(n)]
    for flow in flows:
        shared.enter(flow, 0.0)
    assert set(shared.rates(0.0).values()) == {MB}
    assert all_of(flow.capped for flow in flows)

"""Laws of sharing on trees (docs/design/network.md §3), and a second, exact implementation to agree with."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.links.rate import Rate
from network.links.trace import Trace
from network.sharing.flow import SharedLink
from tests.network.sharing.naive_cases import (
    acting,
    agrees_with_the_definition,
    cases,
    few,
    is_max_min,
    many,
    opened,
    play,
)
from tests.network.sharing.naive_sharing import Act, Opening, Steps, value

# --- laws -------------------------------------------------------------------------------------------------


@few
@given(cases(), acting, st.lists(st.floats(0, 6), max_size=4))
def test_it_agrees_with_the_definition_on_trees(
    case: tuple[list[Opening], float | Rate, dict[str, SharedLink]], acts: list[Act], looks: list[float]
) -> None:
    agrees_with_the_definition(case, acts, looks)


@pytest.mark.slow
@many
@given(cases(), acting, st.lists(st.floats(0, 6), max_size=4))
def test_it_agrees_with_the_definition_on_many_trees(
    case: tuple[list[Opening], float | Rate, dict[str, SharedLink]], acts: list[Act], looks: list[float]
) -> None:
    agrees_with_the_definition(case, acts, looks)


@few
@given(cases())
def test_shares_on_trees_are_max_min_fair(case: tuple[list[Opening], float | Rate, dict[str, SharedLink]]) -> None:
    is_max_min(opened(*case).rates(0.0), *case)


@few
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_opening_at_one_instant_does_not_matter_on_trees(
    case: tuple[list[Opening], float | Rate, dict[str, SharedLink]], chance: object
) -> None:
    openings, capacity, shared = case
    together = [opening._replace(t=1.0) for opening in openings]
    order = list(range(len(together)))
    chance.shuffle(order)  # type: ignore[attr-defined]

    ends, _ = play(together, capacity, shared)
    shuffled, _ = play([together[flow] for flow in order], capacity, shared)

    assert {order[int(str(place))]: t for place, t in shuffled.items()} == {
        flow: pytest.approx(t, rel=1e-12) for flow, t in ends.items()
    }


@few
@given(cases(), st.floats(0, 8))
def test_bytes_are_conserved_on_trees(
    case: tuple[list[Opening], float | Rate, dict[str, SharedLink]], later: float
) -> None:
    """Between two events a flow carries its rate times the time; by its end it has carried all its bytes."""
    openings, capacity, shared = case
    fluid = opened(openings, capacity, shared)
    done = dict.fromkeys(range(len(openings)), 0.0)
    edges = sorted(
        {t / 8 for t in range(160)} | {later}
    )  # all steps are at quarters, so that rates change there or where a flow ends
    for until in edges[1:]:
        while fluid.now < until:
            rates, stop = fluid.rates(fluid.now), min(max(fluid.next_finish(), fluid.now), until)
            for flow, rate in rates.items():
                done[int(str(flow))] += rate * (stop - fluid.now)
            for flow in fluid.advance(stop):
                assert done.pop(int(str(flow))) == pytest.approx(openings[int(str(flow))].nbytes + 1, rel=1e-9)
            for flow in fluid.rates(stop):
                assert fluid.carried(stop, flow) == pytest.approx(done[int(str(flow))], rel=1e-9, abs=1e-9)


@few
@given(cases(), st.floats(1, 4))
def test_more_capacity_never_makes_a_single_flow_later_on_trees(
    case: tuple[list[Opening], float | Rate, dict[str, SharedLink]], more: float
) -> None:
    openings, capacity, shared = case

    def ends(factor: float) -> float:
        def times(rate: float | Rate) -> float | Rate:
            if isinstance(rate, Steps):
                return Steps(rate.times, tuple(each * factor for each in rate.values))
            if isinstance(rate, Trace):
                return rate.scaled(factor)
            return value(rate, 0.0) * factor

        wider = {name: link._replace(capacity=times(link.capacity)) for name, link in shared.items()}
        return play(openings[:1], times(capacity), wider)[0][0]

    assert ends(more) <= ends(1.0) * (1 + 1e-12)


@few
@given(cases(), st.floats(0, 10))
def test_asking_trees_changes_nothing(
    case: tuple[list[Opening], float | Rate, dict[str, SharedLink]], later: float
) -> None:
    asked, left_alone = opened(*case), opened(*case)
    for flow in asked.rates(0.0):
        asked.carried(later, flow)
    asked.rates(later)

    while (t := asked.next_finish()) < math.inf:
        assert left_alone.next_finish() == t
        assert left_alone.advance(t) == asked.advance(t)

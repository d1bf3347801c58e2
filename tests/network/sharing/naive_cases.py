"""Random trees, flows and acts, and what any sharing of them must keep to."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from network.links.ramp import Ramp
from network.links.rate import Constant, Rate
from network.links.trace import Trace
from network.sharing.flow import SharedLink
from network.sharing.fluid import Back, Fluid
from tests.network.sharing.naive_sharing import Act, Naive, Opening, Steps, links_of, route, value

few = settings(max_examples=20, deadline=None, derandomize=True)
many = settings(max_examples=40, deadline=None, derandomize=True)


def steps(values: st.SearchStrategy[float]) -> st.SearchStrategy[Steps]:
    """Up to six values, each for a quarter of a second or some more; the last is positive, so that all ends."""
    return st.builds(
        lambda gaps, first, last: Steps(
            (0.0, *(sum(gaps[: i + 1]) / 4 for i in range(len(gaps)))), (*first[: len(gaps)], last)
        ),
        st.lists(st.integers(1, 8), max_size=5),
        st.lists(values, min_size=5, max_size=5),
        values.filter(lambda value: value > 0),
    )


def recorded(values: st.SearchStrategy[float]) -> st.SearchStrategy[Trace]:
    """Repeats; up to four values for a quarter of a second or more each, not all 0."""
    return (
        st.lists(st.tuples(st.integers(1, 8), values), min_size=1, max_size=4)
        .filter(lambda few: any(v for _, v in few))
        .map(
            lambda few: Trace(
                np.cumsum([0.0, *(gap / 4 for gap, _ in few)]), np.array([each for _, each in few]), "down", "capacity"
            )
        )
    )


def of_rates(low: float, high: float) -> st.SearchStrategy[float | Rate]:
    whole = st.integers(int(low), int(high)).map(float)
    return st.one_of(whole.filter(lambda value: value > 0), steps(whole), recorded(whole))


def of_caps(low: float, high: float) -> st.SearchStrategy[float | Rate]:
    """Rates, also under slow start: a window of 1/8 or 1/2 byte at first, and round trips of 1/4 or 1/2 s."""
    slow = st.builds(
        lambda link, begin, rtt, window: Ramp(Constant(link) if isinstance(link, float) else link, begin, rtt, window),
        of_rates(low, high),
        st.integers(0, 6).map(lambda n: n / 4),
        st.sampled_from([0.25, 0.5]),
        st.sampled_from([0.125, 0.5]),
    )
    return st.one_of(of_rates(low, high), slow)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, SharedLink]:
    names = "abcd"[: draw(st.integers(0, 4))]
    return {
        name: SharedLink(draw(of_rates(0, 15)), draw(st.sampled_from([None, *names[:i]])))
        for i, name in enumerate(names)
    }


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Opening], float | Rate, dict[str, SharedLink]]:
    shared = draw(trees())
    opening = st.builds(
        Opening,
        t=st.integers(0, 12).map(lambda n: n / 4),
        nbytes=st.integers(0, 12).map(float),
        cap=of_caps(0, 8),
        weight=st.sampled_from([1.0, 1.0, 0.5, 3.0]),
        via=st.sampled_from([None, *shared]),
        radio=st.none(),
        back=st.just(False),
    )
    return draw(st.lists(opening, min_size=1, max_size=7)), draw(of_rates(0, 20)), shared


Both = tuple[list[Opening], float | Rate, dict[str, SharedLink], Back]


@st.composite
def both_ways(draw: st.DrawFn) -> Both:
    """Trees with air at which flows of both directions meet; on one air all have one radio and one weight."""
    wires = draw(trees())
    parents = st.sampled_from([None, *wires])
    air = {name: SharedLink(draw(st.sampled_from([1.0, 0.5])), draw(parents), airtime=True) for name in "yz"}
    back = {name: each._replace(capacity=draw(of_rates(0, 15))) for name, each in wires.items()}
    speeds = {name: (draw(st.sampled_from([1.0, 0.5, 3.0])), draw(st.sampled_from([2.0, 5.0, 8.0]))) for name in air}
    openings: list[Opening] = []
    for _ in range(draw(st.integers(1, 7))):
        via = draw(st.sampled_from([None, *wires, "y", "y", "z"]))
        weight, radio = speeds.get(str(via), (draw(st.sampled_from([1.0, 0.5, 3.0])), None))
        at, nbytes = draw(st.integers(0, 12)) / 4, float(draw(st.integers(0, 12)))
        openings.append(Opening(at, nbytes, draw(of_caps(0, 8)), weight, via, radio, draw(st.booleans())))
    return openings, draw(of_rates(0, 20)), wires | air, (draw(of_rates(0, 20)), back | air)


acting = st.lists(
    st.builds(
        Act,
        t=st.integers(0, 20).map(lambda n: n / 4 + 0.125),
        what=st.just("close"),
        flow=st.integers(0, 6),
    ),
    max_size=8,
)


def play(
    openings: Sequence[Opening],
    capacity: float | Rate,
    shared: Mapping[str, SharedLink],
    acts: Sequence[Act] = (),
    looks: Sequence[float] = (),
    back: Back | None = None,
) -> tuple[dict[Hashable, float], dict[Hashable, float]]:
    """When each flow ends, and what those that were closed had carried: as a clock would drive it."""
    fluid = Fluid(capacity, shared, back)
    todo = [Act(opening.t, "open", number) for number, opening in enumerate(openings)]
    todo = sorted([*todo, *acts, *(Act(t, "look", 0) for t in looks)], key=lambda act: act.t)
    ends: dict[Hashable, float] = {}
    closed: dict[Hashable, float] = {}
    states: dict[int, str] = {}
    while todo or fluid.next_finish() < math.inf:
        due = fluid.next_finish()
        if todo and todo[0].t < due:
            t, what, flow = todo.pop(0)
            state = states.get(flow)
            if what == "open":
                fluid.open(t, flow, *openings[flow][1:])
                states[flow] = "open"
            elif what == "close" and state == "open":
                closed[flow] = fluid.close(t, flow)
                states[flow] = "closed"
            elif what == "look":
                assert fluid.advance(t) == []
            continue
        for name in fluid.advance(due):
            ends[name] = due
            states[int(str(name))] = "ended"
    return ends, closed


def sane(openings: Sequence[Opening], acts: Sequence[Act]) -> list[Act]:
    """The first that closes each flow, if that is open by then."""
    kept: dict[int, Act] = {}
    for act in sorted(acts, key=lambda act: act.t):
        if act.flow < len(openings) and act.t > openings[act.flow].t:
            kept.setdefault(act.flow, act)
    return sorted(kept.values(), key=lambda act: act.t)


def near(found: Mapping[Hashable, float], wanted: Mapping[int, Fraction]) -> bool:
    return found == {flow: pytest.approx(float(t), rel=1e-9, abs=1e-9) for flow, t in wanted.items()}


def agrees_with_the_definition(
    case: tuple[list[Opening], float | Rate, dict[str, SharedLink]],
    acts: Sequence[Act],
    looks: Sequence[float],
    back: Back | None = None,
) -> None:
    openings, capacity, shared = case
    kept = sane(openings, acts)
    ends, closed = Naive(openings, capacity, shared, back).play(kept)
    found = play(openings, capacity, shared, kept, looks, back)
    assert near(found[0], ends)
    assert near(found[1], closed)


def opened(
    openings: Sequence[Opening], capacity: float | Rate, shared: Mapping[str, SharedLink], back: Back | None = None
) -> Fluid:
    fluid = Fluid(capacity, shared, back)
    for number, opening in enumerate(openings):
        fluid.open(0.0, number, opening.nbytes + 1, *opening[2:])
    return fluid


def is_max_min(
    rates: Mapping[Hashable, float],
    openings: Sequence[Opening],
    capacity: float | Rate,
    shared: Mapping[str, SharedLink],
    back: Back | None = None,
    t: float = 0.0,
) -> None:
    """No link above capacity; each flow at its cap, or on a full link where nobody has more for its weight.

    Of airtime a flow uses its rate over its radio; on one air all have their mean weight, there and above.
    """
    flows = [int(str(name)) for name in rates]
    speeds = {i: value(radio, t) for i in flows if (radio := openings[i].radio) is not None}
    weights = {i: openings[i].weight for i in flows}
    for name, link in shared.items():
        if link.airtime and (there := [i for i in flows if openings[i].via == name]):
            weights.update(dict.fromkeys(there, sum(weights[i] for i in there) / len(there)))
    bounds = {i: min(value(openings[i].cap, t), speeds.get(i, math.inf)) for i in flows}
    excused = {i for i in flows if rates[i] >= bounds[i] * (1 - 1e-12)}
    for place, link in links_of(capacity, shared, back).items():
        there = [i for i in flows if place in route(openings[i], shared)]
        cost = {i: (1 / speeds[i] if speeds[i] else 0.0) if link.airtime else 1.0 for i in there}
        used, most = sum(rates[i] * cost[i] for i in there), value(link.capacity, t)
        assert used <= most * (1 + 1e-12)
        if there and used >= most * (1 - 1e-9):
            height = {i: rates[i] * cost[i] / weights[i] for i in there}
            excused |= {i for i in there if height[i] >= max(height.values()) * (1 - 1e-9)}
    assert excused == set(flows)

"""Sharing on trees, with rates that vary, pauses and aborts: by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping

import numpy as np
import pytest

from network.links.ramp import Ramp
from network.links.rate import Constant, Rate
from network.links.trace import Trace
from network.sharing.bottleneck import Bottleneck
from network.sharing.flow import SharedLink
from network.sharing.fluid import Fluid
from network.sharing.level import layout, on_wires
from network.sharing.lookahead import Course
from network.sharing.tree import Tree
from tests.network.sharing.naive_cases import play
from tests.network.sharing.naive_sharing import Floats, Opening, Steps

MB = 1e6  # bytes

# --- by hand ----------------------------------------------------------------------------------------------


def test_a_cell_that_is_full_leaves_the_rest_of_the_server_to_others() -> None:
    """Server 10, cell 4 with two phones, one on a wire: 2, 2 and 6 bytes/s."""
    fluid = Fluid(10.0, {"cell": SharedLink(4.0)})
    fluid.open(0.0, "a", 10.0, 9.0, via="cell")
    fluid.open(0.0, "b", 20.0, 9.0, via="cell")
    fluid.open(0.0, "wire", 60.0, 9.0)

    assert fluid.rates(0.0) == {"a": 2.0, "b": 2.0, "wire": 6.0}
    assert fluid.advance(5.0) == ["a"]
    assert fluid.rates(5.0) == {"b": 4.0, "wire": 6.0}
    assert fluid.next_finish() == 7.5
    assert fluid.advance(7.5) == ["b"]
    assert fluid.rates(7.5) == {"wire": 9.0}


@pytest.mark.parametrize("shared", [{}, {"cell": SharedLink(100.0), "mast": SharedLink(11.0, "cell")}])
@pytest.mark.parametrize("server", [12.0, Steps((0.0, 50.0), (12.0, 1.0))])
def test_flows_without_a_bound_of_their_own_share_what_the_others_leave(
    shared: dict[str, SharedLink], server: float | Rate
) -> None:
    """Caps 2, none and none on 12 (or 11 below a mast): 2, 5, 5 (or 2, 4.5, 4.5)."""
    fluid = Fluid(server, shared)
    caps: list[float | Rate] = [2.0, Constant(math.inf), Constant(math.inf)]
    for flow, cap in enumerate(caps):
        fluid.open(0.0, flow, 10.0, cap, via="mast" if shared else None)

    assert fluid.rates(0.0) == ({0: 2.0, 1: 4.5, 2: 4.5} if shared else {0: 2.0, 1: 5.0, 2: 5.0})


def test_weights_divide_what_is_shared() -> None:
    fluid = Fluid(12.0)
    fluid.open(0.0, "near", 18.0, 100.0, weight=3.0)
    fluid.open(0.0, "far", 12.0, 100.0, weight=1.0)

    assert fluid.rates(0.0) == {"near": 9.0, "far": 3.0}
    assert fluid.advance(2.0) == ["near"]
    assert fluid.next_finish() == 2.5


def test_a_flow_on_a_trace_ends_by_its_integral_with_one_look() -> None:
    """2 bytes/s for 1 s, nothing for 30 s, then 4: the 10 bytes take 33 s, whatever the number of samples."""
    fluid = Fluid(100.0)
    fluid.open(0.0, "a", 10.0, Steps((0.0, 1.0, 31.0), (2.0, 0.0, 4.0)))

    assert fluid.next_finish() == 33.0
    assert fluid.carried(2.0, "a") == 2.0
    assert fluid.advance(33.0) == ["a"]


def test_a_server_whose_rate_varies_is_shared_at_each_instant() -> None:
    """10 bytes/s for 1 s, then 2: both carry 5 by 1 s, and 1 a second after."""
    fluid = Fluid(Steps((0.0, 1.0), (10.0, 2.0)))
    fluid.open(0.0, "a", 7.0, 100.0)
    fluid.open(0.0, "b", 8.0, 100.0)

    assert play([Opening(0, 7, 100.0), Opening(0, 8, 100.0)], Steps((0.0, 1.0), (10.0, 2.0)), {})[0] == {0: 3.0, 1: 3.5}
    assert fluid.rates(0.0) == {"a": 5.0, "b": 5.0}
    assert fluid.rates(1.0) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize("shared", [{}, {"cell": SharedLink(10.0), "mast": SharedLink(11.0, "cell")}])
def test_slow_start_leaves_its_share_to_others_and_waits_for_nothing(shared: dict[str, SharedLink]) -> None:
    """By hand (docs/design/network.md §1): windows of 1, 2, 4 ... bytes every half second are 2, 4, 8 ... bytes/s.

    Of 10 bytes/s the other has 8, then 6, and from the third round trip on both have 5.  12 bytes end at 2 s, by when
    the slow one has carried 1 + 2 + 5; its last 10 have the link alone.  Round trips above 5 bytes/s are no events.
    """
    fluid, looks = Fluid(1e9 if shared else 10.0, shared), []
    via = "mast" if shared else None
    fluid.open(0.0, "fast", 12.0, 100.0, via=via)
    fluid.open(0.0, "slow", 18.0, Ramp(Constant(100.0), 0.0, 0.5, 1.0), via=via)

    for t, slow, fast in ((0.0, 2.0, 8.0), (0.5, 4.0, 6.0), (1.0, 5.0, 5.0), (1.5, 5.0, 5.0)):
        assert fluid.rates(t) == {"fast": fast, "slow": slow}
    while (due := fluid.next_finish()) < math.inf:
        looks.append((due, fluid.advance(due)))
    assert [look for look in looks if look[1]] == [(2.0, ["fast"]), (3.0, ["slow"])]
    assert shared or [due for due, _ in looks] == [0.5, 1.0, 2.0, 3.0]


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When each plan of a tree was made."""
    made: list[float] = []
    plan = Tree._plan

    def counted(tree: Tree) -> Course:
        made.append(tree._now)
        return plan(tree)

    monkeypatch.setattr(Tree, "_plan", counted)
    return made


def test_who_goes_where_all_have_what_they_can_use_changes_no_plan(plans: list[float]) -> None:
    """Four flows of 1 byte/s on links that carry 4 or more: two end, one is closed, and nobody looks anew."""
    wide, air = Steps((0.0, 0.5), (5.0, 4.0)), Steps((0.0, 0.5), (1.0, 0.8))
    fluid = Fluid(wide, {"cell": SharedLink(air, airtime=True)})
    for flow, nbytes in enumerate((1.0, 2.0, 9.0, 3.0)):
        fluid.open(0.0, flow, nbytes, 1.0, via="cell", radio=5.0)

    assert fluid.advance(1.0) == [0]
    assert fluid.advance(2.0) == [1]
    assert fluid.close(2.5, 2) == 2.5
    assert fluid.next_finish() == 3.0
    assert fluid.advance(3.0) == [3]
    assert plans == [0.0]


def test_many_openings_at_one_instant_are_one_plan_of_a_tree(plans: list[float]) -> None:
    fluid = Fluid(10.0, {"cell": SharedLink(1.0, airtime=True)})
    for flow in range(50):
        fluid.open(3.0, flow, 1.0, 1.0, via="cell", radio=5.0)
    fluid.next_finish()
    fluid.next_finish()

    assert plans == [3.0]


@pytest.mark.parametrize("n", [1, 3, 7, 10])
def test_n_equal_flows_below_a_cell_take_n_times_one(n: int) -> None:
    ends, _ = play([Opening(0.0, MB, MB, via="cell")] * n, 1e9, {"cell": SharedLink(MB)})

    assert ends == {flow: pytest.approx(n, rel=1e-12) for flow in range(n)}


def test_one_megabyte_at_8_mbit_s_takes_one_second_wherever_the_bound_is() -> None:
    rate = 8e6 / 8
    kinds: list[Callable[[float], float | Rate]] = [float, Constant, lambda each: Steps((0.0, 0.25), (each, each))]
    for capacity, cell, cap in ((rate, 1e9, 1e9), (1e9, rate, 1e9), (1e9, 1e9, rate), (rate, rate, rate)):
        for kind in kinds:
            ends, _ = play([Opening(0.0, MB, kind(cap), via="cell")], kind(capacity), {"cell": SharedLink(kind(cell))})
            assert ends == {0: 1.0}


def test_links_that_are_no_tree_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'a' is below itself"):
        Fluid(1.0, {"a": SharedLink(1.0, "b"), "b": SharedLink(1.0, "a")})
    with pytest.raises(ValueError, match="'a' has the parent 'x'"):
        Fluid(1.0, {"a": SharedLink(1.0, "x")})
    with pytest.raises(ValueError, match="'a' has a capacity of 0"):
        Fluid(1.0, {"a": SharedLink(0)})
    with pytest.raises(ValueError, match="'b' is below 'a', whose airtime"):
        Fluid(1.0, {"a": SharedLink(1.0, airtime=True), "b": SharedLink(1.0, "a")})
    fluid = Fluid(1.0, {"a": SharedLink(1.0)})
    with pytest.raises(ValueError, match="via 'x'; the shared links are \\['a'\\]"):
        fluid.open(0.0, 0, 1.0, 1.0, via="x")
    for weight in (0.0, 1e-4, 1e10, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"weight of {weight}"):
            fluid.open(0.0, 0, 1.0, 1.0, weight=weight)
    with pytest.raises(ValueError, match="radio of 0"):
        fluid.open(0.0, 0, 1.0, 1.0, radio=0)


# --- no event without need --------------------------------------------------------------------------------


class Counted(Steps):
    """Counts how often it is asked for its changes."""

    asked = 0

    def change(self, t: float) -> float:
        Counted.asked += 1
        return math.inf if t >= self.times[-1] else self.times[math.floor(t * 1000) + 1]

    def ahead(self, t: float, count: int) -> tuple[Floats, Floats]:
        Counted.asked += 1
        return super().ahead(t, count)

    def at(self, t: float) -> float:
        return self.values[min(math.floor(t * 1000), len(self.values) - 1)]

    def finish(self, begin: float, nbytes: float) -> float:
        return begin + nbytes  # 1 byte/s on average

    def carried(self, begin: float, end: float) -> float:
        return end - begin


@pytest.mark.parametrize("shared", [{}, {"cell": SharedLink(25.0), "mast": SharedLink(24.0, "cell")}])
def test_samples_of_traces_on_links_that_cannot_be_full_are_no_events(shared: dict[str, SharedLink]) -> None:
    """Ten flows of at most 2 bytes/s below links of 24 and more: 10,000 samples each, and nobody looks at one."""
    Counted.asked = 0
    trace = Counted(tuple(i / 1000 for i in range(10_000)), (2.0, 0.0) * 5_000)
    fluid, looks = Fluid(30.0, shared), 0
    for flow in range(10):
        fluid.open(0.0, flow, 1.0 + flow / 2, trace, via="mast" if shared else None)
    while (due := fluid.next_finish()) < math.inf:
        assert len(fluid.advance(due)) == 1
        looks += 1

    assert looks == 10
    assert Counted.asked == 0


def test_a_shared_link_without_flows_has_no_events() -> None:
    Counted.asked = 0
    cell = Counted(tuple(i / 1000 for i in range(10_000)), (2.0, 1.0) * 5_000)
    fluid = Fluid(3.0, {"cell": SharedLink(cell), "other": SharedLink(4.0)})
    fluid.open(0.0, "a", 30.0, 8.0, via="other")

    assert fluid.next_finish() == 10.0
    assert fluid.advance(10.0) == ["a"]
    assert Counted.asked == 0


def test_a_flow_whose_last_byte_arrives_as_an_outage_begins_is_not_kept_by_rounding() -> None:
    """The root carries nothing and 2 bytes/s in turns, a quarter of a second each.  Weights 0.5 and 3: the first flow
    has 2/7 byte/s half of the time, so its byte is through after 7 s sharp, and the other's 7 bytes a second later."""
    root = Trace(np.array([0.0, 0.25, 0.5]), np.array([0.0, 2.0]), "down", "capacity")
    fluid = Fluid(root, {"a": SharedLink(2.0)})
    fluid.open(0.0, "one", 1.0, 1.0, 0.5, "a")
    fluid.open(0.0, "seven", 7.0, 2.0, 3.0, "a")
    ends: dict[Hashable, float] = {}
    while fluid.next_finish() < math.inf:
        due = fluid.next_finish()
        ends.update(dict.fromkeys(fluid.advance(due), due))
    assert ends == {"one": pytest.approx(7.0, abs=1e-9), "seven": pytest.approx(8.0, abs=1e-9)}


def test_what_a_full_cell_gains_the_others_behind_its_server_lose() -> None:
    """Server 12, a cell that carries 4, after a second 5, and after another one 8: more than its phone's fair share."""
    fluid = Fluid(12.0, {"cell": SharedLink(Steps((0.0, 1.0, 2.0), (4.0, 5.0, 8.0)))})
    fluid.open(0.0, "phone", 99.0, 90.0, via="cell")
    fluid.open(0.0, "wire", 99.0, 90.0)

    for t, phone, wire in ((0.0, 4.0, 8.0), (1.0, 5.0, 7.0), (2.0, 6.0, 6.0)):
        assert fluid.rates(t) == {"phone": phone, "wire": wire}
    assert fluid.carried(3.0, "phone") == 4 + 5 + 6


def test_an_event_looks_only_at_the_part_of_the_tree_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty full cells of 4 bytes/s behind a server that could be full, each with two flows that could have 3: they
    have 2 each.  Where one ends the other gets its 3, so that this cell is full no more; no other cell is asked."""
    looked: list[Bottleneck] = []
    solved = Bottleneck.solved
    monkeypatch.setattr(Bottleneck, "solved", lambda self: (looked.append(self), solved(self)))
    fluid = Fluid(250.0, {f"cell {k}": SharedLink(4.0) for k in range(50)})
    for k in range(50):
        fluid.open(0.0, (k, "slow"), 2.0 if k == 7 else 50.0, 3.0, via=f"cell {k}")
        fluid.open(0.0, (k, "fast"), 50.0, 3.0, via=f"cell {k}")
    assert fluid.next_finish() == 1.0
    looked.clear()

    assert fluid.advance(1.0) == [(7, "slow")]
    fluid.next_finish()
    assert {each.link.name for each in looked} <= {"cell 7", None}
    rates = fluid.rates(1.0)
    assert rates[7, "fast"] == 3.0
    assert rates[8, "fast"] == rates[8, "slow"] == 2.0


def test_a_cell_that_becomes_full_below_a_link_whose_rates_change_often_is_full() -> None:
    """A cell of 10 bytes/s carries one flow of 6; after a second of changes each millisecond a second one comes."""
    root = Trace(np.arange(2001) / 1000, np.where(np.arange(2000) % 2, 20.0, 25.0), "down", "capacity")
    fluid = Fluid(root, {"cell": SharedLink(10.0)})
    fluid.open(0.0, "wire", 1000.0, 50.0)
    fluid.open(0.0, "first", 1000.0, 6.0, via="cell")
    while fluid.next_finish() < 1:
        fluid.advance(fluid.next_finish())

    fluid.open(1.0, "second", 1000.0, 6.0, via="cell")

    rates = fluid.rates(1.0)
    assert rates["first"] == rates["second"] == 5.0


@pytest.mark.parametrize("seed", range(4))
def test_a_hundred_flows_that_come_and_go_have_the_rates_of_a_solver_that_looks_at_all(seed: int) -> None:
    """Three levels of links, of which some are full: network/sharing/level.py finds the same levels from nothing."""
    draws = np.random.default_rng(seed)
    shared = {f"backhaul {k}": SharedLink(float(draws.uniform(10, 60))) for k in range(3)}
    shared |= {
        f"cell {k}": SharedLink(float(draws.uniform(2, 30)), f"backhaul {k % 3}" if k else None) for k in range(10)
    }
    fluid, open_flows = Fluid(90.0, shared), dict[int, tuple[str | None, float, float]]()
    for number in range(180):
        via = [None, *shared][draws.integers(14)]
        cap, weight = float(draws.choice([0.5, 1.0, 2.0, 5.0])), float(draws.choice([1.0, 2.0, 3.7]))
        fluid.open(fluid.now, number, float(draws.uniform(1, 20)), cap, weight, via)
        open_flows[number] = via, cap, weight
        if number > 100:
            for ended in fluid.advance(fluid.next_finish()):
                open_flows.pop(ended)  # type: ignore[call-overload]
            found = fluid.rates(fluid.now)
            wanted = rates_of(open_flows, shared, 90.0)
            assert [found[flow] for flow in open_flows] == pytest.approx(wanted, rel=1e-12)


def rates_of(
    flows: Mapping[int, tuple[str | None, float, float]], shared: Mapping[str, SharedLink], capacity: float
) -> list[float]:
    def under(via: str | None, name: str | None) -> bool:
        return via == name or (via is not None and under(shared[via].parent, name))

    names = [None, *shared]
    columns = [(None, 0.0, 1.0), *flows.values()]
    there = [[i for i, (via, _, _) in enumerate(columns) if i and under(via, name)] for name in names]
    above = [[j for j, over in enumerate(names) if over != name and under(name, over)] for name in names]
    caps, weights = np.array([[cap for _, cap, _ in columns]]), np.array([weight for _, _, weight in columns])
    capacities = np.array([[capacity, *(each.capacity for each in shared.values())]])
    pools = layout(there, above, [False] * len(names), len(columns)).pools
    found: list[float] = on_wires(caps, weights, pools, capacities)[0, 1:].tolist()
    return found

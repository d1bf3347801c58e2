"""Shared links that may fill: sums by hand, which agree with what is played."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.forecast.rehearsal import Understudy
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.metrics import Schedule
from emulator.play.run import run_virtual
from emulator.record.run import Run
from network.windows.crowd import Crowd
from scenarios.builders.filling import Peaks, by_all_at_once, may_fill
from scenarios.load import build, load
from tests.conftest import SMALL, merged

MBIT = 1e6 / 8  # bytes/s


def scenario(**changes: Any):
    """Four devices of 2 Mbit/s up and 10 down, all asked at once; the server has 100 each way."""
    group = {"profile": "pi-4", "count": 4, "link": {"up_mbit_s": 2, "down_mbit_s": 10, "latency_ms": 10}}
    server = {"profile": "workstation", "link": {"up_mbit_s": 100, "down_mbit_s": 100, "latency_ms": 1}}
    base = {**SMALL, "fleet": [group], "server": server, "rounds": {"max": 1, "fraction": 1.0}}
    return build(merged({**base, "network": {"model": "auto"}}, changes))


def of_server(up: float, down: float) -> dict[str, Any]:
    return {"server": {"profile": "workstation", "link": {"up_mbit_s": up, "down_mbit_s": down, "latency_ms": 1}}}


def links(*each: dict[str, Any]) -> dict[str, Any]:
    """Groups of two devices."""
    return {"fleet": [{"profile": "pi-4", "name": f"g{n}", "count": 2, "link": of} for n, of in enumerate(each)]}


SLOW, FAST = {"up_mbit_s": 1, "down_mbit_s": 2}, {"up_mbit_s": 3, "down_mbit_s": 20}


@pytest.mark.parametrize(
    ("changes", "fills"),
    [
        ({}, False),  # 4 x 10 down, of 100
        (of_server(41, 9), False),  # what the server sends up, devices download
        (of_server(39, 9), True),
        (of_server(41, 7), True),  # 4 x 2 up, of 7
        (of_server(40, 9), True),  # just full: no rounding decides
        ({**of_server(21, 5), "rounds": {"max": 1, "fraction": 0.5}}, False),  # two at once: 20 down, 4 up
        ({**of_server(21, 5), "rounds": {"max": 1, "fraction": 0.5, "ask": 3}}, True),
        ({**of_server(21, 5), "rounds": {"max": 1, "fraction": 0.5, "stragglers": "finish"}}, True),  # of 2 rounds
        ({**of_server(45, 9), **links(SLOW, FAST)}, False),  # 2 x 20 + 2 x 2
        ({**of_server(43, 9), **links(SLOW, FAST)}, True),
        ({**of_server(41, 7), **links(SLOW, FAST), "rounds": {"max": 1, "fraction": 0.5}}, False),  # the two fastest
        ({**of_server(39, 7), **links(SLOW, FAST), "rounds": {"max": 1, "fraction": 0.5}}, True),
        ({"network": {"model": "auto", "congestion": "bbr"}}, True),
        (links({**SLOW, "loss": 0.01}), True),
        (links({"radio": "lte-driving"}), True),  # its rates vary
        (links({"up_mbit_s": 1, "down_mbit_s": {"uniform": {"low": 1, "high": 24}}}), False),  # 2 x 24 at most
        ({**links({"up_mbit_s": 1, "down_mbit_s": {"choice": [30]}}), **of_server(59, 9)}, True),
    ],
)
def test_the_fastest_devices_at_once_may_want_more_than_a_link_carries(changes, fills):
    assert may_fill(scenario(**changes)) is fills


@pytest.mark.parametrize(
    ("down", "behind", "fills"),
    [
        (41, None, False),
        (39, None, True),
        (50, 41, False),
        (50, 39, True),  # the link behind it is the narrow one
    ],
)
def test_links_on_the_way_count_too(down, behind, fills):
    topology: dict[str, Any] = {"cell": {"up_mbit_s": 50, "down_mbit_s": down}}
    if behind:
        topology["cell"]["behind"] = "backhaul"
        topology["backhaul"] = {"up_mbit_s": 50, "down_mbit_s": behind}
    group = {"up_mbit_s": 2, "down_mbit_s": 10, "via": "cell"}
    changes = {"topology": topology, "fleet": [{"profile": "pi-4", "count": 4, "link": group}]}
    assert may_fill(scenario(**changes)) is fills


def test_of_several_stations_each_has_its_part_of_a_group():
    """Five devices in turn: at most three are behind each."""
    group = {"profile": "pi-4", "count": 5, "link": {"up_mbit_s": 1, "down_mbit_s": 10, "via": ["a", "b"]}}
    for down, fills in ((31, False), (29, True)):
        station = {"up_mbit_s": 50, "down_mbit_s": down}
        assert may_fill(scenario(fleet=[group], topology={"a": station, "b": station})) is fills


def test_replays_on_other_links_are_judged_by_these():
    """Four devices at once."""
    assert not may_fill(scenario(), Peaks(down=24 * MBIT, up=24 * MBIT))
    assert may_fill(scenario(), Peaks(down=26 * MBIT))
    assert may_fill(scenario(), Peaks(up=26 * MBIT))
    assert not may_fill(scenario(), Peaks(server=41 * MBIT))
    assert may_fill(scenario(), Peaks(server=39 * MBIT))
    two = scenario(**of_server(21, 5), rounds={"max": 1, "fraction": 0.5})
    assert may_fill(by_all_at_once(two))


def test_the_quickstart_never_fills_a_link():
    """5 of 16 devices at 10 Mbit/s at most, on 100."""
    assert not may_fill(load("quickstart", algorithms=False))
    assert not may_fill(load("fedcl-mnist", algorithms=False))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    rates=st.lists(st.tuples(st.sampled_from([1, 2, 5, 9]), st.integers(1, 3)), min_size=1, max_size=3),
    server=st.sampled_from([2, 4, 8, 12, 20]),
    share=st.sampled_from([0.3, 0.6, 1.0]),
    stragglers=st.sampled_from(["stop", "finish"]),
)
def test_where_no_link_may_fill_no_window_is_ever_asked_for(rates, server, share, stragglers):
    fleet = [
        {"profile": "pi-4", "name": f"g{n}", "count": count, "link": {"up_mbit_s": rate, "down_mbit_s": rate}}
        for n, (rate, count) in enumerate(rates)
    ]
    rounds = {"max": 3, "fraction": share, "stragglers": stragglers, "deadline_s": 1.0}
    made = scenario(**of_server(server, server), fleet=fleet, rounds=rounds)
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        opened = Crowd.open
        patch.setattr(Crowd, "open", lambda *args, **more: asked.append(args) or opened(*args, **more))
        lab, run = lab_of(made), Run("fedavg", 1)
        conduct = replace(Conduct.of(made), schedule=Schedule(0, 0))
        asyncio.run(run_virtual(lab, run, conduct, Understudy(lab, run), None))
    assert not asked or may_fill(made)

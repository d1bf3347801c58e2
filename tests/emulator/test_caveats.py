"""What is said of links that were assumed, and of recordings that are shorter than the runs."""

import pytest

from emulator import tables
from emulator.caveats import caveats, loops, remarks, warnings
from network.link import Link
from scenarios.load import build
from scenarios.recordings import assumptions
from tests.conftest import merged

DOWN = "time_s,down_mbit_s\n0,8\n10,16\n20,\n"
RATES = {"up_mbit_s": 8, "down_mbit_s": 8}


@pytest.fixture
def said(tmp_path, monkeypatch):
    """The assumptions about fleets of groups with these links."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.csv").write_text(DOWN)
    (tmp_path / "log.csv").write_text(f"# kind: achieved\n{DOWN}")
    (tmp_path / "both.csv").write_text("time_s,down_mbit_s,up_mbit_s,latency_ms\n0,8,8,20\n9,,,\n")

    def of(*links, **changes):
        fleet = [{"name": f"g{n}", "profile": "pi-4", "link": link} for n, link in enumerate(links)]
        return list(assumptions(build(merged({"name": "t", "fleet": fleet}, changes))))

    return of


def test_an_uplink_that_nobody_recorded_is_an_assumption(said):
    (ratio,) = said({"trace": {"down": "walk.csv", "up_ratio": 0.2}, "latency_ms": 9})
    (same,) = said({"trace": {"down": "walk.csv", "symmetric": True}, "latency_ms": 9})
    assert ratio == "g0: their uplink is taken to be 0.2 x the recorded downlink"
    assert same == "g0: their uplink is taken to be as fast as the recorded downlink"


def test_of_numbers_radios_and_whole_recordings_nothing_is_assumed(said):
    assert said(RATES, {"radio": "lte-driving"}, {"trace": {"down": "both.csv"}}) == []
    assert said({"trace": {"down": "walk.csv", "up": "both.csv"}, "latency_ms": 9}) == []


def test_achieved_throughput_is_an_upper_bound_and_a_latency_that_is_nowhere_is_0(said):
    (bound,) = said({"trace": {"down": "log.csv"}, "up_mbit_s": 2, "latency_ms": 9})
    assert "an upper bound" in bound
    (nothing,) = said({"trace": {"down": "walk.csv"}, "up_mbit_s": 2})
    assert "no latency" in nothing


def test_models_that_meet_are_told(said):
    (mixed,) = said({**RATES, "model": "ideal"}, RATES)
    assert "ideal and tcp" in mixed
    assert said({**RATES, "model": "ideal"}, RATES, network={"model": "ideal"}) == []


@pytest.mark.parametrize(
    ("length", "period", "times"), [(9.9, 10, 0), (25, 10, 2), (120, 10, 12), (9, float("inf"), 0)]
)
def test_a_recording_starts_over_after_each_period(length, period, times):
    assert loops(length, period) == times


def test_the_most_repeated_recording_of_all_runs_is_told_and_above_ten_times_warned_of():
    some = caveats([], [(25.0, 10.0, "a"), (25.0, 5.0, "b"), (99.0, float("inf"), "")])
    assert (some["loops"], some["trace"], warnings(some)) == (5, "b", [])
    assert remarks(some) == ["the recording b starts over 5 times within the longest run."]
    many = caveats(["x"], [(110.0, 10.0, "a")])
    assert remarks(many) == []
    assert warnings(many)[0] == "x"
    assert "starts over 11 times within the longest run; it is too short" in warnings(many)[1]
    assert remarks(caveats([], [(1.0, 10.0, "a")])) == warnings(caveats([], [])) == []


def test_they_are_among_the_warnings_of_a_summary():
    summary = {"labels": {}, "links": caveats(["their uplink is assumed"], [(1.0, 1.0, "a")])}
    assert tables.warnings(summary) == [("links", "their uplink is assumed")]


def test_a_link_of_constants_never_repeats():
    assert Link(1.0, 1.0, 0.0).repeats == (float("inf"), "")

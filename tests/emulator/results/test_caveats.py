"""The sentences about assumed links, and about recordings that are shorter than the runs."""

import numpy as np
import pytest

from emulator.lab.loops import Loops
from emulator.results.caveats import caveats, remarks, unmetered, warnings
from emulator.wording import tables
from network.links.link import Link
from network.links.trace import Trace
from scenarios.builders.assumed import assumptions
from scenarios.load import build
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


def test_a_ratio_is_told_with_its_source(said):
    ratio = {"up_ratio": 0.2, "up_source": "Ookla, LTE"}
    (line,) = said({"trace": {"down": "walk.csv", **ratio}, "latency_ms": 9})
    assert line == "g0: their uplink is taken to be 0.2 x the recorded downlink (Ookla, LTE)"


def test_of_numbers_measured_radios_and_whole_recordings_nothing_is_assumed(said):
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


def test_a_radio_that_nobody_measured_is_told_once(said):
    """network/presets.csv: of the satellites all is assumed, of wifi the course in time, of 3g-driving nothing."""
    satellite, wifi = {"radio": "satellite-leo"}, {"radio": "wifi"}
    assert said(satellite, satellite, {"radio": "3g-driving"}) == [
        "radio satellite-leo: its rates are assumed, not measured"
    ]
    (line,) = said(wifi, {**wifi, "latency_ms": 3})
    assert line == "radio wifi: its rates were measured, other numbers are assumed (latency_ms, noise_s, together)"
    (line,) = said({**wifi, "latency_ms": 3})
    assert "latency_ms" not in line


def test_a_recording_that_all_share_is_told_with_its_link(said):
    cell = {"trace": {"down": "both.csv"}}
    behind = {**RATES, "via": "cell"}
    (line,) = said(behind, topology={"cell": cell})
    assert line.startswith("topology.cell: recorded latencies and losses are left out")
    (line,) = said(RATES, server={"link": {"trace": {"down": "walk.csv", "up_ratio": 0.5}}})
    assert line == "server.link: their uplink is taken to be 0.5 x the recorded downlink"
    (line,) = said(behind, topology={"cell": {"radio": "lte-driving"}})
    assert (
        line == "topology.cell: its generated rates are those of one phone, used here as a capacity that devices share"
    )


def test_what_only_tcp_reads_is_told_where_nothing_is_sent_by_tcp(said):
    lossy = {**RATES, "loss": 0.01}
    (line,) = said({**lossy, "model": "lv08"}, network={"model": "lv08"})
    assert line == "g0: loss is not used, because links of the model lv08 lose nothing"
    (line,) = said(RATES, network={"model": "ideal", "tls": 2, "congestion": "bbr"})
    assert line == "network: congestion, tls is not used, because no link is of the model tcp or windows"
    assert said(lossy, network={"tls": 2}) == []


def test_a_buffer_is_told_where_nobody_shares_by_round_trip_times(said):
    cell = {**RATES, "buffer_kb": 100}
    behind, topology = {**RATES, "via": "cell"}, {"cell": cell}
    server = {"link": {**RATES, "buffer_kb": 9}}
    assert said(behind, topology=topology, server=server) == []
    assert said(behind, topology=topology, server=server, network={"model": "tcp", "congestion": "bbr"}) == [
        "topology.cell: buffer_kb is not used, because flows of bbr share equally",
        "server.link: buffer_kb is not used, because flows of bbr share equally",
    ]
    (line,) = said(behind, topology=topology, network={"model": "ideal"})
    assert line == "topology.cell: buffer_kb is not used, because no link is of the model tcp or windows"


def replayed(period: float, offset: float, name: str) -> Trace:
    return Trace(np.array([0.0, period]), np.array([1.0]), "down", "capacity", f"here/{name}").starting(offset)


@pytest.mark.parametrize(
    ("length", "period", "offset", "times"),
    [(9.9, 10, 0, 0), (25, 10, 0, 2), (25, 10, 6, 3), (120, 10, 0, 12), (9, 10, 1, 1)],
)
def test_a_recording_starts_over_after_each_period_from_where_it_began(length, period, offset, times):
    loops = Loops()
    loops.add(5.0, replayed(period, offset, "a"))
    assert loops.most(length) == ((times, "a") if times else (0, ""))
    assert times == replayed(period, offset, "a").loops(0.0, length)


def test_of_all_that_are_replayed_the_most_repeated_counts():
    loops = Loops()
    loops.add(replayed(10, 2, "a"), replayed(10, 8, "b"), replayed(3, 0, "c"))
    assert loops.most(2.0) == (1, "b")
    assert loops.most(25.0) == (8, "c")
    assert Loops().most(99.0) == (0, "")


def test_the_most_repeated_recording_of_all_runs_is_told_and_above_ten_times_warned_of():
    some = caveats([], [(2, "a"), (5, "b"), (0, "")])
    assert (some["loops"], some["trace"], warnings(some)) == (5, "b", [])
    assert remarks(some) == ["the trace b repeats 5 times within the longest run."]
    many = caveats(["x"], [(11, "a")])
    assert remarks(many) == []
    assert warnings(many)[0] == "x"
    assert "repeats 11 times within the longest run; use a longer one" in warnings(many)[1]
    assert remarks(caveats([], [(0, "")])) == warnings(caveats([], [])) == []


def test_they_are_among_the_warnings_of_a_summary():
    summary = {"labels": {}, "links": caveats(["their uplink is assumed"], [(1, "a")])}
    assert tables.warnings(summary) == [("links", "their uplink is assumed")]


def test_a_link_of_constants_never_repeats():
    assert Link(1.0, 1.0, 0.0).repeats == float("inf")


def test_a_group_whose_name_ends_in_a_number_is_named_whole():
    """pi-4 is a group; its devices are pi-4-0, pi-4-1, ..."""
    [line] = unmetered(["pi-4"])
    assert "because the power draw of pi-4 is unknown; add" in line

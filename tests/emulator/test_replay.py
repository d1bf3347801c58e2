import math

import pytest

from devices.device import Device, profiles
from emulator.quantities import RATE, SECONDS, SIZE, SPEED
from emulator.replay import Parting, Replayed
from emulator.replays.bare import Setting
from emulator.replays.conditions import Condition, Uplink, links_from, loops
from emulator.replays.findings import ALL, Finding, Times, finding, flips, time_to, told
from emulator.replays.script import read_script
from emulator.targets import Target
from network.link import Link
from network.tcp import Tcp
from network.trace import Trace

GOAL = Target("accuracy", 0.5)


def replayed(*rows, parting=None, label="fedavg", seed=1):
    """A replay whose rounds end at these times with these accuracies."""
    made = [
        {"round": number, "time_s": at, "accuracy": accuracy, "bytes": {"down": {}, "up": {}}}
        for number, (at, accuracy) in enumerate(rows)
    ]
    return Replayed(label, seed, made, parting, 0, None)


@pytest.mark.parametrize(
    ("quantity", "text", "value"),
    [
        (RATE, "100Mbit/s", 12.5e6),
        (RATE, "1 MB/s", 1e6),
        (RATE, "1MiB/s", 1048576.0),
        (RATE, "8kbit/s", 1e3),
        (SIZE, "6.65MB", 6.65e6),
        (SECONDS, "10s", 10.0),
        (SECONDS, "5ms", 0.005),
        (SECONDS, "0ms", 0.0),
        (SPEED, "0.1GFLOP/s", 1e8),
    ],
)
def test_a_quantity_is_read_in_our_units(quantity, text, value):
    assert quantity.value(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("text", ["", "100", "Mbit/s", "-1Mbit/s", "1mbit/s", "nanMbit/s", "1e999Mbit/s", "0Mbit/s"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ValueError, match="rate"):
        RATE.value(text)


@pytest.mark.parametrize(
    ("quantity", "text", "ends"),
    [
        (RATE, "0.1..100Mbit/s", (12500.0, 12.5e6)),
        (RATE, "100kbit/s..1Mbit/s", (12500.0, 125e3)),
        (SECONDS, "5..500ms", (0.005, 0.5)),
        (RATE, "8Mbit/s", (1e6, 1e6)),
    ],
)
def test_a_range_takes_its_unit_from_its_end(quantity, text, ends):
    assert quantity.span(text) == pytest.approx(ends)


@pytest.mark.parametrize("text", ["9..1Mbit/s", "..1Mbit/s", "1..", "1..2..3Mbit/s", "1s..2Mbit/s"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(ValueError, match="rate"):
        RATE.span(text)


def test_the_time_to_a_target_is_that_of_its_round():
    assert time_to(replayed((3.0, 0.4), (7.0, 0.6)), GOAL, anyway=False) == 7.0


def test_a_target_that_is_not_reached_is_never():
    assert time_to(replayed((3.0, 0.4)), GOAL, anyway=False) == math.inf


def test_a_target_beyond_the_parting_is_not_known_and_one_before_it_is():
    parting = Parting(1, "counts a, not b")
    assert time_to(replayed((3.0, 0.4), parting=parting), GOAL, anyway=False) is None
    assert time_to(replayed((3.0, 0.6), parting=parting), GOAL, anyway=False) == 3.0


def test_without_a_target_the_end_counts():
    assert told(replayed((3.0, None), (5.0, None)), [], anyway=False).times == {ALL: 5.0}


def found(name: str, **seconds: float | None) -> Finding:
    return Finding(name, (), {"t": {label: Times({1: at}) for label, at in seconds.items()}}, (), (), 0, 0)


def test_the_order_turns_where_another_one_is_first():
    first, same, turned = (found("a", x=1.0, y=2.0), found("b", x=5.0, y=9.0), found("c", x=3.0, y=2.0))
    assert flips([first, same, turned], "t") == ["c"]


def test_an_order_with_an_unknown_time_turns_nothing():
    assert flips([found("a", x=1.0, y=2.0), found("b", x=None, y=2.0)], "t") == []


def test_who_never_gets_there_is_the_last():
    assert found("a", x=math.inf, y=2.0).order("t") == ("y", "x")
    assert found("a", x=math.inf, y=math.inf).order("t") is None


def test_a_median_needs_every_seed():
    both = [told(replayed((at, 0.6), seed=seed), [GOAL], False) for seed, at in ((1, 4.0), (2, 6.0))]
    assert finding("s", (), both).times["accuracy 0.5"]["fedavg"].median == 5.0
    lost = told(replayed(seed=3, parting=Parting(0, "")), [GOAL], False)
    assert not finding("s", (), [*both, lost]).times["accuracy 0.5"]["fedavg"].known


def written(folder, text):
    path = folder / "trace.csv"
    path.write_text(text)
    return str(path)


def test_a_downlink_alone_is_refused(tmp_path):
    path = written(tmp_path, "time_s,down_mbit_s\n0,8\n1,16\n2,\n")
    with pytest.raises(ValueError, match="is a downlink only"):
        list(links_from([path], Uplink()))


def test_an_uplink_alone_is_no_downlink(tmp_path):
    path = written(tmp_path, "time_s,up_mbit_s\n0,8\n1,16\n2,\n")
    with pytest.raises(ValueError, match="give it with --up"):
        list(links_from([path], Uplink()))


def test_a_log_of_downloads_is_no_uplink(tmp_path):
    path = tmp_path / "log"
    path.write_text("0.5 2.0\n1.0 3.0\n1.7 1.0\n")
    with pytest.raises(ValueError, match="nothing about an uplink"):
        list(links_from([], Uplink([str(path)])))


@pytest.mark.parametrize(("uplink", "share"), [(Uplink(ratio=0.2), 0.2), (Uplink(symmetric=True), 1.0)])
def test_an_assumed_uplink_is_a_share_of_the_downlink_and_is_said(tmp_path, uplink, share):
    path = written(tmp_path, "time_s,down_mbit_s\n0,8\n1,16\n2,\n")
    (condition,) = links_from([path], uplink)
    assert isinstance(condition.up, Trace)
    assert condition.up.carried(0.0, 2.0) == pytest.approx(share * 3e6)  # 1 MB and 2 MB
    assert any(said.startswith("assumed: ") for said in condition.assumptions)


def test_a_pair_of_files_is_one_trace_with_both_ways(tmp_path):
    (tmp_path / "lte.down").write_text("1\n2\n")
    (tmp_path / "lte.up").write_text("4\n")
    (condition,) = links_from([str(tmp_path)], Uplink())
    assert (condition.name, condition.down.mean, condition.up.mean) == ("lte", 1.5e6, 375e3)  # 1500 bytes a line


def test_a_trace_that_carries_nothing_is_refused(tmp_path):
    path = written(tmp_path, "time_s,down_mbit_s,up_mbit_s\n0,0,1\n2,,\n")
    with pytest.raises(ValueError, match="carries no byte down"):
        list(links_from([path], Uplink()))


def test_a_folder_passes_over_what_is_no_trace_but_not_over_all(tmp_path):
    (tmp_path / "README").write_text("about the traces\n")
    with pytest.raises(ValueError, match="holds no trace"):
        list(links_from([str(tmp_path)], Uplink(symmetric=True)))
    written(tmp_path, "time_s,down_mbit_s\n0,8\n2,\n")
    assert [each.name for each in links_from([str(tmp_path)], Uplink(symmetric=True))] == ["trace.csv"]


def test_a_rate_is_a_link_that_never_changes():
    (condition,) = links_from(["8Mbit/s"], Uplink(ratio=0.5))
    assert (condition.down, condition.up) == (1e6, 0.5e6)


def test_one_uplink_serves_all_downlinks_and_two_do_not_serve_three():
    assert [each.up for each in links_from(["8Mbit/s", "16Mbit/s"], Uplink(["4Mbit/s"]))] == [0.5e6, 0.5e6]
    with pytest.raises(ValueError, match="2 uplinks for 3 downlinks"):
        list(links_from(["1Mbit/s"] * 3, Uplink(["4Mbit/s"] * 2)))


def test_a_recorded_link_keeps_its_model_and_leaves_its_cell(tmp_path):
    path = written(tmp_path, "time_s,down_mbit_s,up_mbit_s\n0,8,4\n50,16,8\n100,,\n")
    (condition,) = links_from([path], Uplink())
    before = Link(1.0, 1.0, 0.1, tcp=Tcp(tls=2), via="cell")
    after = condition.link(before)
    assert (after.latency, after.tcp, after.via) == (0.1, before.tcp, None)
    assert after.down.mean == 1.5e6
    assert Condition("slow", down=5.0).link(before).via == "cell"


def test_the_most_repeated_trace_is_counted(tmp_path):
    """100 s of trace in 1,000 s start over 10 times, wherever they begin."""
    path = written(tmp_path, "time_s,down_mbit_s,up_mbit_s\n0,8,4\n50,16,8\n100,,\n")
    (condition,) = links_from([path], Uplink())
    server = Device("server", profiles()["workstation"])
    base = Setting("base", {}, {"a": Link(1.0, 1.0, 0.0), "b": Link(1.0, 1.0, 0.0)}, server, Link(1.0, 1.0, 0.0))
    assert loops(condition.setting(base), 1, 1000.0) == 10
    assert loops(base, 1, 1000.0) == 0


def test_a_record_that_is_none_is_told_in_a_line(tmp_path):
    folder = tmp_path / "fedavg-s1"
    folder.mkdir()
    (folder / "rounds.jsonl").write_text('{"round":0}\n')
    (folder / "events.jsonl").write_text('{"event":"close","round":0,"t":1}\n')
    with pytest.raises(ValueError, match=r"events.jsonl:1 is not as"):
        read_script(folder)
    with pytest.raises(ValueError, match="LABEL-sSEED"):
        read_script(tmp_path / "nothing")


def test_a_condition_that_says_nothing_changes_no_link():
    assert Condition("same").link(Link(3.0, 2.0, 0.1)) == Link(3.0, 2.0, 0.1)

"""Every format read: hand-made files by the rule of the format, real samples by the table beside them."""

from __future__ import annotations

import json
import os
import pickle
import re
import timeit
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from network.foreign_files import LARGEST, BadFile, content
from network.links.trace import Trace
from network.traces import fedscale, flash
from network.traces.read import read, recognise
from network.traces.trace_text import PIECES


def samples() -> Path:
    root = Path(os.environ.get("FEDLAPSE_DATA") or Path(__file__).parents[3] / "../shared/data").resolve() / "traces"
    if not (root / "README.md").is_file():
        pytest.skip(f"NO REAL TRACES: {root} has no README.md; set FEDLAPSE_DATA to a folder that has traces/")
    return root


@pytest.fixture
def file(tmp_path):
    def write(text: str | bytes, name: str = "trace") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def one(path: Path, **asked) -> Trace:
    (trace,) = read(path, **asked)
    return trace


# --- our own CSV


def test_our_own_csv_has_a_trace_each_way(file) -> None:
    path = file("time_s,down_mbit_s,up_mbit_s,latency_ms,loss\n0,8,4,20,0\n2,16,0,30,0.01\n5,,,,\n")
    down, up = read(path)
    assert (down.direction, up.direction, down.kind) == ("down", "up", "capacity")
    assert down.edges.tolist() == [0, 2, 5]
    assert (down.rates.tolist(), up.rates.tolist()) == ([1e6, 2e6], [5e5, 0])
    assert (down.latency_at(0), up.latency_at(3), up.loss_at(3)) == (0.02, 0.03, 0.01)
    assert one(path, direction="up").rates.tolist() == up.rates.tolist()


def test_a_last_row_with_values_lasts_as_long_as_the_one_before(file) -> None:
    assert one(file("time_s,up_mbit_s\n10,1\n12,2\n")).edges.tolist() == [0, 2, 4]
    assert one(file("time_s,up_mbit_s\n10,1\n")).period == 1


def test_our_own_csv_says_its_kind(file) -> None:
    assert one(file("# made by hand\n# kind: achieved\ntime_s,up_mbit_s\n0,1\n")).kind == "achieved"


def test_a_row_cut_in_two_changes_nothing(file) -> None:
    whole = one(file("time_s,up_mbit_s\n0,1\n4,3\n6,\n", "whole"))
    cut = one(file("time_s,up_mbit_s\n0,1\n1,1\n4,3\n5,3\n6,\n", "cut"))
    for t in np.linspace(0, 20, 41).tolist():
        assert (whole.at(t), whole.change(t), whole.carried(0, t)) == (cut.at(t), cut.change(t), cut.carried(0, t))


# --- Mahimahi


def test_opportunities_are_spread_over_the_millisecond_that_ends_with_them(file) -> None:
    trace = one(file("2\n2\n5\n", "x.down"))
    assert (trace.direction, trace.kind, trace.period) == ("down", "capacity", 0.005)
    assert [trace.carried(0, k / 1000) for k in range(6)] == pytest.approx([0, 0, 3000, 3000, 3000, 4500])
    assert trace.finish(0, 1500) == pytest.approx(0.0015)


def test_an_opportunity_at_0_is_one_at_the_last_stamp_of_the_period_before(file) -> None:
    assert one(file("0\n3\n", "x.up")).rates.tolist() == one(file("3\n3\n", "y.up")).rates.tolist()


def test_a_mahimahi_file_without_suffix_must_be_told_its_direction(file) -> None:
    path = file("1\n2\n")
    with pytest.raises(BadFile, match="its direction must be named"):
        read(path)
    assert one(path, direction="up").direction == "up"
    with pytest.raises(BadFile, match="has the suffix down, but the direction asked for is up"):
        read(file("1\n2\n", "x.down"), direction="up")


def test_a_pair_is_named_by_what_both_share(file) -> None:
    file("1\n2\n", "pair.down")
    path = file("4\n", "pair.up").with_name("pair")
    assert [(trace.direction, trace.period) for trace in read(path)] == [("down", 0.002), ("up", 0.004)]
    assert one(path, direction="up").period == 0.004
    assert recognise(path) == "mahimahi"


# --- two columns


def test_a_value_holds_up_to_its_time(file) -> None:
    trace = one(file("10.0\t99\n11.5\t8\n11.5\t99\n14\t16\n"))
    assert (trace.direction, trace.kind) == ("down", "achieved")
    assert trace.edges.tolist() == [0, 1.5, 4]
    assert trace.rates.tolist() == [1e6, 2e6]


def test_oboe_is_chunks_of_kbits_and_the_pause_before_a_chunk_is_its_own(file) -> None:
    trace = one(file("100 800\n1100 800\n1200 1600\n3100 1600\n"))
    assert trace.edges.tolist() == pytest.approx([0, 1, 1.1, 3])
    assert trace.rates.tolist() == [1e5, 2e5, 2e5]


def test_what_two_columns_are_is_told_from_their_numbers(file) -> None:
    assert recognise(file("0 1\n1 2\n2 1\n")) == "sigcomm21"
    assert recognise(file("0.0\t1\n5.0\t2\n10.0\t1\n")) == "pensieve"
    assert recognise(file("100.0 800\n1100.0 800\n1200.0 1600\n3100.0 1600\n")) == "oboe"
    with pytest.raises(BadFile, match="could be pensieve or oboe; name its format"):
        recognise(file("0 5\n1 5\n"))
    assert one(file("0 8\n1 8\n"), format="pensieve").mean == 1e6


@pytest.mark.parametrize("above", ["# time_s Mbit/s\n", "\n# made in a train, 2019\n\n#\n"])
def test_comments_may_stand_above_two_columns(file, above) -> None:
    trace = one(file(above + "10.0\t99\n11.5\t8\n14\t16\n"))
    assert (trace.edges.tolist(), trace.rates.tolist()) == ([0, 1.5, 4], [1e6, 2e6])


@pytest.mark.parametrize("unit", ["ms", "kbit/s", "kbps", "Kbps", "MB/s", "bytes", "bit", "us", "Gbit/s"])
def test_a_comment_that_names_another_unit_is_believed(file, unit) -> None:
    path = file(f"# t, {unit}\n0.0 8\n1.5 8\n4.0 16\n")
    with pytest.raises(BadFile, match=rf"line 1: the comment names {unit.split('/s')[0]}.*; *|.*time_s,down_mbit_s"):
        recognise(path)
    assert one(path, format="pensieve").rates.tolist() == [1e6, 2e6]  # who names the format knows them


@pytest.mark.parametrize(
    "text",
    [
        "0 5.1\n1000 5.3\n2000 4.9\n",
        "1609459200000 5.1\n1609459200001 5.3\n1609459200002 5.2\n",
        "0 5\n1000 5\n2000 5\n3000 5\n",  # pairs of equal rates, as Oboe's, which are hundreds of kbit/s
    ],
    ids=["steps of a second", "since 1970", "a constant rate"],
)
def test_times_in_ms_beside_mbits_are_not_taken_for_seconds(file, text) -> None:
    with pytest.raises(BadFile, match="apart on average, which looks like ms, .*the header time_s,down_mbit_s") as told:
        recognise(file(text))
    assert told.value.lacks == "format"


def test_minutes_between_two_lines_are_read_if_the_format_is_named(file) -> None:
    trace = one(file("0 8\n300 8\n900 16\n"), format="pensieve")
    assert (trace.period, trace.mean) == (900, pytest.approx((300 * 1e6 + 600 * 2e6) / 900))


def test_a_rate_that_no_link_has_is_remarked_if_its_unit_is_not_in_the_file(file) -> None:
    """20,000 Mbit/s are 20 Gbit/s, 20,000,000 kbit/s as well; a csv says its unit, whatever the number."""
    fast, slow = "0 1\n1 20001\n2 5\n", "0 1\n1 20000\n2 5\n"
    assert "reach 20 Gbit/s" in one(file(fast)).remark
    assert "read as Mbit/s: are they kbit/s or bit/s?" in one(file(fast)).remark
    assert not one(file(slow)).remark
    assert "read as kbit/s: are they bit/s?" in one(file("0 4e7\n1000 4e7\n")).remark
    assert not one(file("0 2e7\n1000 2e7\n")).remark
    assert not one(file("time_s,down_mbit_s\n0,50000\n")).remark


# --- UCC

UCC = "Timestamp,NetworkMode,DL_bitrate,UL_bitrate,State,PINGAVG\n"


def test_a_ucc_log_is_its_downloading_rows_evenly(file) -> None:
    rows = ["00,LTE,80,9999,D,-", "00,LTE,160,9999,D,100", "02,LTE,0,9999,I,60", "03,LTE,240,9999,D,-"]
    trace = one(file(UCC + "".join(f"2019.12.16_11.49.{row}\n" for row in rows)))
    assert (trace.direction, trace.kind) == ("down", "achieved")
    assert trace.edges.tolist() == [0, 0.75, 1.5, 2.25]  # 3 s for 4 rows
    assert trace.rates.tolist() == [1e4, 2e4, 3e4]
    assert trace.latency is not None
    assert trace.latency.tolist() == [0.05, 0.05, 0.03]  # half of the round trip


def test_a_pause_of_the_logger_is_no_time_of_the_trace(file) -> None:
    rows = ["49.00,LTE,80,1,D,-", "49.01,LTE,80,1,D,-", "51.00,LTE,80,1,D,-", "51.01,LTE,80,1,D,-"]
    assert one(file(UCC + "".join(f"2019.12.16_11.{row}\n" for row in rows))).period == 2


# --- direction


@pytest.mark.parametrize(
    ("text", "format"),
    [("0 1\n5 2\n10 1\n", "pensieve"), ("0 1\n1 2\n2 1\n", "sigcomm21"), ("100 800\n1100 800\n", "oboe")],
)
def test_a_log_of_downloads_is_no_uplink(file, text, format) -> None:
    with pytest.raises(BadFile, match=f"is {format}, a log of downloads: it says nothing about an uplink"):
        read(file(text), direction="up")


def test_a_csv_without_that_way_says_so(file) -> None:
    with pytest.raises(BadFile, match="holds no trace of the direction up, only down"):
        read(file("time_s,down_mbit_s\n0,1\n"), direction="up")


# --- what describes devices

CAPACITY = {7: {"computation": 153.0, "communication": 2000.0}, 8: {"computation": 39, "communication": 800}}


def plain(name: str, data: bytes) -> list[tuple[str, float, float]]:
    return [(c.client, c.computation, c.communication) for c in fedscale.read(name, data)]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_fedscale_capacity_reads_alike_from_pickle_json_and_csv(file, protocol) -> None:
    expected = [("7", 0.153, 250_000), ("8", 0.039, 100_000)]
    pickled = pickle.dumps(CAPACITY, protocol=protocol)
    assert plain("f", pickled) == plain("f", json.dumps(CAPACITY).encode()) == expected
    assert plain("f", b",7,8\ncomputation,153.0,39\ncommunication,2000.0,800\nsample_size,1,2\n") == expected
    assert recognise(file(pickled)) == recognise(file(json.dumps(CAPACITY))) == "fedscale-capacity"


def test_fedscales_formula_on_its_own_sample() -> None:
    path = samples() / "fedscale/demo_capacity.csv"
    raw = {row.split(",")[0]: row.split(",")[1:] for row in path.read_text().splitlines()}
    clients = fedscale.read(path.name, path.read_bytes())
    assert len(clients) == 10
    for client, ms, kbit_s in zip(clients, raw["computation"], raw["communication"], strict=True):
        batch, steps, down_kbit, up_kbit = 20, 30, 65_536.0, 52_428.8
        assert client.compute(batch, steps) == pytest.approx(3 * batch * steps * float(ms) / 1000, rel=1e-15)
        seconds = client.transfer(down_kbit * 125, up_kbit * 125)
        assert seconds == pytest.approx((up_kbit + down_kbit) / float(kbit_s), rel=1e-15)


def test_flash_speeds_are_drawn_again_while_they_are_not_positive(file) -> None:
    entry = {"down_u": 1.0, "down_sigma": 5.0, "up_u": 3000.0, "up_sigma": 0.0}
    (user,) = flash.read("f", json.dumps({"u": entry}).encode())
    assert (user.down, user.down_sigma, user.up) == (1000, 5000, 3e6)
    rng = np.random.default_rng(1)
    draws = [user.draw(rng) for _ in range(200)]
    assert min(down for down, _ in draws) > 0
    assert {up for _, up in draws} == {3e6}


def test_flashs_own_users() -> None:
    path = samples() / "flash/speed_distri.json"
    users = flash.read(path.name, path.read_bytes())
    assert len(users) == 19  # this and the medians: README of the samples
    assert np.median([user.down for user in users]) == pytest.approx(4318e3, abs=500)
    assert np.median([user.up for user in users]) == pytest.approx(3286e3, abs=500)
    assert recognise(path) == "flash-speeds"


def test_what_describes_devices_is_no_trace_of_a_link(file) -> None:
    with pytest.raises(BadFile, match="is fedscale-capacity, which describes devices"):
        read(file(json.dumps(CAPACITY)))
    assert recognise(file('{"a": {"active": [], "inactive": [], "finish_time": 5}}')) == "fedscale-behaviour"
    assert recognise(file('{"a": {"messages": ""}}')) == "flash-states"


@pytest.mark.parametrize(
    "header",
    [
        ",time,1152,1197\n0,2021-01-01,5,6\n",
        ",time_s,down_mbit_s\n0,0,5.1\n1,1,5.2\n",
        '"",time_s,down_mbit_s\n"1",0,5.1\n',
    ],
)
def test_a_table_with_an_index_is_not_fedscales(file, header) -> None:
    with pytest.raises(BadFile, match="does not begin any known format; leave the index out.*time_s,down_mbit_s"):
        recognise(file(header))


@pytest.mark.parametrize(
    "text",
    [
        "time_ms,down_mbit_s\n0,5\n",
        "time_s\tdown_mbit_s\n0\t5\n",
        "time_s;down_mbit_s\n0;5,1\n",
        '"time_s","down_mbit_s"\n"0","5"\n',
        "time rate\n0 5\n1 6\n",
        "time_s Mbit/s\n0 5\n1 6\n",
        "0,5.1\n1,5.3\n",
        "0;5,1\n1;5,3\n",
        "0 5 20\n1 6 20\n",
    ],
)
def test_other_tables_are_refused_with_what_to_write(file, text) -> None:
    said = r"line 1: .* does not begin any known format; write a table with the header time_s,down_mbit_s, in s and Mbi"
    with pytest.raises(BadFile, match=said):
        recognise(file(text))


def test_comments_may_stand_above_any_format(file) -> None:
    for format, (text, mean, seconds) in FILES.items():
        trace = one(file("# from a train\n" + text, f"{format}.down"), direction="down")
        assert (mbit(trace.mean), trace.period) == (pytest.approx(mean), pytest.approx(seconds))


# --- what files look like that were not made by hand: byte-order marks, CRLF, blank lines, all columns of a log

UCC_HEADER = (
    "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,DL_bitrate,UL_bitrate,"
    "State,PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,CELLHEX,NODEHEX,LACHEX,RAWCELLID,NRxRSRP,NRxRSRQ\n"
)
UCC_ROW = "2019.12.16_{},-8.39,51.89,0,B,2,5G,-95,-12,4.0,10,-79,{},36,D,{},-,-,-,-,A4,B1,9C,1,-101,-12\n"
FILES = {  # text, mean in Mbit/s and seconds, by hand
    "csv": ("time_s,down_mbit_s\n0,8\n1,16\n2,\n", 12.0, 2.0),
    "mahimahi": ("1\n2\n2\n4\n", 12.0, 0.004),
    "pensieve": ("0.0\t9.0\n0.5\t4.0\n1.5\t7.0\n", 6.0, 1.5),
    "sigcomm21": ("0 9.0\n1 4.0\n2 7.0\n3 7.0\n", 6.0, 3.0),
    "oboe": ("28.0 1500.0\n1028.0 1500.0\n1028.0 4500.0\n3028.0 4500.0\n", 3.5, 3.0),
    "ucc": (
        UCC_HEADER + UCC_ROW.format("11.49.59", 1000, "-") + UCC_ROW.format("11.50.01", 3000, "90.5"),
        2.0,
        2.0,
    ),
}


@pytest.mark.parametrize("format", FILES)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n", "\r\r"])
def test_a_file_is_read_as_it_comes(file, format, bom, end) -> None:
    text, mean, seconds = FILES[format]
    path = file(bom + text.replace("\n", end).encode(), "sample.down")
    assert recognise(path) == format
    trace = one(path, direction="down")
    assert (mbit(trace.mean), trace.period) == (pytest.approx(mean), pytest.approx(seconds))


FAST = {
    "csv": ("time_s,down_mbit_s,up_mbit_s\n", [f"{i / 4},{i % 7}.5,1e-{i % 3}" for i in range(40)], "trace"),
    "mahimahi": ("", [str(i * i // 9) for i in range(40)], "trace.down"),
    "pensieve": ("", [f"{i * 0.3:.2f}\t{i % 5}.25" for i in range(40)], "trace"),
}


@pytest.mark.parametrize("format", FAST)
def test_blocks_of_lines_are_read_as_they_are_one_by_one(file, format, monkeypatch) -> None:
    """A line that ends in a blank is read by itself, and all with it."""
    header, lines, name = FAST[format]
    monkeypatch.setattr("network.traces.trace_text.BLOCK", 100)  # so that there are several
    plain = read(file(header + "\n".join(lines) + "\n", name))
    blank = read(file(header + "\n".join([*lines[:20], lines[20] + " ", *lines[21:]]) + "\n", name))
    for fast, slow in zip(plain, blank, strict=True):
        assert fast.edges.tolist() == slow.edges.tolist()
        assert fast.rates.tolist() == slow.rates.tolist()


@pytest.mark.parametrize("format", FAST)
@pytest.mark.parametrize("wrong", ["x", "1,2,3,4", "-1,-1,-1", "nan\t1", "1_0"])
def test_a_wrong_line_among_many_is_named(file, format, wrong) -> None:
    header, lines, name = FAST[format]
    path = file(header + "\n".join([*lines[:30], wrong, *lines[30:]]) + "\n", name)
    with pytest.raises(BadFile, match=f"line {31 + bool(header)}: "):
        read(path, direction="down", format=format)


@pytest.mark.parametrize("format", ["csv", "pensieve"])
def test_a_file_of_far_more_lines_than_moments_is_refused_before_it_is_read(file, format, monkeypatch) -> None:
    header, lines, name = FAST[format]
    monkeypatch.setattr("network.traces.trace_text.PIECES", 20)
    monkeypatch.setattr("network.traces.trace_text.SPARE", 10)
    monkeypatch.setattr("network.traces.trace_text.TraceText.number", lambda *_: pytest.fail("a number was read"))
    several = "lines of 3 columns; at most 13 moments are replayed: cut it in parts, or leave columns out"
    said = several if header else "lines; at most 20 moments are replayed: cut it in parts"
    with pytest.raises(BadFile, match=said):
        read(file(header + "\n".join(lines) + "\n", name), format=format)


def test_mahimahi_with_too_many_stamps_is_refused_as_soon_as_they_are_there(file, monkeypatch) -> None:
    monkeypatch.setattr("network.traces.trace_text.BLOCK", 10)
    monkeypatch.setattr("network.traces.mahimahi.PIECES", 20)
    monkeypatch.setattr("network.traces.mahimahi.SPARE", 0)
    with pytest.raises(BadFile, match="has more than 20 different stamps, the most that are replayed"):
        read(file("\n".join(map(str, range(1, 40))) + "\nwrong\n\n", "x.up"))


def test_pauses_between_stamps_are_moments_too(file, monkeypatch) -> None:
    """1, 3 and 5 ms with two pauses between are five; 1, 2 and 3 ms are three."""
    monkeypatch.setattr("network.traces.mahimahi.PIECES", 4)
    assert len(read(file("1\n2\n3\n", "x.up"))[0].rates) == 3
    with pytest.raises(BadFile, match="has 5 different moments; at most 4 are replayed"):
        read(file("1\n3\n5\n", "y.up"))


@pytest.mark.parametrize("odd", ["", " "], ids=["fast", "line by line"])
def test_equal_stamps_are_counted_wherever_the_text_is_cut(file, monkeypatch, odd) -> None:
    """10, 5 and 1 packets of 1500 bytes in the milliseconds 1, 3 and 4."""
    monkeypatch.setattr("network.traces.trace_text.BLOCK", 7)
    (trace,) = read(file(odd + "1\n" * 10 + "3\n" * 5 + "4\n", "x.up"))
    assert trace.rates.tolist() == [15e6, 0, 7.5e6, 1.5e6]


def test_a_line_as_long_as_a_file_is_refused(file, monkeypatch) -> None:
    monkeypatch.setattr("network.traces.trace_text.WIDEST", 100)
    with pytest.raises(BadFile, match="line 2: has 101 characters; a line has 100 at most"):
        read(file("time_s,up_mbit_s\n" + "," * 101 + "\n"))


MEMORY = 1e9  # bytes that no trace file may take; of them are 100 MB for Python, numpy and the command
LARGE = {  # header, and a line by its number
    "time_s,down_mbit_s\n": lambda i: f"{i},{i % 97}.5\n",
    "time_s,down_mbit_s,up_mbit_s\n": lambda i: f"{i},{i % 97}.5,{i % 89}.25\n",
    "time_s,up_mbit_s,latency_ms\n": lambda i: f"{i}, {i % 97}.5,{i % 89}.25\n",
    "time_s,down_mbit_s,up_mbit_s,latency_ms,loss\n": lambda i: f"{i},{i % 97}.5,{i % 89}.25,{i % 83},0.{i % 10}\n",
    "0 1\n": lambda i: f"{i + 1}.5 {i % 97}.5\n",
    "1\n": lambda i: f"{2 * i + 2}\n",
    "2\n": lambda i: f" {2 * i + 4}\n",
    "Timestamp,DL_bitrate,State,PINGAVG\n": lambda i: (
        f"2020.01.{i // 3600 // 24 + 1:02}_{i // 3600 % 24:02}.{i // 60 % 60:02}.{i % 60:02},{i % 89},D,{i % 50}\n"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("header", LARGE)
def test_the_largest_file_of_each_format_stays_within_its_memory(file, monkeypatch, header) -> None:
    """A small one's bytes for each line, times the lines of the largest, beside the longest text."""
    lines, columns = 20_000, max(2, header.count(",") + 1)
    path = file(header + "".join(map(LARGE[header], range(lines))), "trace.down" if " " not in header else "trace")
    monkeypatch.setattr("network.traces.trace_text.BLOCK", 2**12)
    monkeypatch.setattr("network.links.trace.MANY", 10)  # as of a large one
    data = content(path)
    read(path)  # what is imported and remembered only once
    tracemalloc.start()
    traces = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(traces[0].rates) >= lines / 2
    pieces = len(traces[0].rates) / lines  # of Mahimahi's, which have pauses, twice as many
    most = min(2 * PIECES // (3 if header.startswith("Time") else columns), PIECES / pieces)
    assert 1e8 + LARGEST + (peak - len(data)) / lines * most < MEMORY


def test_a_trace_of_more_pieces_than_can_be_replayed_is_refused(file, monkeypatch) -> None:
    monkeypatch.setattr("network.traces.trace_text.PIECES", 3)
    for text in ("time_s,up_mbit_s\n0,1\n1,2\n2,3\n3,4\n", "0 1\n1 2\n2 3\n3 4\n4 5\n", "1\n3\n6\n9\n"):
        with pytest.raises(BadFile, match=r"x.up|trace: has \d different moments; at most 3 are replayed"):
            read(file(text, "x.up" if text[1] == "\n" else "trace"))


# --- real samples


def table() -> list[tuple[str, str, float, float, float, float]]:
    """(folder, file, duration, mean, min, max) of the README's rows."""
    folder, rows = "", []
    for line in (samples() / "README.md").read_text().splitlines():
        if heading := re.match(r"## (\w+)/", line):
            folder = heading[1]
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 7 and cells[1].startswith("`"):
            duration, mean, least, most = map(float, cells[3:7])
            rows.append((folder, cells[1].strip("`"), duration, mean, least, most))
    assert len(rows) == 42
    return rows


def mbit(rate: float) -> float:
    return rate * 8 / 1e6


def test_two_column_samples_are_those_of_the_table() -> None:
    rows = [row for row in table() if row[0] in ("hsdpa_norway_3g", "fcc_broadband", "oboe", "sigcomm21_5g")]
    names = {"hsdpa_norway_3g": "pensieve", "fcc_broadband": "pensieve", "oboe": "oboe", "sigcomm21_5g": "sigcomm21"}
    for folder, name, duration, mean, least, most in rows:
        trace = one(samples() / folder / name)
        assert recognise(samples() / folder / name) == names[folder]
        assert (trace.direction, trace.kind) == ("down", "achieved")
        assert trace.period == pytest.approx(duration, abs=0.5)
        assert mbit(trace.mean) == pytest.approx(mean, abs=0.00051)
        assert mbit(trace.rates.min()) == pytest.approx(least, abs=0.00051)
        assert mbit(trace.peak) == pytest.approx(most, abs=0.0051)


def test_ucc_samples_are_those_of_the_table() -> None:
    for folder, name, duration, mean, least, most in [row for row in table() if row[0] == "ucc_5g"]:
        path = samples() / folder / name
        states = [line.split(",")[14] for line in path.read_text().splitlines()[1:]]
        trace, share = one(path), states.count("D") / len(states)
        # The table counts all rows; those in State I, cut out here, have next to no bytes.
        assert trace.period == pytest.approx(duration * share, abs=0.51)
        assert mbit(trace.mean) * share == pytest.approx(mean, abs=0.0011)
        assert mbit(trace.rates.min()) == pytest.approx(least, abs=0.00051)
        assert mbit(trace.peak) == pytest.approx(most, abs=0.0051)


@pytest.mark.slow
def test_mahimahi_samples_are_those_of_the_table() -> None:
    for folder, name, duration, mean, least, most in [row for row in table() if row[0] == "mahimahi"]:
        trace = one(samples() / folder / name)
        assert (trace.direction, trace.kind) == (Path(name).suffix[1:], "capacity")
        assert trace.period == pytest.approx(duration, abs=0.5)
        assert mbit(trace.mean) == pytest.approx(mean, abs=0.00051)
        # The table counts stamps from 1000 s to 1000 s + 999; those are the milliseconds that end with them.
        seconds = [trace.carried(s - 0.001, s + 0.999) for s in range(1, int(trace.period))]
        assert mbit(min(seconds)) == pytest.approx(least, abs=0.00051)
        assert mbit(max(seconds)) == pytest.approx(most, abs=0.0051)


@pytest.mark.slow
def test_a_mahimahi_sample_carries_1500_bytes_a_line() -> None:
    path = samples() / "mahimahi/TMobile-UMTS-driving.down"
    lines, trace = path.read_text().split(), one(path)
    assert trace.carried(0, trace.period) == pytest.approx(1500 * len(lines), rel=1e-9)
    for k in (50_000, 400_000, 900_000):
        upto = sum(0 < int(line) <= k for line in lines)
        assert trace.carried(0, k / 1000) == pytest.approx(1500 * upto, rel=1e-9)


@pytest.mark.slow
def test_scalar_questions_of_a_long_trace_take_microseconds() -> None:
    trace = one(samples() / "mahimahi/TMobile-UMTS-driving.down")
    for ask in (lambda: trace.at(5e5), lambda: trace.change(5e5), lambda: trace.finish(5e5, 5e6)):
        assert min(timeit.repeat(ask, number=1000, repeat=5)) / 1000 < 25e-6  # measured 1 to 3 us on an idle core

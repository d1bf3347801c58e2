"""Whatever bytes a file has, it is a trace or one line that says why not.  FEDLAPSE_FUZZ=10000 looks for longer."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices import traces as devices_traces
from network.foreign_files import BadFile
from network.traces import columns, fedscale, flash, mahimahi, pensieve, ucc
from network.traces.read import FORMATS, read, recognise
from network.traces.trace_text import TraceText

CASES = int(os.environ.get("FEDLAPSE_FUZZ", "60"))

SEEDS = {
    "csv": b"# kind: achieved\ntime_s,down_mbit_s,up_mbit_s,latency_ms,loss\n0,8,4,20,0\n2,16,0,30,0.01\n5,,,,\n",
    "mahimahi": b"0\n1\n1\n7\n12\n12\n",
    "pensieve": b"0.0\t4.0376875\n0.549\t4.79\n0.879\t4.49\n1.34\t4.33\n",
    "oboe": b"28.0 1500.9\n997.0 1500.9\n1135.0 1514.1\n1957.0 1514.1\n",
    "ucc": b"Timestamp,DL_bitrate,UL_bitrate,State,PINGAVG\n"
    b"2019.12.16_11.49.59,22,36,D,-\n2019.12.16_11.50.01,72,21,D,90.0\n2019.12.16_11.50.02,0,1,I,-\n",
    "fedscale": b",1,2\ncomputation,153.0,39.0\ncommunication,2209.6,18437.3\nsample_size,7,34\n",
    "flash": json.dumps({"u": {"down_u": 7491.4, "down_sigma": 3.0, "up_u": 4935.2, "up_sigma": 27.0}}).encode(),
    "behaviour": json.dumps({"1": {"active": [0, 50], "inactive": [20, 70], "finish_time": 100}}).encode(),
    "states": json.dumps({"1": {"messages": "2020-01-02 00:00:00\twifi\n2020-01-02 00:01:00\tscreen_lock"}}).encode(),
}
PICKLES = {f"{name}.pkl": pickle.dumps(json.loads(SEEDS[name])) for name in ("flash", "behaviour", "states")}
SEEDS |= PICKLES


def tried(path: Path) -> None:
    """Reads a file by every reader; each succeeds or says in one line that names the file why not."""
    asks = [recognise, replayed, lambda p: replayed(p, direction="up"), lambda p: replayed(p, direction="down")]
    asks += [lambda p, name=name: replayed(p, format=name, direction="down") for name in FORMATS]
    asks += [lambda p: fedscale.read(str(p), p.read_bytes()), lambda p: flash.read(str(p), p.read_bytes())]
    asks += [devices_traces.read]
    for ask in asks:
        said = str(path)
        try:
            ask(path)
        except BadFile as error:
            said = str(error)
        assert said.startswith(str(path))
        assert said.isprintable()


def replayed(path: Path, **asked) -> None:
    """Asserts that each trace in the file can be replayed."""
    for trace in read(path, **asked):
        t = 0.0
        for _ in range(3):
            assert t < trace.change(t)
            t = min(trace.change(t), 1e6)
        assert trace.finish(5.0, 1e6) > 5.0
        assert 0 <= trace.carried(5.0, 9.0) <= 4.0000001 * trace.peak


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "trace.down"


@pytest.mark.slow
@settings(max_examples=CASES)
@given(data=st.binary(max_size=300))
def test_any_bytes(path, data) -> None:
    path.write_bytes(data)
    tried(path)


@pytest.mark.slow
@settings(max_examples=CASES)
@given(data=st.binary(max_size=100), protocol=st.integers(2, 5))
def test_any_bytes_that_begin_as_a_pickle(path, data, protocol) -> None:
    path.write_bytes(bytes([0x80, protocol]) + data)
    tried(path)


NASTY = [
    "nan",
    "inf",
    "-1",
    "1e999",
    "1e308",
    "",
    "-",
    "\0",
    "\x1c",
    "\u2028",
    "0x10",
    "1_0",
    "9" * 5000,
    "é",
    "\r",
    "٣",
]


@pytest.mark.slow
@settings(max_examples=CASES)
@given(data=st.data(), name=st.sampled_from(sorted(SEEDS)))
def test_a_real_file_with_damage(path, data, name) -> None:
    content = bytearray(SEEDS[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        end = min(len(content), at + data.draw(st.integers(0, 12)))
        content[at:end] = data.draw(st.one_of(st.binary(max_size=6), st.sampled_from(NASTY).map(str.encode)))
    path.write_bytes(bytes(content))
    tried(path)


@pytest.mark.slow
@settings(max_examples=CASES)
@given(
    data=st.data(),
    name=st.sampled_from(["csv", "mahimahi", "pensieve", "oboe", "ucc", "fedscale"]),
)
def test_a_real_file_with_a_cell_or_a_line_changed(path, data, name) -> None:
    lines = [line.decode() for line in SEEDS[name].splitlines()]
    at = data.draw(st.integers(0, len(lines) - 1))
    cells = lines[at].split("," if "," in lines[at] else None)
    cells[data.draw(st.integers(0, len(cells) - 1))] = data.draw(
        st.one_of(st.sampled_from(NASTY), st.floats().map(str))
    )
    lines[at] = ("," if "," in lines[at] else " ").join(cells)
    if data.draw(st.booleans()):
        lines = data.draw(st.permutations(lines))
    path.write_bytes("\n".join(lines).encode())
    tried(path)


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just(10**400)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["computation", "communication", "active", "inactive", "finish_time", "messages", "down_u"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=CASES)
@given(value=st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), JUNK, max_size=3), pickled=st.booleans())
def test_any_mapping(path, value, pickled) -> None:
    path.write_bytes(pickle.dumps(value) if pickled else json.dumps(value).encode())
    tried(path)


# --- single faults, and what is said of them


@pytest.mark.parametrize(
    ("text", "reader", "said"),
    [
        ("0 1\n5 2\n3 1\n", pensieve.read, "line 3: the time is 3 after 5.0; times must not go back"),
        ("0 1\n5\n", pensieve.read, "line 2: has 1 columns; a time and a rate are expected"),
        ("0 1\n5 nan\n", pensieve.read, "line 2: the rate is 'nan'; it must be a finite number and at least 0"),
        ("0 1\n\n5 -2\n", pensieve.read, "line 3: the rate is '-2'; it must be a finite number and at least 0"),
        ("0 1\n5 1e10\n", pensieve.read, "line 2: the rate is '1e10'; it must be 1e+09 at most"),
        ("0 1\n0 2\n", pensieve.read, "all its times are equal; it needs two lines with different times"),
        ("0 1\n1 2\n", pensieve.read_oboe, "its lines are not pairs of equal rates, as those of an Oboe trace are"),
        ("1\n2.5\n", lambda s: mahimahi.read(s, "up"), "line 2: the stamp is '2.5'; it must be a whole number of ms"),
        ("5\n4\n", lambda s: mahimahi.read(s, "up"), "line 2: the stamp is 4 ms after 5; stamps must not go back"),
        ("0\n0\n", lambda s: mahimahi.read(s, "up"), "its last stamp is the period and must be above 0 ms"),
        ("time_s,rate\n0,1\n", columns.read, "line 1: there is no column 'rate'; known are down_mbit_s, up_mbit_s"),
        ("time_s,latency_ms\n0,1\n", columns.read, "line 1: neither down_mbit_s nor up_mbit_s is there"),
        ("time_s,loss,loss\n0,1\n", columns.read, "line 1: a column is listed twice"),
        ("time_s,up_mbit_s\n0,1\n0,2\n", columns.read, "line 3: time_s is 0 after 0.0; times must rise"),
        ("time_s,up_mbit_s\n0,1\n1\n", columns.read, "line 3: has 1 columns where the header has 2"),
        (
            "time_s,up_mbit_s\n0,1\n1,\n2,1\n",
            columns.read,
            "line 4: follows a row without values, which ends the trace",
        ),
        ("time_s,up_mbit_s\n", columns.read, "has no row with values"),
        ("time_s,up_mbit_s\n0,\n", columns.read, "has no row with values"),
        ("time_s,up_mbit_s,loss\n0,1,1.5\n", columns.read, "line 2: the loss is '1.5'; it must be 1 at most"),
        ("# kind: guess\ntime_s,up_mbit_s\n0,1\n", columns.read, "line 1: the kind is 'guess'; it must be capacity"),
        ("Timestamp,State\n", ucc.read, "line 1: there is no column DL_bitrate"),
        ("Timestamp,DL_bitrate,State\n12:00,1,D\n", ucc.read, "line 2: the Timestamp is '12:00'; it is written"),
        ("Timestamp,DL_bitrate,State\n2019.12.16_11.49.59,1,I\n", ucc.read, "has no row in State D"),
    ],
)
def test_a_fault_is_said_with_its_line(text, reader, said) -> None:
    with pytest.raises(BadFile) as error:
        reader(TraceText("x", text))
    assert str(error.value).startswith(f"x: {said}")


def test_a_file_that_cannot_be_read_is_said(tmp_path) -> None:
    with pytest.raises(BadFile, match="nothing: there is no such file"):
        read(tmp_path / "nothing")
    with pytest.raises(BadFile, match="is not a file"):
        read(tmp_path)
    with pytest.raises(BadFile, match="cannot be read: File name too long"):
        read(tmp_path / ("x" * 300))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadFile, match="is not a file"):  # and nobody waits for a writer
        recognise(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"0 1\n\xff 2\n", "line 2: holds bytes that are not UTF-8; the file is binary or damaged"),
        (b"0 1\n1 \0 2\n", "line 2: holds a NUL character; the file is binary or damaged"),
        (b"{", "line 1: is not JSON"),
        (b"[" * 5 + b"{", "line 1: '[[[[[{' does not begin any known format"),
        (b'{"a":' * 100_000, "is JSON nested too deeply"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "holds a number with thousands of digits"),
        (b"{}", "holds a dict; it must be a mapping of clients with at least one"),
        (b"a,b\n1,2\n", "line 1: 'a,b' does not begin any known format; write a table with the header"),
        (b"once upon a time", "line 1: 'once upon a time' does not begin any known format: csv, mahimahi"),
        (gzip.compress(b"0 1\n1 2\n", mtime=0), "is packed by gzip; unpack it first"),
        ("0 1\n1 2\n".encode("utf-16"), "is UTF-16; save it as UTF-8"),
        (
            b"time_s;up_mbit_s\n0;1\n1;\n",
            "line 1: 'time_s;up_mbit_s' does not begin any known format; write a table with the header time_s,",
        ),
        (b"1.5\n2\n", "line 1: '1.5' does not begin any known format; a Mahimahi file has a whole number of ms a line"),
    ],
)
def test_no_format_is_said(tmp_path, data, said) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(BadFile) as error:
        recognise(tmp_path / "x")
    assert str(error.value).startswith(f"{tmp_path / 'x'}: {said}")


def test_a_name_that_breaks_lines_does_not_break_the_error(tmp_path) -> None:
    with pytest.raises(BadFile) as error:
        read(tmp_path / "a\nb\x1b")
    assert str(error.value).endswith("a\\nb\\x1b: there is no such file")

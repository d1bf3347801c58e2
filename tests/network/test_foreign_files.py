"""Others' files: whatever their bytes, nothing runs, memory stays bounded, and the error is one line."""

from __future__ import annotations

import json
import pickle
import struct
import tracemalloc
from pathlib import Path

import pytest

from devices import traces as devices_traces
from network import foreign_files
from network.foreign_files import BadFile, content, decoded, table, watched
from network.traces.read import read, recognise


def test_a_huge_file_is_refused_before_it_is_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(foreign_files, "LARGEST", 1_000_000)
    (tmp_path / "x").write_bytes(b"1\n" * 500_001)
    with pytest.raises(BadFile, match="has 1.0 MB; at most 1 MB are read: cut it in parts"):
        content(tmp_path / "x")


def test_a_text_whose_characters_take_four_bytes_is_refused_sooner(monkeypatch) -> None:
    monkeypatch.setattr(foreign_files, "LETTERS", 100)
    assert decoded("x", b"1" * 101) == "1" * 101
    with pytest.raises(BadFile, match="at most 0.0001 MB of a text with other than ASCII letters are read"):
        decoded("x", b"1" * 97 + "🙂".encode())


TABLES = {  # of n entries: what fills memory most, each in its way
    "lists": lambda n: {"1": [[] for _ in range(n)]},
    "lists of one": lambda n: {"1": [[1] for _ in range(n)]},
    "mappings": lambda n: {"1": [{} for _ in range(n)]},
    "mappings of one": lambda n: {"1": [{"a": 1000 + i} for i in range(n)]},
    "clients": lambda n: {str(i): {"active": [i], "inactive": [i + 1], "finish_time": 1e6} for i in range(n)},
    "keys": lambda n: {str(i): 1 for i in range(n)},
    "whole numbers": lambda n: {"1": [1000 + i for i in range(n)]},
    "numbers": lambda n: {"1": [i + 0.5 for i in range(n)]},
    "texts": lambda n: {"1": [f"a{i}" for i in range(n)]},
    "a text": lambda n: {"1": {"messages": "2020-01-01 00:00:00\tscreen_on\n" * n}},
}


@pytest.mark.parametrize("write", [pickle.dumps, lambda made: json.dumps(made, separators=(",", ":")).encode()])
@pytest.mark.parametrize("kind", TABLES)
def test_no_table_takes_more_memory_than_it_is_taken_to(monkeypatch, write, kind) -> None:
    data = write(TABLES[kind](20_000))
    tracemalloc.start()
    table("x", data)
    peak = tracemalloc.get_traced_memory()[1] + len(data)
    tracemalloc.stop()

    monkeypatch.setattr(foreign_files, "VALUES", peak)
    with pytest.raises(BadFile, match="whose values could take more than .* MB of memory"):
        table("x", data)


def test_who_watches_hears_how_much_was_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("network.traces.trace_text.BLOCK", 100)
    (tmp_path / "x.csv").write_text("time_s,down_mbit_s\n" + "".join(f"{i},1\n" for i in range(100)) + "100,\n")
    heard: list[tuple[str, float]] = []

    with watched(lambda name, share: heard.append((name, share))):
        read(tmp_path / "x.csv")
    read(tmp_path / "x.csv")

    assert {name for name, _ in heard} == {str(tmp_path / "x.csv")}
    shares = [share for _, share in heard]
    assert shares == sorted(shares)
    assert len(shares) == 5 + 1  # 490 characters of numbers in blocks of at most 100; and the end
    assert 0.9 < shares[-2] < shares[-1] == 1


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("touched"),))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("read", [recognise, devices_traces.read], ids=["links", "phones"])
def test_a_pickle_runs_nothing(tmp_path, monkeypatch, protocol, read) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_bytes(pickle.dumps({"1": Evil()}, protocol=protocol))
    with pytest.raises(BadFile, match="GLOBAL at byte .*; only plain values are read"):
        read("x")
    assert not Path("touched").exists()


def test_a_pickle_that_asks_for_gigabytes_of_memo_is_refused() -> None:
    # LONG_BINPUT 2**31 makes the C unpickler grow an array of 2**32 pointers.
    with pytest.raises(BadFile, match="is a damaged pickle: it memorises out of order at byte 3"):
        table("x", b"\x80\x02}r" + struct.pack("<I", 2**31) + b".")


def test_a_truncated_pickle_is_damaged() -> None:
    whole = pickle.dumps({"1": {"active": [0, 50], "inactive": [20, 70], "finish_time": 100}})
    for length in range(3, len(whole)):
        with pytest.raises(BadFile, match="is a damaged pickle"):
            table("x", whole[:length])


def test_a_pickle_says_what_json_says() -> None:
    said = {"1": {"active": [0, 1.5], "text": "é"}, "2": [None, True]}
    as_json = '{"1": {"active": [0, 1.5], "text": "é"}, "2": [null, true]}'.encode()
    assert table("x", pickle.dumps(said)) == table("x", as_json) == said


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"1":\n 2,}', "x: line 2: is not JSON: "),
        (b'{"u": {"a": 1, "a": 2}}', "x: the key 'a' stands there twice"),
        (b'{"1": 1, "1": 2}', "x: the key '1' stands there twice"),
        (b'{"1": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "x: is JSON nested too deeply"),
        (b'{"1": ' + b"9" * 5000 + b"}", "x: holds a number with thousands of digits"),
        (b"[1, 2]", "x: holds a list; it must be a mapping of clients with at least one"),
        (b"{}", "x: holds a dict; it must be a mapping of clients with at least one"),
    ],
)
def test_json_that_says_nothing_clear_is_refused(data, said) -> None:
    with pytest.raises(BadFile) as error:
        table("x", data)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04 ...", "x: is a zip archive; unpack it first"),
        (b"\x1f\x8b ...", "x: is packed by gzip; unpack it first"),
        ("0 1\n".encode("utf-16"), "x: is UTF-16; save it as UTF-8"),
        (b"1\n2\n\xff", "x: line 3: holds bytes that are not UTF-8"),
        (b"1\n\0", "x: line 2: holds a NUL character"),
    ],
)
def test_what_is_no_text_is_named(data, said) -> None:
    with pytest.raises(BadFile) as error:
        decoded("x", data)
    assert str(error.value).startswith(said)

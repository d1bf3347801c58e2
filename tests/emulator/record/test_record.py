"""The two files of a run: whole lines at any instant, and a reader that believes nothing else."""

from __future__ import annotations

import errno
import json
import math
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.record.call import Call
from emulator.record.folders import run_folders
from emulator.record.lines import encode, read_lines
from emulator.record.record import FILES, Record
from emulator.record.tally import Bill, bytes_by_kind
from emulator.record.writing import replace_file

few = settings(max_examples=25, deadline=None, derandomize=True)
A = Call("a", 0)


class Clock:
    """Says what it is told to."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def written(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_bytes(text)
    return path


# --- reading ----------------------------------------------------------------------------------------------------


def test_lines_are_read_in_their_order(tmp_path: Path) -> None:
    assert list(read_lines(written(tmp_path, b'{"t": 1}\n{"t": 2}\n'))) == [{"t": 1}, {"t": 2}]


@pytest.mark.parametrize("last", [b'{"t": 2', b'{"t": 2}', b"{", b"", '{"t": "é'.encode()[:-1]])
def test_a_last_line_without_its_newline_is_ignored(tmp_path: Path, last: bytes) -> None:
    assert list(read_lines(written(tmp_path, b'{"t": 1}\n' + last))) == [{"t": 1}]


@pytest.mark.parametrize(
    "bad", [b"{", b"", b"[1]", b"7", b"null", b'"text"', b"\xff", b'{"t": 1} {}', b"[" * 100_000, b"7" * 5000]
)
def test_any_other_line_that_is_no_object_is_refused_with_its_place(tmp_path: Path, bad: bytes) -> None:
    path = written(tmp_path, b'{"t": 1}\n' + bad + b'\n{"t": 3}\n')
    lines = read_lines(path)
    with pytest.raises(ValueError, match=r"events\.jsonl:2 "):
        list(lines)


@few
@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=4), st.one_of(st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
        )
    )
)
def test_what_was_encoded_is_read_again_the_same(
    tmp_path_factory: pytest.TempPathFactory, objects: list[dict[str, object]]
) -> None:
    path = tmp_path_factory.mktemp("lines") / "some.jsonl"
    path.write_bytes(b"".join(map(encode, objects)))
    assert list(read_lines(path)) == objects


def test_a_cut_file_loses_the_line_that_was_cut_and_no_other(tmp_path: Path) -> None:
    whole = b'{"t":1}\n{"t":22}\n{"t":333}\n'
    for length in range(len(whole) + 1):
        lines = list(read_lines(written(tmp_path, whole[:length])))
        assert len(lines) == whole[:length].count(b"\n")


# --- writing ----------------------------------------------------------------------------------------------------


def test_an_event_is_one_line_with_sorted_keys_and_its_time(tmp_path: Path) -> None:
    clock = Clock()
    record = Record(tmp_path, clock)
    clock.time = 1.25
    record.open(0, ["b", "a"], "m0")
    record.shut()
    [text] = (tmp_path / "events.jsonl").read_text().splitlines()
    assert json.loads(text) == {"t": 1.25, "event": "open", "round": 0, "asked": ["b", "a"], "model": "m0"}
    assert list(json.loads(text)) == sorted(json.loads(text))


def test_a_row_is_never_on_disk_before_the_events_that_it_sums_up(tmp_path: Path) -> None:
    record = Record(tmp_path, Clock())
    for round in range(3):
        record.open(round, ["a"], "m")
        record.close(round, "all", ["a"])
        record.row({"round": round})
        assert len(list(read_lines(tmp_path / "rounds.jsonl"))) == round + 1
        assert len(list(read_lines(tmp_path / "events.jsonl"))) == 2 * (round + 1)
    record.shut()


def test_what_is_told_after_the_end_is_not_written(tmp_path: Path) -> None:
    """After a second Ctrl-C tasks still unwind."""
    record = Record(tmp_path, Clock())
    record.open(0, ["a"], "m")
    record.start("down", A, {"weights": 10}, None)
    record.shut()
    record.shut()
    record.cut("down", A, "closed", 5)
    assert [line["event"] for line in read_lines(tmp_path / "events.jsonl")] == ["open", "down.start"]


def test_nothing_that_is_not_a_number_is_written(tmp_path: Path) -> None:
    record = Record(tmp_path, Clock())
    with pytest.raises(ValueError, match="JSON compliant"):
        record.row({"loss": float("nan")})
    record.shut()
    assert (tmp_path / "rounds.jsonl").read_bytes() == b""


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_not_even_among_values_that_are_not_known(bad: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        encode({"accuracy": None, "joules": {"a": None, "b": [1.0, bad]}})


@given(st.floats(allow_nan=False, allow_infinity=False))
@few
def test_a_float_is_written_in_as_few_digits_as_python_writes_it(value: float) -> None:
    text = encode({"t": value})[5:-2].decode()
    assert float(text) == value
    assert digits(text) == digits(repr(value))


def digits(text: str) -> str:
    """The significant digits of a number."""
    return text.partition("e")[0].lstrip("-").replace(".", "").strip("0")


def test_what_json_has_no_small_form_for_is_written_all_the_same() -> None:
    line = {"flops": 2**80, "t": np.float64(1e-5), "device": "größe \u2028"}
    assert json.loads(encode(line)) == line


def test_a_line_of_an_older_version_reads_the_same(tmp_path: Path) -> None:
    """Lines as the json module writes them: 1e-05, and escapes."""
    line = {"device": "größe", "t": 1e-05, "wire": 2**70}
    older, newer = json.dumps(line, sort_keys=True).encode() + b"\n", encode(line)
    assert older != newer
    assert list(read_lines(written(tmp_path, older))) == list(read_lines(written(tmp_path, newer))) == [line]


def test_a_trip_adds_up_what_its_lines_say(tmp_path: Path) -> None:
    clock = Clock()
    record = Record(tmp_path, clock)
    record.open(0, ["a"], "m")
    record.start("down", A, {"weights": 90, "frame": 10}, None)
    clock.time = 2.0
    record.end("down", A)
    record.compute_start(A, Bill({"train": 800.0}, {"train": 8.0}), 100.0, record.now())
    clock.time = 4.0
    record.compute_cut(A, "closed")
    trip = record.trips[A]
    record.shut()
    assert trip.down is not None
    assert (trip.down.seconds, trip.down.moved, trip.nbytes) == (2.0, 100, 100)
    [stint] = trip.work
    assert (stint.seconds, stint.share, trip.flops) == (2.0, 0.25, 200.0)


def test_what_happens_at_one_instant_has_one_time(tmp_path: Path) -> None:
    clock = Clock()
    record = Record(tmp_path, clock)
    record.open(0, ["a"], "m")
    with record.instant():
        record.off(A)
        clock.time = 1.0
        record.on(A)
    record.off(A)
    record.shut()
    assert [line["t"] for line in read_lines(tmp_path / "events.jsonl")] == [0.0, 0.0, 0.0, 1.0]


# --- files ------------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    replace_file(path, "old")
    replace_file(path, "new, é")
    assert path.read_text(encoding="utf-8") == "new, é"
    assert [each.name for each in tmp_path.iterdir()] == ["summary.json"]


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    replace_file(path, "old")
    with pytest.raises(UnicodeEncodeError):
        replace_file(path, "new" * 100_000 + "\ud800")
    assert path.read_text() == "old"


def test_a_reader_of_a_file_that_is_replaced_sees_the_old_or_the_new(tmp_path: Path) -> None:
    """The name goes to another file; a reader that has the old file open reads it to its end."""
    path = tmp_path / "summary.json"
    replace_file(path, "old" * 1000)
    with path.open() as reader:
        replace_file(path, "new" * 2000)
        assert reader.read() == "old" * 1000


def test_a_folder_means_itself_or_all_runs_in_it(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("fedavg-s1", "fedavg-s2")]
    for folder in runs:
        Record(folder, Clock()).shut()
    assert run_folders(tmp_path) == runs
    assert run_folders(runs[1]) == [runs[1]]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no run"):
        run_folders(tmp_path / "empty")


# --- on the disk ------------------------------------------------------------------------------------------------


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The content of each file whenever it was synced: everything that had been handed to the system."""
    found: list[bytes] = []

    def sync(file: int) -> None:
        found.append(Path(f"/proc/self/fd/{file}").read_bytes())

    monkeypatch.setattr("os.fsync", sync)
    return found


def test_at_the_end_of_a_run_each_of_its_files_is_on_the_disk_whole(tmp_path: Path, synced: list[bytes]) -> None:
    record = Record(tmp_path, Clock())
    record.open(0, ["a"], "m")
    record.row({"round": 0})
    record.close(0, "all", [])
    record.shut()
    assert sorted(synced) == sorted((tmp_path / name).read_bytes() for name in FILES)
    assert len(synced) == 3
    assert max(map(len, synced)) > 0


def test_a_file_is_replaced_by_one_that_is_on_the_disk_whole(
    tmp_path: Path, synced: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash of the machine could leave an empty file under the new name."""
    order: list[str] = []
    rename = Path.replace

    def replace(draft: Path, target: Path) -> Path:
        order.append(f"renamed after {len(synced)}")
        return rename(draft, target)

    monkeypatch.setattr(Path, "replace", replace)
    replace_file(tmp_path / "x.json", "{}")
    assert (order, synced) == (["renamed after 1"], [b"{}"])


def test_bytes_of_a_transfer_that_goes_on_are_counted_once() -> None:
    """100 bytes: 40, an absence, and the other 60."""
    record = Record(None, Clock())
    record.open(0, ["a"], "m")
    record.start("down", A, {"weights": 90, "frame": 10}, None)
    record.cut("down", A, "off", 40, "resume")
    record.start("down", A, {"weights": 90, "frame": 10}, None, since=40)
    record.end("down", A)
    record.shut()
    trip = record.trips[A]
    assert trip.nbytes == 100
    assert bytes_by_kind([trip])["down"] == {"weights": 90, "frame": 10}


def test_a_file_that_cannot_be_written_whole_leaves_no_draft_and_the_old_one_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "summary.json").write_text("old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        replace_file(tmp_path / "summary.json", "new")
    assert error.value.filename == str(tmp_path / "summary.json")
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
    assert (tmp_path / "summary.json").read_text() == "old"


def full(file: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", ["events.jsonl", "work.jsonl", "rounds.jsonl"])
def test_a_record_on_a_full_disk_keeps_the_rounds_before_and_goes_on_counting(tmp_path, monkeypatch, name):
    record = Record(tmp_path, lambda: 0.0)
    record.open(0, ["a"], "model")
    record.row({"round": 0})
    file = {"events.jsonl": record.events, "work.jsonl": record.works, "rounds.jsonl": record.rounds}[name]
    monkeypatch.setattr(file, "flush", partial(full, 0))
    record.open(1, ["a"], "model")
    record.row({"round": 1})
    assert record.unwritten is not None
    assert record.unwritten.filename == str(tmp_path / name)
    monkeypatch.undo()  # there is room again, but what is missing stays missing
    record.open(2, ["a"], "model")
    record.row({"round": 2})
    record.shut()
    assert len(record.trips) == 3
    rounds = [row["round"] for row in read_lines(tmp_path / "rounds.jsonl")]
    events = [line["round"] for line in read_lines(tmp_path / "events.jsonl")]
    assert rounds[:1] == [0]
    assert 2 not in rounds
    assert set(rounds) <= set(events)


def test_a_record_that_cannot_be_flushed_to_the_disk_at_its_end_says_so_and_is_closed(tmp_path, monkeypatch):
    record = Record(tmp_path, lambda: 0.0)
    monkeypatch.setattr("os.fsync", full)
    record.shut()
    assert record.unwritten is not None
    assert record.events.closed
    assert record.rounds.closed
    assert record.works.closed


def test_where_a_file_cannot_be_opened_those_opened_before_it_are_closed(tmp_path: Path) -> None:
    (tmp_path / FILES[1]).mkdir()
    with warnings.catch_warnings(record=True, action="always") as left_open, pytest.raises(IsADirectoryError):
        Record(tmp_path, Clock())
    assert left_open == []

"""Work, and its file: each kind once, a device's line only when it changes, and no other line is accepted."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices.device import POSITION, Device, Profile
from emulator.record.call import Call
from emulator.record.lines import encode, read_lines
from emulator.record.record import Record
from emulator.record.tally import Bill
from emulator.record.work import Duty, Piece, WorkLines, Works

few = settings(max_examples=10, deadline=None, derandomize=True)
PATH = Path("work.jsonl")
TRAIN = (Piece.of("train", 600.0, 3, 50.0, 40.0, 10.0, 2.0, 8.0, 4.0),)
SUMS = (*TRAIN, Piece.of("sums", 0.0, 1, 7.0))

DUTIES = (Duty(TRAIN, 9, 100), Duty(SUMS, 9, 100), Duty(SUMS, 8, 10**12), Duty((), 0, 0))


def test_a_piece_takes_what_its_steps_take() -> None:
    """Three steps: 150 dense FLOPs, 40 in convolutions, 10 recurrent; 200 bytes; an overhead and 2 positions; 8
    operators and 4 convolutions."""
    speeds = {"conv_flops_per_s": 20.0, "recurrent_flops_per_s": 5.0}
    profile = Profile("p", 50.0, 100.0, 0.25, 1, "", **speeds, operator_s=0.5, convolution_s=2.0)
    each = 150 / 50 + 40 / 20 + 10 / 5 + 200 / 100 + (1 + 2 * POSITION) * 0.25 + 8 * 0.5 + 4 * 2.0
    assert TRAIN[0].seconds(Device("a", profile)) == pytest.approx(3 * each)


@few
@given(
    st.dictionaries(st.integers(0, 30), st.dictionaries(st.sampled_from("abc"), st.sampled_from(DUTIES)), max_size=8)
)
def test_what_was_asked_is_read_again(asked: dict[int, dict[str, Duty]]) -> None:
    ledger, lines = WorkLines(), []
    for round in sorted(asked):
        for name, duty in asked[round].items():
            lines += [json.loads(encode(line)) for line in ledger.device(name, round, duty)]
    works = Works(PATH, lines)
    for round, of in asked.items():
        assert {name: works.device(name, round) for name in of} == of


def test_what_is_as_before_is_not_said_again() -> None:
    ledger = WorkLines()
    lines = [line for round in range(5) for line in ledger.device("a", round, Duty(TRAIN, 9, 100))]
    lines += [line for round in range(5) for line in ledger.device("b", round, Duty(TRAIN, 9, 100 + round % 2))]
    lines += [line for round in range(5) for line in ledger.server("combine", round, SUMS[round % 2 :])]
    assert sum("pieces" in line for line in lines) == 3
    assert sum(line.get("device") == "a" for line in lines) == 1
    assert sum(line.get("device") == "b" for line in lines) == 5
    assert sum("server" in line for line in lines) == 5


def test_before_it_was_asked_a_device_had_nothing_to_do() -> None:
    works = Works(PATH, list(WorkLines().device("a", 4, Duty(TRAIN, 9, 100))))
    assert (works.device("a", 3), works.device("b", 4), works.server("combine", 4)) == (None, None, ())


REST = [0.0] * 8  # conv, recurrent, positions, operators, convolutions, grouped, pointwise, conv_floats
GOOD = {"work": 0, "pieces": [["train", 6.0, 3, 1.0, *REST]]}
ASKED = {"device": "a", "round": 0, "work": 0, "examples": 1, "held": 1}


@pytest.mark.parametrize(
    "line",
    [
        {"work": 2, "pieces": []},
        {"work": True, "pieces": []},
        {"pieces": []},
        {"work": 1, "pieces": 7},
        {"work": 1, "pieces": [[7, 6.0, 3, 1.0, *REST]]},
        {"work": 1, "pieces": [["train", float("nan"), 3, 1.0, *REST]]},
        {"work": 1, "pieces": [["train", float("inf"), 3, 1.0, *REST]]},
        {"work": 1, "pieces": [["train", -1.0, 3, 1.0, *REST]]},
        {"work": 1, "pieces": [["train", 10**400, 3, 1.0, *REST]]},
        {"work": 1, "pieces": [["train", 6.0, 2.5, 1.0, *REST]]},
        {"work": 1, "pieces": [["train", 6.0, True, 1.0, *REST]]},
        {"work": 1, "pieces": [["train", 6.0, 3, "1", *REST]]},
        {"work": 1, "pieces": [["train", 6.0, 3, 1.0, *REST, 0.0]]},
        {"work": 1, "pieces": [["train", 6.0, 3, 1.0, *REST[1:]]]},
        {"work": 1, "pieces": [["train", 6.0, 3, 1.0, 2.0, 1.0, *REST[2:]]]},  # parts of 3 FLOPs of a step that has 2
        {"work": 1, "pieces": [["train", 6.0, 3, 1.0, 1.0, *REST[1:5], 1.0, 1.0, 0.0]]},  # 2 of 1 in convolutions
        {"work": 1, "pieces": [["train", 6.0, 3, 1.0, *REST[:7], 2.0]]},  # 2 numbers of 1 that move
        {**ASKED, "work": 1},
        {**ASKED, "work": -1},
        {**ASKED, "round": -1},
        {**ASKED, "round": None},
        {**ASKED, "device": ["a"]},
        {**ASKED, "held": 1.5},
        {**ASKED, "examples": -3},
        {"server": {}, "round": 0, "work": 0},
        {"round": 0, "work": 0},
        {},
    ],
    ids=str,
)
def test_a_line_that_no_run_writes_is_named(line: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"work\.jsonl:3 is not as `fedlapse run` writes it"):
        Works(PATH, [GOOD, {**ASKED, "round": 2}, {**line}])


def test_rounds_of_a_device_do_not_go_back() -> None:
    with pytest.raises(ValueError, match=r"work\.jsonl:3 "):
        Works(PATH, [GOOD, {**ASKED, "round": 2}, {**ASKED, "round": 1}])


def test_a_row_is_never_there_without_the_work_that_it_sums_up(tmp_path: Path) -> None:
    record, path = Record(tmp_path, lambda: 0.0), tmp_path / "work.jsonl"
    record.open(0, ["a"], "m")
    record.duty(Call("a", 0), Duty(TRAIN, 9, 100))
    record.server_start(0, "combine", Bill({"sums": 0.0}, {"sums": 0.1}, SUMS), 1.0)
    record.row({"round": 0})
    works = Works(path, read_lines(path))  # the file is open still
    assert (works.device("a", 0), works.server("combine", 0)) == (Duty(TRAIN, 9, 100), SUMS)
    record.shut()
    record.duty(Call("a", 1), Duty(SUMS, 9, 100))  # after a second Ctrl-C
    assert len(list(read_lines(path))) == 4


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record = Record(None, lambda: 3.0)
    assert record.open(0, ["a"], "m") == 3.0
    record.duty(Call("a", 0), Duty(TRAIN, 9, 100))
    record.compute_start(Call("a", 0), Bill({"train": 6.0}, {"train": 1.0}), 1.0, record.now())
    record.compute_end(Call("a", 0), "u")
    record.row({"round": 0})
    record.shut()
    assert record.trips[Call("a", 0)].flops == 6.0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("held", "said"), [(5_000_000, None), (5_000_001, "x needs 5 MB for 9 examples, it has 5 MB")])
def test_a_device_refuses_what_it_cannot_hold(held: int, said: str | None) -> None:
    assert Duty(TRAIN, 9, held).refusal("x", 5_000_000) == said

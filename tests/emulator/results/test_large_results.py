"""Reading results of many rounds in little memory."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.results.results import Results, read
from emulator.results.summary import summarise

SCENARIO = """
name: large
seeds: [1]
rounds: {max: 200, targets: [{metric: accuracy, value: 0.5}]}
fleet: [{profile: phone-mid, count: 20, link: {up_mbit_s: 1, down_mbit_s: 1}}]
"""
NAMES = [f"phone-mid-{number}" for number in range(20)]
A_ROW = 4300  # bytes; 300 MB hold 100 runs of 500 rounds of 20 devices, and 85 MB for the page


def rows(rounds: int) -> Iterator[dict[str, Any]]:
    """Yields the rows of a run with 20 devices, in which no two numbers are equal."""
    draw = random.Random(1).random
    for number in range(rounds):
        numbers = {name: draw() for name in ("accuracy", "initial", "personalised", "loss", "validation", "flops")}
        down, up = ({"frame": draw(), "weights": draw()} for _ in range(2))
        path = {"setup_s": draw(), "wait_s": draw(), "compute_s": {"train": draw()}, "server_s": {"combine": draw()}}
        spent = {name: [draw(), draw(), 0.0] for name in NAMES}
        yield {
            **numbers,
            "round": number,
            "time_s": number + draw(),
            "bytes": {way: {"frame": number, "weights": 1000 + number} for way in ("down", "up")},
            **dict.fromkeys(("wasted_bytes", "late", "lost", "refused"), 0),
            **dict.fromkeys(("asked", "counted"), 20),
            "failed": False,
            "leverage": {},
            "numbers": {"drift": draw()},
            "critical": {**path, "device": NAMES[0], "down_s": down, "up_s": up},
            "seconds": {"useful": draw(), "wasted": draw(), "idle": -0.0 if number % 2 else 0, "devices": spent},
            "joules": {name: draw() for name in NAMES},
            "watts": {name: [draw(), draw(), draw()] for name in NAMES},
        }


def written(out: Path, rounds: int) -> Path:
    """Writes results of one run into the folder, and returns it."""
    (out / "scenario.yaml").write_text(SCENARIO)
    run = out / "fedavg-s1"
    run.mkdir()
    (run / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(rounds)))
    return out


@pytest.fixture
def found(tmp_path: Path) -> Results:
    return read(written(tmp_path, 10))


@pytest.mark.slow
def test_a_hundred_runs_of_500_rounds_fit_into_300_mb(tmp_path: Path) -> None:
    out = written(tmp_path, 200)
    read(out)  # loads what is loaded once
    tracemalloc.start()
    try:
        found = read(out)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.runs["fedavg"][1]) == 200
    assert held < A_ROW * 200


def test_what_is_held_of_the_rows_gives_the_summary_of_the_whole_rows(found: Results) -> None:
    whole = {"fedavg": {1: list(rows(10))}}
    assert json.dumps(summarise(found.runs, (), {"fedavg": 0.0})) == json.dumps(summarise(whole, (), {"fedavg": 0.0}))


def test_all_of_each_row_can_still_be_read(found: Results) -> None:
    assert json.dumps(list(found.rows("fedavg", 1))) == json.dumps(list(rows(10)))
    assert list(found.rows("fedavg", 2)) == []


def test_only_what_is_written_alike_is_shared(found: Results) -> None:
    held = found.runs["fedavg"][1]
    assert [str(row["seconds"]["idle"]) for row in held[:3]] == ["0", "-0.0", "0"]
    assert held[0]["leverage"] is held[1]["leverage"]


def test_a_row_that_is_nested_too_deeply_is_refused_in_one_line(tmp_path: Path) -> None:
    run = written(tmp_path, 1) / "fedavg-s1" / "rounds.jsonl"
    numbers = '{"a":' * 900 + "1" + "}" * 900
    run.write_text(run.read_text().replace('"leverage": {}', f'"leverage": {numbers}'))
    with pytest.raises(ValueError, match="nested|recursion"):
        read(tmp_path)

"""The log behind the facts: a damaged line costs itself, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.ledger.facts import Fact, Facts
from emulator.ledger.log import Log
from tests.all_of import all_of

ROWS = [["fact", number, b"bits\n" * number, 0.5] for number in range(3)]


def written(path: Path) -> Path:
    log = Log(path)
    for row in ROWS:
        log.append(row)
    log.close()
    return path


def found(path: Path) -> list[list[object]]:
    log = Log(path)
    try:
        return list(log.rows())
    finally:
        log.close()


def test_what_was_appended_is_read_in_its_order(tmp_path: Path) -> None:
    assert found(written(tmp_path / "log")) == ROWS


def test_each_byte_flipped_costs_at_most_the_lines_that_it_touches(tmp_path: Path) -> None:
    data = written(tmp_path / "log").read_bytes()
    for place in range(len(data)):
        path = tmp_path / "flipped"
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        rows = found(path)
        assert all_of(row in ROWS for row in rows)
        assert len(rows) >= len(ROWS) - (2 if data[place : place + 1] == b"\n" else 1)


def test_cut_at_each_length_it_holds_the_whole_lines_and_goes_on(tmp_path: Path) -> None:
    data = written(tmp_path / "log").read_bytes()
    for length in range(len(data)):
        path = tmp_path / "cut"
        path.write_bytes(data[:length])
        log = Log(path)
        log.append(["next"])
        log.close()
        whole = data[:length].count(b"\n")
        # a line that lacks nothing but its end is whole
        assert found(path) in ([*ROWS[:whole], ["next"]], [*ROWS[: whole + 1], ["next"]])


@pytest.mark.parametrize("damage", [b"no database", b""])
def test_an_index_that_is_lost_is_made_again(tmp_path: Path, damage: bytes) -> None:
    told: list[str] = []
    fact, path = Fact("k" * 64, "train", "", [1], [0.5, b"bits"]), tmp_path / "facts.sqlite"
    facts = Facts(path, told.append)
    study = facts.about("name: mine")
    facts.put(fact)
    facts.close()
    path.write_bytes(damage)
    again = Facts(path, told.append)
    assert again.get(fact.key) == fact
    assert again.scenario(study) == "name: mine"
    assert [("is made again from facts.log" in text) for text in told] == [True] * bool(damage)
    again.close()

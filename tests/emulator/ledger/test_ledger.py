"""The ledger in its folder: what it keeps, what it evicts, and what killed commands have left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from emulator.ledger.ledger import Ledger
from emulator.messages.store import Ref
from emulator.record.writing import told

DATA = [bytes([number]) * 100 for number in range(5)]
REFS = [Ref.of(data) for data in DATA]


def opened(folder: Path, cap: int = 1 << 30) -> Ledger:
    def warn(text: str) -> None:
        raise AssertionError(text)

    return Ledger(folder, warn, cap)


def made(ledger: Ledger, number: int) -> Ref:
    """A message that a job has just written, as the store does."""
    (ledger.live.path / REFS[number].digest).write_bytes(DATA[number])
    return REFS[number]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_in_the_place_of_the_folder_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "afile").touch()
    with pytest.raises(FileExistsError) as refused:
        opened(tmp_path / "afile")
    assert told(refused.value) == f"{tmp_path / 'afile'}: it is a file, or lies in one; give a folder"


def test_what_is_kept_is_there_for_the_next_command_and_nothing_else(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.keep(made(first, 0))
    made(first, 1)
    first.close(broken_off=False)
    second = opened(tmp_path)
    assert [second.fetch(ref) for ref in REFS[:2]] == [True, False]
    assert (second.live.path / REFS[0].digest).read_bytes() == DATA[0]
    second.close(broken_off=False)
    assert names(tmp_path / "live") == set()


def test_what_a_run_held_that_was_broken_off_is_left_and_fetched_once(tmp_path: Path) -> None:
    first = opened(tmp_path)
    made(first, 0)
    (first.live.path / "draft-17-0").write_bytes(b"half")
    first.close(broken_off=True)
    assert names(tmp_path / "left") == {REFS[0].digest}
    second = opened(tmp_path)
    assert second.fetch(REFS[0])
    second.close(broken_off=False)
    assert names(tmp_path / "left") == names(tmp_path / "live") == set()


def test_what_a_killed_command_held_is_taken_over_by_the_next(tmp_path: Path) -> None:
    killed = opened(tmp_path)
    made(killed, 0)
    (killed.live.path / "draft-17-0").write_bytes(b"half")
    killed.live.at_exit.cancel()
    killed.live.file.close()  # as the system does when its process is gone
    second = opened(tmp_path)
    assert names(tmp_path / "left") == {REFS[0].digest}
    assert names(tmp_path / "live") == {second.live.path.name}
    assert second.fetch(REFS[0])
    second.close(broken_off=False)


def test_a_living_command_lets_others_have_what_it_holds_and_keeps_it(tmp_path: Path) -> None:
    first = opened(tmp_path)
    made(first, 0)
    second = opened(tmp_path)
    assert [second.fetch(ref) for ref in REFS[:2]] == [True, False]
    assert (second.live.path / REFS[0].digest).read_bytes() == DATA[0]
    second.close(broken_off=False)
    assert names(first.live.path) >= {REFS[0].digest}
    first.close(broken_off=False)
    assert names(tmp_path / "left") == names(tmp_path / "live") == set()


def test_once_a_run_has_come_to_its_end_nothing_is_left_of_it(tmp_path: Path) -> None:
    """Nothing is left of the parts that the run wrote before it was interrupted and never needed again.  Parts of other
    runs stay."""
    first = opened(tmp_path)
    made(first, 0)
    made(first, 1)
    first.close(broken_off=True)
    second = opened(tmp_path)
    second.close(broken_off=False, made={REFS[0].digest})
    assert names(tmp_path / "left") == {REFS[1].digest}


def used(ledger: Ledger, number: int, when: int) -> None:
    ledger.keep(made(ledger, number))
    os.utime(ledger.folder / "kept" / REFS[number].digest, (when, when))


def test_eviction_takes_what_was_not_used_for_the_longest_time(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    for number, when in enumerate((50, 20, 40, 10, 30)):
        used(ledger, number, when)
    assert ledger.trim(250) == 300
    assert names(tmp_path / "kept") == {REFS[0].digest, REFS[2].digest}
    ledger.close(broken_off=False)


def test_to_read_is_to_use(tmp_path: Path) -> None:
    first = opened(tmp_path)
    for number, when in enumerate((10, 20, 30)):
        used(first, number, when)
    first.close(broken_off=False)
    second = opened(tmp_path, cap=100)
    assert second.fetch(REFS[0])
    second.close(broken_off=False)
    assert names(tmp_path / "kept") == {REFS[0].digest}


def test_at_its_end_a_command_leaves_no_more_than_the_cap(tmp_path: Path) -> None:
    ledger = opened(tmp_path, cap=300)
    for number in range(5):
        ledger.keep(made(ledger, number))
    ledger.close(broken_off=False)
    assert sum(path.stat().st_size for path in (tmp_path / "kept").iterdir()) == 300


def test_a_folder_that_cannot_be_used_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file"):
        opened(tmp_path / "file")

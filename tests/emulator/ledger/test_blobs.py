"""Blobs: the right bytes or none, and what is wrong goes to quarantine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from emulator.ledger.blobs import Blobs
from emulator.messages.store import Ref

DATA = b"\x81weights" * 2
REF = Ref.of(DATA)
PLACES = ("kept", "left")


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def blobs(tmp_path: Path, told: list[str]) -> Blobs:
    return Blobs(tmp_path / "ledger", told.append)


def holding(blobs: Blobs, place: str, data: bytes = DATA, name: str = REF.digest) -> Path:
    path = blobs.folder / place / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("place", PLACES)
def test_what_is_there_is_fetched_and_of_what_was_left_nothing_stays(blobs: Blobs, tmp_path: Path, place: str) -> None:
    found = holding(blobs, place)
    assert blobs.fetch(REF, tmp_path / "here")
    assert (tmp_path / "here").read_bytes() == DATA
    assert found.exists() == (place == "kept")


def test_what_is_not_there_is_missed(blobs: Blobs, tmp_path: Path, told: list[str]) -> None:
    assert not blobs.fetch(REF, tmp_path / "here")
    assert not (tmp_path / "here").exists()
    assert told == []


DAMAGES = {
    **{f"byte {place}": DATA[:place] + bytes([DATA[place] ^ 1]) + DATA[place + 1 :] for place in range(len(DATA))},
    **{f"cut at {length}": DATA[:length] for length in range(len(DATA))},
    "longer": DATA + b"\0",
    "zeros": bytes(len(DATA)),
}


@pytest.mark.parametrize("place", PLACES)
def test_damaged_in_any_way_it_is_missed_and_put_into_quarantine(
    blobs: Blobs, tmp_path: Path, told: list[str], place: str
) -> None:
    for how, data in DAMAGES.items():
        found = holding(blobs, place, data)
        assert not blobs.fetch(REF, tmp_path / "here"), how
        assert not (tmp_path / "here").exists()
        assert not found.exists()
        assert (blobs.folder / "quarantine" / REF.digest).read_bytes() == data
        assert told.pop() == f"{found} is damaged; it is in quarantine/ now, and is computed again"
    assert told == []


def test_two_that_were_swapped_are_both_missed(blobs: Blobs, tmp_path: Path, told: list[str]) -> None:
    other = Ref.of(b"other")
    holding(blobs, "kept", b"other")
    holding(blobs, "kept", DATA, other.digest)
    assert [blobs.fetch(ref, tmp_path / ref.digest) for ref in (REF, other)] == [False, False]
    assert len(told) == 2


def test_one_that_was_damaged_can_be_kept_anew(blobs: Blobs, tmp_path: Path) -> None:
    holding(blobs, "kept", b"damaged")
    assert not blobs.fetch(REF, tmp_path / "here")
    (tmp_path / "here").write_bytes(DATA)
    blobs.keep(REF, tmp_path / "here")
    assert blobs.fetch(REF, tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == DATA


def test_a_sound_one_is_found_behind_a_damaged_one(blobs: Blobs, tmp_path: Path) -> None:
    holding(blobs, "left", b"damaged")
    holding(blobs, "kept")
    assert blobs.fetch(REF, tmp_path / "here")
    assert (tmp_path / "here").read_bytes() == DATA


def test_to_keep_it_twice_keeps_it_once(blobs: Blobs, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(DATA)
    blobs.keep(REF, tmp_path / "here")
    blobs.keep(REF, tmp_path / "here")
    assert [path.name for path in blobs.all()] == [REF.digest]


def test_one_that_cannot_be_read_now_is_missed_and_stays(
    blobs: Blobs, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = holding(blobs, "kept")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", _no_file_is_free)
        assert not blobs.fetch(REF, tmp_path / "here")
    assert f"{found} cannot be read: too many open files; raise `ulimit -n`; it is computed again" in told
    assert blobs.fetch(REF, tmp_path / "here")


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM], ids=["another disk", "no hard links"])
def test_where_a_file_can_have_one_name_only_it_is_copied(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refused)
    (tmp_path / "here").write_bytes(DATA)
    blobs.keep(REF, tmp_path / "here")
    assert [path.name for path in blobs.all()] == [REF.digest]
    assert blobs.fetch(REF, tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == DATA


def test_where_it_only_reads_a_damaged_one_stays_and_is_missed(blobs: Blobs, tmp_path: Path) -> None:
    found, told = holding(blobs, "kept", b"damaged"), list[str]()
    assert not Blobs(blobs.folder, told.append, writes=False).fetch(REF, tmp_path / "here")
    assert told == [f"{found} is damaged; it is computed again"]
    assert found.read_bytes() == b"damaged"


def _no_file_is_free(*_: object, **__: object) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

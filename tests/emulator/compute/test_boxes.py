"""Messages that Ray lends: found as in files, and let go when nobody holds them.  Here a list takes Ray's place."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from emulator.messages.files import Draft, written
from emulator.messages.store import NO_TENSORS, NOTHING, Ref

if not find_spec("ray"):
    pytest.skip("NO RAY: its store of messages is not tested; pip install 'fedlapse[ray]'", allow_module_level=True)

from emulator.compute import rays
from emulator.compute.rays import Box, Boxes, Lent, Put, Shelf

DATA = b"some bytes"


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> list[Box]:
    """The objects that the command itself has given to Ray."""
    given: list[Box] = []

    def lend(box: Box) -> int:
        given.append(box)
        return len(given) - 1

    monkeypatch.setattr(rays.ray, "put", lend)
    monkeypatch.setattr(rays.ray, "get", given.__getitem__)
    return given


@pytest.fixture
def boxes(tmp_path: Path, lent: list[Box]) -> Boxes:
    return Boxes([tmp_path])


def came(boxes: Boxes, *messages: bytes) -> list[Ref]:
    """Messages that a worker has made in one batch."""
    shelf = Shelf([])
    refs = [shelf.put(message) for message in messages]
    return [boxes.take(Put(ref, Lent("a box", shelf.made))) for ref in refs]


def test_what_a_worker_has_made_is_read_where_ray_has_it(boxes: Boxes, tmp_path: Path) -> None:
    (ref,) = came(boxes, DATA)
    assert bytes(boxes.get(ref)) == DATA
    assert boxes.objects([ref]) == ["a box"]
    assert not (tmp_path / ref.digest).exists()


def test_messages_of_one_batch_travel_in_one_box(boxes: Boxes) -> None:
    assert boxes.objects(came(boxes, b"one", b"two")) == ["a box"]


def test_a_message_that_nobody_holds_is_let_go(boxes: Boxes) -> None:
    refs = came(boxes, DATA)
    loose = Ref(refs[0].digest, len(DATA))
    assert boxes.has(loose)
    refs.clear()
    assert not boxes.has(loose)


def test_what_the_command_or_a_ledger_has_is_lent_once(boxes: Boxes, lent: list[Box]) -> None:
    ref = boxes.put(DATA)
    assert boxes.objects([ref, ref]) == boxes.objects([ref]) == [0]
    assert bytes(lent[0][ref.digest]) == DATA


def test_a_message_that_is_nowhere_cannot_be_lent(boxes: Boxes) -> None:
    with pytest.raises(KeyError):
        boxes.objects([Ref.of(DATA)])


def test_what_a_ledger_is_to_keep_is_written_into_a_file_of_its_own(boxes: Boxes, tmp_path: Path) -> None:
    (ref,) = came(boxes, DATA)
    boxes.write_down(ref)
    boxes.write_down(ref)
    assert (tmp_path / ref.digest).read_bytes() == DATA
    assert len([path for path in tmp_path.iterdir() if path.is_file()]) == 1


@pytest.mark.parametrize("keep", [True, False])
def test_what_a_ledger_may_want_lies_in_files_once_ray_ends(boxes: Boxes, tmp_path: Path, keep: bool) -> None:
    refs = came(boxes, b"one", b"two")
    boxes.give_back(keep)
    assert [(tmp_path / ref.digest).exists() for ref in refs] == [keep, keep]
    assert [boxes.has(ref) for ref in refs] == [keep, keep]


def test_a_file_that_is_there_already_is_not_doubled(boxes: Boxes, tmp_path: Path) -> None:
    refs = [*came(boxes, DATA), boxes.take(Draft(Ref.of(DATA), written([tmp_path], [DATA])))]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [refs[0].digest]


def test_the_message_without_tensors_is_everywhere(boxes: Boxes) -> None:
    shelf = Shelf([])
    ref = shelf.put(NO_TENSORS)
    assert ref == NOTHING
    assert not shelf.made
    assert not shelf.put_now
    assert boxes.objects([ref]) == []
    assert bytes(boxes.get(ref)) == bytes(shelf.get(ref)) == NO_TENSORS


def test_a_job_finds_what_it_was_given_and_sends_back_only_what_is_new() -> None:
    old, new = Ref.of(b"old"), Ref.of(b"new")
    shelf = Shelf([{old.digest: np.frombuffer(b"old", np.uint8)}])
    assert bytes(shelf.get(old)) == b"old"
    assert [shelf.put(b"o", b"ld"), shelf.put(b"new")] == shelf.put_now == [old, new]
    assert list(shelf.made) == [new.digest]

"""Messages in a store: kept while somebody has a Ref to them, whole, once, and gone afterwards."""

from __future__ import annotations

import gc
import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.messages import files as stores
from emulator.messages.files import SMALL, Drafts, Files, Memory
from emulator.messages.store import NO_TENSORS, NOTHING, Ref

DATA = b"\x81weights" * 1000


@pytest.fixture(params=["memory", "files"])
def store(request: Any, tmp_path: Path) -> Memory | Files:
    return Memory() if request.param == "memory" else Files([tmp_path])


def here(store: Memory | Files) -> set[str]:
    """Digests of what it keeps."""
    if isinstance(store, Memory):
        return set(store._blobs) - {NOTHING.digest}
    return {path.name for folder in store.folders for path in folder.iterdir()}


def test_what_is_put_is_found(store: Memory | Files) -> None:
    ref = store.put(DATA)
    assert ref == Ref.of(DATA)
    assert bytes(store.get(ref)) == DATA


def test_it_is_kept_once_and_as_long_as_anybody_has_a_ref(store: Memory | Files) -> None:
    first, second = store.put(DATA), store.put(bytes(bytearray(DATA)))
    assert len(here(store)) == 1
    del first
    assert bytes(store.get(second)) == DATA
    del second
    gc.collect()
    assert here(store) == set()


def test_what_is_gone_is_missed(store: Memory | Files) -> None:
    with pytest.raises(KeyError):
        store.get(Ref.of(DATA))


def test_a_message_without_tensors_is_always_there_and_never_kept(store: Memory | Files) -> None:
    assert bytes(store.get(NOTHING)) == NO_TENSORS
    ref = store.put(NO_TENSORS)
    assert bytes(store.get(ref)) == NO_TENSORS
    del ref
    gc.collect()
    assert bytes(store.get(NOTHING)) == NO_TENSORS


@pytest.mark.parametrize("data", [DATA, bytes(2 * SMALL)], ids=["read", "mapped"])
def test_what_a_reader_writes_stays_its_own(tmp_path: Path, data: bytes) -> None:
    store = Files([tmp_path])
    ref = store.put(data)
    store.get(ref)[:3] = b"new"  # a reader's own
    assert bytes(store.get(ref)) == data
    assert stat.S_IMODE((tmp_path / ref.digest).stat().st_mode) == 0o400


# --- across processes: a job's drafts, and what the main process makes of them ------------------------------------


def arrived(drafts: Drafts, store: Files) -> list[Ref]:
    """The drafts, as they come back from a worker."""
    made = pickle.loads(pickle.dumps(drafts.made))
    for draft in made:
        store.take(draft)
    return [draft.ref for draft in made]


def test_a_draft_is_nobody_s_until_its_result_has_come(tmp_path: Path) -> None:
    store, drafts = Files([tmp_path]), Drafts([tmp_path])
    drafts.put(DATA)
    with pytest.raises(KeyError):
        store.get(Ref.of(DATA))
    (ref,) = arrived(drafts, store)
    assert bytes(store.get(ref)) == DATA
    assert here(store) == {ref.digest}


def test_two_jobs_that_make_the_same_bytes_leave_one_file(tmp_path: Path) -> None:
    store, one, two = Files([tmp_path]), Drafts([tmp_path]), Drafts([tmp_path])
    one.put(DATA)
    two.put(DATA)
    refs = arrived(one, store) + arrived(two, store)
    assert here(store) == {refs[0].digest}
    del refs[0]
    gc.collect()
    assert bytes(store.get(refs[0])) == DATA


def test_a_job_that_answers_with_what_it_got_writes_nothing(tmp_path: Path) -> None:
    """FedAvg's download is its state."""
    store, drafts = Files([tmp_path]), Drafts([tmp_path])
    state = store.put(DATA)
    drafts.put(bytes(drafts.get(state)))
    assert [draft.path for draft in drafts.made] == [None]
    (download,) = arrived(drafts, store)
    del state
    gc.collect()
    assert bytes(store.get(download)) == DATA


def test_what_finds_no_room_in_the_first_folder_lies_in_the_second(tmp_path: Path, monkeypatch: Any) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    monkeypatch.setattr(stores, "_room", lambda folder: 100 if folder == small else 1 << 40)
    store = Files([small, large])
    little, much = store.put(b"little"), store.put(DATA)
    assert [(small / little.digest).exists(), (large / much.digest).exists()] == [True, True]
    assert [bytes(store.get(ref)) for ref in (little, much)] == [b"little", DATA]


@pytest.fixture
def short_of_room(tmp_path: Path, monkeypatch: Any) -> Iterator[Path]:
    """A folder whose file system takes 1,000 bytes of a file."""

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: bytes) -> int:
            if len(data) < len(DATA):
                raise OSError(28, os.strerror(28))
            return int(self.file.write(data[:1000]))

        def fileno(self) -> int:
            return int(self.file.fileno())

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

    monkeypatch.setattr(stores, "open", lambda *a, **k: Full(open(*a, **k)), raising=False)  # noqa: PTH123, SIM115
    return tmp_path


def test_a_full_disk_leaves_no_part_of_a_file(short_of_room: Path) -> None:
    with pytest.raises(OSError, match="No space left") as error:
        Files([short_of_room]).put(DATA)
    assert error.value.filename == str(short_of_room)
    assert [path for path in short_of_room.rglob("*") if path.is_file()] == []

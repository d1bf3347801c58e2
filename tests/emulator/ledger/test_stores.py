"""Messages in a store: kept while somebody has a Ref to them, whole, once, and gone afterwards."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.lab.store import NO_TENSORS, NOTHING, Ref
from emulator.ledger import stores
from emulator.ledger.stores import SMALL, SPARE, Drafts, Files, Maps, Memory

DATA = b"\x81weights" * 1000


@pytest.fixture(params=["memory", "files"])
def store(request: Any, tmp_path: Path) -> Memory | Files:
    return Memory() if request.param == "memory" else Files([tmp_path])


def here(store: Memory | Files) -> set[str]:
    """Digests of what it keeps."""
    if isinstance(store, Memory):
        return set(store._blobs) - {NOTHING.digest}
    return {path.name for folder in store.folders for path in folder.iterdir()} - {SPARE}


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
    with pytest.raises(OSError, match="No space left"):
        Files([short_of_room]).put(DATA)
    assert [path for path in short_of_room.rglob("*") if path.is_file()] == []


# --- spare files --------------------------------------------------------------------------------------------------

LARGE = bytes(range(256)) * (SMALL // 128)


def spares(folder: Path) -> list[int]:
    """The inodes of the spare files."""
    return [path.stat().st_ino for path in (folder / SPARE).iterdir()]


@pytest.mark.parametrize("nbytes", [SMALL + 1, len(LARGE), 3 * len(LARGE)])
def test_a_large_file_that_is_free_is_filled_anew(tmp_path: Path, nbytes: int) -> None:
    store, other = Files([tmp_path]), os.urandom(nbytes)
    ref = store.put(LARGE)
    inode = (tmp_path / ref.digest).stat().st_ino
    del ref
    assert here(store) == set()
    assert spares(tmp_path) == [inode]
    drafts = Drafts([tmp_path])
    drafts.put(other)
    (ref,) = arrived(drafts, store)
    found = tmp_path / ref.digest
    assert (found.stat().st_ino, stat.S_IMODE(found.stat().st_mode)) == (inode, 0o400)
    assert found.read_bytes() == other
    assert spares(tmp_path) == []


def test_a_small_file_leaves_none_and_takes_none(tmp_path: Path) -> None:
    store = Files([tmp_path])
    store.put(LARGE)
    inode = spares(tmp_path)
    store.put(LARGE[:SMALL])
    assert spares(tmp_path) == inode


def test_a_file_with_another_link_is_never_filled_anew(tmp_path: Path) -> None:
    """A ledger keeps a message by a link to its file."""
    live, kept = tmp_path / "live", tmp_path / "kept"
    live.mkdir()
    store = Files([live])
    ref = store.put(LARGE)
    os.link(live / ref.digest, kept)
    del ref
    assert (here(store), spares(live)) == (set(), [])
    second = store.put(LARGE[::-1])
    assert kept.read_bytes() == LARGE
    assert bytes(store.get(second)) == LARGE[::-1]


def test_what_another_worker_takes_first_is_passed_over(tmp_path: Path, monkeypatch: Any) -> None:
    store = Files([tmp_path])
    store.put(LARGE)
    renamed = Path.rename

    def late(source: Path, target: Path) -> Path:
        renamed(source, tmp_path / "draft-of-another")
        return renamed(source, target)

    monkeypatch.setattr(Path, "rename", late)
    drafts = Drafts([tmp_path])
    drafts.put(LARGE[::-1])
    monkeypatch.undo()
    (ref,) = arrived(drafts, store)
    assert bytes(store.get(ref)) == LARGE[::-1]
    assert (tmp_path / "draft-of-another").read_bytes() == LARGE


def test_bytes_that_were_read_before_are_right_after_their_file_was_filled_anew(tmp_path: Path) -> None:
    store, latest = Files([tmp_path]), Maps()
    for data in (LARGE, LARGE[::-1], LARGE, LARGE[: SMALL + 1], LARGE, LARGE * 2):
        ref = store.put(data)  # always the same file
        for drafts in (Drafts([tmp_path], latest), Drafts([tmp_path], latest)):
            assert bytes(drafts.get(ref)) == data
        del ref
        assert len(spares(tmp_path)) == 1


def test_a_download_is_mapped_once_for_all_jobs_of_a_worker(tmp_path: Path) -> None:
    store, latest = Files([tmp_path]), Maps()
    ref = store.put(LARGE)
    first, second = (Drafts([tmp_path], latest).get(ref).obj for _ in range(2))
    assert first is second


def test_the_map_of_a_file_that_is_filled_anew_is_kept_and_what_it_holds_is_another_message(tmp_path: Path) -> None:
    store, maps = Files([tmp_path]), Maps()
    views = []
    for data in (LARGE, LARGE[::-1]):
        ref = store.put(data)  # the same file
        views.append(Drafts([tmp_path], maps).get(ref))
        assert bytes(views[-1]) == data
        del ref
    assert views[0].obj is views[1].obj
    assert views[0] is not views[1]


@pytest.mark.parametrize(("most", "nbytes"), [(3, 1 << 30), (100, 3 * len(LARGE))])
def test_no_more_is_kept_mapped_than_allowed(tmp_path: Path, monkeypatch: Any, most: int, nbytes: int) -> None:
    monkeypatch.setattr(stores, "MOST", most)
    monkeypatch.setattr(stores, "KEPT", nbytes)
    store, maps = Files([tmp_path]), Maps()
    refs = [store.put(LARGE, bytes([number])) for number in range(5)]
    for ref in refs:
        Drafts([tmp_path], maps).get(ref)
        assert len(maps.kept) <= most
        assert maps.nbytes == sum(len(view) for _, view in maps.kept.values()) <= nbytes
    assert [digest for digest, _ in maps.kept.values()][-1] == refs[-1].digest


def test_where_no_more_files_may_be_open_maps_make_room(tmp_path: Path, monkeypatch: Any) -> None:
    store, maps, mapped = Files([tmp_path]), Maps(), stores._map
    refs = [store.put(LARGE, bytes([number])) for number in range(3)]

    def few(file: int, digest: str) -> memoryview:
        if len(maps.kept) == 2:
            raise OSError(errno.EMFILE, "too many open files")
        return mapped(file, digest)

    monkeypatch.setattr(stores, "_map", few)
    for ref in refs:
        assert Ref.of(bytes(Drafts([tmp_path], maps).get(ref))) == ref
    assert [digest for digest, _ in maps.kept.values()] == [refs[-1].digest]


def test_a_file_that_another_command_links_as_it_is_freed_is_not_filled_anew(tmp_path: Path, monkeypatch: Any) -> None:
    theirs, store = tmp_path / "theirs", Files([tmp_path])
    ref = store.put(LARGE)
    renamed, digest = os.rename, ref.digest

    def late(source: str, target: str) -> None:
        if Path(source).name == digest:
            os.link(source, theirs)
        renamed(source, target)

    monkeypatch.setattr(os, "rename", late)
    del ref
    monkeypatch.undo()
    other = store.put(LARGE[::-1])
    assert bytes(store.get(other)) == LARGE[::-1]
    assert theirs.read_bytes() == LARGE
    assert here(store) == {"theirs", other.digest}


def test_nobody_can_link_a_file_once_it_is_known_that_nobody_has(tmp_path: Path, monkeypatch: Any) -> None:
    store, looked, seen = Files([tmp_path]), os.stat, list[str]()
    ref = store.put(LARGE)
    path = tmp_path / ref.digest

    def late(place: str, **options: Any) -> os.stat_result:
        found = looked(place, **options)
        if found.st_nlink == 1 and found.st_size == len(LARGE) and Path(place) != path:
            seen.append(place)
            with pytest.raises(FileNotFoundError):
                os.link(path, tmp_path / "theirs")
        return found

    monkeypatch.setattr(os, "stat", late)
    del ref
    monkeypatch.undo()
    assert len(seen) == 1
    assert len(spares(tmp_path)) == 1

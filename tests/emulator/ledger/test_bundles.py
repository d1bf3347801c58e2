"""Many small messages in one file: each is found, and freed, as if it had a file of its own."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy import ndarray

from emulator.lab.store import Ref
from emulator.ledger.stores import SMALL, Drafts, Files, Memory

FEW = np.arange(3 * 100, dtype=np.uint8).reshape(3, 100)
MANY = np.random.default_rng(1).integers(256, size=(8, SMALL // 4), dtype=np.uint8)  # mapped, not read


def came(store: Files, rows: ndarray) -> list[Ref]:
    """The messages of one job in a worker, once its result has come."""
    drafts = Drafts(store.folders)
    drafts.put_rows(rows)
    made = pickle.loads(pickle.dumps(drafts.made))
    return [store.take(draft) for draft in made]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def of(row: ndarray) -> bytes:
    return bytes(row.data)


@pytest.mark.parametrize("rows", [FEW, MANY], ids=["read", "mapped"])
def test_each_message_is_found_under_its_own_name(tmp_path: Path, rows: ndarray) -> None:
    store = Files([tmp_path])
    refs = came(store, rows)
    job = Drafts([tmp_path])
    assert refs == [Ref.of(of(row)) for row in rows]
    assert [bytes(job.get(ref)) for ref in refs] == [of(row) for row in rows]
    assert [bytes(store.get(ref)) for ref in refs] == [of(row) for row in rows]
    assert len(files(tmp_path)) == 1


def test_other_stores_keep_each_row_as_a_message() -> None:
    store = Memory()
    refs = store.put_rows(FEW)
    assert [bytes(store.get(ref)) for ref in refs] == [of(row) for row in FEW]


def test_the_file_is_free_when_the_last_message_is(tmp_path: Path) -> None:
    store = Files([tmp_path])
    refs = came(store, MANY)
    while refs:
        assert len(files(tmp_path)) == 1
        assert bytes(store.get(refs[-1])) == of(MANY[len(refs) - 1])
        gone = replace(refs.pop())  # which holds nothing
        assert not store.has(gone)
    assert files(tmp_path) == []
    with pytest.raises(KeyError):
        Drafts([tmp_path]).get(gone)


def test_equal_messages_in_two_bundles_stay_as_long_as_one_is_held(tmp_path: Path) -> None:
    store = Files([tmp_path])
    first, second = came(store, FEW), came(store, FEW)
    del first
    assert [bytes(Drafts([tmp_path]).get(ref)) for ref in second] == [of(row) for row in FEW]
    del second
    assert files(tmp_path) == []


def test_equal_messages_in_one_bundle_are_one(tmp_path: Path) -> None:
    store = Files([tmp_path])
    one, other = came(store, FEW[[0, 0]])
    assert one == other
    del one
    assert bytes(store.get(other)) == of(FEW[0])
    del other
    assert files(tmp_path) == []


@pytest.mark.parametrize("file_first", [True, False])
def test_a_message_may_have_a_file_of_its_own_as_well(tmp_path: Path, file_first: bool) -> None:
    store = Files([tmp_path])
    held: dict[bool, list[Ref]] = {}
    for alone in (file_first, not file_first):
        held[alone] = [store.put(of(FEW[0]))] if alone else came(store, FEW)
    del held[False]
    assert bytes(Drafts([tmp_path]).get(held[True][0])) == of(FEW[0])
    held.clear()
    assert files(tmp_path) == []


def test_whoever_names_it_without_its_place_finds_it_too(tmp_path: Path) -> None:
    """As a ledger does, which knows nothing of bundles; workers then find it by its name."""
    store = Files([tmp_path])
    refs = came(store, FEW)
    loose = Ref(refs[1].digest, refs[1].nbytes)
    assert bytes(store.get(loose)) == of(FEW[1])
    with pytest.raises(KeyError):
        Drafts([tmp_path]).get(loose)
    store.show(loose)
    assert bytes(Drafts([tmp_path]).get(loose)) == of(FEW[1])
    del loose, refs
    assert files(tmp_path) == []


def test_a_ledger_can_ask_for_all_of_them_as_files(tmp_path: Path) -> None:
    store = Files([tmp_path])
    refs = came(store, FEW)
    assert {ref.digest for ref in store.lent()} == {ref.digest for ref in refs}
    for lent in store.lent():
        store.write_down(lent)
    assert [(tmp_path / ref.digest).read_bytes() for ref in refs] == [of(row) for row in FEW]
    del lent
    refs.clear()
    assert files(tmp_path) == []


def test_a_job_that_answers_with_what_it_read_in_a_bundle_says_where_it_lies(tmp_path: Path) -> None:
    """The mean of one upload is that upload."""
    store = Files([tmp_path])
    refs = came(store, FEW)
    drafts = Drafts([tmp_path])
    drafts.put(bytes(drafts.get(refs[2])))
    (draft,) = pickle.loads(pickle.dumps(drafts.made))
    state = store.take(draft)
    refs.clear()
    assert len(files(tmp_path)) == 1
    assert bytes(Drafts([tmp_path]).get(state)) == of(FEW[2])


def test_what_is_written_to_a_message_that_was_read_is_written_nowhere(tmp_path: Path) -> None:
    store = Files([tmp_path])
    for rows in (FEW, MANY):
        refs = came(store, rows)
        Drafts([tmp_path]).get(refs[0])[:] = bytes(rows.shape[1])
        assert bytes(Drafts([tmp_path]).get(refs[0])) == of(rows[0])

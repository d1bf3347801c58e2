"""Stores of messages (see lab/store.py): in this process's memory, or in files that all workers map.

Bytes stay as long as this process holds a Ref that its store has given out; a job's arguments are held until its result
has come.  A worker writes a draft under a name of its own, which becomes the bytes' own name as the result arrives;
bundles keep theirs (bundles.py).  So only one process names and frees, and a file with a digest for its name is whole.
"""
# ruff: noqa: PTH104, PTH108, PTH110, PTH120, PTH123 - to make Paths takes a third of the time of a small message: 100 us to put, take, read and free one

from __future__ import annotations

import mmap
import os
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import FileIO
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any

from numpy import ndarray

from emulator.lab.store import NO_TENSORS, NOTHING, Ref
from emulator.ledger.bundles import Bundles
from network.wire import payload
from network.wire.form import Buffer

READ_ONLY = 0o400
SMALL = 1 << 16  # bytes: up to that, to read is quicker than to map, and keeps no file open
LEFT_FREE = 1 << 26  # bytes of a memory file system that are left to others


@dataclass(frozen=True)
class Draft:
    """What a job has put into the store; `path` is None if the bytes were there already, or lie in a bundle."""

    ref: Ref
    path: str | None


class Holders:
    """Counts the Refs of this process by digest."""

    def __init__(self) -> None:
        # Results arrive in a thread of the pool; a Ref may go at any moment, also while this thread has the lock.
        self._lock = RLock()
        self._count: Counter[str] = Counter()

    def hold(self, ref: Ref, keep: Callable[[], object] = lambda: None) -> None:
        """Counts this Ref until it is gone, and calls `keep` so that nobody frees its bytes meanwhile."""
        with self._lock:
            self._count[ref.digest] += 1
            keep()
        weakref.finalize(ref, self._let_go, ref.digest).atexit = False

    def _let_go(self, digest: str) -> None:
        with self._lock:
            self._count[digest] -= 1
            if self._count[digest]:
                return
            del self._count[digest]
            self.free(digest)

    def free(self, digest: str) -> None:
        """Nobody needs these bytes any more."""
        raise NotImplementedError

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        """See lab.store.Store."""
        raise NotImplementedError

    def put_rows(self, rows: ndarray) -> list[Ref]:
        """See lab.store.Store."""
        return [self.put(row.data) for row in rows]


class Memory(Holders):
    """A store in this process."""

    def __init__(self) -> None:
        super().__init__()
        self._blobs = {NOTHING.digest: NO_TENSORS}

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        ref = Ref.of(*pieces, digest=digest)
        self.hold(ref, lambda: self._blobs.setdefault(ref.digest, b"".join(pieces)))
        return ref

    def get(self, ref: Ref) -> memoryview:
        return memoryview(self._blobs[ref.digest])

    def free(self, digest: str) -> None:
        if digest != NOTHING.digest:
            del self._blobs[digest]


class Files(Holders):
    """A store in folders, of which the first that has room takes what is put."""

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__()
        self.folders, self.bundles = folders, Bundles()

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        ref = Ref.of(*pieces, digest=digest)
        self.hold(ref)  # first: another thread may be about to free the same bytes
        if not self._filed(ref):
            self._settle(Draft(ref, written(self.folders, pieces)))
        return ref

    def take(self, draft: Draft) -> Ref:
        """Takes over what a job has put; its Ref, now counted."""
        self.hold(draft.ref, lambda: self._settle(draft))
        return draft.ref

    def _settle(self, draft: Draft) -> None:
        if draft.path is not None:  # in place of the same bytes, if they have come twice
            os.rename(draft.path, f"{os.path.dirname(draft.path)}/{draft.ref.digest}")
            self.bundles.also.add(draft.ref.digest)
        elif draft.ref.within:
            self.bundles.take(draft.ref, also=self._count[draft.ref.digest] > 1)

    def get(self, ref: Ref) -> memoryview:
        if place := self.bundles.find(ref.digest):
            path, begin = place
            return _bundle(path)[begin : begin + ref.nbytes]
        return mapped(self.folders, ref)

    def has(self, ref: Ref) -> bool:
        return ref.digest in self.bundles.places or self._filed(ref)

    def show(self, ref: Ref) -> None:
        """Sees to it that workers find what is here under this Ref: a fact's does not know in which bundle it lies.
        Raises OSError."""
        if ref.within is None and ref.digest in self.bundles.places:
            self.write_down(ref)

    def _filed(self, ref: Ref) -> bool:
        return ref.digest == NOTHING.digest or any(os.path.exists(f"{folder}/{ref.digest}") for folder in self.folders)

    def write_down(self, ref: Ref) -> None:
        """Sees to it that bytes that are here lie in a file of their own, for a ledger to link.  Raises OSError."""
        self.hold(ref)  # nobody frees it meanwhile
        if ref.digest in self.elsewhere() and not self._filed(ref):
            self._settle(Draft(ref, written(self.folders, [self.get(ref)])))

    def elsewhere(self) -> Mapping[str, Any]:
        """By digest: what need not lie in a file of its own."""
        return self.bundles.places

    def lent(self) -> list[Ref]:
        """All messages that need not lie in files of their own."""
        return self.bundles.all()

    def free(self, digest: str) -> None:
        paths, also = self.bundles.let_go(digest)
        own = [f"{folder}/{digest}" for folder in self.folders] if also else []  # 100 in vain take 0.4 ms
        for path in [*paths, *own]:
            with suppress(FileNotFoundError):
                os.unlink(path)


@dataclass
class Drafts:
    """The store as one job in a worker sees it."""

    folders: Sequence[Path]
    made: list[Draft] = field(default_factory=list)
    # By digest, what was read, and its place in a bundle: it stays until the job's result has come.
    read: dict[str, tuple[str, int] | None] = field(default_factory=dict)
    bundles: dict[str, memoryview] = field(default_factory=dict)  # by path, those that were read from

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        ref = Ref.of(*pieces, digest=digest)
        known = ref.digest == NOTHING.digest or ref.digest in self.read
        if within := self.read.get(ref.digest):
            ref = replace(ref, within=within)
        self.made.append(Draft(ref, None if known else written(self.folders, pieces)))
        return ref

    def put_rows(self, rows: ndarray) -> list[Ref]:
        path, nbytes = written(self.folders, [rows.reshape(-1).data]), rows.shape[1]
        refs = [Ref(payload.digest(row.data), nbytes, (path, k * nbytes)) for k, row in enumerate(rows)]
        self.made += [Draft(ref, None) for ref in refs]
        return refs

    def get(self, ref: Ref) -> memoryview:
        found = mapped(self.folders, ref) if ref.within is None else self._in_bundle(ref, *ref.within)
        self.read[ref.digest] = ref.within
        return found

    def _in_bundle(self, ref: Ref, path: str, begin: int) -> memoryview:
        if path not in self.bundles:
            self.bundles[path] = _bundle(path)
        return self.bundles[path][begin : begin + ref.nbytes]


_numbers = count()


def written(folders: Sequence[Path], pieces: Sequence[Buffer]) -> str:
    """A file with these bytes, in the first folder that has room, or in the last one.  Raises OSError."""
    nbytes = sum(map(len, pieces))
    name = f"draft-{os.getpid()}-{next(_numbers)}"
    for folder in folders:
        last = folder is folders[-1]
        if not last and _room(folder) < nbytes:
            continue
        try:
            return _write(f"{folder}/{name}", pieces)
        except OSError:  # others have filled it meanwhile
            if last:
                raise
    raise AssertionError("a store has a folder")


def _room(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize - LEFT_FREE


def _write(path: str, pieces: Sequence[Buffer]) -> str:
    try:
        with open(path, "wb", buffering=0) as file:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[file.write(view) :]
            os.fchmod(file.fileno(), READ_ONLY)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(path)
        raise
    return path


def _bundle(path: str) -> memoryview:
    """Raises KeyError if it is not there."""
    try:
        with open(path, "rb", buffering=0) as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise KeyError(path) from None


def _read(file: FileIO, nbytes: int) -> memoryview:
    """All bytes of an open file, to which the reader may write: torch takes no others without a copy."""
    if nbytes <= SMALL:
        return memoryview(bytearray(file.read()))
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


def mapped(folders: Sequence[Path], ref: Ref) -> memoryview:
    """The bytes; large ones are mapped.  Raises KeyError if no folder has them."""
    if ref.digest == NOTHING.digest:
        return memoryview(NO_TENSORS)
    for folder in folders:
        try:
            with open(f"{folder}/{ref.digest}", "rb", buffering=0) as file:
                return _read(file, ref.nbytes)
        except FileNotFoundError:
            continue
    raise KeyError(ref.digest)

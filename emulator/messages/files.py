"""Stores of messages (see messages/store.py): in this process's memory, or in files that all workers map.

Bytes stay as long as this process holds a Ref from its store; a job's arguments are held until its result arrives.  A
worker writes a draft under a name of its own, and the draft is renamed to the digest of its bytes when the result
arrives.  So only one process names and frees files, and a file with a digest as its name is complete.
"""
# ruff: noqa: PTH104, PTH108, PTH110, PTH120, PTH123 - to make Paths takes a third of the time of a small message: 100 us to put, take, read and free one

from __future__ import annotations

import mmap
import os
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import RLock

from emulator.messages.store import NO_TENSORS, NOTHING, Ref
from emulator.record.writing import named
from network.wire.form import Buffer

READ_ONLY = 0o400
SMALL = 1 << 16  # bytes up to which reading is faster than mapping, and keeps no file open
LEFT_FREE = 1 << 26  # bytes of a memory file system that are left for other programs


@dataclass(frozen=True)
class Draft:
    """A message that a job in a worker has written, under the temporary name `path`; None if the store already had the
    bytes."""

    ref: Ref
    path: str | None


class Holders:
    """Counts the Refs of this process by digest."""

    def __init__(self) -> None:
        # Results arrive in a thread of the pool; a Ref may be freed at any moment, also while this thread has the lock.
        self._lock = RLock()
        self._count: Counter[str] = Counter()

    def hold(self, ref: Ref, keep: Callable[[], object] = lambda: None) -> None:
        """Counts this Ref until it is garbage, so that the store keeps its bytes; calls `keep` while no other thread
        can free them."""
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
        """Removes these bytes, because no Ref to them is left."""
        raise NotImplementedError

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        """Keeps the concatenated bytes and returns their Ref; see messages.store.Store."""
        raise NotImplementedError


class Memory(Holders):
    """A store in this process's memory."""

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
    """A store in folders; new messages go to the first folder with room."""

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__()
        self.folders = folders

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        ref = Ref.of(*pieces, digest=digest)
        self.hold(ref)  # first, because another thread may be about to free the same bytes
        if not self.has(ref):
            _settle(Draft(ref, written(self.folders, pieces)))
        return ref

    def take(self, draft: Draft) -> Ref:
        """Gives a job's draft its final name, and returns its Ref, which now holds the bytes."""
        self.hold(draft.ref, lambda: _settle(draft))
        return draft.ref

    def get(self, ref: Ref) -> memoryview:
        return mapped(self.folders, ref)

    def has(self, ref: Ref) -> bool:
        return ref.digest == NOTHING.digest or any(os.path.exists(f"{folder}/{ref.digest}") for folder in self.folders)

    def write_down(self, ref: Ref) -> None:
        """Makes sure that these bytes are in a file, to which a ledger can link; does nothing here, because they always
        are.  Raises OSError in a store that also keeps bytes elsewhere and cannot write them."""

    def free(self, digest: str) -> None:
        for folder in self.folders:
            with suppress(FileNotFoundError):
                os.unlink(f"{folder}/{digest}")


def _settle(draft: Draft) -> None:
    if draft.path is not None:  # replaces the same bytes if they have come twice
        os.rename(draft.path, f"{os.path.dirname(draft.path)}/{draft.ref.digest}")


@dataclass
class Drafts:
    """The store of one job in a worker: it notes what the job has written (`made`) and read."""

    folders: Sequence[Path]
    made: list[Draft] = field(default_factory=list)
    read: set[str] = field(default_factory=set)  # digests of what was read: it stays until the job's result has come

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        ref = Ref.of(*pieces, digest=digest)
        known = ref.digest == NOTHING.digest or ref.digest in self.read
        self.made.append(Draft(ref, None if known else written(self.folders, pieces)))
        return ref

    def get(self, ref: Ref) -> memoryview:
        found = mapped(self.folders, ref)
        self.read.add(ref.digest)
        return found


_numbers = count()


def written(folders: Sequence[Path], pieces: Sequence[Buffer]) -> str:
    """Writes these bytes to a new file, in the first folder with room or in the last folder, and returns its path.
    Raises OSError, with the name of the last folder."""
    nbytes = sum(map(len, pieces))
    name = f"draft-{os.getpid()}-{next(_numbers)}"
    for folder in folders:
        last = folder is folders[-1]
        if not last and _room(folder) < nbytes:
            continue
        try:
            with named(folder):
                return _write(f"{folder}/{name}", pieces)
        except OSError:  # another program has filled it meanwhile
            if last:
                raise
    raise AssertionError("a store has a folder")


def _room(folder: Path) -> int:
    """Returns how many bytes a message may take in this folder."""
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


def mapped(folders: Sequence[Path], ref: Ref) -> memoryview:
    """Returns the bytes of a message; large ones are mapped.  The memory is writable, because torch would copy any
    other.

    Raises KeyError if no folder has the message.
    """
    if ref.digest == NOTHING.digest:
        return memoryview(NO_TENSORS)
    for folder in folders:
        try:
            with open(f"{folder}/{ref.digest}", "rb", buffering=0) as file:
                if ref.nbytes <= SMALL:
                    return memoryview(bytearray(file.read()))
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        except FileNotFoundError:
            continue
    raise KeyError(ref.digest)

"""The ledger: remembered results for all later runs.  One folder holds facts (job -> result) and blobs (messages)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path
from typing import Any

from emulator.ledger.blobs import KEPT, LEFT, LIVE, QUARANTINE, Blobs
from emulator.ledger.facts import FactsFile
from emulator.messages.scratch import PREFIX, Scratch, abandoned, remove
from emulator.messages.store import OTHERWISE, Ref
from emulator.record.writing import why

CAP = 10_000_000_000  # bytes of blobs, or a tenth of the disk, whichever is less
FACTS = "facts.sqlite"
DIGEST = 64  # letters of a digest; a file with a name of another length is no blob


class Ledger:
    """The ledger in a folder, opened by one command.  If `writes` is False, it is only read.

    `warn` is called with each sentence once.  Raises OSError if the folder cannot be used.
    """

    def __init__(
        self, folder: Path, warn: Callable[[str], None], cap: int | None = None, *, writes: bool = True
    ) -> None:
        self.folder, self.writes, self._warned = folder, writes, set[str]()
        self._warn = warn
        if writes:
            folder.mkdir(parents=True, exist_ok=True)
        self.blobs = Blobs(folder, self.warn, writes)
        self.facts = FactsFile(folder / FACTS, self.warn, writes)
        self.cap = min(CAP, shutil.disk_usage(folder).total // 10) if cap is None else cap
        try:
            if writes:
                (folder / LIVE).mkdir(exist_ok=True)
                for left in abandoned(folder / LIVE):  # by commands that were killed
                    self._leave(left)
                    remove(left)
            self.live = Scratch(folder / LIVE) if writes else Scratch()  # messages of the runs of this command
        except OSError:
            self.facts.close()
            raise

    def warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._warn(text)

    def fetch(self, ref: Ref) -> bool:
        """Makes a message of the ledger available in the folder from which this command's jobs read.  Returns False if
        the ledger lacks it, or cannot check its bytes."""
        if ref.digest.startswith(OTHERWISE):
            return False
        place = self.live.path / ref.digest
        return self.blobs.fetch(ref, place)

    def keep(self, ref: Ref) -> bool:
        """Keeps a message of this command for later ones.  Returns False if its bytes are not in the ledger's folder.

        A ledger that is only read keeps nothing, and returns True.
        """
        place = self.live.path / ref.digest
        if self.writes and place.exists():
            try:
                self.blobs.keep(ref, place)
            except OSError as error:
                self.warn(f"{self.folder}: {why(error)}; a model is not kept")
        return not self.writes or place.exists()

    def close(self, broken_off: bool, made: Container[str] = ()) -> None:
        """Ends the use of the ledger.  With `broken_off`, keeps the messages of this command's interrupted runs, for
        `resume`.

        `made`: digests of messages of finished runs, which need no resume; without `broken_off` they are removed.
        """
        if self.writes:
            if broken_off:
                self._leave(self.live.path)
            else:
                self.blobs.drop(made)
            self.trim(self.cap)
        self.live.close()
        self.facts.close()

    def trim(self, cap: int) -> int:
        """Removes the least recently used blobs until the rest fits into `cap` bytes; returns the number of bytes
        removed."""
        blobs = sorted((stat.st_mtime, stat.st_size, path) for path, stat in self._stats())
        total, removed = sum(size for _, size, _ in blobs), 0
        for _, size, path in blobs:
            if total - removed <= cap:
                break
            path.unlink(missing_ok=True)
            removed += size
        return removed

    def _stats(self) -> list[tuple[Path, os.stat_result]]:
        stats = []
        for path in self.blobs.all():
            if len(path.name) == DIGEST:
                with suppress(FileNotFoundError):  # another command has just removed it
                    stats.append((path, path.stat()))
        return stats

    def _leave(self, folder: Path) -> None:
        for path in folder.iterdir():
            if len(path.name) == DIGEST and not path.name.startswith(OTHERWISE):
                with suppress(FileNotFoundError):  # another command has just done it
                    self.blobs.leave(path)

    def stats(self) -> dict[str, Any]:
        """Returns the numbers of results, by job, and of messages, by folder, their bytes, and the limit of the
        messages' bytes."""
        messages = {name: {"count": 0, "bytes": 0} for name in (KEPT, LEFT, QUARANTINE)}
        for path, stat in self._stats():
            messages[path.parent.name]["count"] += 1
            messages[path.parent.name]["bytes"] += stat.st_size
        results = {"count": self.facts.counts(), "bytes": self.facts.nbytes}
        return {"results": results, "messages": messages, "cap": self.cap}


def opened(folder: Path, warn: Callable[[str], None]) -> Ledger:
    """Opens the ledger in a folder and returns it; it is only read if it cannot be written.  Raises OSError."""
    try:
        return Ledger(folder, warn)
    except OSError as error:
        if not (folder / FACTS).is_file():
            raise
        try:
            ledger = Ledger(folder, warn, writes=False)
        except OSError:
            raise error from None
        ledger.warn(f"{folder}: {why(error)}; the ledger is only read, and nothing is added to it")
        return ledger


def clear(folder: Path) -> None:
    """Removes the ledger in a folder, and nothing else there.  Raises OSError."""
    for name in (KEPT, LEFT, QUARANTINE):
        for path in (folder / name).glob("?" * DIGEST):
            path.unlink()
    for path in (folder / LIVE).glob(f"{PREFIX}*"):
        shutil.rmtree(path)
    for path in folder.glob(f"{FACTS}*"):
        path.unlink()
    for place in (*(folder / name for name in (KEPT, LEFT, QUARANTINE, LIVE)), folder):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()

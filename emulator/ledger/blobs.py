"""Blobs: messages that outlive a run, each in a file with its SHA-256 for its name.

`kept/` has the states that are worth keeping; `left/` what runs held when they were broken off, for whoever resumes
them.  Every read checks the digest; what is wrong goes to `quarantine/` and counts as missing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from emulator.record.writing import why
from emulator.study.store import Ref

KEPT, LEFT, QUARANTINE = "kept", "left", "quarantine"


class Blobs:
    """The blobs of one ledger.  `warn` gets a sentence for each that is damaged."""

    def __init__(self, folder: Path, warn: Callable[[str], None]) -> None:
        self.folder, self.warn = folder, warn
        for name in (KEPT, LEFT, QUARANTINE):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def keep(self, ref: Ref, source: Path) -> None:
        """Keeps the bytes that lie in `source`.  Raises OSError."""
        _link(source, self.folder / KEPT / ref.digest)

    def leave(self, source: Path) -> None:
        """Takes over the file of a run that was broken off."""
        source.rename(self.folder / LEFT / source.name)

    def drop(self, digests: Container[str]) -> None:
        """Nobody resumes the runs that have left these."""
        for path in self._in(LEFT):
            if path.name in digests:
                path.unlink(missing_ok=True)

    def fetch(self, ref: Ref, place: Path) -> bool:
        """Puts the bytes into `place`, if they are here and right."""
        return self._fetched(ref, LEFT, place) or self._fetched(ref, KEPT, place)

    def all(self) -> Iterator[Path]:
        """All files, those in quarantine too."""
        for name in (KEPT, LEFT, QUARANTINE):
            yield from self._in(name)

    def _in(self, name: str) -> list[Path]:
        return list((self.folder / name).iterdir())

    def _fetched(self, ref: Ref, name: str, place: Path) -> bool:
        found = self.folder / name / ref.digest
        try:
            if not self._sound(found):
                return False
            _link(found, place)
            if name == LEFT:  # they belong to an open round, and go with it
                found.unlink(missing_ok=True)
            else:
                os.utime(found)
        except FileNotFoundError:  # the usual case; or another command has just removed it
            return place.exists()
        except OSError as error:
            self.warn(f"{found} cannot be read: {why(error)}; it is computed again")
            return False
        return True

    def _sound(self, found: Path) -> bool:
        with found.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest == found.name:
            return True
        found.replace(self.folder / QUARANTINE / found.name)
        self.warn(f"{found} is damaged; it is in {QUARANTINE}/ now, and is computed again")
        return False


def _link(found: Path, place: Path) -> None:
    try:
        os.link(found, place)
    except FileExistsError:  # another command was quicker
        pass

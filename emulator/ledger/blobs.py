"""Blobs: messages that outlive a run, each in a file with its SHA-256 for its name.

`kept/` has the states that are worth keeping; `left/` what runs held when they were broken off, for whoever resumes
them.  Every read checks the digest; what is wrong goes to `quarantine/` and counts as missing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from emulator.study.store import Ref

KEPT, LEFT, QUARANTINE = "kept", "left", "quarantine"


class Blobs:
    """The blobs of one ledger.  `warn` gets a sentence for each that is damaged."""

    def __init__(self, folder: Path, warn: Callable[[str], None]) -> None:
        self.folder, self.warn = folder, warn
        for name in (KEPT, LEFT, QUARANTINE):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def keep(self, ref: Ref, source: Path) -> None:
        """Keeps the bytes that lie in `source`."""
        place = self.folder / KEPT / ref.digest
        if not place.exists():
            os.link(source, place)

    def leave(self, source: Path) -> None:
        """Takes over the file of a run that was broken off."""
        source.rename(self.folder / LEFT / source.name)

    def fetch(self, ref: Ref, place: Path) -> bool:
        """Puts the bytes into `place`, if they are here and right."""
        for name in (LEFT, KEPT):
            found = self.folder / name / ref.digest
            if found.exists() and self._sound(ref, found):
                self._link(found, place)
                if name == LEFT:  # they belong to an open round, and go with it
                    found.unlink(missing_ok=True)
                else:
                    os.utime(found)
                return True
        return False

    def all(self) -> Iterator[Path]:
        """All files, those in quarantine too."""
        for name in (KEPT, LEFT, QUARANTINE):
            yield from (self.folder / name).iterdir()

    @staticmethod
    def _link(found: Path, place: Path) -> None:
        try:
            os.link(found, place)
        except FileExistsError:
            pass

    def _sound(self, ref: Ref, found: Path) -> bool:
        with found.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest == ref.digest:
            return True
        found.replace(self.folder / QUARANTINE / found.name)
        self.warn(f"{found} is damaged; it is in {QUARANTINE}/ now, and is computed again")
        return False

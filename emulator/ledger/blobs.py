"""Blobs: messages that outlive a run, each in a file with its digest for its name.

`kept/` has the states that are worth keeping; `left/` what runs held when they were broken off, for whoever resumes
them; `live/` a folder for each command that runs now.  Every read checks the digest; what is wrong goes to
`quarantine/` and counts as missing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Container, Iterator
from itertools import chain
from pathlib import Path

from emulator.messages.store import Ref
from emulator.record.writing import why
from network.wire import payload

KEPT, LEFT, QUARANTINE, LIVE = "kept", "left", "quarantine", "live"


class Blobs:
    """The blobs of one ledger, whose folder is only read if `writes` is False.

    `warn` gets a sentence for each that is damaged.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None], writes: bool = True) -> None:
        self.folder, self.warn, self.writes = folder, warn, writes
        for name in (KEPT, LEFT, QUARANTINE) if writes else ():
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
        """Puts the bytes into `place`, if they are here and right; also if another command holds them now."""
        own = (self.folder / name / ref.digest for name in (LEFT, KEPT))
        others = self.folder.glob(f"{LIVE}/*/{ref.digest}")
        return any(self._fetched(found, place) for found in chain(own, others))

    def all(self) -> Iterator[Path]:
        """All files, those in quarantine too."""
        for name in (KEPT, LEFT, QUARANTINE):
            yield from self._in(name)

    def _in(self, name: str) -> list[Path]:
        return list((self.folder / name).iterdir())

    def _fetched(self, found: Path, place: Path) -> bool:
        try:
            if not self._sound(found):
                return False
            _link(found, place)
            if self.writes:
                self._note_use(found)
        except FileNotFoundError:  # the usual case; or another command has just removed it
            return place.exists()
        except OSError as error:
            self.warn(f"{found} cannot be read: {why(error)}; it is computed again")
            return False
        return True

    def _note_use(self, found: Path) -> None:
        if found.parent.name == LEFT:  # they belong to an open round, and go with it
            found.unlink(missing_ok=True)
        elif found.parent.name == KEPT:
            os.utime(found)

    def _sound(self, found: Path) -> bool:
        if payload.digest(found.read_bytes()) == found.name:
            return True
        aside = ""
        if self.writes and found.parent.name in (LEFT, KEPT):
            found.replace(self.folder / QUARANTINE / found.name)
            aside = f"it is in {QUARANTINE}/ now, and "
        self.warn(f"{found} is damaged; {aside or 'it '}is computed again")
        return False


def _link(found: Path, place: Path) -> None:
    """Gives the file a second name, or where this file system cannot do so makes a copy.  Raises OSError."""
    try:
        os.link(found, place)
    except FileExistsError:  # another command was quicker
        pass
    except FileNotFoundError:
        raise
    except OSError:
        draft = place.with_name(f"draft-{os.getpid()}-{place.name}")
        try:
            shutil.copyfile(found, draft)
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)

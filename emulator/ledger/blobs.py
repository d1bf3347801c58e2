"""Blobs: messages that outlive a run, each in a file that is named by its digest.

The folder `kept/` has the models that are worth keeping; `left/` the messages of interrupted runs, for `resume`;
`live/` a folder for each command that runs now.  Every read checks the digest; a damaged file goes to `quarantine/` and
counts as missing.
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
    """The blobs of the ledger in `folder`.  If `writes` is False, its files are only read.

    `warn` is called with a sentence for each damaged blob.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None], writes: bool = True) -> None:
        self.folder, self.warn, self.writes = folder, warn, writes
        for name in (KEPT, LEFT, QUARANTINE) if writes else ():
            (folder / name).mkdir(parents=True, exist_ok=True)

    def keep(self, ref: Ref, source: Path) -> None:
        """Adds the message in the file `source` to the kept blobs.  Raises OSError."""
        _link(source, self.folder / KEPT / ref.digest)

    def leave(self, source: Path) -> None:
        """Moves the file `source`, a message of an interrupted run, to the blobs that a resumed run may need."""
        source.rename(self.folder / LEFT / source.name)

    def drop(self, digests: Container[str]) -> None:
        """Removes those messages of interrupted runs whose digests are given, because no run needs them any more."""
        for path in self._in(LEFT):
            if path.name in digests:
                path.unlink(missing_ok=True)

    def fetch(self, ref: Ref, place: Path) -> bool:
        """Makes a message available as the file `place`, by a link to a blob, also to one of another command that is
        running.  Returns False if there is no such blob, or it is damaged."""
        own = (self.folder / name / ref.digest for name in (LEFT, KEPT))
        others = self.folder.glob(f"{LIVE}/*/{ref.digest}")
        return any(self._fetched(blob, place) for blob in chain(own, others))

    def all(self) -> Iterator[Path]:
        """Yields all files of blobs that no running command uses, also those in quarantine."""
        for name in (KEPT, LEFT, QUARANTINE):
            yield from self._in(name)

    def _in(self, name: str) -> list[Path]:
        return list((self.folder / name).iterdir())

    def _fetched(self, blob: Path, place: Path) -> bool:
        try:
            if not self._sound(blob):
                return False
            _link(blob, place)
            if self.writes and blob.parent.name == LEFT:  # a resumed run needs it once
                blob.unlink(missing_ok=True)
            elif self.writes and blob.parent.name == KEPT:
                os.utime(blob)  # the time of its last use
        except FileNotFoundError:  # the usual case; or another command has just removed it
            return place.exists()
        except OSError as error:
            self.warn(f"{blob} cannot be read: {why(error)}; it is computed again")
            return False
        return True

    def _sound(self, blob: Path) -> bool:
        """Returns true if the file's content has the digest in its name.  Otherwise moves the file to quarantine, if it
        is not another command's, and warns."""
        if payload.digest(blob.read_bytes()) == blob.name:
            return True
        aside = ""
        if self.writes and blob.parent.name in (LEFT, KEPT):
            blob.replace(self.folder / QUARANTINE / blob.name)
            aside = f"it is in {QUARANTINE}/ now, and "
        self.warn(f"{blob} is damaged; {aside or 'it '}is computed again")
        return False


def _link(blob: Path, place: Path) -> None:
    """Makes `place` a second name of the file, or a copy on a file system without hard links.  Raises OSError."""
    try:
        os.link(blob, place)
    except FileExistsError:  # another command was faster
        pass
    except FileNotFoundError:
        raise
    except OSError:
        draft = place.with_name(f"draft-{os.getpid()}-{place.name}")
        try:
            shutil.copyfile(blob, draft)
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)

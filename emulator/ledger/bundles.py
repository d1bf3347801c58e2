"""Files with many small messages each, as the uploads of a stack of devices are.

To write, name, read and remove a file takes longer than all else that is done with a message of a few kilobytes.  What
a killed command has left in bundles nobody can name, so it is computed again.
"""

from __future__ import annotations

from collections import Counter

from emulator.lab.store import Ref


class Bundles:
    """Which messages lie in bundles.  A bundle is free when none of its messages is held."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, tuple[int, int]]] = {}  # digest -> path -> where it begins, and its bytes
        self.held = Counter[str]()  # messages by path
        self.also = set[str]()  # digests of messages that may lie in files of their own as well

    def take(self, ref: Ref, also: bool) -> None:
        """Notes a message that somebody holds; `also`: it was here already."""
        assert ref.within
        if also:
            self.also.add(ref.digest)
        path, begin = ref.within
        places = self.places.setdefault(ref.digest, {})
        if path not in places:
            places[path] = begin, ref.nbytes
            self.held[path] += 1

    def find(self, digest: str) -> tuple[str, int] | None:
        """A bundle with this message, and where it begins there; None: there is none."""
        places = self.places.get(digest, {}).copy()  # another thread may add to it
        return next(((path, begin) for path, (begin, _) in places.items()), None)

    def let_go(self, digest: str) -> tuple[list[str], bool]:
        """Nobody holds this message any more: the paths of the bundles that are free now, and whether it may have a
        file of its own."""
        places, free = self.places.pop(digest, {}), list[str]()
        for path in places:
            self.held[path] -= 1
            if not self.held[path]:
                del self.held[path]
                free.append(path)
        also = not places or digest in self.also
        self.also.discard(digest)
        return free, also

    def all(self) -> list[Ref]:
        """All messages in bundles."""
        places = {digest: list(each.values()) for digest, each in self.places.copy().items()}
        return [Ref(digest, nbytes) for digest, each in places.items() for _, nbytes in each[:1]]

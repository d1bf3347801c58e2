"""Facts of jobs in which a user's own code takes part: they hold as long as what that code has read is as it was.

A job's key leads to a fact that says what was read (`reads`: the digest of a list, which `names` has).  The present
state of that and the key make the next key, where the result is, or a list of more that was read.  So facts never
change, a job may have several results, and a file that is changed back leads to the first of them again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from emulator.ledger.canonical import packed
from emulator.ledger.facts import Fact, Facts
from scenarios.builders.reads import SEEN, Kind, Read, Sign, listing, sign, variable
from scenarios.builders.sources import file_of

READS, NAMES, FILE = INPUTS = "reads", "names", "file"  # jobs of such facts; FILE: a file's digest, by path and sign
FRESH = 1.0  # s for which a look at files holds: hits may come by the thousand
BLOCK = 1 << 20

Name = tuple[Kind, str]


class Unsteady(ValueError):  # noqa: N818  what it is, not what went wrong
    """What was read has changed meanwhile, so that nobody can say what a result depends on."""


@dataclass
class Look:
    """What was seen of names, and when."""

    time: float = -1e9  # s
    digest: str = ""


@dataclass
class Noted:
    """The state in which everything was read, up to the first `count` of SEEN; `unsteady`: what has changed since."""

    count: int = -1
    values: dict[Name, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)  # of the values of names, by the digest of these
    unsteady: str | None = None


class Inputs:
    """The facts of one command.  `warn` is told of what cannot be remembered."""

    def __init__(self, facts: Facts, study: str, warn: Callable[[str], None]) -> None:
        self.facts, self.study, self.warn = facts, study, warn
        self.names: dict[str, Sequence[Name]] = {}  # by their digest
        self.looks: dict[str, Look] = {}  # the same
        self.digests: dict[tuple[str, Sign], str] = {}  # of files
        self.noted = Noted()
        self.lock = Lock()  # results arrive in a thread of the pool

    def known(self, key: str) -> Fact | None:
        """The fact of the job with this key, in the present state of what it reads."""
        while (fact := self.facts.get(key)) and fact.job == READS:
            if self._names(fact.result) is None:
                return None
            key = _next(key, self._present(fact.result))
        return fact

    def put(self, fact: Fact, own: bool) -> None:
        """Keeps a fact; `own`: a user's code took part in it."""
        if not own:
            self.facts.put(fact)
            return
        with self.lock:
            try:
                self._put(fact, set(self._values()))
            except Unsteady as error:
                self.warn(str(error))

    def _put(self, fact: Fact, left: set[Name]) -> None:
        key = fact.key
        while True:
            known = self.facts.get(key)
            if known is None and left:
                known = Fact(key, READS, self.study, [], self._put_names(sorted(left)))
                self.facts.put(known)
            if known is None or known.job != READS:
                break
            names = self._names(known.result)
            if names is None:  # the list is lost, which may be this one
                names = sorted(left)
                if self._put_names(names) != known.result:
                    return
            key = _next(key, self._at_reading(known.result, names))
            left -= set(names)
        if known is None:
            self.facts.put(replace(fact, key=key))

    # ---- names

    def _names(self, digest: str) -> Sequence[Name] | None:
        if digest not in self.names and (fact := self.facts.get(digest)):
            self.names[digest] = [(kind, name) for kind, name in fact.result]
        return self.names.get(digest)

    def _put_names(self, names: Sequence[Name]) -> str:
        digest = _digest([NAMES, names])
        if self._names(digest) is None:
            self.facts.put(Fact(digest, NAMES, self.study, [], [list(name) for name in names]))
            self.names[digest] = names
        return digest

    # ---- their states

    def _present(self, names: str) -> str:
        """The digest of the present state of what is named."""
        look, now = self.looks.setdefault(names, Look()), time.monotonic()
        if now - look.time > FRESH:
            self.looks[names] = look = Look(now, _digest([self._now(*name) for name in self.names[names]]))
        return look.digest

    def _at_reading(self, digest: str, names: Sequence[Name]) -> str:
        """The same of the state in which it was read; where it was not read this time, of the present one."""
        if digest not in self.noted.digests:
            values = self.noted.values
            self.noted.digests[digest] = _digest(
                [values[name] if name in values else self._now(*name) for name in names]
            )
        return self.noted.digests[digest]

    def _values(self) -> dict[Name, str]:
        """All that was read so far, in the state in which it was read.  Raises Unsteady."""
        if self.noted.count != len(SEEN):
            seen = list(SEEN)
            self.noted = Noted(len(seen))
            for read in seen:
                value = self._then(read)
                if value is None or self.noted.values.setdefault(read[:2], value) != value:
                    self.noted.unsteady = read.name
        if self.noted.unsteady is not None:
            raise Unsteady(f"{self.noted.unsteady} has changed since it was read; what comes of it is not remembered")
        return self.noted.values

    def _then(self, read: Read) -> str | None:
        """As it was read; None: nobody knows any more."""
        if read.kind == "folder":
            return _of_folder(read.names)
        if read.kind == "file":
            return "" if read.sign is None else self._of_file(read.name, read.sign)
        return self._now(read.kind, read.name)

    def _now(self, kind: Kind, name: str) -> str:
        """Its state now, as a text that is never empty but for what is not there."""
        match kind:
            case "file":
                found = sign(name)
                return "" if found is None else self._of_file(name, found) or "changing"
            case "folder":
                return _of_folder(listing(name))
            case "variable":
                value = variable(name)
                return "" if value is None else _digest(value)
            case "module":
                return str(file_of(name))
            case "start":
                return str(Path.cwd())

    def _of_file(self, path: str, then: Sign) -> str | None:
        """SHA-256 of the file, which is read only if it never was under this sign; None: it has another by now."""
        if (path, then) not in self.digests:
            key = _digest([FILE, path, then])
            if known := self.facts.get(key):
                self.digests[path, then] = known.result
            elif (found := _sha256(path)) and sign(path) == then:
                self.digests[path, then] = found
                self.facts.put(Fact(key, FILE, self.study, [], found))
        return self.digests.get((path, then))


def _of_folder(names: Sequence[object] | None) -> str:
    return "" if names is None else _digest(list(names))


def _next(key: str, state: str) -> str:
    return _digest([key, state])


def _digest(value: object) -> str:
    return hashlib.sha256(packed(value)).hexdigest()


def _sha256(path: str) -> str | None:
    """None: it cannot be read."""
    found = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while block := file.read(BLOCK):
                found.update(block)
    except OSError:
        return None
    return found.hexdigest()

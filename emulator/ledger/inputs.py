"""Looks up and adds facts of jobs that run a user's own code.  Such a fact holds as long as the files, folders and
variables that the code read (its inputs) are unchanged.

A job's key leads to a fact that names its inputs (`reads`: the digest of a list of names, which a fact `names` holds).
The key and a digest of the present state of these inputs make the next key.  It leads to the result, or to further
inputs.  So facts never change, a job may have several results, and a file that is changed back leads to its first
result again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from emulator.ledger.canonical import packed
from emulator.ledger.facts import Fact, FactsFile
from scenarios.builders.reads import SEEN, Kind, Read, Sign, listing, sign, variable
from scenarios.builders.sources import file_of

READS, NAMES, FILE = INPUTS = "reads", "names", "file"  # jobs of such facts; FILE: a file's digest, by path and sign
FRESH = 1.0  # s for which the state of files is trusted, because a command may look up thousands of facts

Name = tuple[Kind, str]


class Unsteady(ValueError):  # noqa: N818  a state of the inputs, and not an error
    """The error that an input has changed since the code read it, so that the inputs of a result are unknown."""


@dataclass
class Look:
    """The digest of the state that a list of inputs had at a time."""

    time: float = -1e9  # s
    digest: str = ""


@dataclass
class Noted:
    """The states of inputs as they were when the code read them, for the first `count` reads in SEEN."""

    count: int = -1
    values: dict[Name, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)  # digests of the states of names, by the digest of the names
    unsteady: str | None = None  # an input that has changed since


class Inputs:
    """The facts of one command, looked up and added with regard to the inputs of users' code.  `warn` is called with a
    sentence if a fact cannot be added."""

    def __init__(self, facts: FactsFile, study: str, warn: Callable[[str], None]) -> None:
        self.facts, self.study, self.warn = facts, study, warn
        self.names: dict[str, Sequence[Name]] = {}  # by their digest
        self.looks: dict[str, Look] = {}  # by the digest of the names
        self.digests: dict[tuple[str, Sign], str] = {}  # digests of files
        self.noted = Noted()
        self.lock = Lock()  # because results arrive in a thread of the pool

    def known(self, key: str) -> Fact | None:
        """Returns the fact of the job with this key that holds for the present state of its inputs; None if there is
        none."""
        while (fact := self.facts.get(key)) and fact.job == READS:
            if self._names(fact.result) is None:
                return None
            key = _next(key, self._present(fact.result))
        return fact

    def put(self, fact: Fact, own: bool) -> None:
        """Adds a fact.  `own`: the job ran a user's own code, so the fact is added with the state of the code's
        inputs."""
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
            if names is None:  # the list is lost; it may be this one
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
        """Returns the digest of the present state of the inputs in the list with the digest `names`."""
        look, now = self.looks.setdefault(names, Look()), time.monotonic()
        if now - look.time > FRESH:
            self.looks[names] = look = Look(now, _digest([self._now(*name) for name in self.names[names]]))
        return look.digest

    def _at_reading(self, digest: str, names: Sequence[Name]) -> str:
        """Returns the digest of the state of the inputs `names` when the code read them.  An input that was not read
        counts with its present state.  `digest`: that of the list."""
        if digest not in self.noted.digests:
            values = self.noted.values
            self.noted.digests[digest] = _digest(
                [values[name] if name in values else self._now(*name) for name in names]
            )
        return self.noted.digests[digest]

    def _values(self) -> dict[Name, str]:
        """Returns the state that each input had when it was read, by kind and name.  Raises Unsteady if one has changed
        since."""
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
        """Returns the state that an input had when it was read; None if it can no longer be known."""
        if read.kind == "folder":
            return _of_folder(read.names)
        if read.kind == "file":
            return "" if read.sign is None else self._of_file(read.name, read.sign)
        return self._now(read.kind, read.name)

    def _now(self, kind: Kind, name: str) -> str:
        """Returns the present state of an input as text; "" if the input does not exist."""
        match kind:
            case "file":
                present = sign(name)
                return "" if present is None else self._of_file(name, present) or "changing"
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
        """Returns the SHA-256 of a file that has the sign `then` (its size and times of change); None if it has another
        sign by now.  Reads the file once for each sign."""
        if (path, then) not in self.digests:
            key = _digest([FILE, path, then])
            if known := self.facts.get(key):
                self.digests[path, then] = known.result
            elif (sha256 := _sha256(path)) and sign(path) == then:
                self.digests[path, then] = sha256
                self.facts.put(Fact(key, FILE, self.study, [], sha256))
        return self.digests.get((path, then))


def _of_folder(names: Sequence[object] | None) -> str:
    return "" if names is None else _digest(list(names))


def _next(key: str, state: str) -> str:
    return _digest([key, state])


def _digest(value: object) -> str:
    return hashlib.sha256(packed(value)).hexdigest()


def _sha256(path: str) -> str | None:
    """Returns the SHA-256 of a file, in hex; None if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None

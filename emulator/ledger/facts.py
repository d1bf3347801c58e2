"""Facts: what came of a job, by the job's key, in one SQLite file.

A fact is never trusted because it is there: each row has a checksum, and a file that SQLite cannot read is put aside.
Nothing is lost by that but time, since a fact that is missing is computed again.  A commit reaches the operating system
and not the disk: it outlives a process that is killed, and after a loss of power the checksums tell what is whole.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

DAY = 86_400  # s: how exactly the last use of a fact is known
PATIENCE = 30.0  # s that another process may keep the file to itself
VERSION = 2
TABLES = """
CREATE TABLE IF NOT EXISTS facts
    (key TEXT PRIMARY KEY, job TEXT, study TEXT, args BLOB, result BLOB, checksum BLOB, day INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS studies (study TEXT PRIMARY KEY, scenario TEXT) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Fact:
    """A job that was done: its arguments and its result as plain values (results.py)."""

    key: str
    job: str
    study: str  # digest of the scenario that it was done for
    args: Any
    result: Any


class Facts:
    """The facts in one file.  `warn` gets a sentence where something was wrong with it."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.path, self.warn = path, warn
        self._lock = threading.Lock()  # results arrive in a thread of the pool
        self._file = self._opened()

    def get(self, key: str) -> Fact | None:
        """The fact, if there is one and its checksum is right."""
        row = self._ask("SELECT job, study, args, result, checksum, day FROM facts WHERE key = ?", key)
        if not row:
            return None
        job, study, args, result, checksum, day = row[0]
        if _checksum(key, job, study, args, result) != checksum:
            self.warn(f"{self.path}: a fact is damaged; it is computed again")
            self._ask("DELETE FROM facts WHERE key = ?", key)
            return None
        if day != (today := int(time.time()) // DAY):
            self._ask("UPDATE facts SET day = ? WHERE key = ?", today, key)
        return Fact(key, job, study, msgpack.unpackb(args), msgpack.unpackb(result))

    def put(self, fact: Fact) -> None:
        """Keeps a fact; one that is there already stays."""
        args, result = msgpack.packb(fact.args), msgpack.packb(fact.result)
        checksum = _checksum(fact.key, fact.job, fact.study, args, result)
        row = fact.key, fact.job, fact.study, args, result, checksum, int(time.time()) // DAY
        self._ask("INSERT OR IGNORE INTO facts VALUES (?, ?, ?, ?, ?, ?, ?)", *row)

    def forget(self, key: str) -> None:
        self._ask("DELETE FROM facts WHERE key = ?", key)

    def scenario(self, study: str) -> str | None:
        """The scenario with this digest, as text."""
        rows = self._ask("SELECT scenario FROM studies WHERE study = ?", study)
        return str(rows[0][0]) if rows else None

    def about(self, scenario: str) -> str:
        """Keeps a scenario's text; its digest."""
        study = hashlib.sha256(scenario.encode()).hexdigest()
        self._ask("INSERT OR IGNORE INTO studies VALUES (?, ?)", study, scenario)
        return study

    def keys(self) -> Iterator[tuple[str, str]]:
        """(key, job) of all facts, in the order of their keys."""
        yield from self._ask("SELECT key, job FROM facts ORDER BY key")

    def counts(self) -> dict[str, int]:
        """How many facts there are, by job."""
        return dict(self._ask("SELECT job, COUNT(*) FROM facts GROUP BY job ORDER BY job"))

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _ask(self, question: str, *values: Any) -> list[Any]:
        """The rows of an answer; none from a file that SQLite cannot use, which the user is told."""
        with self._lock:
            try:
                return self._file.execute(question, values).fetchall()
            except sqlite3.OperationalError as error:  # full, locked or read only: the run goes on without it
                self.warn(f"{self.path}: {error}; the ledger is not used for this job")
                return []
            except (sqlite3.DatabaseError, ValueError) as error:
                self._put_aside(error)
                return []

    def _opened(self) -> sqlite3.Connection:
        """The file, made if there is none, put aside if it is damaged or of another version.  Raises OSError."""
        try:
            return _connect(self.path)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {error}") from None
        except sqlite3.DatabaseError as error:
            return self._aside(error)

    def _put_aside(self, error: Exception) -> None:
        self._file.close()
        self._file = self._aside(error)

    def _aside(self, error: Exception) -> sqlite3.Connection:
        place = self.path.with_name(f"{self.path.name}.damaged-{int(time.time())}")
        self.path.rename(place)
        for left in ("-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + left).unlink(missing_ok=True)
        self.warn(f"{self.path} is damaged ({error}); it is now {place.name}, and its facts are computed again")
        return _connect(self.path)


def _connect(path: Path) -> sqlite3.Connection:
    """Raises sqlite3.DatabaseError."""
    file = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        version = file.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"it is of version {version}; this fedlapse reads version {VERSION}")
        # Rollback journal: SQLite's write-ahead log may lose data with two writers before 3.51.3.
        file.execute("PRAGMA journal_mode = TRUNCATE")
        file.execute("PRAGMA synchronous = OFF")
        file.executescript(TABLES)
        file.execute(f"PRAGMA user_version = {VERSION}")
        if (found := file.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
    except sqlite3.DatabaseError:
        file.close()
        raise
    return file


def _checksum(key: str, job: str, study: str, args: bytes, result: bytes) -> bytes:
    parts = (key.encode(), job.encode(), study.encode(), args, result)
    return hashlib.sha256(msgpack.packb(parts)).digest()

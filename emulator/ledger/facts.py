"""Facts: the results of jobs, by the jobs' keys, in one SQLite file.

Each row has a checksum, and a damaged row counts as missing.  A file that SQLite cannot read is set aside, and an empty
one takes its place; lost results are computed again.  Each row is a transaction of its own, handed to the operating
system but not forced to the disk.  So it outlives a process that is killed in the next instant, and several processes
may write to one file; a loss of power may cost the file.
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

from emulator.record.writing import why

DAY = 86_400  # s: the resolution of a fact's last use
PATIENCE = 30.0  # s to wait for another process that has locked the file
VERSION = 2
ASIDE = "damaged"
COLUMNS = "key TEXT PRIMARY KEY, job TEXT, study TEXT, args BLOB, result BLOB, checksum BLOB, day INTEGER"
TABLES = (
    f"CREATE TABLE facts ({COLUMNS}) WITHOUT ROWID",
    "CREATE TABLE studies (study TEXT PRIMARY KEY, scenario TEXT) WITHOUT ROWID",
)
# SQLite's errors for a sound file that cannot be used now; any other error means that the file is damaged.
ELSEWHERE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
FAULTS = (sqlite3.Error, UnicodeDecodeError)  # the latter if a message quotes damaged bytes


@dataclass(frozen=True)
class Fact:
    """A job that was done, with its arguments and its result as plain values (results.py)."""

    key: str
    job: str
    study: str  # digest of the scenario that asked for the job
    args: Any
    result: Any


class FactsFile:
    """The facts in one SQLite file.  If `writes` is False, the file is only read.

    `warn` is called with a sentence for each damaged row, and for each error of SQLite.
    """

    def __init__(self, path: Path, warn: Callable[[str], None], writes: bool = True) -> None:
        """Opens the file.  Raises OSError if it cannot be used."""
        self.path, self.warn, self.writes = path, warn, writes
        self._lock = threading.Lock()  # because results arrive in a thread of the pool
        self._file = self._opened()

    def get(self, key: str) -> Fact | None:
        """Returns the fact with this key; None if there is none, or its checksum is wrong."""
        row = self._ask("SELECT job, study, args, result, checksum, day FROM facts WHERE key = ?", key)
        if not row:
            return None
        job, study, args, result, checksum, day = row[0]
        if _checksum(key, job, study, args, result) != checksum:
            self.warn(f"{self.path}: a fact is damaged; it is computed again")
            self._change("DELETE FROM facts WHERE key = ?", key)
            return None
        if day != today():
            self._change("UPDATE facts SET day = ? WHERE key = ?", today(), key)
        return Fact(key, job, study, msgpack.unpackb(args), msgpack.unpackb(result))

    def put(self, fact: Fact) -> None:
        """Adds a fact, unless the key has one already."""
        args, result = msgpack.packb(fact.args), msgpack.packb(fact.result)
        checksum = _checksum(fact.key, fact.job, fact.study, args, result)
        row = fact.key, fact.job, fact.study, args, result, checksum, today()
        self._change("INSERT OR IGNORE INTO facts VALUES (?, ?, ?, ?, ?, ?, ?)", *row)

    def scenario(self, study: str) -> str | None:
        """Returns the text of the scenario with the digest `study`; None if the file does not have it, or has it
        damaged."""
        rows = self._ask("SELECT scenario FROM studies WHERE study = ?", study)
        text = str(rows[0][0]) if rows else ""
        return text if _digest(text) == study else None

    def about(self, scenario: str) -> str:
        """Adds a scenario's text to the file, and returns its digest."""
        study = _digest(scenario)
        if self.scenario(study) is None:
            self._change("INSERT OR REPLACE INTO studies VALUES (?, ?)", study, scenario)
        return study

    def keys(self) -> Iterator[tuple[str, str]]:
        """Yields (key, name of the job) of all facts, in the order of their keys."""
        yield from self._ask("SELECT key, job FROM facts ORDER BY key")

    def counts(self) -> dict[str, int]:
        """Returns the number of facts of each kind of job, by the job's name."""
        return {str(job): n for job, n in self._ask("SELECT job, COUNT(*) FROM facts GROUP BY job ORDER BY job")}

    @property
    def nbytes(self) -> int:
        """Bytes on the disk, including damaged files that were renamed."""
        return sum(path.stat().st_size for path in self.path.parent.glob(f"{self.path.name}*"))

    def drop(self, before: int) -> None:
        """Removes the facts that were last used before that day (see `today`) and damaged files that were renamed, and
        shrinks the file.

        No other process may use the ledger meanwhile.
        """
        self._change("DELETE FROM facts WHERE day < ?", before)
        self._change("DELETE FROM studies WHERE study NOT IN (SELECT study FROM facts)")
        self._change("VACUUM")
        for path in self.path.parent.glob(f"{self.path.name}.{ASIDE}-*"):
            path.unlink()

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _change(self, question: str, *values: Any) -> None:
        if self.writes:
            self._ask(question, *values)

    def _ask(self, question: str, *values: Any) -> list[Any]:
        """Runs a statement of SQL and returns its rows.  After an error of SQLite, warns the user and returns []."""
        with self._lock:
            try:
                return self._file.execute(question, values).fetchall()
            except sqlite3.ProgrammingError:  # ours
                raise
            except FAULTS as error:
                if self.writes and _is_damage(error):
                    self._file = self._anew(error)
                else:  # the run continues; what cannot be written is computed again next time
                    self.warn(f"{self.path}: {_line(error)}; not all that is computed is remembered")
                    self._file.execute("PRAGMA busy_timeout = 0")  # once is enough to wait for another process
                return []

    def _anew(self, error: Exception) -> sqlite3.Connection:
        """Renames this damaged file and returns a connection to a new, empty one, or to one in memory if that is
        impossible."""
        self._file.close()
        try:
            self._set_aside(error)
            return self._opened()
        except OSError as failed:
            self.warn(f"{self.path}: {why(failed)}; nothing is remembered from here on")
            return _connect(Path(":memory:"), writes=True)

    def _opened(self) -> sqlite3.Connection:
        """Returns a connection to the file.  Renames a file that is damaged or of another version, and begins an empty
        one if there is none.  Raises OSError."""
        try:
            return _connect(self.path, self.writes)
        except FAULTS as error:
            if not (self.writes and _is_damage(error)):
                raise OSError(0, _line(error), str(self.path)) from None
            self._set_aside(error)
            return self._opened()

    def _set_aside(self, error: Exception) -> None:
        """Renames the file, which is damaged, so that a new one can be begun.  Raises OSError."""
        place = self.path.with_name(f"{self.path.name}.{ASIDE}-{int(time.time())}")
        try:
            self.path.rename(place)
        except FileNotFoundError:  # another command has just done it
            return
        for suffix in ("-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self.warn(f"{self.path} cannot be read ({_line(error)}); it is now {place.name}, and a new one is begun")


def today() -> int:
    """Returns the number of days since 1970."""
    return int(time.time()) // DAY


def _is_damage(error: Exception) -> bool:
    """Returns true if an error shows that the file is damaged, and false if the cause is another one, such as a lock or
    a full disk."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in ELSEWHERE


def _line(error: Exception) -> str:
    """Returns the error's text in ASCII, because it may quote damaged bytes."""
    return ascii(str(error))[1:-1]


def _connect(path: Path, writes: bool) -> sqlite3.Connection:
    """Returns a connection to a file of facts, and makes its tables if it is empty.  Raises one of FAULTS, also for a
    file of another program."""
    name = path if writes else f"{path.absolute().as_uri()}?mode=ro"
    file = sqlite3.connect(name, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=not writes)
    file.text_factory = lambda data: data.decode(errors="replace")  # one damaged text is one damaged row
    try:
        if writes:
            # Rollback journal: SQLite's write-ahead log may lose data with two writers before 3.51.3.
            file.execute("PRAGMA journal_mode = TRUNCATE")
            file.execute("PRAGMA synchronous = OFF")
            file.execute("BEGIN IMMEDIATE")  # two commands may make the file at once
            if not any(file.execute(f"PRAGMA {name}_version").fetchone()[0] for name in ("user", "schema")):
                for statement in (*TABLES, f"PRAGMA user_version = {VERSION}"):
                    file.execute(statement)
            file.execute("COMMIT")
        version = file.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            raise sqlite3.DatabaseError(f"it is of version {version}; this fedlapse reads version {VERSION}")
        if (found := file.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
    except FAULTS:
        file.close()
        raise
    return file


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(*parts: Any) -> bytes:
    """Returns the SHA-256 of the parts of a row.  In a damaged row they may have any of SQLite's types."""
    return hashlib.sha256(msgpack.packb(parts)).digest()

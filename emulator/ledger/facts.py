"""Facts: what came of a job, by the job's key, in one SQLite file.

The truth is a log beside it, of which SQLite is the index.  A fact is never trusted because it is there: each row has
a checksum, and an index that SQLite cannot read is put aside and made again from the log.  What is written reaches the
operating system at once and the disk in batches (flushing.py): it outlives a process that is killed, and after a loss
of power some seconds of facts are computed again.
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

from emulator.ledger.log import Log
from emulator.record.writing import why

DAY = 86_400  # s: how exactly the last use of a fact is known
PATIENCE = 30.0  # s that another process may keep the file to itself
VERSION = 2
ASIDE = "damaged"
COLUMNS = "key TEXT PRIMARY KEY, job TEXT, study TEXT, args BLOB, result BLOB, checksum BLOB, day INTEGER"
TABLES = (
    f"CREATE TABLE facts ({COLUMNS}) WITHOUT ROWID",
    "CREATE TABLE studies (study TEXT PRIMARY KEY, scenario TEXT) WITHOUT ROWID",
)
PUT = {
    "fact": "INSERT OR IGNORE INTO facts VALUES (?, ?, ?, ?, ?, ?, ?)",
    "study": "INSERT OR REPLACE INTO studies VALUES (?, ?)",
}
# What SQLite says of a file that is sound, and cannot be used now; of whatever else it says, the file is the cause.
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
FAULTS = (sqlite3.Error, UnicodeDecodeError)  # the latter where a message quotes damaged bytes


@dataclass(frozen=True)
class Fact:
    """A job that was done: its arguments and its result as plain values (results.py)."""

    key: str
    job: str
    study: str  # digest of the scenario that it was done for
    args: Any
    result: Any


class Facts:
    """The facts in one file, which is only read if `writes` is False.  `warn` gets a sentence where something was wrong
    with it."""

    def __init__(self, path: Path, warn: Callable[[str], None], writes: bool = True) -> None:
        """Raises OSError if the file cannot be used."""
        self.path, self.warn = path, warn
        self._lock = threading.Lock()  # results arrive in a thread of the pool
        self._log = Log(path.with_suffix(".log")) if writes else None
        self._file = self._opened()

    def get(self, key: str) -> Fact | None:
        """The fact, if there is one and its checksum is right."""
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
        """Keeps a fact; one that is there already stays."""
        args, result = msgpack.packb(fact.args), msgpack.packb(fact.result)
        checksum = _checksum(fact.key, fact.job, fact.study, args, result)
        row = fact.key, fact.job, fact.study, args, result, checksum, today()
        self._append(["fact", *row])
        self._change(PUT["fact"], *row)

    def scenario(self, study: str) -> str | None:
        """The scenario with this digest, as text; None if it is not there, or damaged."""
        rows = self._ask("SELECT scenario FROM studies WHERE study = ?", study)
        text = str(rows[0][0]) if rows else ""
        return text if _digest(text) == study else None

    def about(self, scenario: str) -> str:
        """Keeps a scenario's text; its digest."""
        study = _digest(scenario)
        if self.scenario(study) is None:
            self._append(["study", study, scenario])
            self._change(PUT["study"], study, scenario)
        return study

    def keys(self) -> Iterator[tuple[str, str]]:
        """(key, job) of all facts, in the order of their keys."""
        yield from self._ask("SELECT key, job FROM facts ORDER BY key")

    def counts(self) -> dict[str, int]:
        """How many facts there are, by job."""
        return {str(job): n for job, n in self._ask("SELECT job, COUNT(*) FROM facts GROUP BY job ORDER BY job")}

    @property
    def nbytes(self) -> int:
        """What they take on the disk, with what was put aside."""
        return sum(path.stat().st_size for path in self.path.parent.glob(f"{self.path.stem}.*"))

    def drop(self, before: int) -> None:
        """Removes the facts that were last used before that day (see `today`), what the log has twice, what was put
        aside, and the space that is free then.  Nobody else may use the ledger meanwhile.  Raises OSError."""
        assert self._log
        self._change("DELETE FROM facts WHERE day < ?", before)
        self._change("DELETE FROM studies WHERE study NOT IN (SELECT study FROM facts)")
        names = self._ask("SELECT key FROM facts UNION ALL SELECT study FROM studies")
        left = {name: True for (name,) in names}
        self._log.shorten(lambda row: left.pop(row[1], False))
        self._change("VACUUM")
        for path in self.path.parent.glob(f"{self.path.name}.{ASIDE}-*"):
            path.unlink()

    def flush(self) -> None:
        """Returns when what was put is on the disk.  Raises OSError."""
        if self._log:
            self._log.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()
            if self._log:
                self._log.close()

    def _append(self, row: list[Any]) -> None:
        if not self._log:
            return
        try:
            self._log.append(row)
        except OSError as error:
            self.warn(f"{self._log.path}: {why(error)}; not all that is computed is remembered")

    def _change(self, question: str, *values: Any) -> None:
        if self._log:
            self._ask(question, *values)

    def _ask(self, question: str, *values: Any) -> list[Any]:
        """The rows of an answer; none if SQLite cannot give it, which the user is told."""
        with self._lock:
            try:
                return self._file.execute(question, values).fetchall()
            except sqlite3.ProgrammingError:  # ours
                raise
            except FAULTS as error:
                self._file = self._anew(error, self._log) if self._log and _ours(error) else self._without(error)
                return []

    def _without(self, error: Exception) -> sqlite3.Connection:
        """The run goes on; what cannot be written is computed again next time."""
        self.warn(f"{self.path}: {_line(error)}; not all that is computed is remembered")
        self._file.execute("PRAGMA busy_timeout = 0")  # once is enough to wait for another process
        return self._file

    def _anew(self, error: Exception, log: Log) -> sqlite3.Connection:
        self._file.close()
        try:
            return self._after_putting_aside(error, log)
        except OSError as failed:
            self.warn(f"{self.path}: {failed.strerror}; nothing is remembered from here on")
            return _connect(Path(":memory:"), log)

    def _opened(self) -> sqlite3.Connection:
        """The file, made from the log if there is none, put aside if it is damaged or of another version.

        Raises OSError.
        """
        try:
            return _connect(self.path, self._log)
        except FAULTS as error:
            if self._log and _ours(error):
                return self._after_putting_aside(error, self._log)
            raise OSError(0, _line(error), str(self.path)) from None

    def _after_putting_aside(self, error: Exception, log: Log) -> sqlite3.Connection:
        place = self.path.with_name(f"{self.path.name}.{ASIDE}-{int(time.time())}")
        try:
            self.path.rename(place)
        except FileNotFoundError:  # another command has just done it
            return self._opened()
        for left in ("-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + left).unlink(missing_ok=True)
        again = f"it is now {place.name}, and is made again from {log.path.name}"
        self.warn(f"{self.path} is damaged ({_line(error)}); {again}")
        return self._opened()


def today() -> int:
    """Days since 1970."""
    return int(time.time()) // DAY


def _ours(error: Exception) -> bool:
    """Whether the file is the cause."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in ELSEWHERE


def _line(error: Exception) -> str:
    """What it says; it may quote damaged bytes."""
    return ascii(str(error))[1:-1]


def _connect(path: Path, log: Log | None) -> sqlite3.Connection:
    """Without the log it is only read.  Raises one of FAULTS."""
    name = path if log else f"{path.absolute().as_uri()}?mode=ro"
    file = sqlite3.connect(name, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=log is None)
    file.text_factory = lambda data: data.decode(errors="replace")  # one damaged text is one damaged row
    try:
        if log is None:
            _check(file)
            return file
        # Rollback journal: SQLite's write-ahead log may lose data with two writers before 3.51.3.
        file.execute("PRAGMA journal_mode = TRUNCATE")
        file.execute("PRAGMA synchronous = OFF")
        file.execute("BEGIN IMMEDIATE")  # two commands may make the file at once
        _prepare(file, log)
        file.execute("COMMIT")
    except FAULTS:
        file.close()
        raise
    return file


def _prepare(file: sqlite3.Connection, log: Log) -> None:
    """Makes the tables in an empty file, and fills them with what the log says.

    Raises sqlite3.DatabaseError for a file of others, or one that is damaged.
    """
    version, tables = (file.execute(ask).fetchone()[0] for ask in ("PRAGMA user_version", "PRAGMA schema_version"))
    if version == tables == 0:
        for table in TABLES:
            file.execute(table)
        for kind, *values in log.rows():
            file.execute(PUT[kind], values)
        file.execute(f"PRAGMA user_version = {VERSION}")
    else:
        _check(file)


def _check(file: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError for a file of others, or one that is damaged."""
    version = file.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise sqlite3.DatabaseError(f"it is of version {version}; this fedlapse reads version {VERSION}")
    if (found := file.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise sqlite3.DatabaseError(found)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(*parts: Any) -> bytes:
    """Of a damaged row a part may be of any type that SQLite has."""
    return hashlib.sha256(msgpack.packb(parts)).digest()

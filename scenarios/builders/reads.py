"""Notes what a user's own code reads in addition to its arguments: files, folders and environment variables.

Python reports each file that it opens to an audit hook, and os.environ is replaced.  A read counts if it comes from a
user's code that fedlapse called, possibly through libraries.  Reads by other means (a C library that opens files
itself, `os.stat`, another process) are not noticed.
"""

from __future__ import annotations

import inspect
import os
import stat
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.util import source_from_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

OURS = frozenset(("algorithms", "devices", "emulator", "fedlapse", "network", "scenarios"))
INSTALLED = ("site-packages", "dist-packages")  # folders of installed packages
PYTHONS = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
KERNELS = ("/dev/", "/proc/", "/sys/")
IMPORT = "<frozen importlib"
SETS = os.O_WRONLY | os.O_TRUNC | os.O_EXCL  # a file opened in one of these modes has no content to read

EVERY = ""  # in place of a variable's name: the names of all variables

Kind = Literal["file", "folder", "variable", "module", "start"]
Sign = tuple[int, int, int]  # a file's size in bytes, and its times of change in ns: of its content, and of all else


class Read(NamedTuple):
    """One input that code has read: a file with its sign, or a folder with the names in it (None if there was none), or
    another kind of input by its name."""

    kind: Kind  # module: location of the reading code; start: working directory of the command
    name: str = ""  # a path, or the name of a variable or module
    sign: Sign | None = None
    names: tuple[str, ...] | None = None


SEEN: dict[Read, None] = {}  # by this process and its workers, in order
BEFORE: dict[str, str | None] = {}  # original values of variables that a user's code has set

_roots: set[str] = set()  # packages and modules that scenarios name: their code counts as a user's even if installed
_values: dict[str, str | None] = {}  # values of variables at their first read
_written: set[str] = set()  # files that a user's code has created: reading them back does not count
_sent = 0
_looking = threading.local()  # .now: the hook itself is reading a folder


def watch(path: str) -> None:
    """Makes this process note all later reads by the code of `package.module:thing`."""
    if not _roots:
        sys.addaudithook(_heard)
        os.environ.__class__ = _Environ
    _roots.add(path.partition(":")[0].partition(".")[0])
    _installed.cache_clear()


def changed() -> bool:
    """Returns true if something that was read has changed since, so that code which keeps what it read is out of
    date."""
    return any(map(_differs, list(SEEN)))


def _differs(read: Read) -> bool:
    match read.kind:
        case "file":
            return sign(read.name) != read.sign
        case "folder":
            return listing(read.name) != read.names
        case "variable":
            return variable(read.name) != _values.get(read.name)
        case _:
            return False


def forget() -> None:
    """Forgets all reads, because the reading code is about to be imported again."""
    global _sent
    for known in (SEEN, _values, _written):
        known.clear()
    _sent = 0


def fresh() -> Sequence[Read]:
    """Returns the reads noted in this process since the last call of this function."""
    global _sent
    found = list(SEEN)[_sent:] if len(SEEN) > _sent else []
    _sent += len(found)
    return found


def add(found: Iterable[Read]) -> None:
    """Adds reads that a worker process has noted."""
    SEEN.update(dict.fromkeys(found))


def sign(path: str) -> Sign | None:
    """Returns the sign of a file (see Sign), by which a change is recognised; None if there is no such file."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns) if stat.S_ISREG(found.st_mode) else None


def listing(path: str) -> tuple[str, ...] | None:
    """Returns the names in a folder, sorted; None if there is no such folder."""
    _looking.now = True
    try:
        return tuple(sorted(each.name for each in Path(path).iterdir()))
    except (OSError, ValueError):
        return None
    finally:
        _looking.now = False


def variable(name: str) -> str | None:
    """Returns the value of an environment variable before a user's code set it, or the names of EVERY one; None if it
    does not exist."""
    if name == EVERY:
        before = {each for each, value in BEFORE.items() if value is not None}
        return "\n".join(sorted(before | {each for each in os.environ if each not in BEFORE}))
    return BEFORE[name] if name in BEFORE else os.environ.get(name)


def _heard(event: str, args: tuple[Any, ...]) -> None:
    """Notes a read by a user's code: Python calls this audit hook for each file and folder that is opened.  It must not
    raise, because Python would then not open the file."""
    if event not in ("open", "os.listdir", "os.scandir") or isinstance(args[0], int) or sys.is_finalizing():
        return
    path = _source(str(Path(os.fsdecode(args[0] or ".")).absolute()))
    if event == "open":
        _opened(path, args[2])
    elif not getattr(_looking, "now", False) and (asker := _asker(imports=False)):
        _note(asker, Read("folder", path, names=listing(path)))


def _opened(path: str, flags: int) -> None:
    if path.startswith(KERNELS) or _installed(path) or not (asker := _asker()):
        return
    if flags & SETS:
        _written.add(path)
    elif path not in _written and not Path(path).is_dir():
        _note(asker, Read("file", path, sign(path)))


def _note(asker: str, read: Read) -> None:
    """Notes a read, and with it the location of the reading module and the working directory, because a path may depend
    on both."""
    for each in (Read("module", asker), Read("start"), read):
        SEEN[each] = None


def _source(path: str) -> str:
    """Returns the source file of a compiled Python file, and any other path as it is."""
    try:
        return source_from_cache(path) if path.endswith(".pyc") else path
    except ValueError:
        return path


def _asker(imports: bool = True) -> str | None:
    """Returns the name of the user's module that is reading now; None if it is not a user's, or if fedlapse did not
    call it.

    With `imports` false, returns None also while Python imports a module.
    """
    frame, asker = inspect.currentframe(), None
    while frame and frame.f_globals is globals():
        frame = frame.f_back
    if frame and not imports and frame.f_code.co_filename.startswith(IMPORT):
        return None
    while frame:
        name = str(frame.f_globals.get("__name__"))
        ours = name.partition(".")[0] in OURS
        if ours:
            return asker
        if asker is None and not _installed(frame.f_code.co_filename):
            asker = name
        frame = frame.f_back
    return None if threading.current_thread() is threading.main_thread() else asker  # a thread of its own


@lru_cache(maxsize=4096)
def _installed(file: str) -> bool:
    """Returns true if a file belongs to Python, or to an installed package that no scenario names."""
    for place, inside in pairwise(Path(file).parts):
        if place in INSTALLED:
            return inside.partition(".")[0] not in _roots
    return file.startswith((*PYTHONS, "<"))


class _Environ(type(os.environ)):  # type: ignore[misc]  # os names its class for itself alone
    """The class of os.environ while reads are watched: it notes which variables a user's code reads and sets."""

    def __getitem__(self, name: str) -> str:
        if isinstance(name, str) and _asker():
            SEEN[Read("variable", name)] = None
            _values.setdefault(name, BEFORE[name] if name in BEFORE else self._value(name))
        found: str = super().__getitem__(name)
        return found

    def __iter__(self) -> Iterator[str]:
        if EVERY not in _values and _asker():
            _values[EVERY] = None  # because variable() iterates, too
            _values[EVERY] = variable(EVERY)
            SEEN[Read("variable", EVERY)] = None
        return iter(super().__iter__())

    def _value(self, name: str) -> str | None:
        try:
            value: str = super().__getitem__(name)
        except KeyError:
            return None
        return value

    def __setitem__(self, name: str, value: str) -> None:
        self._set(name)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self._set(name)
        super().__delitem__(name)

    def _set(self, name: str) -> None:
        if name not in BEFORE and _asker():
            BEFORE[name] = self._value(name)

"""The folder of a command's results: a new one, or with --force one that is emptied of earlier results.

Whoever writes there makes it (`folder`), keeps all others away (`alone`), and only then clears it (`clear`).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.record.seal import OF_RESULTS, SEAL
from emulator.record.writing import told
from scenarios.text.faults import BadScenario

OURS = (*OF_RESULTS, SEAL)
BEGUN = "scenario.yaml.partial"  # all that there is of a command that was killed at once


def folder(out: Path | None, name: str) -> Path:
    """The one asked for, or the next runs/NAME-NNNN; made if it is not there.  Raises BadScenario if it cannot be."""
    try:
        if out is None:
            return _next(name)
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadScenario(f"cannot make the output folder {told(error)}") from None
    return out


def why_not(out: Path, scenario: str) -> str | None:
    """Why runs of this scenario cannot be resumed in this folder; None if they can."""
    try:
        same = (out / "scenario.yaml").read_text(encoding="utf-8") == scenario
    except (OSError, ValueError):
        same = False
    if not same:
        return "holds a scenario.yaml that this version of fedlapse did not write"
    if (out / SEAL).exists():
        return "is complete; there is nothing to resume"
    if (out / "replay.json").exists():
        return "holds a replay, which cannot be resumed; play it again"
    return "holds runs over sockets, which cannot be resumed; play them again" if _over_sockets(out) else None


def _over_sockets(out: Path) -> bool:
    try:
        world = json.loads((out / "host.json").read_text(encoding="utf-8"))["world"]
    except (OSError, ValueError, LookupError, TypeError):
        return False
    return bool(world == "sockets")


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keeps other commands from writing to this folder meanwhile.  Raises BadScenario if one of them does so now."""
    number = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        raise BadScenario(f"another fedlapse is writing to {out}; wait for its end, or stop it") from None
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        os.close(number)


def clear(out: Path, force: bool) -> None:
    """Takes earlier results away.  Raises BadScenario if there are any and `force` is not given, or other files."""
    if all(path.name == BEGUN for path in out.iterdir()):
        return
    if not _holds_results(out):
        raise BadScenario(f"--out {out} holds files that are not fedlapse's; give a new folder")
    if not force:
        raise BadScenario(f"--out {out} holds another run; give a new folder, or --force to replace it")
    _empty(out)


def _holds_results(out: Path) -> bool:
    """A scenario alone may be a user's own."""
    beside = (out / "split.json").is_file() or (out / "replay.json").is_file() or any(out.glob("*/events.jsonl"))
    return (out / "scenario.yaml").is_file() and beside


def _empty(out: Path) -> None:
    """Takes away earlier results, and nothing else that lies there."""
    for setting in [path.parent for path in out.glob("*/replay.json")]:
        _empty(setting)
        if not any(setting.iterdir()):
            setting.rmdir()
    for run in [path.parent for path in out.glob("*/events.jsonl")]:
        shutil.rmtree(run)
    for run in [path for path in out.glob("*-s*") if path.is_dir() and not any(path.iterdir())]:
        run.rmdir()  # of one that was killed before its first line
    for name in OURS:
        (out / name).unlink(missing_ok=True)
    shutil.rmtree(out / "charts", ignore_errors=True)


def _next(name: str) -> Path:
    for number in range(1, 10_000):
        folder = Path("runs") / f"{name}-{number:04}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise BadScenario(f"runs/ holds 9,999 runs of {name}; clear some away")

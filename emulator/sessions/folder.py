"""The folder of a command's results: a new one, or with --force one that is emptied of earlier results.

Whoever writes there makes it (`folder`), keeps all others away (`alone`), and only then clears it (`clear`).
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.record.host import HOST, Kinds, folders_of, host_of, of_scenario
from emulator.record.removal import ASIDE, WrittenFiles, in_the_way, linked, remove, written
from emulator.record.seal import SEAL
from emulator.record.writing import PARTIAL, told
from emulator.results.units import counted
from emulator.terminal.lines import say
from emulator.terminal.stopping import uninterrupted
from scenarios.load import dump
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

BEGUN = tuple(name + PARTIAL for name in (HOST, "scenario.yaml"))  # all that there is of a command killed at once


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
    over_sockets = host_of(out).get("world") == "sockets"
    return "holds runs over sockets, which cannot be resumed; play them again" if over_sockets else None


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


def make_ready(out: Path, scenario: Scenario, force: bool, over_sockets: bool = False) -> bool:
    """Clears the folder, unless it holds runs of this very scenario that were interrupted: these go on, but not over
    sockets.  Returns whether they go on and `force` replaces what comes out otherwise.

    Raises BadScenario as `clear` does, and where a run would write through a link.
    """
    coming = of_scenario(scenario)
    if over_sockets or why_not(out, dump(scenario)):
        clear(out, force, coming)
        return False
    refuse_links(out, coming)
    if force:
        say(f"fedlapse: --force goes on with the runs in {out}, and replaces what comes out otherwise", err=True)
        for run in coming:
            (out / run / SEAL).unlink(missing_ok=True)
    return force


def refuse_links(out: Path, coming: Kinds) -> None:
    """Raises BadScenario if one of these folders, or a file that a run writes there, is a link."""
    if (link := linked(out, coming)) is not None:
        raise BadScenario(f"{link} is a link, through which no run writes; nothing was changed; give a new folder")


def clear(out: Path, force: bool, coming: Kinds) -> None:
    """Takes earlier results away, to make room for these folders.

    Raises BadScenario if there are any and `force` is not given, or other files.
    """
    if all(path.name in BEGUN for path in out.iterdir()):
        return
    if not _holds_results(out):
        raise BadScenario(f"--out {out} holds files that are not fedlapse's; give a new folder")
    if not force:
        raise BadScenario(f"--out {out} holds another run; give a new folder, or --force to replace it")
    replaced(out, "results", coming)


def replaced(out: Path, kind: str, coming: Kinds, tell: bool = True) -> None:
    """Takes away what fedlapse has written there, and with `tell` first lists it; all other files stay.

    Raises BadScenario if one of the files cannot be removed, or something else is in the way; then nothing is removed.
    """
    leaving = written(out, kind)
    if (other := in_the_way(out, coming, leaving)) is not None:
        raise BadScenario(f"{other} is in the way, and not fedlapse's; nothing was removed; give a new folder")
    if tell and leaving.files:
        say(f"fedlapse: --force removes from {out}: {', '.join(_listed(leaving))}", err=True)
    try:
        with uninterrupted():
            remove(leaving)
    except OSError as error:
        raise BadScenario(f"cannot remove {told(error)}; nothing was removed; give a new folder") from None


def _listed(leaving: WrittenFiles) -> Iterator[str]:
    """The names of the files; of a folder, how many they are."""
    yield from (path.name for path in leaving.files if path.parent == leaving.out)
    for folder, count in Counter(path.parent for path in leaving.files if path.parent != leaving.out).items():
        yield f"{counted(count, 'file')} in {folder.relative_to(leaving.out)}"


def _holds_results(out: Path) -> bool:
    """A scenario alone may be a user's own; one that was killed at once, or as it was removed, may have none."""
    known = folders_of(out)
    if known is None and (out / ASIDE).is_dir():  # host.json goes last
        return True
    beside = (out / "split.json").is_file() or (out / "replay.json").is_file() or known is not None
    begun = (out / "scenario.yaml").is_file() and (beside or any(out.glob("*/events.jsonl")))
    return begun or "run" in (known or {}).values()


def _next(name: str) -> Path:
    for number in range(1, 10_000):
        folder = Path("runs") / f"{name}-{number:04}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise BadScenario(f"runs/ holds 9,999 runs of {name}; clear some away")

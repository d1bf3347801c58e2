"""The folder of a command's results: a new one, or with --force one whose earlier results are removed.

A command creates it (`folder`), locks it (`alone`), and only then clears it (`clear`).
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

BEGUN = tuple(name + PARTIAL for name in (HOST, "scenario.yaml"))  # all that a command leaves if killed at its start


def folder(out: Path | None, name: str) -> Path:
    """Returns the folder `out`, created if missing; if `out` is None, a new folder runs/NAME-NNNN with the next number.

    Raises BadScenario if the folder cannot be created.
    """
    try:
        if out is None:
            return _next(name)
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadScenario(f"cannot make the output folder {told(error)}") from None
    return out


def why_not(out: Path, scenario: str) -> str | None:
    """Returns the reason why the runs in this folder cannot be resumed; None if they can.

    `scenario`: the text of the scenario, which must equal the folder's scenario.yaml.
    """
    try:
        same = (out / "scenario.yaml").read_text(encoding="utf-8") == scenario
    except (OSError, ValueError):
        same = False
    if not same:
        return "holds a scenario.yaml that this version of fedlapse did not write"
    if (out / SEAL).exists():
        return "is complete; there is nothing to resume"
    if (out / "replay.json").exists():
        return "holds a replay, which cannot be resumed; run it again"
    over_sockets = host_of(out).get("world") == "sockets"
    return "holds runs over sockets, which cannot be resumed; run them again" if over_sockets else None


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Locks the folder against other commands until the block ends.  Raises BadScenario if another command holds the
    lock."""
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
    """Prepares the folder for the runs of a scenario: keeps interrupted runs of the same scenario, which are resumed,
    and else clears the folder.  Runs over sockets cannot be resumed.

    Returns True if runs are resumed with `force`, so that records which differ are replaced.  Raises BadScenario as
    `clear` does, and if a run would write through a symbolic link.
    """
    coming = of_scenario(scenario)
    if over_sockets or why_not(out, dump(scenario)):
        clear(out, force, coming)
        return False
    refuse_links(out, coming)
    if force:
        say(f"fedlapse: --force continues the runs in {out}, and replaces what differs", err=True)
        for run in coming:
            (out / run / SEAL).unlink(missing_ok=True)
    return force


def refuse_links(out: Path, coming: Kinds) -> None:
    """Raises BadScenario if a symbolic link is in the place of a folder of `coming`, or of a file to be written in such
    a folder.

    `coming`: the folders that the command will write in `out`, with their kinds.
    """
    if (link := linked(out, coming)) is not None:
        raise BadScenario(f"{link} is a link, through which no run writes; nothing was changed; give a new folder")


def clear(out: Path, force: bool, coming: Kinds) -> None:
    """Removes the results of an earlier command from the folder.

    `coming`: the folders that the command will write in `out`, with their kinds.  Raises BadScenario if the folder
    holds earlier results and `force` is False, or if it holds only files that fedlapse did not write.
    """
    if all(path.name in BEGUN for path in out.iterdir()):
        return
    if not _holds_results(out):
        raise BadScenario(f"--out {out} holds files that are not fedlapse's; give a new folder")
    if not force:
        raise BadScenario(f"--out {out} holds another run; give a new folder, or --force to replace it")
    replaced(out, "results", coming)


def replaced(out: Path, kind: str, coming: Kinds, tell: bool = True) -> None:
    """Removes the files that fedlapse wrote in `out`; all other files stay.  `tell`: first prints what is removed.

    `kind`: the kind of the folder `out`.  Raises BadScenario, and removes nothing, if a file cannot be removed, or if a
    file that stays has the place of a folder in `coming`.
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
    """Yields the name of each file that lies in OUT itself, and for each folder in OUT the number of its files."""
    yield from (path.name for path in leaving.files if path.parent == leaving.out)
    for folder, count in Counter(path.parent for path in leaving.files if path.parent != leaving.out).items():
        yield f"{counted(count, 'file')} in {folder.relative_to(leaving.out)}"


def _holds_results(out: Path) -> bool:
    """Returns True if fedlapse wrote the results in this folder.

    scenario.yaml alone is no proof, because it may be the user's; it may also be missing, after a command that was
    killed early.
    """
    known = folders_of(out)
    if known is None and (out / ASIDE).is_dir():  # host.json is removed last
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

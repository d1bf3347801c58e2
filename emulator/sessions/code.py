"""code.json: describes the code and the versions with which the runs in a folder began.

If a resumed run differs from its record, the file shows what has changed in between.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from emulator.record.host import of_scenario
from emulator.record.record import FILES
from emulator.record.repeated import Otherwise, known
from emulator.record.seal import CODE
from emulator.record.writing import replace_file
from emulator.sessions.machine import processor
from scenarios.builders.reads import EVERY, SEEN, sign
from scenarios.builders.selections import named as selection_of
from scenarios.builders.sets import FORMS
from scenarios.builders.sources import OURS, file_of, sources
from scenarios.schema.scenario import Scenario

PACKAGES = ("fedlapse", "torch", "numpy")
SPLIT = "split.json"
MANY = 1000  # files up to which each is recorded
LARGE = 1 << 22  # bytes; the SHA-256 of a larger file would take too long
SHOWN = 3  # files or variables that a message names


def code_text(scenario: Scenario, numerics: str | None) -> str:
    """Returns the text of code.json: versions, processor, numerics, and the state of the user's own files.

    `numerics`: the digest of this machine's arithmetic (ledger/probe.py); None if unknown.  For the user's modules the
    text has the SHA-256; for each file that these modules have read so far: size in bytes, time of change in ns, and
    SHA-256 (None for a large file).
    """
    seen = [each for each in list(SEEN) if each.kind == "file" and each.sign]
    read = {each.name: [*each.sign[:2], _digest(each.name)] for each in seen if each.sign} if len(seen) <= MANY else {}
    said = {
        "versions": {"python": platform.python_version()} | {package: version(package) for package in PACKAGES},
        "processor": processor(),
        "numerics": numerics,
        "modules": _modules(scenario),
        "read": read,
    }
    return json.dumps(said, indent=1, sort_keys=True) + "\n"


def begin(out: Path, scenario: Scenario, code: str, split: str, force: bool) -> bool:
    """Writes split.json and, for new runs, code.json.  Returns True if the folder has earlier runs, which are resumed.

    Earlier runs keep their code.json for now, because it describes the code that made them.  Raises Otherwise if the
    earlier split.json differs from `split`, unless `force` is given.
    """
    goes_on = any(any(known(out / name, FILES).values()) for name in of_scenario(scenario))
    if not goes_on:
        replace_file(out / CODE, code)
    elif not force and (out / SPLIT).is_file() and (out / SPLIT).read_bytes() != split.encode():
        raise Otherwise(out / SPLIT)
    replace_file(out / SPLIT, split)
    return goes_on


def why_otherwise(out: Path, now: str) -> str:
    """Returns one sentence on what has changed since the runs in `out` began.  `now`: the present `code_text`."""
    try:
        then, here = json.loads((out / CODE).read_bytes()), json.loads(now)
        differ = [*_files(then, here), *_others(then, here)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return f"the folder has no readable {CODE}, so the reason is unknown"
    variables = sorted({each.name for each in list(SEEN) if each.kind == "variable"} - {EVERY})
    perhaps = f", perhaps {_named(variables)} of the environment" if variables else ""
    nothing = "no known file has changed, nor torch, nor the processor: your code reads or draws something else"
    return "; ".join(differ) or f"{nothing}{perhaps}"


def or_go_on(out: Path) -> str:
    """Returns the advice for a resumed run that differs from its record: nothing was replaced yet, and the command that
    replaces what differs."""
    command = shlex.join(["fedlapse", "resume", "--force", str(out)])
    return f"nothing in the folder was replaced; `{command}` replaces what differs, and continues"


def _modules(scenario: Scenario) -> Mapping[str, str]:
    """Returns the SHA-256 of the user's own modules, by name: those that the scenario names and that have a file, and
    the modules that these import."""
    named = [scenario.model.name, scenario.task.name, scenario.training.optimizer]
    named += [scenario.data.set] if scenario.data.set.partition(":")[0] not in FORMS else []
    named += [name for each in scenario.algorithms for name in (each.key, selection_of(each, scenario)[0])]
    roots = {name.partition(":")[0] for name in named if ":" in name}
    found = sources({root for root in roots if file_of(root)})
    return {name: digest for name, digest in found.items() if name.partition(".")[0] not in OURS}


def _files(then: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    modules = [name for name, digest in then["modules"].items() if here["modules"].get(name) != digest]
    changed = [str(file_of(name) or name) for name in modules]
    changed += [path for path, was in then["read"].items() if _changed(path, *was)]
    if changed:
        yield f"{_named([*map(_short, changed)])} {'has' if len(changed) == 1 else 'have'} changed since it was begun"


def _changed(path: str, size: int, time: int, digest: str | None = None) -> bool:
    """Returns True if a file has changed since its size, time of change in ns and SHA-256 were recorded, or is missing.

    Another time alone does not count if the SHA-256 is known and equal: the file may have been copied or restored.
    """
    now = sign(path)
    if now is None or now[0] != size:
        return True
    return now[1] != time and (digest is None or _digest(path) != digest)


def _digest(path: str) -> str | None:
    """Returns the SHA-256 of a file in hex; None if the file has more than LARGE bytes or cannot be read."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGE + 1)
    except OSError:
        return None
    return hashlib.sha256(content).hexdigest() if len(content) <= LARGE else None


def _named(names: Sequence[str]) -> str:
    more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*names[:SHOWN], *more])


def _others(then: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for package, was in then["versions"].items():
        if (now := here["versions"].get(package)) != was:
            yield f"it was begun with {package} {was}, and this is {now}"
    both = then["numerics"] and here["numerics"]
    if then["numerics"] != here["numerics"] if both else then["processor"] != here["processor"]:
        yield f"the processor computes other bits: it was begun on {then['processor']}, and this is {here['processor']}"


def _short(path: str) -> str:
    """Returns the path relative to the working directory, if it lies there; else the unchanged path."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path

"""code.json: the code and the versions with which a folder's runs began, so that a resumed run that differs can say
why."""

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
from emulator.record.record import FILES, replace_file
from emulator.record.repeated import Otherwise, known
from emulator.record.seal import CODE
from emulator.sessions.machine import processor
from scenarios.builders.reads import SEEN, sign
from scenarios.builders.sources import OURS, file_of, sources
from scenarios.schema.scenario import Scenario

PACKAGES = ("fedlapse", "torch", "numpy")
SPLIT = "split.json"
MANY = 1000  # files up to which each is recorded
LARGE = 1 << 22  # bytes; the SHA-256 of a larger file would take too long
SHOWN = 3  # files or variables that a message names


def code_text(scenario: Scenario, numerics: str | None) -> str:
    """The text of code.json: versions, processor, numerics (ledger/probe.py; None: unknown), and a user's own files:
    SHA-256 of modules; size in bytes, time in ns and SHA-256 (None: a large file) of the files that they have read so
    far."""
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
    """Writes code.json and split.json, and returns True if earlier runs are resumed; their code.json stays while some
    of them may still differ.  Raises Otherwise if the code differs, unless `force` is given."""
    goes_on = any(any(known(out / name, FILES).values()) for name in of_scenario(scenario))
    if not goes_on:
        replace_file(out / CODE, code)
    elif not force and (out / SPLIT).is_file() and (out / SPLIT).read_bytes() != split.encode():
        raise Otherwise(out / SPLIT)
    replace_file(out / SPLIT, split)
    return goes_on


def why_otherwise(out: Path, now: str) -> str:
    """What has changed since the runs in `out` began, in one sentence.  `now`: the result of `code_text`."""
    try:
        then, here = json.loads((out / CODE).read_bytes()), json.loads(now)
        differ = [*_files(then, here), *_others(then, here)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return f"the folder has no readable {CODE}, so nobody knows why"
    variables = sorted({each.name for each in list(SEEN) if each.kind == "variable"})
    perhaps = f", perhaps {_named(variables)} of the environment" if variables else ""
    nothing = "no known file has changed, nor torch, nor the processor: your code reads or draws something else"
    return "; ".join(differ) or f"{nothing}{perhaps}"


def or_go_on(out: Path) -> str:
    """The advice if the code differs: what is done already, and the choices."""
    command = shlex.join(["fedlapse", "resume", "--force", str(out)])
    return f"nothing in the folder was replaced; `{command}` replaces what comes out otherwise, and goes on"


def _modules(scenario: Scenario) -> Mapping[str, str]:
    """SHA-256 by name of a user's own modules that are files, and of the modules that they import."""
    named = [scenario.model, scenario.data.set, *(entry.key for entry in scenario.algorithms)]
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
    """True if a file's content differs; a copied or restored file has another time but the same content."""
    now = sign(path)
    if now is None or now[0] != size:
        return True
    return now[1] != time and (digest is None or _digest(path) != digest)


def _digest(path: str) -> str | None:
    """SHA-256 of a file; None if it is large or cannot be read."""
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
    """The path relative to the working directory."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path

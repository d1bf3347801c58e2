"""What the user wrote: the file of the scenario as it was, and what the command line changed in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.record.record import replace_file
from scenarios.text.yaml_source import YamlSource

GIVEN, CHANGES = "given.yaml", "changes.json"


@dataclass(frozen=True)
class Given:
    """Both, as far as there are any."""

    file: bytes | None = None  # None: the scenario comes with fedlapse, or from a program
    changes: Sequence[str] = ()  # as they were typed, such as fleet.0.count=30


def given_by(source: YamlSource | None) -> Given:
    """What a scenario was read from."""
    return Given(source.file, source.changes) if source else Given()


def keep(out: Path, given: Given) -> None:
    """Writes both beside scenario.yaml.  What lies there of an earlier command is replaced or taken away."""
    changes = json.dumps(given.changes, indent=1) + "\n" if given.changes else None
    for name, content in ((GIVEN, given.file), (CHANGES, changes)):
        if content is None:
            (out / name).unlink(missing_ok=True)
        else:
            replace_file(out / name, content)


def kept(out: Path) -> Given:
    """What lies in the folder.  Raises ValueError if the changes are damaged."""
    file, changes = out / GIVEN, out / CHANGES
    try:
        said = json.loads(changes.read_bytes()) if changes.is_file() else []
        sound = isinstance(said, list) and all(isinstance(each, str) for each in said)
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        raise ValueError(f"{changes} is not as fedlapse writes it")
    return Given(file.read_bytes() if file.is_file() else None, said)

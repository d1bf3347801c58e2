"""Keeps the user's input next to the results: the scenario file unchanged, and the changes on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.record.writing import replace_file
from scenarios.text.yaml_source import YamlSource

GIVEN, CHANGES = "given.yaml", "changes.json"


@dataclass(frozen=True)
class Given:
    """The user's input to a command, the scenario file and the changes; either may be missing."""

    file: bytes | None = None  # the scenario file; None: the scenario comes with fedlapse, or from a program
    changes: Sequence[str] = ()  # on the command line, as typed, such as fleet.0.count=30


def given_by(source: YamlSource | None) -> Given:
    """Returns the input from which a scenario was read."""
    return Given(source.file, source.changes) if source else Given()


def keep(out: Path, given: Given) -> None:
    """Writes the user's input into `out`, next to scenario.yaml.  Replaces or removes the input of an earlier command
    there."""
    changes = json.dumps(given.changes, indent=1) + "\n" if given.changes else None
    for name, content in ((GIVEN, given.file), (CHANGES, changes)):
        if content is None:
            (out / name).unlink(missing_ok=True)
        else:
            replace_file(out / name, content)


def kept(out: Path) -> Given:
    """Returns the input that `keep` wrote into `out`.  Raises ValueError if the file of the changes is damaged."""
    file, changes = out / GIVEN, out / CHANGES
    try:
        typed = json.loads(changes.read_bytes()) if changes.is_file() else []
        sound = isinstance(typed, list) and all(isinstance(change, str) for change in typed)
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        raise ValueError(f"{changes} is not as fedlapse writes it")
    return Given(file.read_bytes() if file.is_file() else None, typed)

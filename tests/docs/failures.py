"""The twenty most likely mistakes, and what fedlapse says to them.

`python -m tests.docs.failures > docs/failures.md` writes the page.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from typer.testing import CliRunner

from emulator.__main__ import app

FILES = {"tab.yaml": "name: campus\nfleet:\n\t- {profile: pi-4, count: 2}\n", "taken/thesis.txt": "mine\n"}
LINK = "link: {up_mbit_s: 1, down_mbit_s: 1}"

CASES: tuple[tuple[str, str, str], ...] = (  # command, cause, cure
    ("compare campus.yaml", "There is no such file here.", "Start in the folder of the file, or give its path."),
    ("compare quickstrat", "The name of a scenario is misspelt.", "Take the name that the line offers."),
    ("compare tab.yaml", "YAML does not allow tabs.", "Indent with spaces."),
    ("compare quickstart rounds.maxx=5", "A key is misspelt.", "[keys.md](keys.md) has all keys."),
    ("compare quickstart rounds.max=ten", "The value has another type.", "Write what the line names."),
    ("compare quickstart rounds.fraction=2", "A share is above 1.", "Shares are between 0 and 1: 2 % is 0.02."),
    ("compare quickstart 'rounds.targets=[{value: 80}]'", "An accuracy is a share, too.", "Write 0.8."),
    ("compare quickstart 'algorithms=[fedavgg]'", "An algorithm is misspelt.", "`fedlapse algorithms` lists them."),
    (
        "compare quickstart 'algorithms=[{fedcl: {strenght: 5}}]'",
        "An option of an algorithm is misspelt.",
        "`fedlapse algorithms fedcl` shows its options.",
    ),
    (
        "compare quickstart 'algorithms=[fedavg, fedavg]'",
        "Two algorithms have the same label.",
        "Give one of them a `name:`.",
    ),
    (
        f"compare quickstart 'fleet=[{{profile: pi4, count: 2, {LINK}}}]'",
        "A profile is misspelt.",
        "`fedlapse devices` lists them; your own is in `profiles:`.",
    ),
    (
        "compare quickstart 'fleet=[{profile: pi-4, count: 2, link: {up_mbit_s: 1}}]'",
        "A link has only one direction.",
        "Name both rates, or a recording ([links.md](links.md)).",
    ),
    (
        f"compare quickstart 'fleet=[{{profile: pi-4, count: 2000, {LINK}}}]'",
        "Each example belongs to one device, and there are fewer examples than devices.",
        "Take fewer devices, or let them share examples.",
    ),
    ("compare quickstart model=mnist-cnn", "Model and data do not match.", "Take a model that the line names."),
    (
        "compare quickstart model=mine:Net",
        "Python does not find your file.",
        "Start in the folder that holds it, or install its package.",
    ),
    (
        "compare quickstart rounds.deadline_s=0.5",
        "No device can answer before the deadline.",
        "Allow what the line says; `fedlapse check` shows what takes the time.",
    ),
    (
        "compare quickstart --out taken",
        "The folder holds other files, which are never overwritten.",
        "Give a new folder.",
    ),
    (
        "report runs/none",
        "There are no results in this folder.",
        "Give the folder that the last line of `compare` names.",
    ),
    (
        "tune quickstart",
        "The scenario does not say which values to try.",
        "Add `tune:` ([tuning.md](tuning.md)).",
    ),
    ("run quickstart", "`run` plays one algorithm.", "Name it, or use `compare` for all."),
)
HEAD = """# Failures

The twenty most likely mistakes: the command, what it prints, why, and what to do. All of them end with exit code 2
before anything is trained. This page is generated: a test runs these commands. What may happen later is in
[troubleshooting](troubleshooting.md).
"""


def page() -> str:
    """Returns the page in Markdown."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    with TemporaryDirectory() as place, chdir(place):
        for name, text in FILES.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")
        for number, (command, cause, cure) in enumerate(CASES, 1):
            yield f"## {number}. {cause}\n"
            yield f"```text\n$ fedlapse {command}\n{said(command)}\n```\n"
            yield f"{cure}\n"


def said(command: str) -> str:
    """Returns what a command prints to stderr.  Raises ValueError if it does not end with exit code 2."""
    done = CliRunner(env={**os.environ, "COLUMNS": "200"}).invoke(app, shlex.split(command))
    if done.exit_code != 2:
        raise ValueError(f"{command} ends with exit code {done.exit_code}, not 2")
    return done.stderr.strip()


if __name__ == "__main__":
    print(page(), end="")

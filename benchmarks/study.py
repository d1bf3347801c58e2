"""The study that answers "FedCL or FedCurv?", and the page docs/study.md that it makes.

    python -m benchmarks.study                       the digits: at most half an hour on two cores
    python -m benchmarks.study --write               the same, and docs/study.md with its tables and figures
    python -m benchmarks.study mnist --out runs/mnist --write    hours; the same command goes on where it was stopped

It fails if the digits' study takes more than LIMIT, or if an algorithm without its penalty differs from the baseline.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

LIMIT = 1800.0  # s on two cores
STUDIES = {"digits": "studies/fedcl-vs-fedcurv", "mnist": "studies/fedcl-vs-fedcurv-mnist"}
DOCS = Path(__file__).parent.parent / "docs"
SMALL = 0.5  # of --scale, below which the quick version is played


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(STUDIES)}.")] = "digits",
    out: Annotated[Path | None, typer.Option(help="Folder of the study. Default: a temporary one.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Make docs/study.md anew.")] = False,
    scale: Annotated[float, typer.Option(help="Below 0.5: the quick version, which is not written.")] = 1.0,
) -> None:
    """Follows the protocol, says how long it took, and makes the page."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = out or Path(temporary) / name
        seconds = followed(name, folder, small=scale < SMALL)
        typer.echo(f"{name}: {seconds:.0f} s ({LIMIT:.0f} s at most on two cores)")
        wrong = differing(folder)
        if write and scale >= SMALL:
            kept(name, folder)
            (DOCS / "study.md").write_text(page(), encoding="utf-8")
    if wrong:
        typer.echo(f"not as the baseline without their penalty: {', '.join(wrong)}")
    raise typer.Exit(bool(wrong) or (name == "digits" and seconds > LIMIT))


def followed(name: str, folder: Path, small: bool) -> float:
    """Seconds that the study took; a ledger beside it remembers what was trained."""
    words = ["study", STUDIES[name], "--out", str(folder), "--ledger", str(folder.with_name(f"{folder.name}-ledger"))]
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "emulator", *words, *(["--small"] if small else [])], check=True)
    return time.monotonic() - began


def differing(folder: Path) -> list[str]:
    """Algorithms without their penalty whose rounds are not the baseline's."""
    path = folder / "tables" / "nulls.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return sorted({row["algorithm"] for row in csv.DictReader(file) if row["same"] != "True"})


def kept(name: str, folder: Path) -> None:
    """Copies protocol, tables, figures and page, not the runs, to docs/studies/NAME."""
    there = DOCS / "studies" / name
    shutil.rmtree(there, ignore_errors=True)
    (there / "figures").mkdir(parents=True)
    shutil.copytree(folder / "tables", there / "tables")
    for picture in (folder / "figures").glob("*.png"):
        shutil.copy(picture, there / "figures")
    for each in ("protocol.yaml", "study.md", "study.json"):
        shutil.copy(folder / each, there)


INTRODUCTION = """\
# FedCL or FedCurv?

What do FedCL and FedCurv cost in wall-clock, and do they pay for it? Each study below follows a protocol that was fixed
before anything was trained. `fedlapse study` does this for [a fleet of your own](#a-study-of-your-own). The tables as
CSV, the protocols and the figures are in [studies/](studies/).

This page is made by `python -m benchmarks.study --write`.
"""
OWN = """\
## A study of your own

```console
$ fedlapse new --study mine              # writes mine.yaml, with comments: put in your fleet, data and model
$ fedlapse tune mine.yaml --dry-run      # how much is trained, and how long that takes on this computer
$ fedlapse study mine.yaml               # tunes, plays, replays; study.md has the verdict
```

It can be stopped at any time; the same command with `--out` goes on, and trains nothing twice. Read the verdict first:
it says who is first on your links, whether that is decided, and what remains open. With fewer than five seeds it gives
values and no ranking.
"""


def page() -> str:
    """docs/study.md, from the studies that lie in docs/studies."""
    parts = [INTRODUCTION]
    for name in STUDIES:
        path = DOCS / "studies" / name / "study.md"
        if path.is_file():
            text = path.read_text(encoding="utf-8").replace("](figures/", f"](studies/{name}/figures/")
            parts.append("\n".join(_deeper(line) for line in text.splitlines()) + "\n")
    return "\n".join([*parts, OWN])


def _deeper(line: str) -> str:
    """Headings one level down."""
    return f"#{line}" if line.startswith("#") else line


if __name__ == "__main__":
    typer.run(main)

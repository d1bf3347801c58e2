"""The studies of when importance pays: plays them, keeps what they found in docs/studies, and writes their pages.

    python -m benchmarks.study --out runs/digits --write     twelve regimes, hours; the same command goes on
    python -m benchmarks.study mnist --out runs/mnist --write
    python -m benchmarks.study --regime one-label --write    one regime; the others keep what was found before
    python -m benchmarks.study none --write                  plays nothing: the pages anew from docs/studies

It fails if an algorithm without its penalty differs from the baseline.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer
from PIL import Image

from emulator.analysis.cells import AXES, Cell
from emulator.analysis.explanations import READ, WHEN
from emulator.analysis.protocol import protocol_of
from emulator.analysis.regimes import Place, adjusted
from emulator.record.targets import Target
from emulator.report.regimes import picture
from emulator.results.comparison import OWN
from emulator.results.resampling import Interval, as_bound, bounded, figure
from emulator.results.restricted import Contrast
from emulator.wording.markup import escaped, listed
from emulator.wording.regimes_page import tables, verdict
from scenarios.load import load

STUDIES = {"digits": "studies/when-importance-pays", "mnist": "studies/when-importance-pays-mnist"}
ROOT = Path(__file__).parent.parent
DOCS, README = ROOT / "docs", ROOT / "README.md"
KEPT = DOCS / "studies"
SMALL = 0.5  # of --scale, below which the quick version is played
FIRST, ROWS = "two-labels", ("fedavg", "fedcl", "fedcurv")  # README's regime, and its rows
SHOWN = ("fedcl", "fedcurv", "fedcurv-int8", "agents", "agents-mean", "scaffold")  # columns of the page's first table
Row = dict[str, str]


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(STUDIES)}, none.")] = "digits",
    out: Annotated[Path | None, typer.Option(help="Folder of the study. Default: a temporary one.")] = None,
    regime: Annotated[list[str] | None, typer.Option(help="Only these regimes.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Keep what was found, and write the pages.")] = False,
    scale: Annotated[float, typer.Option(help="Below 0.5: the quick version, which is not written.")] = 1.0,
) -> None:
    """Plays a study, says how long it took, and writes the pages."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = out or Path(temporary) / name
        if name in STUDIES:
            typer.echo(f"{name}: {played(name, folder, regime or [], small=scale < SMALL):.0f} s")
            wrong = differing(folder / "regimes")
        if write and scale >= SMALL:
            if name in STUDIES:
                keep(name, folder)
            for each in STUDIES:
                whole(each)
            page = DOCS / "study.md"
            page.write_text(filled(page.read_text(encoding="utf-8"), blocks()), encoding="utf-8")
            README.write_text(filled(README.read_text(encoding="utf-8"), blocks()), encoding="utf-8")
            (DOCS / "study-regimes.md").write_text(second_page(), encoding="utf-8")
    if wrong:
        typer.echo(f"not as the baseline without their penalty: {', '.join(wrong)}")
    raise typer.Exit(bool(wrong))


def played(name: str, folder: Path, only: Sequence[str], small: bool) -> float:
    """Plays a study, or goes on with it; returns the seconds it took."""
    said = protocol_of(load(STUDIES[name])).regimes
    chosen = [f"study.regimes={json.dumps({each: said[each] for each in only})}"] if only else []
    words = ["study", STUDIES[name], *chosen, "--out", str(folder), *(["--small"] if small else [])]
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "emulator", *words], check=True)
    return time.monotonic() - began


def differing(regimes: Path) -> list[str]:
    """Returns the algorithms without their penalty whose rounds are not the baseline's, with their regimes."""
    tables = {path.parts[-3]: rows(path) for path in sorted(regimes.glob("*/tables/nulls.csv"))}
    wrong = (f"{row['algorithm']} in {regime}" for regime, of in tables.items() for row in of if row["same"] != "yes")
    return list(dict.fromkeys(wrong))


def keep(name: str, folder: Path) -> None:
    """Copies each regime that is played in FOLDER to docs/studies/NAME, without its runs and figures."""
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", (folder / "study.md").read_text("utf-8"), re.M | re.S))
    for regime in json.loads((folder / "study.json").read_text(encoding="utf-8"))["regimes"]:
        source, there = folder / "regimes" / regime, KEPT / name / regime
        shutil.rmtree(there, ignore_errors=True)
        shutil.copytree(source / "tables", there / "tables")
        for each in ("protocol.yaml", "tuning/tuned.yaml"):
            shutil.copy(source / each, there)
        told = json.loads((source / "study.json").read_text(encoding="utf-8"))
        brief = {key: told[key] for key in ("digest", "exploratory", "main")}  # the texts say the rest
        (there / "study.json").write_text(json.dumps(brief, indent=1) + "\n", encoding="utf-8")
        (there / "short.txt").write_text(sections[regime], encoding="utf-8")
        said = (source / "study.md").read_text(encoding="utf-8")
        said = re.sub(r"^!\[.*\n\n<sub>.*\n", "", said, flags=re.M)  # figures, with their captions
        said = re.sub(r"^## (How to read this|Files)\n.*?(?=^## |\Z)", "", said, flags=re.M | re.S)
        said = re.sub(r"^- .* better half\.\n", "", said, flags=re.M)  # ties of the search, which no table counts
        said = re.sub(r"\n{3,}", "\n\n", said).rstrip() + "\n"
        (there / "whole.txt").write_text(said, encoding="utf-8")
        for table in ("pays", "regimes"):
            path = folder / "tables" / f"{table}.csv"
            written(there / "tables" / path.name, [row for row in rows(path) if row["regime"] == regime])


def whole(name: str) -> None:
    """Writes the tables over all regimes that are kept, and the map of when an algorithm pays."""
    there, found = KEPT / name, places(name)
    if not found:
        return
    (there / "pays.csv").write_text(tables({}, found)["pays.csv"].csv, encoding="utf-8")
    ratios = [row for regime in regimes(name) for row in rows(there / regime / "tables" / "regimes.csv")]
    written(there / "regimes.csv", ratios)
    names = list(dict.fromkeys(label for row in ratios for label in (row["base"], row["algorithm"])))
    # Pillow compresses the same pixels to a fifth.
    Image.open(BytesIO(picture(names, found)["pays.png"])).save(there / "pays.png", optimize=True)


def regimes(name: str) -> list[str]:
    """Returns the regimes of a study that are kept, in its order."""
    return [each for each in protocol_of(load(STUDIES[name])).regimes if (KEPT / name / each).is_dir()]


def places(name: str) -> list[Place]:
    """Returns the map of when an algorithm pays, over all regimes that are kept: their p-values are adjusted anew."""
    cells: dict[tuple[str, ...], list[tuple[str, Cell]]] = {}
    for regime in regimes(name):
        for row in rows(KEPT / name / regime / "tables" / "pays.csv"):
            question = () if row["question"] == "all ranked" else tuple(row["question"].split(" or "))
            cells.setdefault(question, []).append((regime, cell(row)))
    return [place for question, of in cells.items() for place in adjusted(question, of)]


def cell(row: Row) -> Cell:
    """Returns the cell that a row of pays.csv tells."""
    at = {axis: float(row[axis]) for axis in AXES if row[axis]}
    found = None
    if row["ratio"]:
        ratio, low, high, p = (float(row[key]) for key in ("ratio", "low", "high", "p"))
        seeds, first, second = (int(row[key]) for key in ("of", "first reached", "second reached"))
        tau = float(row["horizon s"] or "inf")
        found = Contrast(ratio, low, high, p, seeds, second, first, tau, bound=row["bound"] or None)  # type: ignore[arg-type]
    return Cell(at, {}, row["first"] or None, row["second"] or None, found, {})


# --- pages --------------------------------------------------------------------------------------------------------


def blocks() -> dict[str, str]:
    """Returns the generated parts of docs/study.md and README, by the name of their marks."""
    parts = {name: "\n".join(section(name)) for name in STUDIES if regimes(name)}
    if FIRST in regimes("digits"):
        parts[FIRST] = "\n".join(three_rows(rows(KEPT / "digits" / FIRST / "tables" / "regimes.csv")))
    return {**parts, "ratios": "\n".join(over_baseline()), "unseen": "\n".join(unseen())}


def over_baseline() -> Iterator[str]:
    """Yields the page's first table: the times to the main target of each regime, and to later ones, over FedAvg's."""
    yield f"| regime | {' | '.join(SHOWN)} |"
    yield f"| :-- |{' --: |' * len(SHOWN)}"
    for name, regime in [(study, each) for study in STUDIES for each in regimes(study)]:
        made = [row for row in rows(KEPT / name / regime / "tables" / "comparisons.csv") if row["base"] == ROWS[0]]
        known = {(row["target"], row["algorithm"]): row for row in made if row["link"] == OWN}
        main = main_target(name, regime)
        later = {goal for goal, _ in known if target(goal).value > target(main).value}
        for goal in (main, *sorted(later, key=lambda goal: target(goal).value)):
            place = f"[{regime}](#{regime})" + f", to {target(goal).value:g}" * (goal != main)
            yield f"| {place} | {' | '.join(over(known[goal, label]) for label in SHOWN)} |"


def target(name: str) -> Target:
    """Returns the target of this name, such as `accuracy 0.8888 held 3`."""
    metric, value, *held = name.split()
    return Target(metric, float(value), int(held[1]) if held else 1)


def over(row: Row) -> str:
    """Returns the ratio of a comparison as text, as a bound if runs did not reach the target, and ✓ if significant."""
    of, reached, base = (int(row[key]) for key in ("of", "reached", "base reached"))
    ratio, low, high = (float(row[key]) for key in ("ratio", "low", "high"))
    told = Interval(ratio, low, high, float(row["p"]), bound=as_bound(reached < of, base < of)).text()
    return f"{told} ✓" if row["decided"] == "yes" else told


def unseen() -> Iterator[str]:
    """Yields how many differences at the main target stand under the seeds of `benchmarks.unseen`, and those that do
    not; nothing if they were not played."""
    found = [
        (regime, first, again) for name in STUDIES for regime in regimes(name) for first, again in both(name, regime)
    ]
    told = [each for each in found if each[1]["decided"] == "yes"]
    anew = [each for each in told if each[2]["decided"] == "yes" and same_side(*each[1:])]
    beside = [each for each in told if each not in anew and same_side(*each[1:])]
    against = [each for each in told if not same_side(*each[1:])]
    new = [each for each in found if each[1]["decided"] == "no" and each[2]["decided"] == "yes"]
    if found:
        yield f"- Of {len(told)} significant differences, {len(anew)} are significant again, on the same side."
        yield f"- On the same side, but no longer significant: {pairs_of(beside)}."
        yield f"- On the other side: {pairs_of(against)}."
        yield f"- Of {len(found) - len(told)} that were not significant, {len(new)} are now: {pairs_of(new)}."


def both(name: str, regime: str) -> Iterator[tuple[Row, Row]]:
    """Yields the comparisons of a regime at its main target: in the study, and under unseen seeds."""
    tables = KEPT / name / regime / "tables"
    main = main_target(name, regime)
    played = rows(tables / "unseen.csv") if (tables / "unseen.csv").is_file() else []
    again = {(row["algorithm"], row["base"]): row for row in played if row["target"] == main}
    for row in rows(tables / "comparisons.csv"):
        if (row["link"], row["target"]) == (OWN, main) and (other := again.get((row["algorithm"], row["base"]))):
            yield row, other


def main_target(name: str, regime: str) -> str:
    """Returns the main target of a regime that is kept, as its tables name it."""
    found: str = json.loads((KEPT / name / regime / "study.json").read_text(encoding="utf-8"))["main"]
    return found


def same_side(first: Row, again: Row) -> bool:
    """Returns True if the same algorithm of the two has the lower mean time in both."""
    return (float(first["ratio"]) < 1) == (float(again["ratio"]) < 1)


def pairs_of(found: Sequence[tuple[str, Row, Row]]) -> str:
    """Returns these comparisons as text, with both ratios."""
    said = []
    for regime, *each in found:
        first, again = (figure(float(row["ratio"])) for row in each)
        said.append(f"{each[0]['algorithm']} and {each[0]['base']} in {regime} ({first}, then {again})")
    return ", ".join(said) or "none"


def section(name: str) -> Iterator[str]:
    """Yields the paragraphs of a study on docs/study.md: its verdict, its map, and a part for each regime."""
    yield listed(verdict({}, places(name))) + "\n"
    yield f"![Who is faster, by regime and uplink](studies/{name}/pays.png)\n\n<sub>{WHEN}</sub>\n"
    for regime in regimes(name):
        text = (KEPT / name / regime / "short.txt").read_text(encoding="utf-8").strip()
        link = f"](study-regimes.md#{name}-{regime})"
        yield f"### {escaped(regime)}\n\n{text}\n".replace(f"](regimes/{regime}/study.md)", link)


def second_page() -> str:
    """Returns the text of docs/study-regimes.md: what each regime's own page says, without figures."""
    parts = [
        "# The regimes, one by one\n\nMade by `python -m benchmarks.study`; [the study](study.md) has the map.\n",
        f"## How to read the tables\n\n{READ}",
    ]
    for name, regime in [(study, each) for study in STUDIES for each in regimes(study)]:
        _, _, body = (KEPT / name / regime / "whole.txt").read_text(encoding="utf-8").partition("\n")
        parts.append(f"## {name}-{regime}\n{re.sub('^#', '##', body, flags=re.M)}")
    return "\n".join(parts).rstrip() + "\n"


def three_rows(found: Sequence[Row]) -> Iterator[str]:
    """Yields README's table: seconds of the baseline, FedCL and FedCurv, and their ratios with the baseline."""
    mine = {row["algorithm"]: row for row in found if row["base"] == ROWS[0]}
    yield "| algorithm | rounds, times FedAvg's | seconds a round | seconds in all | significant |"
    yield "|---|---|---|---|---|"
    yield f"| {ROWS[0]} | 1 | 1 | 1 | |"
    for label in ROWS[1:]:
        row = mine[label]
        parts = [times(row, what) for what in ("rounds", "seconds a round", "time")]
        yield f"| {label} | {' | '.join(parts)} | {'yes' if float(row['adjusted p']) < 0.05 else 'no'} |"


def times(row: Row, what: str) -> str:
    """Returns a ratio and its interval as text."""
    ratio, low, high = (figure(float(row[f"{what}{end}"])) for end in ("", " low", " high"))
    return bounded(f"{ratio} [{low}, {high}]", row["bound"] or None if what == "time" else None)  # type: ignore[arg-type]


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Returns a page with these parts between their marks."""
    for name, part in parts.items():
        head, begun, rest = text.partition(f"<!-- {name} -->\n")
        if begun:
            _, end, tail = rest.partition(f"<!-- end of {name} -->")
            text = f"{head}{begun}{part}\n{end}{tail}"
    return text


def rows(path: Path) -> list[Row]:
    """Returns the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def written(path: Path, found: Sequence[Row]) -> None:
    """Writes rows as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(found[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(found)


if __name__ == "__main__":
    typer.run(main)

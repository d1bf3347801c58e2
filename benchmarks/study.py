"""The study that answers "FedCL or FedCurv?", and the page docs/study.md that it makes.

    python -m benchmarks.study                       the digits: at most half an hour on two cores
    python -m benchmarks.study --write               the same, and docs/study.md with its tables and figures
    python -m benchmarks.study mnist --out runs/mnist --write    hours; the same command goes on where it was stopped

It fails if the digits' study takes more than LIMIT, or if an algorithm without its penalty differs from the baseline.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from emulator.analysis.explanations import READ
from emulator.analysis.protocol import ranked
from emulator.record.targets import Target
from emulator.report.studied import png, times_of
from emulator.results.restricted import Timed
from emulator.results.times import Values
from emulator.wording.markup import escaped
from scenarios.load import load

LIMIT = 1800.0  # s on two cores
STUDIES = {"digits": "studies/fedcl-vs-fedcurv", "mnist": "studies/fedcl-vs-fedcurv-mnist"}
OF = {
    "digits": "Digits on 16 phones and Raspberry Pis, with a small CNN",
    "mnist": "MNIST on 100 phones and Raspberry Pis, with a CNN of 1,663,370 weights",
}
ROOT = Path(__file__).parent.parent
DOCS, README = ROOT / "docs", ROOT / "README.md"
TOOK = "seconds.txt"  # that a study took which began in an empty folder
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
        anew = not folder.exists()
        seconds = followed(name, folder, small=scale < SMALL)
        if anew:
            (folder / TOOK).write_text(f"{seconds:.0f}\n", encoding="utf-8")
        typer.echo(f"{name}: {seconds:.0f} s ({LIMIT:.0f} s at most on two cores)")
        wrong = differing(folder)
        if write and scale >= SMALL:
            kept(name, folder)
            whole = DOCS / "study.md"
            made = (folder / "study.md").read_text(encoding="utf-8")
            whole.write_text(page(name, made, whole.read_text(encoding="utf-8")), encoding="utf-8")
            if name == "digits":
                README.write_text(with_table(README.read_text(encoding="utf-8"), folder / "tables"), encoding="utf-8")
                (DOCS / "studies" / name / "figures" / "readme.png").write_bytes(picture(folder / "tables"))
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
    rows = _rows(path) if path.is_file() else []
    return sorted({row["algorithm"] for row in rows if row["same"] != "yes"})


def kept(name: str, folder: Path) -> None:
    """Copies protocol, tables and figures, not the runs, to docs/studies/NAME."""
    there = DOCS / "studies" / name
    shutil.rmtree(there, ignore_errors=True)
    (there / "figures").mkdir(parents=True)
    shutil.copytree(folder / "tables", there / "tables")
    for picture in (folder / "figures").glob("*.png"):
        shutil.copy(picture, there / "figures")
    for each in ("protocol.yaml", "study.json", TOOK):
        if (folder / each).is_file():
            shutil.copy(folder / each, there)


INTRODUCTION = """\
# FedCL or FedCurv?

What do FedCL and FedCurv cost in wall-clock, and do they pay for it? Each study below follows a protocol, which its
records carry; *how far this goes* says what the tables do not. `fedlapse study` does the same for [a fleet of your
own](#a-study-of-your-own). The tables as CSV, the protocols and the figures are in `docs/studies`.

This page is made by `python -m benchmarks.study --write`, and `python -m benchmarks.study mnist --write` for the second
study. Recorded links and MNIST are read from `$FEDLAPSE_DATA`; without recorded links, their section is left out.

The figures below were made when the profile `pi-4` was an assumption (4 GFLOP/s for all layers, 3 GB/s, 2 ms a step);
since then it is [fitted to measured steps](boards.md).

They are also older than two rules: five seeds, as MNIST has here, decide nothing, and a ratio is a bound if runs of one
of the two ended without the target. A study of ten regimes, `studies/when-importance-pays`, will replace them.

## In short
"""
CAVEATS = {  # what must be known with the first pair of the verdict
    "mnist": "FedCurv's best strength does nothing, and more than one epoch was not tried for any.",
    "digits": "FedCurv's best strength does nothing here, so this is the price of its messages; more than ten epochs "
    "were not tried for it.",
}
REMARKS = {  # what a reader must know of a study that its tables do not say
    "digits": """
**How far this goes.** No earlier play had the seeds that are reported. Earlier plays were published with seeds 1 to 10
(horizon 80 s) and 21 to 30 (120 s): to the main target fedcl-n10 took 0.63 and 0.54 times as long as fedcurv. What was
wrong with them was changed after they were seen: the grids, the budget and the seeds of the search, the pairs, and on
which links placebos are compared. Each algorithm has the best of eight settings under three seeds, so chance decides
between settings that are close.

- Eight settings do not try everything. Strengths go in steps of ten: no search came to halves and doubles. FedCL and
  FedCurv tried FedAvg's best learning rate, 0.3, and not always another (the lists at the end name what was not tried).
  They tried its numbers of epochs: ten, which is best on the study's own links, and five, which is best on fast links
  (there fedcurv, agentimportance and scaffold stayed with ten). FedAvg, SCAFFOLD and the controls also tried twenty.
  For FedAvg and the controls these take fewer rounds, and more seconds on the links that settings were chosen for.
  They were not played on the map, where FedAvg may be sooner with them at 0.1 Mbit/s. FedCurv, whose rounds are mostly
  messages, may gain from more epochs as well: see the epochs among the factors.
- The search is noisy. fedcurv-mean tried fedcurv's best setting, at which no penalty does anything, and still found
  another that is better: 72.5 s, where fedcurv took 61.8 s.
- FedCurv's best strength does nothing, as the list above says: it takes 1.03 [0.88, 1.20] times as long as without its
  penalty (fedcurv-0). What is measured of it is the price of its messages and of its pass over the data, for which no
  strength that was tried brings anything in return. fedcl-n10 takes 0.98 [0.81, 1.18] times as long as fedcl-0.
- Placebos of FedCurv tell nothing for the same reason. All placebos start from the best settings of what they imitate.
- The controls, FedMeta and FedShare, train on the server's own examples or send them, and are not ranked. They have the
  least mean times to the main target, 42.1 and 36.5 s. It is not decided there that they differ from FedAvg. With a
  slow uplink FedShare is decidedly faster: it takes 0.57 [0.44, 0.75] times as long as FedAvg, and fedcl-n10 takes 1.71
  [1.35, 2.16] times as long as FedShare.
- The main target takes about ten rounds, so N = 10 means one or two messages with Ω. N = 1 and N = 3 are among the
  factors.
- FedAvg comes to the third target in one seed of ten. Little is known of that target, and it costs the others power, as
  Holm's adjustment counts it.
- The papers' own targets are on other data, so that there are none here.
- Factors have two seeds each. As it is, these give 1.10 (fedcl-n10) and 2.28 (fedcurv), where ten seeds give 1.00 and
  1.91. int8 is for all that goes up, and for importance and Fisher information that go down; weights that go down stay
  float32.
""",
    "mnist": """
**How far this goes.** No earlier play had the seeds that are reported. An earlier one was published with seeds 1 to 5:
there fedcurv took 2.6 times as long as FedAvg, and fedcl-n10 0.97 times. Each algorithm has the best of five settings
under two seeds, so chance decides between settings that are close.

- All train for one epoch; more were not tried. FedCurv, whose rounds are mostly messages, may gain from them: see the
  digits. The search was for the study's own links alone.
- With the best strengths the penalties of fedcl, fedcl-n10 and fedcurv do nothing, as the list above says. So these
  take about as many rounds as FedAvg, and what is measured is the price of messages and passes. Where each seed takes
  exactly as many rounds, even 2 % are decided (fedcl-n10). Placebos tell nothing for the same reason.
- In a first account of these runs, fedcl-paper, which is only a row, cut everybody's times at 18.5 min, where its own
  runs end. fedcurv's five seeds take 18.1 to 20.8 min, so four of them counted as not there, and its ratio was 2.59.
  Since then rows cut no times but their own.
- The best strength of agentimportance, 100, is the largest that was tried. In one of the five seeds it diverges, which
  neither seed of the search showed.
- The controls have the server's own examples, 1 % of all, and are not ranked. Both are decidedly sooner than FedAvg:
  FedShare takes 0.49 [0.34, 0.71] times as long, FedMeta 0.64 [0.48, 0.85] times.
- The target of FedCL's paper, 0.98, is left out, as it takes more rounds. Open: `mean` placebos; a second skew (10
  devices with two labels each); CIFAR-10.
""",
}
OWN = """\
## A study of your own

```console
$ fedlapse new --study mine              # writes mine.yaml, with comments: put in your fleet, data and model
$ fedlapse study mine.yaml --dry-run     # how much is trained, and how long that takes on this computer
$ fedlapse study mine.yaml               # tunes, plays, replays; study.md has the verdict
```

The last command writes to a new folder, such as `runs/mine-study-0001`. It can be stopped at any time, and then says
how to go on: with `--out` and that folder. Nothing is trained twice. How long a study takes depends on the model and
the fleet: on two cores the digits above take half an hour, and MNIST several hours.

Open `study.md` in that folder, and read its verdict first: it says who is first on your links, whether that is decided,
and what remains open. For example, "B takes 1.89 [1.61, 2.22] times as long as A, decided" says that in this study B
needs 89 % more seconds; that another set of seeds would probably give between 61 and 122 % more; and that this is more
than chance, although several targets and links were looked at. "Undecided" says that the seeds do not show who is
sooner: more of them may. With fewer than six seeds there are values and no ranking. [How to read
this](#how-to-read-this) explains the words.
"""


def page(name: str, study: str, before: str) -> str:
    """docs/study.md with this study's page; those of other studies stay as they are in the page `before`."""
    said = {each: _section(each, before) for each in STUDIES}
    text = study.replace("](figures/", f"](studies/{name}/figures/")
    verdict, heading, rest = "\n".join(_deeper(line) for line in text.splitlines()).partition("\n### ")
    said[name] = _without_reading(f"{verdict}{REMARKS.get(name, '')}{_took(name)}{heading}{rest}\n")
    sections = [f"{MARK.format(each)}\n{text}{END.format(each)}\n" for each, text in said.items() if text]
    reading = f"## How to read this\n\n{READ}"
    return "\n".join([INTRODUCTION, *(_short(each) for each, text in said.items() if text), *sections, reading, OWN])


def _without_reading(text: str) -> str:
    """The study's page without how to read it, which is said once for all studies."""
    before, heading, rest = text.partition("### How to read this\n")
    return before + "### " + rest.partition("\n### ")[2] if heading else text


def _short(name: str) -> str:
    """Half of the study's verdict, as kept in docs/studies, and what must be known with the first pair."""
    said = json.loads((DOCS / "studies" / name / "study.json").read_text(encoding="utf-8")).get("short", [])
    if name in CAVEATS:
        said[1] += f" {CAVEATS[name]}"
    return "\n".join([f"{OF[name]}:\n", *(f"- {escaped(line)}" for line in said), ""]) if said else ""


def _took(name: str) -> str:
    """The duration of the study, if it was played in one go."""
    path = DOCS / "studies" / name / TOOK
    return f"\nThe whole study took {int(path.read_text()):,} s on two cores.\n" if path.is_file() else ""


def _section(name: str, page: str) -> str:
    _, begun, rest = page.partition(f"{MARK.format(name)}\n")
    return rest.partition(END.format(name))[0] if begun else ""


MARK, END = "<!-- study {} -->", "<!-- end of {} -->"


BEGUN, ENDED = (
    "<!-- The study's numbers: `python -m benchmarks.study --write` puts them here. -->",
    "<!-- End of them. -->",
)


def with_table(readme: str, tables: Path) -> str:
    """README with the digits' times to the middle target on the study's own links, the ranked algorithms alone."""
    head, _, rest = readme.partition(BEGUN)
    _, _, tail = rest.partition(ENDED)
    times, compared = _rows(tables / "times.csv"), _rows(tables / "comparisons.csv")
    goal = json.loads((tables.parent / "study.json").read_text(encoding="utf-8"))["main"]
    here = [row for row in compared if (row["link"], row["target"]) == ("own links", goal)]
    lines = [f"| algorithm | {_until(goal)} | reached | over fedavg's, 95 % | decided |", "|---|---|---|---|---|"]
    lines += [_line(label, times, here, goal) for label in _ranked(tables, times, goal)]
    return f"{head}{BEGUN}\n" + "\n".join(lines) + f"\n{ENDED}{tail}"


def _until(goal: str) -> str:
    """`seconds until accuracy stays at 0.9 for 3 rounds`"""
    metric, value, *held = goal.split()
    return f"seconds until {metric} stays at {value} for {held[-1]} rounds" if held else f"seconds to {goal}"


def picture(tables: Path) -> bytes:
    """README's picture: the rows of its table."""
    times = _rows(tables / "times.csv")
    goal = json.loads((tables.parent / "study.json").read_text(encoding="utf-8"))["main"]
    return png(times_of([_values(label, times, goal) for label in _ranked(tables, times, goal)]))


def _values(label: str, times: Sequence[dict[str, str]], goal: str) -> Values:
    mine = _own(label, times, goal)
    known = {int(r["seed"]): Timed(float(r["time s"]) if r["time s"] else None, float(r["end s"])) for r in mine}
    metric, value, *held = goal.split()
    target = Target(metric, float(value), int(held[-1]) if held else 1)
    return Values("own links", target, label, known, float(mine[0]["horizon s"] or "inf"))


def _own(label: str, times: Sequence[dict[str, str]], goal: str) -> list[dict[str, str]]:
    """Rows of one algorithm on the study's own links."""
    return [r for r in times if (r["link"], r["target"], r["algorithm"]) == ("own links", goal, label)]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _ranked(tables: Path, times: Sequence[dict[str, str]], goal: str) -> list[str]:
    """The fastest first."""
    protocol = load(str(tables.parent / "protocol.yaml"))
    return sorted(ranked(protocol), key=lambda label: _mean(label, times, goal)[0])


def _mean(label: str, times: Sequence[dict[str, str]], goal: str) -> tuple[float, int, int]:
    """Restricted mean time, s; how many seeds got there, of how many."""
    found = _values(label, times, goal)
    return found.mean, found.reached, len(found.times)


def _line(label: str, times: Sequence[dict[str, str]], compared: Sequence[dict[str, str]], goal: str) -> str:
    seconds, there, of = _mean(label, times, goal)
    mean, reached = f"{'' if there == of else '≥ '}{seconds:.1f}", f"{there} of {of}"
    found = [row for row in compared if (row["algorithm"], row["base"]) == (label, "fedavg")]
    if not found:
        return f"| {label} | {mean} | {reached} | 1 | |"
    (row,) = found
    over = f"{float(row['ratio']):.2f} [{float(row['low']):.2f}, {float(row['high']):.2f}]"
    return f"| {label} | {mean} | {reached} | {over} | {row['decided']} |"


def _deeper(line: str) -> str:
    """Headings one level down."""
    return f"#{line}" if line.startswith("#") else line


if __name__ == "__main__":
    typer.run(main)

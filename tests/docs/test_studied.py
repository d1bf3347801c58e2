"""The figures that README, the quickstart and docs/study.md take from the studies in docs/studies are the figures
there."""

import csv
import json
import re
from pathlib import Path

import pytest

from benchmarks import study as made
from emulator.results.comparison import SOME
from emulator.results.restricted import Timed, contrast
from scenarios.load import load

ROOT = Path(__file__).parents[2]
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
OWN = "own links"


def rows(study, table):
    with (ROOT / "docs" / "studies" / study / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_quickstart_has_the_settings_that_were_chosen():
    quickstart = load("quickstart")
    chosen = {row["algorithm"]: row["settings"] for row in rows("digits", "tuning") if row["tuned for"] == OWN}
    assert [entry.name for entry in quickstart.algorithms if entry.name not in chosen] == []
    for entry in quickstart.algorithms:
        own = entry.options.get("training") or {}
        training = {key: own.get(key, getattr(quickstart.training, key)) for key in ("lr", "epochs")}
        said = dict(part.split(" = ") for part in chosen[entry.name].split(", "))
        assert {key: float(value) for key, value in said.items()} == {
            key: float({**entry.options, **training}[key]) for key in said
        }, entry.name


def main(study):
    """The target that the verdict is about: of the three shares the middle one."""
    said = json.loads((ROOT / "docs" / "studies" / study / "study.json").read_text(encoding="utf-8"))
    return said.get("main") or sorted({row["target"] for row in rows(study, "comparisons")})[1]


def test_readme_has_the_ratios_of_the_larger_network():
    said = {
        row["algorithm"]: row
        for row in rows("mnist", "comparisons")
        if row["link"] == OWN and row["base"] == "fedavg" and row["target"] == main("mnist")
    }
    for label in ("fedcurv", "fedcl-n10"):
        ratio, low, high = (f"{float(said[label][name]):.2f}" for name in ("ratio", "low", "high"))
        assert f"{ratio} [{low}, {high}] times as long" in README, label


STUDIES = ("digits", "mnist")
TRIPLE = re.compile(r"\d+\.\d+ \[\d+\.\d+, \d+\.\d+\]")


def told(study):
    """Ratios of times with their intervals, as a page writes them: those compared, and any on the study's own links."""
    known = [row for row in rows(study, "comparisons") if row["ratio"]]
    here = [row for row in rows(study, "times") if row["link"] == OWN and row["target"] == main(study)]
    runs, taus = {}, {}
    for row in here:
        taus[row["algorithm"]] = float(row["horizon s"] or "inf")
        time = float(row["time s"]) if row["time s"] else None
        runs.setdefault(row["algorithm"], {})[row["seed"]] = Timed(time, float(row["end s"] or "inf"))
    pairs = [(label, base) for label in runs for base in runs if label != base]
    others = [contrast(runs[label], runs[base], min(taus[label], taus[base])) for label, base in pairs]
    return {str_of(row) for row in known} | {str_of(vars(each)) for each in others if each}


def str_of(row):
    return "{ratio:.2f} [{low:.2f}, {high:.2f}]".format(**{key: float(row[key]) for key in ("ratio", "low", "high")})


@pytest.mark.parametrize("study", STUDIES)
def test_remarks_tell_ratios_of_the_tables(study):
    text = " ".join((made.REMARKS[study] + made.CAVEATS.get(study, "")).split())
    known = told(study)
    assert [each for each in TRIPLE.findall(text) if each not in known] == []


def test_readme_has_the_table_of_the_study():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert made.with_table(readme, ROOT / "docs" / "studies" / "digits" / "tables") == readme


@pytest.mark.parametrize("study", STUDIES)
def test_without_their_penalty_they_learn_what_the_baseline_learns(study):
    assert made.differing(ROOT / "docs" / "studies" / study) == []
    assert len(rows(study, "nulls")) >= 10


def test_the_page_opens_with_at_most_ten_lines():
    page = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    _, _, short = page.partition("## In short\n")
    short = short.partition("<!-- study")[0]
    assert 6 <= short.count("\n- ") <= 10


@pytest.mark.parametrize("study", STUDIES)
def test_the_page_has_the_remarks_and_counts_as_the_tables_do(study):
    page = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    section = page.partition(f"<!-- study {study} -->\n")[2].partition(f"<!-- end of {study} -->")[0]
    assert made.REMARKS[study] in section
    few = sum(
        row["decided"] == "no" and max(int(row["reached"] or 0), int(row["base reached"] or 0)) < SOME
        for row in rows(study, "comparisons")
    )
    assert few == 0 or f", {few} of them as fewer than {SOME} seeds of either got there in time" in section

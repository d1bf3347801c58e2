"""What README and the quickstart take from the studies in docs/studies is what stands there."""

import csv
import json
from pathlib import Path

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
    for label, digits in (("fedcurv", 1), ("fedcl-n10", 2)):
        ratio, low, high = (f"{float(said[label][name]):.{digits}f}" for name in ("ratio", "low", "high"))
        assert f"{ratio} [{low}, {high}] times as long" in README, label

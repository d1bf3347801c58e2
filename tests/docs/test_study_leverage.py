"""What the study's pages say of penalties that do nothing is so in leverage.csv: the leverage of each round.

It is of the same settings played again, on another processor.  Where that changed what the page says, or not all seeds
were played again, the page says so.
"""

import re
from functools import cache
from statistics import median

import pytest

from benchmarks import study as made
from tests.all_of import all_of
from tests.docs.test_studied import KEPT, rows
from tests.docs.test_studied_tables import text_of
from tests.docs.test_study_settings import protocol

WARNED = re.compile(
    r"^- (\S+): in (\d+) of (\d+) rounds (the penalty does|Ω is|the penalty is)\b.*?([\d.e-]+)\)?[;)]", re.M
)
AGAIN = re.compile(
    r"^<sub>Rounds in which (?:a penalty|the penalty of (\S+)) does nothing are counted over seeds (\d+) to (\d+), "
    r"played again on another processor(?:, where (\d+) of (\d+) runs ends? in another round)?\. All other numbers are "
    r"of the study's own runs\.</sub>$",
    re.M,
)
FREE = {"fedavg", "scaffold", "agents-mean", "fedmeta", "fedshare"}  # algorithms without a penalty


@cache
def leverages(study, regime):
    """By algorithm, of each round: leverage, learning rate times second derivative, and if Ω was the identity."""
    found = {}
    for row in rows(study, regime, "leverage"):
        each = float(row["leverage, 99th percentile"]), float(row["lr x largest second derivative"]), row["identity"]
        found.setdefault(row["algorithm"], []).append(each)
    return found


def idle(of):
    """Leverages of the rounds in which the penalty does nothing; with SGD one is too strong from 2 on."""
    return [p99 for p99, step, identity in of if identity == "no" and p99 < 0.01 and step <= 2]


@pytest.mark.parametrize(("study", "regime"), KEPT)
def test_warnings_count_the_rounds(study, regime):
    assert protocol(regime).training.momentum == 0
    expected = {}
    for label, of in leverages(study, regime).items():
        assert max(step for _, step, _ in of) <= 2, label  # no penalty is too strong
        ones = [p99 for p99, _, identity in of if identity == "yes"]
        if ones:
            expected[label] = len(ones), len(of), "Ω is", f"{median(ones):.2g}"
        elif idle(of):
            expected[label] = len(idle(of)), len(of), "the penalty does", f"{max(idle(of)):.2g}"
    assert expected == {
        label: (int(some), int(of), *what)
        for label, some, of, *what in WARNED.findall(text_of(study, regime, "whole.txt"))
    }


@pytest.mark.parametrize(("study", "regime"), KEPT)
def test_runs_are_the_studys_or_the_page_says_how_many_are_not(study, regime):
    """A run ends when it has held its last target, or with round 200."""
    rounds = {}
    for row in rows(study, regime, "leverage"):
        rounds.setdefault((row["algorithm"], row["seed"]), []).append(int(row["round"]))
    assert all_of(each == list(range(each[0], each[-1] + 1)) for each in rounds.values())
    times = rows(study, regime, "times")
    goal = max({row["target"] for row in times}, key=lambda name: made.target(name).value)
    held = made.target(goal).hold - 1  # further evaluations
    ends = {(row["algorithm"], row["seed"]): row["rounds"] for row in times if row["target"] == goal}
    other = [pair for pair, each in rounds.items() if each[-1] != min(int(ends[pair] or 200) + held, 200)]
    seeds = {seed for _, seed in ends}
    penalised = {label for label, _ in ends if label not in FREE and not label.endswith("-0")}
    if said := AGAIN.search(text_of(study, regime, "whole.txt")):
        mine, first, last, changed, of = said.groups()
        labels = {mine} if mine else penalised
        seeds = {str(seed) for seed in range(int(first), int(last) + 1)}
        assert {label for label, _ in other} <= labels
        assert (int(changed or 0), int(of or 0)) == ((len(other), len(labels) * len(seeds)) if other else (0, 0))
    else:
        assert other == []
    assert rounds.keys() == {(label, seed) for label in penalised for seed in seeds}

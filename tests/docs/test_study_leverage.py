"""What the study's pages say of penalties that do nothing is so in leverage.csv: the leverage of each round.

It is of the same settings played again, on another processor.  Where that changed runs, or not all seeds were played
again, the page says so.
"""

import re
from functools import cache
from statistics import median

import pytest

from benchmarks import study as made
from tests.docs.test_studied import IDLE, KEPT, OFF, rows
from tests.docs.test_studied_tables import text_of
from tests.docs.test_study_settings import protocol

PLAYED = [pair for pair in KEPT if (made.KEPT.joinpath(*pair) / "tables" / "leverage.csv").is_file()]
WARNED = re.compile(
    r"^- (\S+): in (\d+) of (\d+) rounds (the penalty does|Ω is|the penalty is)\b.*?([\d.e-]+)\)?[;)]", re.M
)
AGAIN = re.compile(r"^<sub>(The penalty of (\S+)|Penalties): of seeds (\d+) to (\d+), played again", re.M)


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


@pytest.mark.parametrize(("study", "regime"), PLAYED)
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


@pytest.mark.parametrize(("study", "regime"), PLAYED)
def test_runs_are_the_studys_or_the_page_says_which_were_played_again(study, regime):
    """A run ends when it has held its last target, or with round 200."""
    last = {}
    for row in rows(study, regime, "leverage"):
        last[row["algorithm"], row["seed"]] = int(row["round"])
    times = rows(study, regime, "times")
    goal = max({row["target"] for row in times}, key=lambda name: made.target(name).value)
    held = made.target(goal).hold - 1  # further evaluations
    ends = {(row["algorithm"], row["seed"]): row["rounds"] for row in times if row["target"] == goal}
    again = AGAIN.search(text_of(study, regime, "whole.txt"))
    if again and not again[2]:
        seeds = {str(seed) for seed in range(int(again[3]), int(again[4]) + 1)}
    else:
        seeds = {seed for _, seed in ends}
        other = {pair for pair in last if last[pair] != min(int(ends[pair] or 200) + held, 200)}
        assert {label for label, _ in other} <= ({again[2]} if again else set())
    assert last.keys() == {(label, seed) for label, _ in last for seed in seeds}


def test_penalties_that_do_nothing_in_most_rounds_are_those_that_the_page_names():
    off = {
        (label, regime)
        for study, regime in PLAYED
        for label, of in leverages(study, regime).items()
        if 2 * len(idle(of)) > len(of)
    }
    told = {
        (label, regime)
        for study, regime in PLAYED
        for label, some, of in IDLE.findall(text_of(study, regime, "whole.txt"))
        if 2 * int(some) > int(of)
    }
    assert off == told
    assert {pair for pair in off if pair[0] in ("fedcl", "fedcurv")} == set(OFF)

"""What the study's pages say of penalties that do nothing is so in leverage.csv: the leverage of each round.

It is of the same seeds played again, on another processor.  All times are the study's, but with one byte a number other
roundings change single rounds.  In the regimes without one, such as those of later targets, they change more runs.
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
ROUNDED = "fedcurv-int8"
WARNED = re.compile(
    r"^- (\S+): in (\d+) of (\d+) rounds (the penalty does|Ω is|the penalty is)\b.*?([\d.e-]+)\)?[;)]", re.M
)


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
    told = {
        label: (int(some), int(of), *what)
        for label, some, of, *what in WARNED.findall(text_of(study, regime, "whole.txt"))
    }
    if ROUNDED in told:
        (some, of, *_), (again, rounds, *_) = told.pop(ROUNDED), expected.pop(ROUNDED)
        assert max(abs(some - again), abs(of - rounds)) <= 2
    assert told == expected


@pytest.mark.parametrize(("study", "regime"), PLAYED)
def test_each_round_of_each_run_has_one(study, regime):
    """But the first, of which most have no importance yet, and those of FedProx, which needs none."""
    runs = {(row["algorithm"], row["seed"]) for row in rows(study, regime, "leverage")}
    assert {seed for _, seed in runs} == {row["seed"] for row in rows(study, regime, "times")}
    assert len(runs) == 10 * len({label for label, _ in runs})


def test_penalties_that_do_nothing_in_most_rounds_are_those_that_the_page_names():
    assert len(PLAYED) >= 8
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
    assert {pair for pair in off if pair[0] in ("fedcl", "fedcurv")} == {
        pair for pair in OFF if ("digits", pair[1]) in PLAYED
    }

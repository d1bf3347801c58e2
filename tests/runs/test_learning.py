"""Every algorithm that comes with fedlapse learns: digits on 20 devices of uneven labels, to 85 %.

Shipped options, and the same training for all.  The limits are rounds, not seconds: half as many again as the slower of
two seeds needed (beside each: what seeds 1 and 2 needed), for on other computers the last bits differ.  The network is
a small one: it takes about as many rounds as digits-cnn does, each in a quarter of the seconds.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from emulator.compute.executors import Inline
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.play.stage import Outcome, Row
from emulator.record.run import Run
from scenarios.builders import plugins
from scenarios.load import build
from tests.all_of import all_of
from tests.conftest import audit_run

pytestmark = pytest.mark.slow

REACHED = 0.85
LINK = {"up_mbit_s": 100, "down_mbit_s": 100}
SKEWED: dict[str, Any] = {
    "name": "skewed",
    "data": {"set": "digits", "split": {"kind": "shards", "each": 2}, "proxy": {"fraction": 0.05}},
    "model": "tests.runs.network:small",
    "training": {"epochs": 5, "batch": 10, "lr": 0.05},
    "rounds": {"max": 100, "fraction": 0.3},
    "evaluate": {"personalise_every": "never"},  # which would train all 20 devices once more
    "server": {"link": LINK},
    "fleet": [{"profile": "phone-mid", "count": 20, "link": LINK}],
}


# UGA looks for a model that is good once a device has trained it.  Of devices with two labels each, one that knows none
# of the digits will do: in 80 rounds digits-cnn got to 42 % (seed 1) and 46 % (seed 2, which then overflowed), and with
# FedMeta's step to 84.7 and 82.8 %, while 85 % personalised were there by round 5.  With one epoch, where nothing is
# trained first, 85 % took 95 rounds.  So these get labels from Dir(1), where FedAvg takes 9 rounds.
MILD = {**SKEWED, "data": {**SKEWED["data"], "split": {"kind": "dirichlet", "alpha": 1.0}}}
# A learning rate and a seed with which UGA's `eta_g: matched` does not get there: after 12 rounds it is at 68 %.
STEEP = {**MILD, "training": {**SKEWED["training"], "lr": 0.15}, "seeds": [3]}


class Case(NamedTuple):
    entry: Any
    rounds: int  # at most so many until 85 %
    setting: str = "skewed"


CASES: dict[str, Case] = {
    "fedavg": Case("fedavg", 45),  # 30, 28
    "fedprox": Case("fedprox", 45),  # 30, 28
    "fedcl": Case("fedcl", 42),  # 22, 28
    "fedcurv": Case("fedcurv", 38),  # 22, 25
    "agentimportance": Case("agentimportance", 38),  # 22, 25
    "fedmeta": Case("fedmeta", 33),  # 22, 18
    "fedshare": Case("fedshare", 11),  # 6, 7
    "scaffold": Case("scaffold", 24),  # 15, 16
    "fednova": Case("fednova", 45),  # 30, 28
    "feddyn": Case("feddyn", 23),  # 15, 14
    "ditto": Case("ditto", 45),  # 30, 28
    "fedavgm": Case("fedavgm", 33),  # 22, 15
    "fedadam": Case("fedadam", 50),  # 33, 32
    "fedyogi": Case("fedyogi", 50),  # 33, 32
    "uga": Case("uga", 15, "mild"),  # 10, 9
    "fedmeta-uga": Case({"fedmeta": {"clients": "uga"}}, 23, "mild"),  # 12, 15
    "uga-steep": Case("uga", 12, "steep"),  # 8
    # Other options, where it is quick.
    "fedcl-sq": Case({"fedcl": {"importance": "sq"}}, 14, "mild"),  # 9, 9
    "fedcl-scalar": Case({"fedcl": {"importance": "tensor_scalar"}}, 14, "mild"),  # 9, 9
    "fedcl-mas": Case({"fedcl": {"importance": "mas"}}, 15, "mild"),  # 9, 10
    "fedcl-si": Case({"fedcl": {"importance": "si"}}, 15, "mild"),  # 9, 10
    "fedcl-catch-up": Case({"fedcl": {"interval": 5, "fallback": "catch_up"}}, 14, "mild"),  # 9, 9
    "fedcl-own": Case({"fedcl": {"interval": 5, "fallback": "local_estimate"}}, 15, "mild"),  # 9, 10
    "fedcurv-lean": Case({"fedcurv": {"upload": "lean"}}, 15, "mild"),  # 10, 10
    "agentimportance-rwalk": Case({"agentimportance": {"importance": "rwalk"}}, 14, "mild"),  # 9, 9
}
ELSEWHERE = {"continual", "ca2fl", "fadas", "fedasync", "fedbuff"}  # below; all but the first: for asynchronous rounds

SLICED = """
from dataclasses import replace

import numpy as np

from devices.data import digits as source


def digits():
    whole = source.digits()
    return replace(whole, cycles=2, cycle=np.arange(len(whole.y)) % 2, cycle_test=np.arange(len(whole.y_test)) % 2)
"""


def named(label: str, entry: Any) -> dict[str, Any]:
    return {**({entry: {}} if isinstance(entry, str) else entry), "name": label}


class Watched:
    """Ends a run in the round in which it gets there, or when its rounds are over."""

    def __init__(self, rounds: int) -> None:
        self.rounds, self.seen = rounds, list[float]()

    def look(self, _: Run, row: Row) -> None:
        self.seen.append(row["accuracy"])

    def going_on(self) -> bool:
        return len(self.seen) < self.rounds and not (self.seen and self.seen[-1] >= REACHED)


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return played(SKEWED, "skewed", tmp_path_factory.mktemp("skewed"))


@pytest.fixture(scope="module")
def mild(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return played(MILD, "mild", tmp_path_factory.mktemp("mild"))


@pytest.fixture(scope="module")
def steep(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return played(STEEP, "steep", tmp_path_factory.mktemp("steep"))


def played(raw: dict[str, Any], setting: str, folder: Path) -> dict[str, Outcome]:
    """All runs of a setting, one after the other in this process: each worker would take seconds to import torch."""
    cases = {label: case for label, case in CASES.items() if case.setting == setting}
    scenario = build({**raw, "algorithms": [named(label, case.entry) for label, case in cases.items()]})
    lab, conduct = lab_of(scenario), Conduct.of(scenario)

    def one(label: str) -> Outcome:
        watched = Watched(cases[label].rounds)
        run, here = Run(label, scenario.seeds[0]), Inline(lab)
        return asyncio.run(run_virtual(lab, run, conduct, here, folder / label, watched.going_on, watched.look))

    outcomes = {label: one(label) for label in cases}
    assert [audit_run(folder / label) for label in cases] == [[]] * len(cases)
    return outcomes


def test_no_algorithm_is_left_out() -> None:
    keys = {next(iter(named(label, case.entry))) for label, case in CASES.items()}
    assert keys | ELSEWHERE == set(plugins.kinds())


@pytest.mark.parametrize("label", CASES)
def test_it_reaches_85_percent(request: pytest.FixtureRequest, label: str) -> None:
    outcome = request.getfixturevalue(CASES[label].setting)[label]
    assert outcome.failure is None
    accuracies = [row["accuracy"] for row in outcome.rows]
    assert accuracies[-1] >= REACHED, f"best of {len(accuracies)} rounds: {max(accuracies)}"
    assert len(accuracies) <= CASES[label].rounds
    assert accuracies[0] < 0.5  # there was something to learn


def test_algorithm_2_of_continual_learning_reaches_85_percent_personalised(
    play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two cycles of 20 rounds, each on every other digit.  What counts is each device's own model on its own digits, at
    the end of cycle 1, in which its last layer has never left it; without that layer the model is far from there.

    Measured with seed 1: 0.944 at the end of cycle 1, and 0.683 for the server's model on the same test examples.
    """
    (tmp_path / "sliced_digits.py").write_text(SLICED)
    monkeypatch.syspath_prepend(str(tmp_path))
    changes = {
        **SKEWED,
        "data": {**SKEWED["data"], "set": "sliced_digits:digits", "validation": 0.0},
        "rounds": {"max": 40, "per_cycle": 20, "fraction": 0.3},
        "evaluate": {"every": 20},
    }
    played = play({"continual": {"variant": "alg2", "personal": "fc2.*"}}, **changes)
    ends = [played.rounds[19], played.rounds[39]]
    assert [row["counted"] for row in ends] == [20, 20]
    assert all_of(row["personalised_participants"] >= REACHED for row in ends)
    assert ends[1]["initial"] < REACHED - 0.05

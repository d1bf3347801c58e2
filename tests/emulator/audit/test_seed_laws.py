"""The audit on several runs of a seed: they begin with one model.  Records of one line, written by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.audit.audit import Audit
from emulator.audit.results_laws import audit_results
from emulator.record.lines import encode
from tests.emulator.audit.straggling import Body, declare, line

OWN = "nowhere.mine:Mine"
Judge = Callable[..., Audit]


@pytest.fixture
def verdict(tmp_path: Path) -> Judge:
    """Judges a folder whose runs begin with these models; `broken`: runs that break a law by themselves."""

    def judge(entries: list[Any], models: Body, seeds: tuple[int, ...] = (1,), broken: tuple[str, ...] = ()) -> Audit:
        declare(tmp_path, algorithms=entries, seeds=list(seeds))
        runs = {}
        for name, model in models.items():
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            opened = [line(0.0, "open", 0, asked=["a-0"], model=model)] if model else []
            (folder / "events.jsonl").write_bytes(b"".join(map(encode, opened)))
            runs[folder] = Audit(["I1: twice"] if name in broken else [])
        return audit_results(tmp_path, runs)

    return judge


def entry(key: str, name: str, **options: Any) -> Body:
    return {"key": key, "options": options, "name": name}


TWO = [entry("fedavg", "fedavg"), entry("fedcl", "fedcl")]


def test_runs_of_a_seed_begin_with_one_model_and_those_of_another_seed_with_theirs(verdict: Judge) -> None:
    models = {"fedavg-s1": "m1", "fedcl-s1": "m1", "fedavg-s2": "m2", "fedcl-s2": "m2"}
    assert verdict(TWO, models, seeds=(1, 2)) == Audit([])
    found = verdict(TWO, models | {"fedcl-s2": "m1"}, seeds=(1, 2))
    assert found.faults == [
        "scenario: fedcl-s2 begins with model m1, and fedavg-s2 with m2; all runs of a seed begin with one model"
    ]


def test_who_trains_before_the_first_round_begins_with_a_model_of_its_own(verdict: Judge) -> None:
    entries = [entry("continual", "before", pretrain=1), *TWO, entry("continual", "not", pretrain=0)]
    models = {"before-s1": "m0", "fedavg-s1": "m1", "fedcl-s1": "m1", "not-s1": "m1"}
    assert verdict(entries, models) == Audit([])
    assert "not-s1 begins with model m0" in verdict(entries, models | {"not-s1": "m0"}).faults[0]


def test_of_ones_own_algorithm_nobody_can_tell_which_is_said(verdict: Judge) -> None:
    """Also where it is the baseline: a shipped algorithm is what the others are compared with."""
    for entries in ([*TWO, entry(OWN, "mine")], [entry(OWN, "mine"), *TWO]):
        same = {"fedavg-s1": "m1", "fedcl-s1": "m1", "mine-s1": "m1"}
        assert verdict(entries, same) == Audit([])
        found = verdict(entries, same | {"mine-s1": "m0"})
        assert found.faults == []
        assert found.unjudged == (
            "mine-s1 begins with model m0, and fedavg-s1 with m1, which only the code of mine can explain"
        )
        assert verdict(entries, same | {"fedcl-s1": "m0"}).faults


def test_runs_that_have_not_begun_are_damaged_or_are_missing_are_left_out(verdict: Judge) -> None:
    assert verdict(TWO, {"fedavg-s1": "m1"}) == Audit([])
    assert verdict(TWO, {"fedavg-s1": "m1", "fedcl-s1": None}) == Audit([])
    assert verdict(TWO, {"fedavg-s1": "m1", "fedcl-s1": "m2"}, broken=("fedcl-s1",)) == Audit([])

"""`ledger verify` on the ledger of a tiny run: the same bits, other bits, other code, and what cannot be made."""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.compute import verifying
from emulator.compute.verifying import Verified, verify
from emulator.compute.workers import KILLED
from emulator.ledger.facts import Fact, FactsFile
from emulator.ledger.ledger import Ledger
from tests.conftest import SMALL, merged

pytestmark = pytest.mark.slow
JOBS = 1 + 2 + 4 * 2 + 2  # start, request, train and combine in two rounds; evaluations come on top


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from emulator.report import page
    from emulator.sessions.computing import Playing
    from emulator.sessions.one_scenario import play_scenario
    from scenarios.load import build

    folder = tmp_path_factory.mktemp("verify")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "page", lambda results: "a page")
        playing = Playing(workers=0, quiet=True, ledger=folder / "ledger")
        assert play_scenario(build(merged(SMALL, {})), playing, out=folder / "out").code == 0
    return folder / "ledger"


@pytest.fixture
def ledger(remembered: Path, tmp_path: Path) -> Path:
    """A copy without messages: each job rests on all before it."""
    shutil.copytree(remembered, tmp_path / "ledger")
    for path in (tmp_path / "ledger" / "kept").iterdir():
        path.unlink()
    return tmp_path / "ledger"


def verified(folder: Path, fraction: float = 1.0) -> Verified:
    opened = Ledger(folder, lambda text: None)
    try:
        return verify(opened, fraction, 0)
    finally:
        opened.close(broken_off=False)


def facts(folder: Path) -> list[Fact]:
    opened = FactsFile(folder / "facts.sqlite", lambda text: None)
    found = [opened.get(key) for key, _ in list(opened.keys())]
    opened.close()
    return [fact for fact in found if fact]


def changed(folder: Path, old: Fact, new: Fact) -> None:
    with sqlite3.connect(folder / "facts.sqlite") as file:
        file.execute("DELETE FROM facts WHERE key = ?", (old.key,))
    file.close()
    opened = FactsFile(folder / "facts.sqlite", lambda text: None)
    opened.put(new)
    opened.close()


def test_sound_facts_give_the_same_bits_again(ledger: Path) -> None:
    assert len(facts(ledger)) > JOBS
    assert verified(ledger) == Verified(same=len(facts(ledger)))


def test_of_a_share_each_time_the_same_jobs_are_drawn(ledger: Path) -> None:
    first = verified(ledger, 0.3)
    assert 0 < first.same < len(facts(ledger))
    assert verified(ledger, 0.3) == first


def test_other_bits_are_named_with_their_job(ledger: Path) -> None:
    one = next(fact for fact in facts(ledger) if fact.job == "train")
    changed(ledger, one, replace(one, result=[one.result[0] + 1, *one.result[1:]]))
    found = verified(ledger)
    assert (found.same, found.others) == (len(facts(ledger)) - 1, 0)
    assert len(found.wrong) == 1
    assert found.wrong[0].startswith("train fedavg 1 ")


def test_other_bits_under_other_jobs_are_no_traceback(ledger: Path) -> None:
    one = next(fact for fact in facts(ledger) if fact.job == "start")
    changed(ledger, one, replace(one, result=[["0" * 64, 9], ["0" * 64, 9]]))
    assert "start fedavg 1" in verified(ledger).wrong


def test_a_fact_of_other_code_is_not_wrong(ledger: Path) -> None:
    one = next(fact for fact in facts(ledger) if fact.job == "evaluate")
    changed(ledger, one, replace(one, key="0" * 64))
    assert verified(ledger) == Verified(same=len(facts(ledger)) - 1, others=1)


def test_a_worker_that_is_killed_ends_the_command_in_one_line(
    ledger: Path, fedlapse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise BrokenProcessPool

    monkeypatch.setattr(verifying, "remembering", killed)
    done = fedlapse("ledger", "verify", "--ledger", ledger, "--fraction", "1")
    assert (done.returncode, done.stderr) == (1, f"fedlapse: {KILLED}\n")


def test_jobs_whose_inputs_nobody_knows_how_to_make_are_not_done(ledger: Path) -> None:
    with sqlite3.connect(ledger / "facts.sqlite") as file:
        file.execute("DELETE FROM facts WHERE job = 'start'")
    file.close()
    found = verified(ledger)
    assert (found.same, found.wrong) == (0, ())
    assert found.others == len(facts(ledger))

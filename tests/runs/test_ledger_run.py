"""Whole runs with a ledger: the same bytes, whatever it knows, and however many workers compute the rest."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.compute.executor import Tally
from emulator.compute.remembering import remembering
from emulator.lab.build import lab_of
from emulator.ledger.ledger import Ledger
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.record.run import Run
from scenarios.load import build, dump
from tests.conftest import SMALL, digests, merged
from tests.runs.nets import DENSE

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 20}
AWAY = [
    {"profile": "phone-mid", "count": 3, "link": LINK, "presence": {"off": [[1, 3], [6, 7]]}},
    {"profile": "pi-4", "count": 3, "link": {**LINK, "up_mbit_s": 1}},
]
EVERY: dict[str, Any] = {
    "model": DENSE,
    "rounds": {"max": 3, "fraction": 0.5, "deadline_s": 2.0, "stragglers": "finish"},
    "fleet": AWAY,
    "algorithms": [
        "fedavg",
        {"fedprox": {"mu": 0.1}},
        {"fedcl": {"strength": 5, "interval": 2}},
        {"fedcurv": {"strength": 0.05}},
        "scaffold",
        "agentimportance",
        {"fedavg": {"encoding": {"up": {"weights": "top-0.1"}}}, "name": "top"},
    ],
}
SEEDS = {**EVERY, "model": "digits-cnn", "seeds": [1, 2], "algorithms": EVERY["algorithms"][1:4]}
DRIFTING: dict[str, Any] = {
    "data": {"set": "babble", "split": {"kind": "natural"}, "validation": 0},
    "model": "lstm-tiny",
    "rounds": {"max": 3, "per_cycle": 2, "fraction": 0.5},
    "algorithms": ["fedavg", {"continual": {"variant": "alg1", "personal": "*"}}],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "workers"),
    [(EVERY, 0), (SEEDS, 2), (DRIFTING, 0)],
    ids=["every-0", "seeds-2", "drifting-0"],
)
def test_whatever_the_ledger_knows_the_files_are_the_same(fedlapse, tmp_path, changes, workers):
    (tmp_path / "s.yaml").write_text(dump(build(merged(SMALL, changes))))

    def played(name: str, *more: object) -> str:
        done = fedlapse("compare", "s.yaml", "-q", "--workers", workers, "--out", name, *more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    played("plain", "--no-ledger")
    played("cold", "--ledger", "one")
    warm = played("warm", "--ledger", "one")
    # Workers may begin a training that is dropped before its request arrives; in this process none is ever dropped.
    assert " 0 computed" in warm or workers
    played("shorter", "rounds.max=2", "--ledger", "two", "--keep-states", 1)
    blobs = sorted(Path("two", "kept").iterdir())
    for path in random.Random(1).sample(blobs, len(blobs) // 2):
        path.unlink()
    assert " 0 of " not in played("half", "--ledger", "two")
    expected = digests(tmp_path / "plain")
    assert [name for name in ("cold", "warm", "half") if digests(tmp_path / name) != expected] == []


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_with_what_its_devices_had_kept(tmp_path):
    """FedCurv's devices keep their own part of the sums; it is in no message that a ledger keeps by itself."""
    changes = {"algorithms": [{"fedcurv": {"strength": 0.05}}], "seeds": [1], "rounds": {"max": 4}}
    scenario = build(merged(SMALL, {**changes, "model": DENSE, "training": {"stack": 2}}))
    lab = lab_of(scenario)

    def played(name: str, going_on: Callable[[], bool] = lambda: True) -> Tally:
        ledger = Ledger(tmp_path / "ledger", print)
        with remembering(lab, ledger, 0, ledger.facts.about("some")) as pool:
            work = run_virtual(lab, Run("fedcurv", 1), Conduct.of(scenario), pool, tmp_path / name, going_on)
            outcome = asyncio.run(work)
            pool.broken_off = outcome.interrupted
        return pool.tally

    asked = iter([True, True, False])  # before round 0, after it, and after round 1
    stopped, resumed = played("stopped", lambda: next(asked)), played("resumed")
    assert stopped.computed == 2 * 4  # rounds of four devices
    assert (stopped.known, resumed.known, resumed.again) == (0, stopped.computed, 0)

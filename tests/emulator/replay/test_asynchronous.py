"""Replays of asynchronous rounds: exact as long as replies arrive in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulator.record.record import FILES
from emulator.replay.conditions import Condition
from emulator.replay.replayer import Replayer
from emulator.replay.script import read_script
from scenarios.load import recorded
from tests.conftest import Played
from tests.emulator.audit.test_version_laws import FLEET, ROUNDS
from tests.emulator.conversation.test_versions import played

pytestmark = pytest.mark.slow
AWAY = [{**group, "presence": {"off": [[t, t + 1.5] for t in range(3, 200, 7)]}} for group in FLEET]
SAME = [{"name": "d", "profile": "pi-4", "count": 4, "link": {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 5}}]


def replayed(run: Played, folder: Path, condition: Condition | None = None, anyway: bool = False) -> Any:
    replayer, script = Replayer(recorded(run.folder.parent)), read_script(run.folder)
    setting = condition.setting(replayer.own) if condition else replayer.own
    return replayer.replay(script, setting, folder / run.folder.name, anyway)


def same(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.mark.parametrize(
    ("algorithm", "fleet", "rounds"),
    [
        ("fedavg", AWAY, {"timeout_s": 1.0}),
        ("fedbuff", AWAY, {"when_off": "pause", "transfers": "resume"}),
        ("fedasync", FLEET, {"buffer": 1}),
        ("fedcurv", FLEET, {"max": 2}),
    ],
)
def test_of_its_own_scenario_it_is_the_run_byte_for_byte(
    tmp_path: Path, algorithm: Any, fleet: Any, rounds: dict[str, Any]
) -> None:
    run = played(tmp_path / "run", algorithm, fleet=fleet, rounds={**ROUNDS, **rounds})
    again = replayed(run, tmp_path / "again")
    same(tmp_path / "again" / run.folder.name, run.folder)
    assert (again.parting, again.assumed, again.failure) == (None, 0, None)


def test_on_other_links_it_is_the_run_on_those_links_while_the_order_is_the_same(tmp_path: Path) -> None:
    """Devices in step stay in step on any links."""
    slow = [{**SAME[0], "link": {"up_mbit_s": 2, "down_mbit_s": 3, "latency_ms": 70}}]
    run = played(tmp_path / "run", "fedbuff", fleet=SAME, rounds=ROUNDS)
    other = played(tmp_path / "other", "fedbuff", fleet=slow, rounds=ROUNDS)
    again = replayed(run, tmp_path / "again", Condition("slow", down=3e6 / 8, up=2e6 / 8, latency=0.07))
    assert again.parting is None
    assert again.rows == other.rounds
    assert again.rows[-1]["time_s"] > run.rounds[-1]["time_s"]


def test_it_ends_where_replies_arrive_in_another_order_and_goes_on_anyway(tmp_path: Path) -> None:
    run = played(tmp_path / "run", "fedavg", fleet=FLEET, rounds=ROUNDS)
    alike = Condition("alike", down=1e6, up=1e6, latency=0.005)  # the slow devices' links are the fast ones', too
    parted = replayed(run, tmp_path / "parted", alike)
    assert parted.parting
    assert len(parted.rows) <= parted.parting.round < len(run.rounds)
    assert "replies arrive in another order" in parted.parting.why or "aggregated" in parted.parting.why
    whole = replayed(run, tmp_path / "whole", alike, anyway=True)
    assert len(whole.rows) == len(run.rounds)
    assert whole.parting == parted.parting

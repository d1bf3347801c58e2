"""How much of a mean time is chance on full links: runs that are replayed with other draws."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from emulator.lab.links import DRAWS, NEAR
from emulator.replay.chance import chance
from emulator.results.results import read
from emulator.results.settings import how_sure
from emulator.sessions.auditing import audited_in
from tests.conftest import FAST, results

ALONE: dict[str, Any] = {
    "network": {"model": "windows"},
    "rounds": {"max": 2, "targets": [{"metric": "accuracy", "value": 0.01}]},
    "fleet": [{"profile": "pi", "count": 4, "link": FAST}],
}
FULL = {
    **ALONE,
    "seeds": [1, 2],
    "topology": {"wifi": {"up_mbit_s": 2, "down_mbit_s": 2}},
    "fleet": [{"profile": "pi", "count": 4, "link": {**FAST, "latency_ms": 20, "via": "wifi"}}],
}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return results(tmp_path_factory.mktemp("full") / "out", FULL)


@pytest.mark.slow
def test_on_full_links_times_have_a_range_that_contains_the_records(full: Path) -> None:
    found = read(full)
    said = found.summary["chance"]
    assert (said["target"], said["draws"]) == ("accuracy 0.01", DRAWS)
    low, high = said["seconds"]["fedavg"]
    target = found.summary["labels"]["fedavg"]["targets"]["accuracy 0.01"]
    assert low <= target["time_s"]["mean"] <= high
    assert high / low > (1 + NEAR) / (1 - NEAR)  # the draws differ
    sure = json.loads((found.folder / "summary.json").read_text())["how_sure"]
    assert sure == how_sure(found.scenario, said)
    assert f"Mean times to accuracy 0.01 over {DRAWS} random draws" in sure[-1]
    assert [fault for each in audited_in([full]).values() for fault in each.faults] == []  # drawn from the seed


@pytest.mark.slow
def test_times_that_are_bounds_have_no_range(full: Path, tmp_path: Path) -> None:
    """The second seed misses the target, which the first reaches: the mean of both is at least their horizon."""
    shutil.copytree(full, tmp_path / "out")
    path = tmp_path / "out" / "fedavg-s2" / "rounds.jsonl"
    rows = [json.loads(line) | {"accuracy": 0.0} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))
    assert chance(read(tmp_path / "out"), 1) is None


@pytest.mark.slow
@pytest.mark.parametrize("changes", [ALONE, {**FULL, "network": {"model": "ideal"}}])
def test_nothing_is_drawn_where_no_link_is_full_or_losses_are_not_modelled(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert chance(read(results(tmp_path / "out", changes)), 1) is None

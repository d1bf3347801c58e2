"""How much of a mean time is chance on full links: runs that are replayed with other draws."""

from __future__ import annotations

import json
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
    "topology": {"wifi": {"up_mbit_s": 2, "down_mbit_s": 2}},
    "fleet": [{"profile": "pi", "count": 4, "link": {**FAST, "latency_ms": 20, "via": "wifi"}}],
}


@pytest.mark.slow
def test_on_full_links_times_have_a_range_that_contains_the_records(tmp_path: Path) -> None:
    found = read(results(tmp_path / "out", FULL))
    said = chance(found, 1)
    assert said is not None
    assert (said["target"], said["draws"]) == ("accuracy 0.01", DRAWS)
    low, high = said["seconds"]["fedavg"]
    target = found.summary["labels"]["fedavg"]["targets"]["accuracy 0.01"]
    assert low <= target["time_s"]["mean"] <= high
    assert high / low > (1 + NEAR) / (1 - NEAR)  # the draws differ
    assert found.summary["chance"] == said  # drawn from the seed
    sure = json.loads((found.folder / "summary.json").read_text())["how_sure"]
    assert sure == how_sure(found.scenario, said)
    assert f"Mean times to accuracy 0.01 over {DRAWS} draws" in sure[-1]
    assert [fault for each in audited_in([found.folder]).values() for fault in each.faults] == []


@pytest.mark.slow
@pytest.mark.parametrize("changes", [ALONE, {**FULL, "network": {"model": "ideal"}}])
def test_nothing_is_drawn_where_no_link_is_full_or_losses_are_not_modelled(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert chance(read(results(tmp_path / "out", changes)), 1) is None

"""`fedlapse tune` and `study` of asynchronous algorithms."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.record.folders import run_folders
from emulator.record.lines import read_lines
from scenarios.load import build, dump
from tests.conftest import FAST, audit_run
from tests.runs.test_study import STUDY, followed, rows
from tests.runs.tuning import TINY, tuned

SEARCH = {"budget": 2, "grid": {"training.lr": [0.1, 1.0]}, "links": {}}
ASYNC = {"rounds": {"mode": "async", "buffer": 1, "in_flight": 2}}


@pytest.mark.slow
def test_settings_of_asynchronous_algorithms_are_searched(tmp_path: Path) -> None:
    """A rung of 2 rounds is 2 M = 4 replies, or versions, and one of 4 is 8."""
    slow = {**FAST, "up_mbit_s": 0.05}
    changes = {
        "fleet": [{"profile": "pi-4", "count": 2, "link": FAST}, {"profile": "phone-low", "count": 1, "link": slow}],
        "algorithms": ["fedavg", {"fedbuff": ASYNC}],
        "tune": {**SEARCH, "seeds": [11], "target": {"value": 0.999, "hold": 1}},
    }
    made = tuned(tmp_path, changes)
    folders = [each for step in sorted((made.out / "trials").iterdir()) for each in run_folders(step)]
    mine = [folder for folder in folders if folder.name.startswith("fedbuff")]
    assert [fault for folder in folders for fault in audit_run(folder)] == []
    assert {len((folder / "rounds.jsonl").read_text().splitlines()) for folder in mine} == {4, 8}
    found = made.found["algorithms"]["fedbuff"]
    assert len(found["tried"]) == 2
    for clock, best in found["best"].items():
        final = {int(number): (score["time"], score["error"]) for number, score in found["final"][clock].items()}
        assert final[best] == min(final.values())


@pytest.mark.slow
def test_a_study_compares_both_modes(tmp_path: Path) -> None:
    """And replays both on its map."""
    own = {"max": 4, "fraction": 1.0, "targets": [{"value": 0.3}]}
    settings = {"pairs": [["fedavg", "fedbuff"]], "shares": [0.2, 0.3], "hold": 1, "horizon_s": 100}
    spans = {"up_mbit_s": [0.1, 100], "down_over_up": [5], "round_trip_ms": [20], "speed_gflop_s": [1]}
    search = {**TINY["tune"], **SEARCH, "seeds": [101], "rungs": 1}
    kept = {key: said for key, said in STUDY.items() if key not in ("links", "tune", "study")}
    changes = {"seeds": [1, 2], "rounds": own, "algorithms": ["fedavg", {"fedbuff": ASYNC}], "tune": search}
    file = tmp_path / "both.yaml"
    file.write_text(dump(build({**kept, **changes, "study": {**settings, "map": spans}})), encoding="utf-8")
    followed(tmp_path, file, "out", "--workers", "0")
    out = tmp_path / "out"
    folders = run_folders(out / "reporting")
    assert len(folders) == 2 * 2  # algorithms and seeds
    assert [fault for folder in folders for fault in audit_run(folder)] == []
    for seed in ("1", "2"):
        ends = {row["time_s"] for row in read_lines(out / "reporting" / f"fedbuff-s{seed}" / "rounds.jsonl")}
        mine = [row for row in rows(out, "times") if (row["algorithm"], row["seed"]) == ("fedbuff", seed)]
        assert {float(row["time s"]) for row in mine} <= ends  # those of versions
    slow, fast = (float(row["fedbuff s"]) for row in rows(out, "map"))
    assert slow > fast > 0

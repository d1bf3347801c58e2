"""A file that is gone or unreadable is a fault of its folder, and of no other: the audit goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.__main__ import app
from emulator.audit.results_laws import audit_results
from emulator.record.seal import seal_results, seal_run

FILES = ("events.jsonl", "rounds.jsonl", "work.jsonl")


def sealed(out: Path, *runs: str) -> Path:
    """A folder of replays without rounds, sealed."""
    for run in runs:
        (out / run).mkdir(parents=True)
        for name in FILES:
            (out / run / name).touch()
        seal_run(out / run, "it ended before its first round")
    (out / "replay.json").write_text("{}")
    seal_results(out)
    return out


def audited(path: Path) -> tuple[int, dict[str, list[str]]]:
    result = CliRunner().invoke(app, ["audit", str(path), "--format", "json"])
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"\xff\n")], ids=["gone", "no text"])
def test_one_unreadable_record_does_not_hide_the_others(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    out = sealed(tmp_path / "out", "fedavg-s1", "fedcl-s1")
    spoil(out / "fedcl-s1" / "rounds.jsonl")
    code, faults = audited(out)
    assert code == 1
    assert [name for name, found in faults.items() if found] == [str(out / "fedcl-s1")]
    assert [fault.partition(":")[0] for fault in faults[str(out / "fedcl-s1")]] == ["seal", "form"]


def test_a_run_whose_events_are_gone_is_missed_by_the_folder_above(tmp_path: Path) -> None:
    out = sealed(tmp_path / "out", "fedavg-s1", "fedcl-s1")
    (out / "fedcl-s1" / "events.jsonl").unlink()
    code, faults = audited(out)
    assert code == 1
    assert faults[str(out)] == ["seal: fedcl-s1/events.jsonl is missing"]


def test_replays_of_several_settings_are_audited_with_the_folder_that_holds_them(tmp_path: Path) -> None:
    for setting in ("slow", "fast"):
        sealed(tmp_path / "out" / setting, "fedavg-s1")
    out = sealed(tmp_path / "out")
    assert audited(out)[0] == 0
    (out / "slow" / "fedavg-s1" / "rounds.jsonl").write_text("{}\n")
    code, faults = audited(out)
    assert code == 1
    assert [name for name, found in faults.items() if found] == [str(out / "slow" / "fedavg-s1")]


@pytest.mark.parametrize("name", ["split.json", "summary.json"])
def test_a_summary_or_a_split_that_is_no_json_is_a_fault_though_it_was_sealed(tmp_path: Path, name: str) -> None:
    for each in ("scenario.yaml", "host.json", "report.html", "split.json", "summary.json"):
        (tmp_path / each).write_text("{}")
    (tmp_path / name).write_text("{")
    seal_results(tmp_path)
    (fault,) = audit_results(tmp_path, {}).faults
    assert fault.startswith(f"form: {tmp_path / name} is not JSON")

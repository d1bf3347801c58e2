"""A file that is gone or unreadable is a fault of its folder, and of no other: the audit goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.__main__ import app
from emulator.audit.results_laws import audit_results
from emulator.record.seal import SEAL, seal_results, seal_run
from tests.conftest import results

FILES = ("events.jsonl", "rounds.jsonl", "work.jsonl")


def sealed(out: Path, *runs: str) -> Path:
    """A folder of replays without rounds, sealed."""
    for run in runs:
        (out / run).mkdir(parents=True)
        for name in FILES:
            (out / run / name).touch()
        seal_run(out / run, "it ended before its first round")
    (out / "replay.json").write_text('{"finished": true}')
    seal_results(out)
    return out


def audited(path: Path) -> tuple[int, dict[str, list[str]]]:
    result = CliRunner().invoke(app, ["audit", str(path), "--format", "json"])
    return result.exit_code, {name: each["faults"] for name, each in json.loads(result.stdout).items()}


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"\xff\n")], ids=["gone", "no text"])
def test_one_unreadable_record_does_not_hide_the_others(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    out = sealed(tmp_path / "out", "fedavg-s1", "fedcl-s1")
    spoil(out / "fedcl-s1" / "rounds.jsonl")
    code, faults = audited(out)
    assert code == 1
    assert [name for name, found in faults.items() if found] == [str(out / "fedcl-s1")]
    kinds = {fault.partition(":")[0] for fault in faults[str(out / "fedcl-s1")]}
    assert kinds == ({"seal", "form"} if (out / "fedcl-s1" / "rounds.jsonl").exists() else {"seal"})


def test_a_run_whose_events_are_gone_is_missed_by_the_folder_above(tmp_path: Path) -> None:
    out = sealed(tmp_path / "out", "fedavg-s1", "fedcl-s1")
    (out / "fedcl-s1" / "events.jsonl").unlink()
    code, faults = audited(out)
    assert code == 1
    assert faults[str(out)] == []  # its own files are sound
    assert faults[str(out / "fedcl-s1")][0] == "seal: events.jsonl is missing"


@pytest.mark.parametrize("left", ["rounds.jsonl", "work.jsonl", SEAL])
def test_one_file_of_a_run_is_enough_to_miss_the_others(tmp_path: Path, left: str) -> None:
    out = sealed(tmp_path / "out", "fedavg-s1", "fedcl-s1")
    run = out / "fedcl-s1"
    for path in run.iterdir():
        if path.name != left:
            path.unlink()
    for folder in (out, run):
        code, faults = audited(folder)
        assert code == 1
        assert any("events.jsonl is missing" in fault for fault in faults[str(run)])


def test_a_run_all_of_whose_files_are_gone_is_missed_by_the_folder_above(tmp_path: Path) -> None:
    out = sealed(tmp_path / "out", "fedavg-s1", "fedcl-s1")
    for path in (out / "fedcl-s1").iterdir():
        path.unlink()
    assert audited(out)[1][str(out)] == ["seal: fedcl-s1/seal.json is missing"]


def test_replays_that_are_finished_must_have_a_seal_and_others_cannot_have_one(tmp_path: Path) -> None:
    out = sealed(tmp_path / "out", "fedavg-s1")
    (out / SEAL).unlink()
    code, faults = audited(out)
    assert (code, len(faults[str(out)])) == (1, 1)
    assert faults[str(out)][0].startswith("seal: seal.json is missing")
    (out / "replay.json").write_text('{"finished": false}')
    assert audited(out)[0] == 0


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


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, played to their ends."""
    changes = {"model": "tests.runs.network:small", "rounds": {"max": 1}, "algorithms": ["fedavg", "fedprox"]}
    return results(tmp_path_factory.mktemp("results") / "out", changes)


@pytest.fixture
def out(ended: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ended, tmp_path / "out"))


def said(path: Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["audit", str(path)])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.slow
def test_a_seal_that_is_missing_above_sealed_runs_was_deleted_or_never_written(out: Path) -> None:
    (out / SEAL).unlink()
    code, shown, reserved = said(out)
    assert code == 1
    assert "seal: seal.json is missing, although all runs have ended and are sealed" in shown
    assert "deleted" in shown
    assert "killed" in shown
    assert "fedlapse diff" in shown
    assert "interrupted" not in reserved
    code, faults = audited(out)
    assert (code, [name for name, found in faults.items() if found]) == (1, [str(out)])


INTERRUPTED: dict[str, Callable[[Path], object]] = {
    "a run is missing": lambda out: shutil.rmtree(out / "fedprox-s1"),
    "a run is not sealed": lambda out: (out / "fedprox-s1" / SEAL).unlink(),
    "the signal came after the last round": lambda out: (out / "summary.json").write_text('{"interrupted": true}'),
}


@pytest.mark.slow
@pytest.mark.parametrize("spoil", INTERRUPTED.values(), ids=INTERRUPTED)
def test_a_folder_whose_runs_have_not_all_ended_has_no_seal_and_no_fault(
    out: Path, spoil: Callable[[Path], object]
) -> None:
    (out / SEAL).unlink()
    spoil(out)
    code, shown, reserved = said(out)
    assert code == 0, shown
    assert f"{out}: no seal: interrupted" in reserved
    shown = CliRunner().invoke(app, ["audit", str(out), "--format", "json"]).stdout
    assert json.loads(shown)[str(out)]["sealed"] is False


def resummed(out: Path, **changes: object) -> list[str]:
    """The faults that the audit finds in a summary that was changed and sealed again."""
    summary = json.loads((out / "summary.json").read_text())
    (out / "summary.json").write_text(json.dumps({**summary, **changes}, indent=1, sort_keys=True) + "\n")
    seal_results(out)
    return audited(out)[1][str(out)]


@pytest.mark.slow
def test_words_of_another_build_are_no_fault_but_its_data_are(out: Path) -> None:
    assert resummed(out, verdict=["Another build says it in other words."]) == []
    assert resummed(out, verdict=5) == ["summary: verdict is 5; it must be a list of strings"]
    (fault,) = resummed(out, verdict=["x"], baseline="fedprox")
    assert fault == "summary: baseline is 'fedprox', but the records say 'fedavg'"


@pytest.mark.slow
def test_a_summary_without_its_verdict_is_a_fault(out: Path) -> None:
    summary = json.loads((out / "summary.json").read_text())
    del summary["verdict"]
    (out / "summary.json").write_text(json.dumps(summary))
    seal_results(out)
    assert audited(out)[1][str(out)][0].startswith("summary: verdict is '(absent)'")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["split.json", "summary.json", "host.json", "fedavg-s1/work.jsonl", "fedavg-s1/rounds.jsonl"]
)
def test_of_a_missing_file_its_folder_has_one_sentence(out: Path, name: str) -> None:
    path = out / name
    path.unlink()
    _, faults = audited(out)
    assert faults[str(path.parent)] == [f"seal: {path.name} is missing"]

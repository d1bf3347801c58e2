"""Replaying or reading a record does not wait for torch, in workers either: its content is not computed again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from emulator.record.run import RUN
from emulator.record.seal import seal_results
from emulator.sessions.computing import Playing
from emulator.sessions.one_scenario import play_scenario
from scenarios.load import build, load
from tests.conftest import SMALL, Done, merged
from tests.runs.in_turn import IN_TURN

pytestmark = pytest.mark.slow

TAUGHT = ["fedavg", {"fedcl": {"interval": 1}}, {"fedcurv": {}}]
BRIEF = ("training.epochs=1", "evaluate.personalise_every=never")
RUNS = ("fedavg-s1", "fedcl-s1", "fedcurv-s1")
CONTINUAL = [
    {"algorithm": "continual", "name": variant, "options": {"variant": variant, "personal": "*.bias"}}
    for variant in ("baseline", "alg0", "alg1", "alg2")
]
DRIFT: dict[str, Any] = {
    "data": {"set": "babble", "split": {"kind": "natural"}, "validation": 0},
    "model": "lstm-tiny",
    "rounds": {"max": 4, "per_cycle": 2, "fraction": 0.5},
}
MAP = ("--uplink", "1..4Mbit/s", "--points", "2", "--target", "all rounds")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds of the quickstart."""
    out: Path = tmp_path_factory.mktemp("quickstart") / "out"
    changes = [f"algorithms={json.dumps(TAUGHT)}", "rounds.max=2", "seeds=[1]", *BRIEF]
    assert play_scenario(load("quickstart", changes), Playing(workers=0, quiet=True, no_ledger=True), out=out).code == 0
    return out


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of algorithms that have a rule of their own for whom a round asks."""
    out: Path = tmp_path_factory.mktemp("chosen") / "out"
    scenario = build(merged(SMALL, {**DRIFT, "algorithms": [*CONTINUAL, IN_TURN], "seeds": [1]}))
    assert play_scenario(scenario, Playing(workers=0, quiet=True, no_ledger=True), out=out).code == 0
    return out


@pytest.fixture
def without_torch(tmp_path: Path) -> Any:
    """The command line in a process that ends, as its workers do, if torch is imported, whatever is caught there."""
    (tmp_path / "no" / "torch").mkdir(parents=True)
    end = "import os\nos.write(2, b'torch is imported')\nos._exit(77)\n"
    (tmp_path / "no" / "torch" / "__init__.py").write_text(end)

    def call(*arguments: object) -> Done:
        path = os.pathsep.join([str(tmp_path / "no"), *filter(None, sys.path)])
        command = [sys.executable, "-m", "emulator", *map(str, arguments)]
        env = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        return Done(done.returncode, done.stdout, done.stderr)

    return call


def test_the_fixture_notices_torch(without_torch: Any, tmp_path: Path) -> None:
    done = without_torch("compare", "quickstart", "--rounds", 1, "--workers", 0, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (77, "torch is imported")


def test_a_replay_needs_no_torch_and_is_the_run_byte_for_byte(record: Path, without_torch: Any, tmp_path: Path) -> None:
    done = without_torch("replay", record, "--workers", 2, "--out", tmp_path / "again")
    assert done.returncode == 0, done.stderr
    for run in RUNS:
        for name in (RUN, "events.jsonl", "rounds.jsonl", "work.jsonl"):
            assert (tmp_path / "again" / run / name).read_bytes() == (record / run / name).read_bytes(), (run, name)


def test_nor_does_one_need_the_algorithm_that_chose_whom_it_asked(
    chosen: Path, without_torch: Any, tmp_path: Path
) -> None:
    done = without_torch("replay", chosen, "--workers", 0, "--out", tmp_path / "again")
    assert done.returncode == 0, done.stderr
    runs = sorted(folder.name for folder in chosen.glob("*-s1"))
    assert runs == ["alg0-s1", "alg1-s1", "alg2-s1", "baseline-s1", "in-turn-s1"]
    for run in runs:
        for name in (RUN, "events.jsonl", "rounds.jsonl", "work.jsonl"):
            assert (tmp_path / "again" / run / name).read_bytes() == (chosen / run / name).read_bytes(), (run, name)
    done = without_torch("map", chosen, *MAP, "--workers", 2, "--out", tmp_path / "map")
    assert done.returncode == 0, done.stderr


def test_among_other_devices_what_it_does_is_not_known(chosen: Path, without_torch: Any, tmp_path: Path) -> None:
    """One device is away from the start: so the replay of the first run that is not drawn ends in round 0."""
    away = [SMALL["fleet"][0], {**SMALL["fleet"][1], "presence": {"off": [[0, 1e6]]}}]
    (tmp_path / "away.yaml").write_text(json.dumps(merged(SMALL, {**DRIFT, "fleet": away})))
    for more in ((), ("--anyway",)):
        done = without_torch("replay", chosen, "--fleet", tmp_path / "away.yaml", *more, "--workers", 0)
        assert done.returncode == 0, done.stderr
        assert "in-turn-s1 is not exact from round 1 on: other devices are online and idle" in done.stdout
        assert "not known" in done.stdout


def test_nor_does_a_replay_on_another_fleet(record: Path, without_torch: Any, tmp_path: Path) -> None:
    done = without_torch("replay", record, "--fleet", "quickstart", "--latency", "80ms", "--out", tmp_path / "again")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["report", "audit", "diff"])
def test_nor_does_what_reads_a_record(chosen: Path, without_torch: Any, tmp_path: Path, command: str) -> None:
    copytree(chosen, out := tmp_path / "out")
    done = without_torch(command, out, *([out] if command == "diff" else []))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_audit_works_out_the_summary_of_own_algorithms_too(
    chosen: Path, without_torch: Any, tmp_path: Path
) -> None:
    copytree(chosen, out := tmp_path / "out")
    said = json.loads((out / "summary.json").read_text())
    said["labels"]["in-turn"]["device_rounds"]["asked"] += 1
    (out / "summary.json").write_text(json.dumps(said))
    seal_results(out)
    done = without_torch("audit", out)
    assert done.returncode == 1
    assert "summary: labels.in-turn.device_rounds.asked is 9, but the records say 8" in done.stdout  # 2 in 4 rounds


@pytest.mark.parametrize("command", ["devices", "papers", "scenarios", "trace synth", "new mine", "--help"])
def test_nor_does_a_list(without_torch: Any, command: str) -> None:
    done = without_torch(*command.split())
    assert (done.returncode, done.stderr) == (0, "")


def test_nor_does_a_map(record: Path, without_torch: Any, tmp_path: Path) -> None:
    done = without_torch("map", record, *MAP, "--workers", 2, "--out", tmp_path / "map")
    assert done.returncode == 0, done.stderr

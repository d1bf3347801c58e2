"""The commands, as a person at the prompt runs them."""

import asyncio
import json
import math
import os
import signal
from pathlib import Path

import pytest

from emulator.record.folders import run_folders
from scenarios.load import build
from tests.conftest import SMALL, audit_run, digests, merged

pytestmark = pytest.mark.slow

SAME = ("events.jsonl", "rounds.jsonl", "final.safetensors")


def files(out):
    """Everything that equal runs must share; host.json is the one file that may differ, and the seal over it."""
    paths = [path for path in out.rglob("*") if path.is_file() and path not in (out / "host.json", out / "seal.json")]
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def test_compare_writes_the_same_bytes_in_this_process_and_in_two_workers(fedlapse, tmp_path):
    for workers in ("0", "2"):
        changes = ("model=tests.runs.network:small", "training.epochs=1", "training.batch=64", "--rounds", "2")
        done = fedlapse("compare", "quickstart", *changes, "--workers", workers, "--out", workers, "--quiet")
        assert done.returncode == 0, done.stderr
    one, two = files(tmp_path / "0"), files(tmp_path / "2")
    assert one.keys() == two.keys()
    assert len([name for name in one if name.endswith(SAME)]) == 3 * 4 * 2  # files x algorithms x seeds
    assert {"scenario.yaml", "summary.json"} <= one.keys()
    assert [name for name in one if one[name] != two[name]] == []
    assert [audit_run(folder) for folder in run_folders(tmp_path / "0")] == [[]] * 8


def test_run_and_audit_speak_of_the_same_folder(fedlapse, tmp_path):
    arguments = ("run", "quickstart", "training.epochs=1", "--algorithm", "fedprox", "--rounds", "2", "--seed", "7")
    done = fedlapse(*arguments, "--workers", "0", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "results: out" in done.stdout
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["labels"].keys() == {"fedprox"}
    audited = fedlapse("audit", "out")
    assert audited.returncode == 0
    assert "2 of 2 folders obey the laws" in audited.stdout
    spoil(tmp_path / "out" / "fedprox-s7" / "rounds.jsonl")
    spoiled = fedlapse("audit", "out/fedprox-s7")
    assert spoiled.returncode == 1
    assert "✗" in spoiled.stdout


def spoil(path: Path) -> None:
    """One more byte in one number."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["bytes"]["up"]["weights"] += 1
    path.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds": {"ask": 99}}, "99 devices are selected"),
        ({"rounds": {"max": 0}}, "rounds.max"),
        ({"roundz": {}}, "roundz"),
        ({"fleet": []}, "fleet"),
        ({"fleet": [{"profile": "toaster", "link": {"up_mbit_s": 1, "down_mbit_s": 1}}]}, "toaster"),
        ({"algorithms": ["fedavgg"]}, "fedavgg"),
        ({"algorithms": [{"fedcl": {"intervall": 2}}]}, "intervall"),
        ({"algorithms": ["fedavg", "fedavg"]}, "name already"),
        ({"model": "resnet"}, "resnet"),
        ({"model": "mlp"}, "(1, 28, 28)"),
        ({"training": {"lr": -1}}, "training.lr"),
        ({"algorithms": [{"fedcl": 5}]}, "are a mapping"),
        ({"algorithms": [{"fedavg": {"training": {"batch": 0}}}]}, "batch"),
        ({"algorithms": [{"fedavg": {"training": 5}}]}, "must be a mapping"),
        ({"algorithms": [{"fedprox": {"mu": math.nan}}]}, "mu"),
        ({"algorithms": [{"fedprox": {"mu": 1e300}}]}, "1e+300"),
        ({"algorithms": [{"fedcurv": {"strength": "0.5"}}]}, "strength"),
        ({"algorithms": [{"fedavg": {}, "name": "../../evil"}]}, "evil"),
        ({"algorithms": [{"fedavg": {}, "name": "[/b]x"}]}, "[/b]x"),
        ({"rounds": {"stop_at": {"value": 0.9}}, "data": {"validation": 0}}, "can never be seen"),
        ({"rounds": {"targets": [{"value": 0.9}]}, "evaluate": {"every": 0}}, "can never be seen"),
        ({"rounds": {"deadline_s": math.nan}}, "deadline_s"),
        ({"server": {"link": {"up_mbit_s": 1e308, "down_mbit_s": 1}}}, "up_mbit_s"),
        ({"data": {"proxy": {"fraction": 1, "overlap": False}}}, "too few for 4 devices"),
        ({"data": {"set": "mnist", "root": "nowhere"}}, "nowhere"),
        ({"data": {"split": {"kind": "dirichlet"}}}, "alpha"),
        ({"fleet": [{"profile": "pi-4", "count": 2000, "link": {"up_mbit_s": 1, "down_mbit_s": 1}}]}, "2000"),
    ],
)
def test_a_bad_scenario_is_one_message_with_its_place_and_exit_code_2(fedlapse, tmp_path, change, words):
    link = {"up_mbit_s": 8, "down_mbit_s": 8}
    scenario = {"name": "bad", "fleet": [{"profile": "pi-4", "count": 4, "link": link}], **change}
    (tmp_path / "bad.yaml").write_text(json.dumps(scenario))
    done = fedlapse("compare", "bad.yaml", "--workers", "0")
    assert done.returncode == 2
    assert words in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1 or (len(lines) == 3 and lines[2].strip("| ") == "^")  # the message; the line, and a caret
    assert not (tmp_path / "runs").exists()


def test_a_second_run_does_not_write_over_the_first(fedlapse, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    done = fedlapse("compare", "quickstart", "--out", "out", "--rounds", "1")
    assert done.returncode == 2
    assert "give a new folder" in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_seeds_are_played_one_after_another_so_that_a_stop_leaves_some_whole(tmp_path, monkeypatch, capsys):
    """Two algorithms, three seeds; Ctrl-C comes as the second seed has begun."""
    from emulator.commands.conclude import concluded
    from emulator.commands.options import Format
    from emulator.sessions import session
    from emulator.sessions.computing import Playing
    from emulator.sessions.one_scenario import play_scenario

    begun, real, alone = [], session.run_virtual, Playing(workers=0, quiet=True, no_ledger=True)

    async def noted(lab, run, *rest):
        begun.append(run.name)
        if run.name == "fedavg-s2":
            os.kill(os.getpid(), signal.SIGINT)
        if run.seed == 2:
            await asyncio.sleep(0.1)  # the loop hears it meanwhile
        return await real(lab, run, *rest)

    changes = {"algorithms": ["fedavg", "fedprox"], "seeds": [1, 2, 3], "rounds": {"max": 3}}
    scenario, out = build(merged(SMALL, changes)), tmp_path / "out"
    monkeypatch.setattr(session, "run_virtual", noted)
    assert concluded(play_scenario(scenario, alone, out=out), Format.text) == 130
    assert begun[:2] == ["fedavg-s1", "fedprox-s1"]
    assert {name for name in begun if name.endswith("-s3")} == set()
    for label in ("fedavg", "fedprox"):
        assert len((out / f"{label}-s1" / "rounds.jsonl").read_text().splitlines()) == 3
    assert capsys.readouterr().out.startswith("Interrupted after 0 to 3 rounds: these are not final results\n")
    assert [audit_run(folder) for folder in run_folders(out)] == [[]] * len(run_folders(out))
    monkeypatch.setattr(session, "run_virtual", real)
    assert play_scenario(scenario, alone, out=out).code == 0
    resumed = digests(out)
    out.rename(tmp_path / "resumed")
    assert play_scenario(scenario, alone, out=out).code == 0  # the same folder, as the report names it
    assert resumed == digests(out)

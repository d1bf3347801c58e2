"""Asynchronous runs are the same byte for byte, however they are played: with workers, and after they were killed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from emulator.record.folders import run_folders
from emulator.record.lines import read_lines
from emulator.record.record import FILES
from scenarios.load import build, dump
from tests.conftest import SMALL, audit_run, digests, merged
from tests.runs.nets import DENSE

pytestmark = pytest.mark.slow

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 20}
ROUNDS = {"rounds": {"mode": "async", "buffer": 2, "in_flight": 4}}
RUNS: dict[str, Any] = {
    "model": DENSE,
    "seeds": [1],
    "rounds": {"max": 4},
    "fleet": [
        {"profile": "phone-mid", "count": 3, "link": LINK, "presence": {"off": [[0.1, 0.2], [0.3, 0.4]]}},
        {"profile": "pi-4", "count": 3, "link": {**LINK, "up_mbit_s": 1}},
    ],
    "algorithms": [
        {"fedbuff": ROUNDS},
        {"fedcurv": {"strength": 0.05, **ROUNDS}},
        {"fedcl": {"strength": 1.0, "interval": 2, "fallback": "catch_up", **ROUNDS}},
    ],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs, played without workers, with a ledger beside them."""
    return made(tmp_path_factory.mktemp("whole"), 0)


def made(folder: Path, workers: int, *words: object) -> Path:
    """The results of RUNS in folder/out, or of what is resumed there."""
    from typer.testing import CliRunner

    from emulator.__main__ import app
    from emulator.report import page

    (folder / "s.yaml").write_text(dump(build(merged(SMALL, RUNS))))
    said = words or ("compare", folder / "s.yaml", "--out", folder / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "page", lambda results: "a page")
        told = [str(word) for word in (*said, "-q", "--workers", workers, "--ledger", folder / "ledger")]
        done = CliRunner().invoke(app, told, prog_name="fedlapse")
    assert done.exit_code == 0, done.output
    return folder / "out"


def test_they_obey_the_laws_and_have_stale_and_lost_replies(whole: Path) -> None:
    folders = run_folders(whole)
    assert [audit_run(folder) for folder in folders] == [[], [], []]
    for folder in folders:
        rows = list(read_lines(folder / "rounds.jsonl"))
        assert any(set(row["staleness"]) - {"0"} for row in rows)
        assert any(row["lost"] for row in rows)


@pytest.mark.parametrize("workers", [1, 2])
def test_with_workers_they_are_the_same_bytes(whole: Path, tmp_path: Path, workers: int) -> None:
    assert digests(made(tmp_path, workers)) == digests(whole)


@pytest.mark.parametrize(("share", "workers"), [(0.15, 0), (0.5, 2), (0.85, 0)])
def test_after_a_kill_they_are_the_same_bytes(whole: Path, tmp_path: Path, share: float, workers: int) -> None:
    """A kill leaves the beginning of each file, perhaps within a line; here each run has another share of it."""
    out = tmp_path / "out"
    shutil.copytree(whole.parent, tmp_path, dirs_exist_ok=True)
    for folder, shorter in zip(run_folders(out), (1.0, 0.9, 0.7), strict=True):
        for path in (folder / name for name in FILES):
            data = path.read_bytes()
            path.write_bytes(data[: int(share * shorter * len(data))])
        for name in ("seal.json", "final.safetensors"):
            (folder / name).unlink()
    for path in [path for path in out.iterdir() if path.is_file() and path.name != "scenario.yaml"]:
        path.unlink()
    made(tmp_path, workers, "resume", out)
    assert digests(out) == digests(whole)

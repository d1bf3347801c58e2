"""The scenario as its user wrote it: in the record and under its seal, and left alone by `resume`."""

import json

import pytest
from typer.testing import CliRunner

from emulator.__main__ import app
from tests.conftest import SMALL, digests

pytestmark = pytest.mark.slow


def fedlapse(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def test_the_users_file_is_in_the_record_and_resume_leaves_it_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("emulator.report.page.page", lambda results: "a page")
    mine, out = tmp_path / "mine.yaml", tmp_path / "out"
    mine.write_text(f"# my own words\n{json.dumps(SMALL)}\n")
    ledger = ("--ledger", tmp_path / "ledger", "--workers", 0, "--quiet")
    played = fedlapse("compare", mine, "training.lr=0.05", "--out", out, *ledger)
    assert played.exit_code == 0, played.output
    assert (out / "given.yaml").read_bytes() == mine.read_bytes()
    assert json.loads((out / "changes.json").read_text()) == ["training.lr=0.05"]
    whole = digests(out)
    (out / "seal.json").unlink()
    assert fedlapse("resume", out, *ledger).exit_code == 0
    assert digests(out) == whole
    assert fedlapse("audit", out).exit_code == 0
    (out / "given.yaml").write_text("# another")
    damaged = fedlapse("audit", out)
    assert damaged.exit_code == 1
    assert "given.yaml is not as it was sealed" in damaged.output

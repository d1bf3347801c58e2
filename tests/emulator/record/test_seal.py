"""A seal tells what is not as it was; renewing an entry mends nothing else; without an end there is none."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from emulator.record.seal import SEAL, broken, damage, read_seal, renew, seal_results, seal_run


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder of one run, sealed, with a file of somebody else in it."""
    run = tmp_path / "fedavg-s1"
    run.mkdir()
    for name in ("events.jsonl", "rounds.jsonl", "work.jsonl", "final.safetensors"):
        (run / name).write_text(f"{name}\n")
    for name in ("scenario.yaml", "summary.json", "report.html", "notes.txt"):
        (tmp_path / name).write_text(f"{name}\n")
    seal_run(run)
    seal_results(tmp_path)
    return tmp_path


def test_a_seal_holds_what_sha256sum_prints(out: Path) -> None:
    for folder in (out, out / "fedavg-s1"):
        said = json.loads((folder / SEAL).read_text())["files"]
        printed = subprocess.run(["sha256sum", *said], cwd=folder, capture_output=True, text=True, check=True).stdout
        assert {line.split()[1]: line.split()[0] for line in printed.splitlines()} == said
    assert [*json.loads((out / SEAL).read_text())["files"]] == [
        *("fedavg-s1/seal.json", "report.html", "scenario.yaml", "summary.json")
    ]


def test_an_untouched_folder_is_whole_and_files_of_others_may_change(out: Path) -> None:
    (out / "notes.txt").write_text("mine")
    assert damage(out) == []


def test_each_file_that_changed_or_is_gone_is_named(out: Path) -> None:
    (out / "fedavg-s1" / "rounds.jsonl").write_text("rounds.jsonl")
    (out / "scenario.yaml").unlink()
    assert damage(out) == ["scenario.yaml is missing", "fedavg-s1/rounds.jsonl is not as it was sealed"]


def test_a_page_that_is_made_again_is_sealed_again_and_nothing_else_is(out: Path) -> None:
    (out / "report.html").write_text("another")
    (out / "summary.json").write_text("{}")
    renew(out, ["report.html", "map.json"])
    assert broken(out) == ["summary.json is not as it was sealed"]


def test_a_report_in_another_form_is_a_file_of_its_reader(out: Path) -> None:
    """He may go on writing in report.md; nor does a page vouch for a summary that --force has overwritten."""
    for name in ("report.md", "summary.json"):
        (out / name).write_text("made by fedlapse report")
    renew(out, ["report.md", "summary.json"])
    (out / "report.md").write_text("with a remark")
    assert broken(out) == ["summary.json is not as it was sealed"]


def test_a_folder_without_a_seal_gets_none_from_a_page(out: Path) -> None:
    (out / SEAL).unlink()
    renew(out, ["report.html"])
    assert not (out / SEAL).exists()
    assert damage(out) == []


def test_a_run_that_is_sealed_anew_breaks_the_seal_above_it(out: Path) -> None:
    (out / "fedavg-s1" / "rounds.jsonl").write_text("forged")
    seal_run(out / "fedavg-s1")
    assert damage(out) == ["fedavg-s1/seal.json is not as it was sealed"]


@pytest.mark.parametrize("digest", [5, None, "", "0" * 64])
def test_what_is_no_digest_of_a_file_is_not_as_it_was_sealed(out: Path, digest: object) -> None:
    text = json.dumps({"files": {"events.jsonl": digest}}, indent=1) + "\n"
    (out / "fedavg-s1" / SEAL).write_text(text)
    assert broken(out / "fedavg-s1") == ["events.jsonl is not as it was sealed"]


def test_a_file_that_is_due_and_not_in_the_seal_is_named(out: Path) -> None:
    assert broken(out, due=["report.html", "host.json"]) == ["host.json is not in the seal"]


def test_why_a_run_failed_is_sealed_too(out: Path) -> None:
    seal_run(out / "fedavg-s1", "too few replies")
    sealed = read_seal(out / "fedavg-s1")
    assert sealed
    assert sealed.failure == "too few replies"


SPOILED = {
    "nothing": "",
    "no object": "[]",
    "no files": "{}",
    "a path that leads out": json.dumps({"files": {"../secret": hashlib.sha256(b"").hexdigest()}}, indent=1) + "\n",
    "a list": json.dumps({"files": [["events.jsonl", hashlib.sha256(b"").hexdigest()]]}, indent=1) + "\n",
    "too deep": "[" * 100_000,
    "failure is no text": json.dumps({"failure": 5, "files": {}}, indent=1) + "\n",
}


@pytest.mark.parametrize("text", SPOILED.values(), ids=SPOILED)
def test_a_damaged_seal_is_damage(out: Path, text: str) -> None:
    (out / "fedavg-s1" / SEAL).write_text(text)
    with pytest.raises(ValueError, match="seal.json is not as"):
        read_seal(out / "fedavg-s1")
    assert "fedavg-s1/seal.json is not as fedlapse writes it" in damage(out)
    seal_before = (out / "fedavg-s1" / SEAL).read_text()
    renew(out / "fedavg-s1", ["events.jsonl"])
    assert (out / "fedavg-s1" / SEAL).read_text() == seal_before

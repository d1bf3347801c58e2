"""One number for what equal runs share: any byte of it changes the number, and nothing else does."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from emulator.record.digest import FILES, digest, twin


def left(out: Path, **changes: bytes) -> Path:
    """A folder as `compare` leaves it, two runs in it."""
    for run in ("fedavg-s1", "fedcl-s1"):
        (out / run).mkdir(parents=True)
        for name in FILES:
            (out / run / name).write_bytes(f"{run} {name}\n".encode())
    (out / "scenario.yaml").write_bytes(b"name: small\n")
    return out


def summary(folder: Path, said: object, age: float = 0.0) -> Path:
    """A folder with a summary that says this digest, written `age` seconds before the year 2000."""
    folder.mkdir(exist_ok=True)
    (folder / "summary.json").write_text(json.dumps({"digest": said, "labels": {}}))
    os.utime(folder / "summary.json", (946_684_800 - age,) * 2)
    return folder


def test_the_digest_is_as_documented(tmp_path: Path) -> None:
    out = left(tmp_path / "out")
    names = ["scenario.yaml", *(f"{run}/{name}" for run in ("fedavg-s1", "fedcl-s1") for name in FILES)]
    printed = subprocess.run(["sha256sum", *names], cwd=out, capture_output=True, check=True).stdout
    assert digest(out) == hashlib.sha256(printed).hexdigest()


def test_equal_folders_have_equal_digests_wherever_they_lie(tmp_path: Path) -> None:
    assert digest(left(tmp_path / "a")) == digest(left(tmp_path / "else" / "b"))


@pytest.mark.parametrize("file", ["scenario.yaml", *(f"fedcl-s1/{name}" for name in FILES)])
def test_every_file_counts(tmp_path: Path, file: str) -> None:
    out = left(tmp_path / "out")
    before = digest(out)
    whole = (out / file).read_bytes()
    for spoiled in (whole[:-1], whole + b"\n", bytes([whole[0] ^ 1]) + whole[1:], None):
        if spoiled is not None:
            (out / file).write_bytes(spoiled)
        elif file != "scenario.yaml":
            (out / file).unlink()
        else:
            continue
        assert digest(out) != before


def test_bytes_cannot_move_from_one_file_into_the_next(tmp_path: Path) -> None:
    out = left(tmp_path / "out")
    before = digest(out)
    events, rounds = (out / "fedcl-s1" / name for name in FILES[:2])
    whole = events.read_bytes() + rounds.read_bytes()
    events.write_bytes(whole[:5])
    rounds.write_bytes(whole[5:])
    assert digest(out) != before


def test_a_run_of_another_name_is_another(tmp_path: Path) -> None:
    out = left(tmp_path / "out")
    before = digest(out)
    (out / "fedcl-s1").rename(out / "fedcl-s2")
    assert digest(out) != before


def test_what_may_differ_between_equal_runs_is_no_part(tmp_path: Path) -> None:
    out = left(tmp_path / "out")
    before = digest(out)
    for name in ("host.json", "summary.json", "report.html", "fedcl-s1/notes.txt"):
        (out / name).write_text("anything")
    (out / "plots").mkdir()
    (out / "plots" / "rounds.jsonl").write_text("no run: it has no events")
    assert digest(out) == before


def test_a_folder_without_a_scenario_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no scenario.yaml"):
        digest(tmp_path)


# --- twins ------------------------------------------------------------------------------------------------------


def test_the_twin_is_the_newest_older_folder_with_the_same_digest(tmp_path: Path) -> None:
    summary(tmp_path / "run-1", "same", age=30)
    summary(tmp_path / "run-2", "same", age=20)
    summary(tmp_path / "run-3", "other", age=10)
    out = tmp_path / "run-4"
    out.mkdir()  # has no summary yet
    assert twin(out, "same") == tmp_path / "run-2"
    assert twin(out, "third") is None
    summary(out, "same", age=25)
    assert twin(out, "same") == tmp_path / "run-1"


def test_a_folder_is_not_its_own_twin(tmp_path: Path) -> None:
    out = summary(tmp_path / "run-1", "same")
    assert twin(out, "same") is None
    (tmp_path / "link").symlink_to(out)
    assert twin(out, "same") is None


def test_a_twin_of_a_relative_folder_is_named_as_that_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary(tmp_path / "run-1", "same", age=1)
    out = summary(tmp_path / "run-2", "same")
    monkeypatch.chdir(tmp_path)
    assert twin(Path("run-2"), "same") == Path("run-1")
    monkeypatch.chdir(out)
    assert twin(Path(), "same") == tmp_path / "run-1"


def test_damaged_folders_beside_it_are_passed_over(tmp_path: Path) -> None:
    for number, content in enumerate([b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"digest": ["same"]}', b"null"]):
        folder = summary(tmp_path / f"bad-{number}", "same")
        (folder / "summary.json").write_bytes(content)
    summary(tmp_path / "good", "same", age=1000)
    (tmp_path / "a-file").write_text("same")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder-for-file").mkdir()
    (tmp_path / "folder-for-file" / "summary.json").mkdir()
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "summary.json")
    (tmp_path / "out").mkdir()
    assert twin(tmp_path / "out", "same") == tmp_path / "good"
    shutil.rmtree(tmp_path / "good")
    assert twin(tmp_path / "out", "same") is None
    assert twin(tmp_path / "gone" / "out", "same") is None

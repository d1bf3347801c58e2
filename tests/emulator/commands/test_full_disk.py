"""A disk that is full, at any time: the table is shown, one line says what is missing, and what is there is whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulator.record.lines import read_lines
from emulator.replay.script import read_script
from tests.all_of import all_of
from tests.conftest import digests

Mount = Callable[[str], Path]
RUNS = ("fedavg-s1", "fedcurv-s1")
ARGUMENTS = ("compare", "quickstart", "--rounds", "3", "--seed", "1", "--workers", "0", "--quiet")
CHANGES = ("algorithms=[fedavg, fedcurv]", "training.epochs=1", "training.batch=64", "evaluate.personalise_every=never")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a disk in memory with such options."""
    place = tmp_path / "disk"
    place.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")

    def mounted(options: str) -> Path:
        done = mount and subprocess.run([mount, "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=False)
        if not done or done.returncode:
            pytest.skip("NO FULL DISK: a tmpfs cannot be mounted here, which takes root on Linux")
        return place

    yield mounted
    if umount and place.is_mount():
        subprocess.run([umount, str(place)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "missing", "rounds"),
    [
        ("20k", {"summary.json", "report.html"}, (0, 0)),  # scenario, code, split and a run.json fit
        ("84k", {"fedavg-s1/final.safetensors", "fedcurv-s1/final.safetensors", "report.html"}, (3, 3)),
        ("400k", {"fedcurv-s1/final.safetensors", "report.html"}, (3, 3)),  # a model takes 212,608 bytes
        ("500k", {"report.html"}, (3, 3)),
    ],
)
def test_a_full_disk_costs_what_does_not_fit_and_nothing_else(fedlapse, disk, monkeypatch, size, missing, rounds):
    monkeypatch.setattr("emulator.report.page.page", lambda results: "a page " * 100_000)  # as long as a real one
    out = disk(f"size={size}") / "out"
    done = fedlapse(*ARGUMENTS, *CHANGES, "--out", out)
    assert done.returncode == 1
    assert "At the end" in done.stdout  # the table
    assert "report.html" not in done.stdout
    said = [line for line in done.stderr.splitlines() if "no space left on the disk" in line]
    assert len(said) == 1
    assert list(out.rglob("*.partial")) == []
    for name in missing:
        assert not (out / name).exists()
        assert name in said[0]
    for run, number in zip(RUNS, rounds, strict=True):
        assert len(list(read_lines(out / run / "rounds.jsonl"))) == number
        assert (f"{run} ends after" in said[0]) == (number < 3)
        if number == 3:
            assert len(read_script(out / run).rounds) == 3
    for name in ("summary.json", "host.json"):
        if (out / name).exists():
            json.loads((out / name).read_text())
    assert done.stderr.splitlines()[-1].endswith(f": fedlapse resume {out}")
    assert "fedlapse report" not in done.stderr
    subprocess.run(["mount", "-o", "remount,size=100m", str(out.parent)], check=True)
    assert fedlapse("resume", out, "--workers", 0, "--quiet").returncode == 0
    audited = fedlapse("audit", out)
    assert (audited.returncode, audited.stderr) == (0, "")


@pytest.mark.slow
def test_a_run_that_was_cut_short_by_a_full_disk_says_so(fedlapse, disk):
    out = disk("size=284k") / "out"  # the first model fits, the second record does not
    done = fedlapse(*ARGUMENTS, *CHANGES, "--out", out)
    assert done.returncode == 1
    assert "Some runs ended early (fedcurv)." in done.stdout
    recorded = len(list(read_lines(out / "fedcurv-s1" / "rounds.jsonl")))
    assert recorded < 3
    assert f"fedcurv-s1 ends after {recorded} round" in done.stderr


@pytest.mark.slow
def test_a_disk_without_room_for_the_scenario_is_told_before_anything_is_played(fedlapse, disk):
    place = disk("size=4k")
    (place / "full").write_bytes(bytes(4096))
    done = fedlapse(*ARGUMENTS, *CHANGES, "--out", place / "out")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no space left on the disk" in done.stderr
    assert list(place.rglob("*.partial")) == []


@pytest.mark.slow
def test_a_read_only_disk_is_told_in_one_line_without_the_systems_number(fedlapse, disk):
    place = disk("ro")
    for arguments in (
        (*ARGUMENTS, *CHANGES, "--out", place / "out"),
        ("trace", "synth", "wifi", "-o", place / "w.csv"),
    ):
        done = fedlapse(*arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "the file system is read-only" in done.stderr
        assert "Errno" not in done.stderr


@pytest.mark.parametrize("below", ["", "new"])
def test_an_out_that_is_a_file_is_told_in_one_line_without_the_systems_number(fedlapse, tmp_path, below):
    (tmp_path / "afile").write_text("mine")
    done = fedlapse(*ARGUMENTS, *CHANGES, "--out", tmp_path / "afile" / below)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "give a folder" in done.stderr
    assert "Errno" not in done.stderr
    assert (tmp_path / "afile").read_text() == "mine"


@pytest.mark.slow
def test_all_files_of_a_run_have_one_mode_that_of_the_umask(fedlapse, tmp_path):
    before = os.umask(0o027)
    try:
        assert fedlapse(*ARGUMENTS, *CHANGES, "rounds.max=1", "--out", tmp_path / "out").returncode == 0
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*") if path.is_file()} == {0o640}


@pytest.mark.slow
def test_a_full_disk_under_the_ledger_changes_no_result_and_is_told(fedlapse, disk, tmp_path):
    place, files = disk("size=80k"), ("events.jsonl", "rounds.jsonl", "final.safetensors")
    said = {f"{place}/ledger: 64 MB must stay free; models are not kept", "not all that is computed is remembered"}
    assert fedlapse(*ARGUMENTS, *CHANGES, "--out", tmp_path / "plain", "--no-ledger").returncode == 0
    done = fedlapse(*ARGUMENTS, *CHANGES, "--out", tmp_path / "out", "--ledger", place / "ledger")
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if str(place) in line]
    assert {words for words in said if any(words in line for line in lines)} == said
    assert all_of(any(words in line for words in said) for line in lines)
    for run, name in ((run, name) for run in RUNS for name in files):
        assert (tmp_path / "out" / run / name).read_bytes() == (tmp_path / "plain" / run / name).read_bytes()


@pytest.mark.slow
def test_where_a_ledger_cannot_be_made_a_line_says_so_and_everything_is_trained(fedlapse, disk, tmp_path):
    place = disk("ro")
    done = fedlapse(*ARGUMENTS, *CHANGES, "--out", tmp_path / "out", "--ledger", place / "ledger")
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if "ledger" in line] == [
        f"fedlapse: no ledger: {place / 'ledger'}: the file system is read-only; everything is trained again"
    ]


@pytest.mark.slow
def test_a_read_only_ledger_gives_what_it_has_and_a_line_says_that_nothing_is_added(fedlapse, disk, tmp_path):
    place = disk("size=100m")
    ledger = place / "ledger"
    words = ("compare", "algorithms=[fedavg]", "training.epochs=1", "--seed", 1, "--quiet", "--workers")
    assert fedlapse(*words, 0, "--rounds", 1, "--out", tmp_path / "one", "--ledger", ledger).returncode == 0
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    before = listed(place)
    done = fedlapse(*words, 1, "--rounds", 2, "--out", tmp_path / "two", "--ledger", ledger)
    said = f"fedlapse: {ledger}: the file system is read-only; the ledger is only read, and nothing is added to it\n"
    assert (done.returncode, done.stderr) == (0, said)
    # 5 devices in each of two rounds, and after the last all 16 for their own accuracy
    assert " 5 of 26 device-rounds from the ledger, 21 computed\n" in done.stdout
    stats = fedlapse("ledger", "stats", "--ledger", ledger)
    assert (stats.returncode, stats.stderr) == (0, said)
    assert ["train", "5", "results"] in [line.split() for line in stats.stdout.splitlines()]
    done = fedlapse("ledger", "verify", "--fraction", 0.2, "--workers", 0, "--ledger", ledger)
    assert (done.returncode, done.stderr) == (0, said)
    assert listed(place) == before
    done = fedlapse("ledger", "gc", "--ledger", ledger)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "the file system is read-only" in done.stderr
    assert fedlapse(*words, 0, "--rounds", 2, "--out", tmp_path / "plain", "--no-ledger").returncode == 0
    assert digests(tmp_path / "two") == digests(tmp_path / "plain")


def listed(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.slow
def test_what_a_full_disk_has_cut_short_is_resumed_when_there_is_room(fedlapse, disk, tmp_path):
    out = disk("size=276k") / "out"
    done = fedlapse(*ARGUMENTS, *CHANGES, "--out", out, "--ledger", tmp_path / "ledger")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.endswith(f"fedlapse resume {out} --ledger {tmp_path / 'ledger'}")
    subprocess.run(["mount", "-o", "remount,size=100m", str(out.parent)], check=True)
    assert fedlapse("resume", out, "--workers", 0, "--quiet", "--ledger", tmp_path / "ledger").returncode == 0
    plain = tmp_path / "plain"
    assert fedlapse(*ARGUMENTS, *CHANGES, "--out", plain, "--no-ledger").returncode == 0
    for path in plain.rglob("*"):
        if path.is_file() and path.name not in ("host.json", "code.json", "seal.json"):
            assert (out / path.relative_to(plain)).read_bytes() == path.read_bytes(), path


@pytest.mark.slow
@pytest.mark.parametrize(("size", "of_ledger"), [("100k", "database or disk is full"), ("300k", "must stay free")])
def test_where_results_and_ledger_share_a_full_disk_lines_say_so_and_the_runs_go_on_later(
    fedlapse, disk, tmp_path, size, of_ledger
):
    place = disk(f"size={size}")
    out, ledger = place / "out", place / "ledger"
    done = fedlapse(*ARGUMENTS, *CHANGES, "--out", out, "--ledger", ledger)
    assert done.returncode == 1
    said = done.stderr.splitlines()
    assert [line for line in said if not line.startswith("fedlapse: ")] == []
    assert any(line.startswith(f"fedlapse: {ledger}") and of_ledger in line for line in said)
    assert len([line for line in said if line.startswith(f"fedlapse: {out}: no space left on the disk; ")]) == 1
    assert said[-1].endswith(f"fedlapse resume {out} --ledger {ledger}")
    subprocess.run(["mount", "-o", "remount,size=100m", str(place)], check=True)
    assert fedlapse("resume", out, "--workers", 0, "--quiet", "--ledger", ledger).returncode == 0
    assert fedlapse(*ARGUMENTS, *CHANGES, "--out", tmp_path / "plain", "--no-ledger").returncode == 0
    assert digests(out) == digests(tmp_path / "plain")
    assert [path for path in ledger.rglob("*") if "draft" in path.name or path.parent.name in ("live", "left")] == []

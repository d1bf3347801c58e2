"""When memory runs out, one line says which memory and what to do, and no computed result is lost."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.compute import workers
from emulator.compute.workers import Gone, WorkerPool, why_broken
from emulator.report import drawing

ROOT = Path(__file__).parents[3]
BRIEF = ("training.epochs=1", "evaluate.personalise_every=never")
SHORT = ("compare", "quickstart", "algorithms=[fedavg]", "--rounds", "1", "--seed", "1", "--quiet", *BRIEF)


def test_locks_that_cannot_be_made_are_told_with_their_place_and_what_needs_none(monkeypatch):
    def lock():
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(workers.CONTEXT, "SimpleQueue", lock)
    with pytest.raises(Gone) as gone:
        WorkerPool(2, [], print)
    assert why_broken(gone.value) == (
        "/dev/shm, which workers need for locks: the file system is read-only; make room there, let it be written to, "
        "or use --workers 0"
    )


def test_too_many_open_files_are_not_taken_for_that(monkeypatch):
    def lock():
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(workers.CONTEXT, "SimpleQueue", lock)
    with pytest.raises(OSError, match="Too many open files"):
        WorkerPool(2, [], print)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 0])
def test_a_dev_shm_that_cannot_be_written_to_stops_workers_only(tmp_path, count):
    unshare = shutil.which("unshare")
    mounted = "mount -t tmpfs -o ro tmpfs /dev/shm"
    if not unshare or subprocess.run([unshare, "-m", "sh", "-c", mounted], check=False).returncode:
        pytest.skip("NO MOUNTS: /dev/shm cannot be mounted anew here, which takes root on Linux")
    words = [sys.executable, "-m", "emulator", *SHORT, "--workers", str(count), "--out", str(tmp_path / "out")]
    script = f'{mounted} && exec "$@"'
    done = subprocess.run(
        [unshare, "-m", "sh", "-c", script, "sh", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if count:
        assert done.returncode == 1
        first, advice = done.stderr.splitlines()
        assert first.startswith("fedlapse: /dev/shm, which workers need for locks: the file system is read-only; ")
        assert "--workers 0" in first
        assert advice.startswith("fedlapse: to go on")
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_where_the_library_that_draws_gets_no_memory_all_but_the_page_is_there(tmp_path):
    """V8 reserves more than 100 GB of addresses, and ends the process where it may not."""
    out = tmp_path / "out"
    words = [sys.executable, "-m", "emulator", *SHORT, "--workers", "0", "--out", str(out)]
    limited = ["sh", "-c", 'ulimit -v 30000000 && exec "$@"', "sh"]
    done = subprocess.run([*limited, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert (
        f"fedlapse: {out}: not enough memory can be had; raise `ulimit -v`; not written: report.html; summary.json"
        in (done.stderr)
    )
    assert done.stderr.splitlines()[-1].endswith(f"fedlapse resume {out}")
    assert set(json.loads((out / "summary.json").read_text())["labels"]) == {"fedavg"}
    words = [sys.executable, "-m", "emulator", "report", str(out)]
    done = subprocess.run([*limited, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "fedlapse: charts: not enough memory can be had; raise `ulimit -v`",
    )


def test_without_a_limit_nothing_is_tried(monkeypatch):
    def run(*_, **__):
        raise AssertionError

    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(subprocess, "run", run)
    drawing._library.cache_clear()
    assert drawing.svg({"mark": "point", "data": {"values": []}}).startswith("<svg")


@pytest.mark.parametrize("error", [MemoryError(), ImportError("failed to map segment from shared object")])
def test_a_page_for_which_there_is_no_memory_is_told_like_a_full_disk(monkeypatch, fedlapse, tmp_path, error):
    def page(_):
        raise error

    monkeypatch.setattr("emulator.report.page.page", page)
    from emulator.sessions.ending import _page

    with pytest.raises(OSError) as raised:  # noqa: PT011
        _page(results_of_nothing(tmp_path), "{}")
    assert raised.value.errno == errno.ENOMEM


def results_of_nothing(folder):
    from emulator.results.results import Results

    return Results(folder, None, "", {}, {}, None, {})

import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from emulator.compute.ready import FORKS, IMPORTED
from emulator.compute.workers import Gone, WorkerPool

CODE = """
from pathlib import Path
from emulator.compute.workers import WorkerPool

pool = WorkerPool(1, ["colorsys"], repr)
print(pool.submit(Path.read_text, Path("/proc/self/cmdline")).result().count("forkserver"))
pool.close()
"""
forked = pytest.mark.skipif(not FORKS, reason="WORKERS ARE SPAWNED: nothing is imported once here")


def run(folder, temporary):
    """The output of a program that has a worker, run with a temporary folder."""
    program = folder / "program.py"
    program.write_text(CODE)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-P", program], cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@forked
@pytest.mark.slow
def test_nothing_is_imported_from_the_folder_where_the_user_is(tmp_path):
    (tmp_path / "colorsys.py").write_text("open('caught', 'w')")
    assert run(tmp_path, tmp_path) == "1\n"
    assert not (tmp_path / "caught").exists()


@forked
@pytest.mark.slow
def test_the_path_of_the_temporary_folder_may_be_long(tmp_path):
    deep = tmp_path / ("deep" * 50)
    deep.mkdir()
    assert run(tmp_path, deep) == "1\n"


def there(module):
    return module in sys.modules


def environment():
    return dict(os.environ)


def nothing(place):
    pass


@pytest.fixture
def pool():
    with closing(WorkerPool(1, IMPORTED, nothing)) as workers:
        yield workers


@forked
def test_what_is_imported_once_is_there_in_each_worker(pool):
    assert pool.submit(there, "torch").result()


def test_workers_have_the_environment_of_the_moment_in_which_they_are_made(monkeypatch):
    monkeypatch.setenv("SAID", "now")
    with closing(WorkerPool(1, IMPORTED, nothing)) as pool:
        assert pool.submit(environment).result() == dict(os.environ)


def writes(place, folder):
    (folder / f"{os.getpid()} {place}").touch()


def test_all_workers_are_there_at_once_and_each_has_its_place(tmp_path):
    with closing(WorkerPool(3, IMPORTED, writes, tmp_path, places=("here", "there"))) as pool:
        numbers = {str(worker.pid) for worker in pool.workers}
        for _ in range(300):
            if len(came := [path.name.split() for path in tmp_path.iterdir()]) == 3:
                break
            time.sleep(0.01)
    assert {number for number, _ in came} == numbers
    assert sorted(place for _, place in came) == ["here", "here", "there"]


@forked
def test_where_what_they_are_forked_from_dies_meanwhile_there_are_no_workers(monkeypatch):
    def dies(*_):
        raise EOFError

    monkeypatch.setattr(WorkerPool, "_begin", dies)
    with pytest.raises(Gone, match="^a worker process was killed"):
        WorkerPool(1, IMPORTED, nothing)


@forked
@pytest.mark.slow
def test_where_what_they_are_forked_from_is_dead_there_is_another(pool):
    dead = pool.submit(os.getppid).result()
    os.kill(dead, signal.SIGKILL)
    os.waitid(os.P_PID, dead, os.WEXITED | os.WNOWAIT)
    with closing(WorkerPool(1, IMPORTED, nothing)) as another:
        assert another.submit(os.getppid).result() != dead


def test_a_worker_hears_no_signal_that_ends_a_command(pool):
    [worker] = pool.workers
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(worker.pid, each)
    assert pool.submit(os.getpid).result() == worker.pid


@pytest.mark.parametrize("killed", [False, True])
def test_a_pool_that_is_closed_waits_for_no_job_and_leaves_no_worker(killed):
    pool = WorkerPool(2, IMPORTED, nothing)
    pool.submit(time.sleep, 600)
    one, other = pool.workers
    if killed:  # the other one ignores the SIGTERM of the pool
        one.kill()
    pool.close()
    assert not one.is_alive()
    assert not other.is_alive()

import os
import signal
import subprocess
import sys
import time

import pytest

from emulator.compute import forking, workers
from emulator.compute.ready import be_ready

CODE = """
import os, sys, time
from emulator.compute import workers

def say(): print(open("/proc/self/cmdline").read().count("forkserver"), flush=True)

if __name__ == "__main__":
    pool = workers.pool(1, ["colorsys"], say)
    pool.submit(time.sleep, 0).result()
    pool.shutdown()
"""
forked = pytest.mark.skipif(not forking.POSSIBLE, reason="WORKERS ARE SPAWNED: nothing is imported once here")


def run(folder, temporary):
    """What a program prints that has a worker, with a temporary folder."""
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


@pytest.fixture
def anew():
    """Nothing has been imported for workers yet."""
    forking.stop()
    yield
    forking.stop()
    be_ready()  # for the tests to come


@forked
def test_what_is_imported_once_is_there_in_each_worker(anew):
    pool = workers.pool(2, ["colorsys"], int)
    assert [pool.submit(there, name).result() for name in ("colorsys", "torch")] == [True, False]
    pool.shutdown()


def test_workers_have_the_environment_of_the_moment_in_which_they_are_made(monkeypatch):
    monkeypatch.setenv("SAID", "now")
    pool = workers.pool(1, [], int)
    assert pool.submit(environment).result() == dict(os.environ)
    pool.shutdown()


def test_all_workers_are_there_at_once():
    pool = workers.pool(5, [], int)
    assert len(pool._processes) == 5
    pool.shutdown()


@forked
@pytest.mark.slow
def test_ctrl_c_is_heard_while_modules_are_imported(tmp_path):
    (tmp_path / "long.py").write_text("import time; time.sleep(600)")
    code = "from emulator.compute import workers; print(flush=True); workers.pool(1, ['long'], print)"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-c", code]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as process:
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=100)  # nobody holds its output any more
    assert said.endswith("KeyboardInterrupt\n")


@forked
def test_where_what_they_are_forked_from_dies_meanwhile_there_are_no_workers(monkeypatch):
    def dies():
        raise EOFError

    monkeypatch.setattr(workers, "_until_imported", dies)
    with pytest.raises(workers.Gone, match="^a worker process was killed"):
        workers.pool(1, [], int)


@forked
def test_where_what_they_are_forked_from_is_dead_there_is_another(anew):
    workers.pool(1, [], int).shutdown()
    os.kill(forking.pid(), signal.SIGKILL)
    os.waitid(os.P_PID, forking.pid(), os.WEXITED | os.WNOWAIT)
    pool = workers.pool(1, [], int)
    assert pool.submit(there, "torch").result() is False
    pool.shutdown()


def test_a_worker_hears_no_signal_that_ends_a_command():
    pool = workers.pool(1, [], int)
    [number] = pool._processes
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(number, each)
    assert pool.submit(os.getpid).result() == number
    pool.shutdown()


def test_a_pool_that_is_stopped_waits_for_no_job():
    pool = workers.pool(1, [], int)
    pool.submit(time.sleep, 600)
    workers.stop(pool)
    pool.shutdown(wait=True, cancel_futures=True)
    assert not pool._processes

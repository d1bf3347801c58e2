import os
import signal
import subprocess
import sys
import time

import pytest

from emulator.worlds import workers

CODE = """
import os, sys, time
from emulator.worlds import workers

def say(): print(open("/proc/self/cmdline").read().count("forkserver"), flush=True)

if __name__ == "__main__":
    pool = workers.pool(1, ["colorsys"], say)
    pool.submit(time.sleep, 0).result()
    pool.shutdown()
"""


def ran(folder, temporary):
    """What a program prints that has a worker, with a temporary folder."""
    program = folder / "program.py"
    program.write_text(CODE)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-P", program], cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
def test_nothing_is_imported_from_the_folder_where_the_user_is(tmp_path):
    (tmp_path / "colorsys.py").write_text("open('caught', 'w')")
    assert ran(tmp_path, "/tmp") == "1\n"
    assert not (tmp_path / "caught").exists()


@pytest.mark.slow
def test_where_the_temporary_folder_has_a_long_path_workers_are_there_all_the_same(tmp_path):
    deep = tmp_path / ("deep" * 20)
    deep.mkdir()
    assert ran(tmp_path, deep) == "0\n"


def there(module):
    return module in sys.modules


@pytest.mark.skipif(not workers.FORKED, reason="workers are not forked here")
def test_what_is_imported_once_is_there_in_each_worker():
    pool = workers.pool(1, [], int)
    assert pool.submit(there, "torch.optim").result()  # tests/conftest.py asked for it
    pool.shutdown()


def test_a_pool_leaves_the_environment_as_it_is():
    before = dict(os.environ)
    workers.pool(1, [], int).shutdown()
    assert dict(os.environ) == before


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

"""Workers that are forked from one process that has imported torch already, in place of each importing it for seconds.

They are processes of their own, and all else about them is fedlapse's, but for variables of the environment: those are
as they were when the first pool was made.  What a test starts as a command has the workers that a user's command has.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext, ForkServerProcess

import pytest

from emulator.worlds import workers


class ForkedWorker(workers.Worker):
    """One process of a pool."""

    _start_method = "forkserver"
    _Popen = staticmethod(ForkServerProcess._Popen)


class Forked(ForkServerContext):
    Process = ForkedWorker


@pytest.fixture(scope="session", autouse=True)
def forked():
    """Pools of this process have such workers."""
    multiprocessing.set_forkserver_preload(["emulator.worlds.executors", "emulator.lab.jobs", "torch.optim", __name__])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "_Workers", Forked)
        yield

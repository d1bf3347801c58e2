"""Calls of fedlapse from a user's program or notebook: they share its process, and restore its state when they end."""

from __future__ import annotations

import gc
import random
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any

from emulator.messages.scratch import clear
from scenarios.builders.own_code import renew

_one = RLock()  # one call at a time: torch's settings and a user's modules belong to the whole process


@contextmanager
def called(computes: bool = True) -> Iterator[None]:
    """Surrounds one call of fedlapse, and lets only one run at a time.  First imports changed code of the user anew.

    When the call ends, restores torch's threads, flags and generators, Python's and NumPy's generators, warning
    filters, the thresholds of garbage collection, and the limit of open files.  `computes`: True if the call needs
    torch, which is then imported first, because only the state of an imported library can be restored.
    """
    with _one, ExitStack() as back, warnings.catch_warnings():
        renew()
        clear()
        if computes:
            import torch  # noqa: F401  its state can be restored only once it is imported
        for put_back in _states():
            back.callback(put_back)
        allow_many_files()
        yield


def allow_many_files() -> None:
    """Raises this process's soft limit of open files, usually 1,024 or 256, to the hard limit, because each run keeps
    three files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard != resource.RLIM_INFINITY:  # macOS reports no limit, but refuses to set none
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _states() -> Iterator[Callable[[], object]]:
    """Yields functions that restore the process's present state, part by part."""
    files, often, frozen = resource.getrlimit(resource.RLIMIT_NOFILE), gc.get_threshold(), gc.get_freeze_count()
    yield lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files)
    yield lambda: gc.set_threshold(*often)
    if not frozen:
        yield gc.unfreeze
    drawn = random.getstate()
    yield lambda: random.setstate(drawn)
    if "numpy" in sys.modules:
        import numpy as np

        of_numpy = np.random.get_state()  # noqa: NPY002  what others' code draws from
        yield lambda: np.random.set_state(of_numpy)  # noqa: NPY002
    if "torch" in sys.modules:
        yield _state_of_torch()


def _state_of_torch() -> Callable[[], None]:
    import torch

    deterministic: Any = torch.utils.deterministic
    flags = [
        (torch.backends.cuda.matmul, "allow_tf32"),
        (torch.backends.cudnn, "allow_tf32"),
        (torch.backends.cudnn, "benchmark"),
        (deterministic, "fill_uninitialized_memory"),
    ]
    values = [getattr(owner, name) for owner, name in flags]
    threads, strict, drawn = torch.get_num_threads(), torch.get_deterministic_debug_mode(), torch.get_rng_state()
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]

    def put_back() -> None:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(strict)
        for (owner, name), value in zip(flags, values, strict=True):
            setattr(owner, name, value)
        torch.set_rng_state(drawn)
        if on_gpus:
            torch.cuda.set_rng_state_all(on_gpus)

    return put_back

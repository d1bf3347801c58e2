"""Seeds the generators that a process has one of: torch's, Python's and NumPy's.

Whatever calls a network or an algorithm seeds them before, as a user's own code may draw from any of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seeded(seed: int) -> None:
    """Seeds torch's, Python's and NumPy's global generators: what a user's own code draws then follows from the seed,
    and not from what the process did before. 20 us."""
    torch_seeded(seed)
    random.seed(seed)
    np.random.seed(seed & (2**32 - 1))  # noqa: NPY002  the one that others' code draws from


@contextmanager
def drawing(seed: int) -> Iterator[None]:
    """A context in which these generators are seeded; afterwards they go on as if nothing had been drawn."""
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    seeded(seed)
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002


def torch_seeded(seed: int) -> None:
    """Seeds torch's global CPU generator, from which dropout and the initialisers of torch.nn draw; and that of the GPU
    in use, if there is one, for a user's own layers.

    The engine keeps the low 32 bits of `seed` only: pass one that is well mixed.
    """
    torch.default_generator.manual_seed(seed)  # 1 us; torch.manual_seed also visits every other device: 126 us
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(seed)

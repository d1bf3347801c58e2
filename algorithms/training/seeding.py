"""Seeds the process-wide generators: torch's, Python's and NumPy's.

Every call of a network or an algorithm is preceded by seeding, because a user's own code may draw from any of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seeded(seed: int) -> None:
    """Seeds torch's, Python's and NumPy's global generators, so that draws of a user's own code depend on the seed, and
    not on the process's past.  Takes 20 us."""
    torch_seeded(seed)
    random.seed(seed)
    np.random.seed(seed & (2**32 - 1))  # noqa: NPY002  the one that others' code draws from


@contextmanager
def drawing(seed: int) -> Iterator[None]:
    """A context in which torch's, Python's and NumPy's global generators are seeded; afterwards they continue from
    their earlier states."""
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    seeded(seed)
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002


def torch_seeded(seed: int) -> None:
    """Seeds torch's global CPU generator, from which dropout and the initialisers of torch.nn draw, and that of the GPU
    in use, if there is one, for a user's own layers.

    The engine uses only the low 32 bits of `seed`, so they must be well mixed.
    """
    torch.default_generator.manual_seed(seed)  # 1 us; torch.manual_seed also seeds every other device: 126 us
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(seed)

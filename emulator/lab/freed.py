"""What the C library does with memory that this process has freed."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
KEPT = 1 << 30  # bytes
LARGE = 1 << 26  # bytes: a model that is large
RETURNED = 1 << 25  # bytes: a block that is returned if the model is large; smaller ones hold activations


def keep_memory(model: int = 0) -> None:
    """Makes the C library, if it is glibc, keep freed memory for this process.  Otherwise each training step returns
    the memory of its tensors to the system and fetches it again: a step of the MNIST CNN then takes 42 ms, and not 31
    ms.  All threads share one arena (glibc's pool of memory), because autograd's thread holds much memory.

    `model`: its size in bytes.  Of a large one, blocks of several MB are returned, because they would be kept two or
    three times over.
    """
    library = ctypes.CDLL(None)
    mallopt = getattr(library, "mallopt", None)
    if mallopt:
        mallopt(M_TRIM_THRESHOLD, KEPT)
        mallopt(M_MMAP_THRESHOLD, KEPT if model < LARGE else RETURNED)
        mallopt(M_ARENA_MAX, 1)
        if model >= LARGE:
            library.malloc_trim(0)

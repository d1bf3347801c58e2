"""Measures the memory that several processes use together."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

LOOK = 0.5  # s between two looks; one takes some ms


def memory_of(processes: Iterable[int]) -> int:
    """Bytes that these processes use; a page that several share counts once (PSS)."""
    lines = [line for pid in processes for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def give_back() -> None:
    """Returns freed memory to the system, which glibc is told to keep (executors.keep_memory), so that what one
    measurement leaves is not counted in the next."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


class Watched:
    """Within this context it looks at the memory of these processes; `most` bytes were seen at once."""

    def __init__(self, processes: Sequence[int]) -> None:
        self.processes, self.most = processes, memory_of(processes)
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            self.most = max(self.most, memory_of(self.processes))

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._watcher.join()

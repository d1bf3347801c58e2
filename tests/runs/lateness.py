"""Measures how late a busy machine wakes this process: a run over real sockets may take this much longer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

TICK, NOISE = 0.01, 0.005  # s


async def with_lateness(work: Coroutine[Any, Any, Any]) -> tuple[Any, float]:
    """The result of the work, and the seconds in all by which the loop woke timers too late meanwhile."""
    task, loop, late = asyncio.ensure_future(work), asyncio.get_running_loop(), 0.0
    while not task.done():
        due = loop.time() + TICK
        await asyncio.wait([task], timeout=TICK)
        late += max(0.0, loop.time() - due - NOISE)
    return await task, late

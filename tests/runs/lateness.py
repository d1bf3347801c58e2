"""How late a busy machine wakes this process: so much longer may a run over real sockets take."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

TICK, NOISE = 0.01, 0.005  # s


async def with_lateness(work: Coroutine[Any, Any, Any]) -> tuple[Any, float]:
    """What the work returns, and by how many seconds in all the loop woke a timer too late meanwhile."""
    task, loop, late = asyncio.ensure_future(work), asyncio.get_running_loop(), 0.0
    while not task.done():
        due = loop.time() + TICK
        await asyncio.wait([task], timeout=TICK)
        late += max(0.0, loop.time() - due - NOISE)
    return await task, late

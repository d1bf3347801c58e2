"""The server's end of the way to a device, with nobody at the other end."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from emulator.conversation.channel import MemoryLine
from emulator.messages.store import EMPTY
from emulator.worlds.interface import Lost, Parcel


def line_of(**attendant: Any) -> MemoryLine:
    device = Mock(**attendant)
    device.name = "a"
    return MemoryLine(Mock(), Mock(flying={}), device)


@pytest.mark.parametrize(("answered", "rests"), [(6, False), (7, True)])
def test_a_device_rests_once_it_has_answered_what_it_was_last_asked(answered: int, rests: bool) -> None:
    line = line_of()
    line.asked, line.resting = 7, False
    line.replied(Parcel.of({"round": answered, "examples": 1}, EMPTY))
    assert line.resting is rests
    assert len(line.replies.items) == 1  # the server hears both


@pytest.mark.parametrize("off", [True, False])
def test_a_download_has_arrived_only_at_a_device_that_is_still_there(off: bool) -> None:
    """Its last byte and its absence may share an instant."""
    line, flight = line_of(off=off), Mock(wait=AsyncMock())
    if off:
        with pytest.raises(Lost, match="^off$"):
            asyncio.run(line.fly(flight))
    else:
        asyncio.run(line.fly(flight))
    flight.wait.assert_awaited_once()

"""A reply whose connection ends: refused where the links had let it through, lost where not."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from emulator.conversation.exchange import Exchange
from emulator.conversation.websocket import WebLine
from emulator.record.call import Call
from emulator.worlds.interface import Lost, Unread


def line_of(landed: bool, direction: str = "up", off: bool = False) -> tuple[WebLine, Any]:
    flight, device = Mock(direction=direction, landed=landed), Mock(off=off)
    device.name = "a"
    line = WebLine(Mock(), Mock(flying={"a": flight}), device)
    line.resting, line.replies.reader = False, Mock()
    return line, flight


@pytest.mark.parametrize(("landed", "raised"), [(True, Unread), (False, Lost)])
def test_it_is_unread_where_its_last_byte_had_gone_through_and_lost_where_not(landed: bool, raised: type) -> None:
    line, flight = line_of(landed)
    line.broken()
    flight.abort.assert_called_once_with("broken")
    line.attendant.vanish.assert_called_once_with("broken")
    with pytest.raises(raised):
        asyncio.run(line.receive())


@pytest.mark.parametrize(("off", "resting"), [(True, False), (False, True)])
def test_one_that_is_off_or_has_nothing_to_do_loses_nothing(off: bool, resting: bool) -> None:
    line, flight = line_of(landed=False, off=off)
    line.resting = resting
    line.broken()
    flight.abort.assert_not_called()
    assert line.replies.items == []


@pytest.mark.parametrize(("reason", "refused"), [(None, 1), ("first", 0)])
def test_a_round_refuses_what_was_not_read_unless_it_is_over(reason: str | None, refused: int) -> None:
    async def gone() -> None:
        raise Unread

    async def done(*_: object) -> None:
        pass

    line, record = Mock(send=done, receive=gone, rest=done), Mock()
    play = Mock(away={}, not_finite=0, round=Mock(number=3, reason=reason, rules=Mock(asynchronous=False)))
    asyncio.run(Exchange(lambda _: line, record, Mock()).ask(play, "a", Mock()))
    assert record.refused.call_count == play.round.refuse.call_count == refused
    if refused:
        call, kind, why = record.refused.call_args.args
        assert (call, kind, why) == (Call("a", 3), "form", "the connection ended before all of it was read")
    play.round.lose.assert_not_called()

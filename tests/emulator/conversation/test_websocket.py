"""Which reply speaks for a device; the links and the device are played."""

from __future__ import annotations

import asyncio
import errno
from typing import Any
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from emulator.conversation.underway import RunFailed
from emulator.conversation.websocket import Reception, WebEnd, WebLine
from emulator.messages.files import Memory
from emulator.messages.store import EMPTY
from emulator.record.call import Call
from emulator.worlds.interface import Lost, Parcel

REPLY = Parcel.of({"round": 3, "examples": 1}, EMPTY)
SIZE = sum(REPLY.sizes.values())


def line_of(*flights: Any) -> WebLine:
    device = Mock()
    device.name = "a"
    return WebLine(Mock(store=Memory()), Mock(flying=dict(zip("a", flights, strict=False))), device)


def flight(direction: str = "up", landed: bool = True, round: int = 3, nbytes: int = SIZE) -> Any:
    return Mock(direction=direction, landed=landed, call=Call("a", round), nbytes=nbytes)


def test_the_upload_that_the_links_have_just_let_through_is_expected() -> None:
    assert line_of(flight()).expects(REPLY)


@pytest.mark.parametrize(
    "other",
    [flight(direction="down"), flight(landed=False), flight(round=2), flight(nbytes=SIZE + 1), flight(nbytes=SIZE - 1)],
    ids=["a download", "still on its way", "of another round", "a longer one", "a shorter one"],
)
def test_no_other_message_is_spoken_for(other: Any) -> None:
    assert not line_of(other).expects(REPLY)


def test_nobody_answers_for_a_device_that_sends_nothing() -> None:
    assert not line_of().expects(REPLY)


STRANGERS = ["", "Bearer ", "Bearer {b}", "{a}", "Bearer {a}x", "Bearer é"]


@pytest.mark.parametrize("said", STRANGERS)
def test_who_has_not_the_device_s_token_is_turned_away_and_counted(said: str) -> None:
    async def call() -> tuple[int, object]:
        lines = {"a": line_of(flight()), "b": line_of()}
        reception = Reception(lines, largest=SIZE, store=Memory())
        header = said.format(**{name: line.token for name, line in lines.items()})
        request = make_mocked_request("GET", "/?device=a", headers={"Authorization": header})
        with pytest.raises(web.HTTPUnauthorized):
            await asyncio.wait_for(reception._converse(request), 1.0)
        return reception.strangers, reception.speaking

    assert asyncio.run(call()) == (1, set())


@pytest.mark.parametrize(("number", "raised"), [(errno.EMFILE, RunFailed), (errno.ECONNREFUSED, Lost)])
def test_a_run_ends_where_there_is_no_open_file_for_a_device(number: int, raised: type) -> None:
    """The device is there, so the server would wait for it for ever; who is refused in another way is lost."""
    refused = aiohttp.ClientConnectorError(Mock(ssl=True), OSError(number, "why"))
    end = WebEnd(Mock(**{"ws_connect.side_effect": refused}), "http://127.0.0.1:1", line_of(), largest=SIZE)
    with pytest.raises(raised):
        asyncio.run(end.receive(resting=True))


def test_a_run_ends_in_one_line_where_there_is_no_open_file_to_accept_a_connection() -> None:
    listening = Mock(**{"accept.side_effect": OSError(errno.EMFILE, "Too many open files"), "gettimeout": lambda: 0})

    async def welcomed() -> None:
        await Reception({}, largest=SIZE, store=Memory()).welcome(listening)

    with pytest.raises(RunFailed, match="could not be opened: Too many open files; raise `ulimit -n`"):
        asyncio.run(welcomed())


def test_who_is_gone_before_it_is_accepted_is_passed_over() -> None:
    gone = ConnectionAbortedError(errno.ECONNABORTED, "gone")
    full = OSError(errno.ENFILE, "full")
    listening = Mock(**{"accept.side_effect": [gone, full], "gettimeout": lambda: 0})

    async def welcomed() -> None:
        await Reception({}, largest=SIZE, store=Memory()).welcome(listening)

    with pytest.raises(RunFailed, match="full"):
        asyncio.run(welcomed())


def test_who_is_not_connected_sends_nothing_and_its_upload_is_cut() -> None:
    """Its connection has ended while it computed; `receive` opens the next one."""
    line = line_of()
    line.launch = Mock()  # type: ignore[method-assign]
    with pytest.raises(Lost):
        asyncio.run(WebEnd(Mock(), "http://127.0.0.1:1", line, largest=SIZE).send(REPLY))
    line.launch.return_value.abort.assert_called_once_with("off")

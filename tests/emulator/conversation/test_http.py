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

from emulator.conversation.http import Reception, WebEnd, WebLine
from emulator.conversation.underway import RunFailed
from emulator.record.call import Call
from emulator.study.store import EMPTY
from emulator.worlds.interface import Lost, Parcel
from emulator.worlds.stores import Memory

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


@pytest.mark.parametrize("path", ["/next?device=a&resting=1", "/reply?device=a"])
def test_who_has_not_the_device_s_token_is_turned_away_and_counted(path: str) -> None:
    line = line_of(flight())
    reception = Reception({"a": line, "b": line_of()}, largest=SIZE, store=Memory())
    handler = reception._following if path.startswith("/next") else reception._reply
    strangers = ["", "Bearer ", f"Bearer {reception.lines['b'].token}", line.token, f"Bearer {line.token}x", "Bearer é"]
    for said in strangers:
        with pytest.raises(web.HTTPUnauthorized):
            asyncio.run(handler(make_mocked_request("POST", path, headers={"Authorization": said})))
    assert reception.strangers == len(strangers)
    assert not line.replies.items
    assert not line.polls


@pytest.mark.parametrize(("number", "raised"), [(errno.EMFILE, RunFailed), (errno.ECONNREFUSED, Lost)])
@pytest.mark.parametrize("way", ["receives", "sends"])
def test_a_run_ends_where_there_are_no_more_open_files_for_a_device(way: str, number: int, raised: type) -> None:
    """The device is there, so the server would wait for it for ever; who is refused in another way is lost."""
    refused = aiohttp.ClientConnectorError(Mock(ssl=True), OSError(number, "why"))
    end = WebEnd(Mock(**{"post.side_effect": refused}), "http://127.0.0.1:1", line_of(), largest=SIZE)
    with pytest.raises(raised):
        asyncio.run(end.receive(resting=True) if way == "receives" else end.send(REPLY))

"""The headers that the two ends of a connection accept."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import WSMsgType

from emulator.conversation.peer import Peer
from emulator.messages.files import Memory
from emulator.messages.store import NO_TENSORS
from network.wire import envelope
from network.wire.form import RefusedMessage

REQUEST, REPLY = ("round", "counted"), ("round", "examples")


def heard(header: dict[str, Any], numbers: tuple[str, str]) -> Any:
    """Returns what a peer that accepts these numbers hears when a message with this header arrives."""
    data = envelope.pack(header, NO_TENSORS)
    frames = [
        SimpleNamespace(type=WSMsgType.TEXT, data=str(len(data))),
        SimpleNamespace(type=WSMsgType.BINARY, data=data),
    ]

    async def receive() -> Any:
        return frames.pop(0)

    socket: Any = SimpleNamespace(receive=receive)
    return asyncio.run(Peer(socket, (), numbers, 0, Memory()).hear())


@pytest.mark.parametrize(
    ("header", "numbers"),
    [
        ({"round": 3, "counted": None}, REQUEST),
        ({"round": 3, "counted": 2, "combined": 1}, REQUEST),
        ({"round": 3, "counted": 2, "combined": None}, REQUEST),
        ({"round": 3, "examples": 7}, REPLY),
        ({"round": 3, "examples": 0, "refusal": "too little memory"}, REPLY),
    ],
)
def test_the_headers_of_requests_and_replies_are_accepted(header: dict[str, Any], numbers: tuple[str, str]) -> None:
    assert heard(header, numbers).header == header


@pytest.mark.parametrize(
    ("header", "numbers"),
    [
        ({"round": 3, "combined": 1}, REQUEST),
        ({"round": 3, "counted": 2, "combined": "1"}, REQUEST),
        ({"round": 3, "counted": 2, "other": 1}, REQUEST),
        ({"round": 3, "examples": 7, "combined": 1}, REPLY),
        ({"round": "3", "counted": 2}, REQUEST),
    ],
)
def test_all_others_are_refused(header: dict[str, Any], numbers: tuple[str, str]) -> None:
    with pytest.raises(RefusedMessage, match="it must have numbers round and"):
        heard(header, numbers)

"""Words and messages on a WebSocket, at the pace of the modelled links.  Only this file and sockets.py sleep for real.

A word is a text frame.  A message is a text frame with its length in bytes, in decimal, and then its bytes in binary
frames, as the links let them through; words may come between these frames.  A new length ends a message that is
unfinished: its bytes are dropped.

Bytes from the network are hostile: sizes are bounded before they are read, nothing is inflated, and decoded messages
must be of a closed form (network/wire/payload.py), with shapes and dtypes of the model and finite values (exchange.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cached_property

from aiohttp import ClientWebSocketResponse, WSMsgType, web

from emulator.conversation.traffic import Flight
from emulator.messages.forms import UploadForm
from emulator.messages.store import Ref, Store, read
from emulator.worlds.interface import Lost, Parcel
from network.wire import envelope, payload
from network.wire.form import RefusedMessage

TICK = 0.01  # s of real time between two looks at the bytes that the links let through
HEADER = 4100  # bytes: the largest header of an envelope, with its length
DIGITS = 12  # digits in a length


class Arrived:
    """A message that has arrived over a socket (worlds/interface.py, Message); the first use of `ref` stores it."""

    def __init__(self, view: payload.View, store: Store) -> None:
        self.view, self.store = view, store
        self.sizes = view.sizes

    def check(self, form: UploadForm) -> None:
        self.view.check(form.shapes, form.constants)

    @cached_property
    def ref(self) -> Ref:
        return self.store.put(*self.view.pieces)


class Peer:
    """The other end of a WebSocket.

    That end may send one of `words`, and messages of at most `largest` bytes of tensors, whose headers hold the two
    numbers named in `numbers`.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse | ClientWebSocketResponse,
        words: tuple[str, ...],
        numbers: tuple[str, str],
        largest: int,
        store: Store,
    ) -> None:
        self.socket, self.words, self.numbers = socket, words, numbers
        self.limit, self.store = largest + HEADER, store
        self.length, self.data = 0, bytearray()  # of the arriving message: its length, and its bytes so far

    async def say(self, word: str) -> None:
        """Sends a word.  Raises Lost if the connection has ended."""
        try:
            await self.socket.send_str(word)
        except ConnectionError as error:
            raise Lost(str(error)) from None

    async def send(self, parcel: Parcel, flight: Flight) -> None:
        """Sends a message at the pace of its flight.  Raises Lost if the flight is cut or the connection has
        ended."""
        data = envelope.pack(parcel.header, read(self.store, parcel.message.ref).data)
        await self.say(str(len(data)))
        try:
            async for chunk in paced(flight, data):
                await self.socket.send_bytes(chunk)
        except ConnectionError as error:
            raise Lost(str(error)) from None

    async def hear(self) -> Parcel | str:
        """Returns the next word or message that arrives.

        Raises Lost when the connection ends, and RefusedMessage for anything else that arrives.  If the call is
        cancelled, no bytes are lost: the next call continues the message.
        """
        while True:
            frame = await self.socket.receive()
            if frame.type is WSMsgType.TEXT:
                if frame.data in self.words:
                    return str(frame.data)
                self.length, self.data = self._length(frame.data), bytearray()
            elif frame.type is WSMsgType.BINARY:
                self.data += frame.data
            else:
                raise Lost("the connection has ended")
            if len(self.data) > self.length:
                raise RefusedMessage(f"a message of {self.length} bytes has more")
            if len(self.data) == self.length:
                data, self.length, self.data = bytes(self.data), 0, bytearray()
                return _parcel(data, self.numbers, self.store)

    def _length(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
            raise RefusedMessage(f"{text[:40]!a} is neither a length nor one of {', '.join(self.words)}")
        if int(text) > self.limit:
            raise RefusedMessage(f"a message of {text} bytes; the limit is {self.limit}")
        return int(text)


async def paced(flight: Flight, data: bytes) -> AsyncIterator[bytes]:
    """Yields the bytes of a message in pieces, as fast as the modelled links carry them.  Raises Lost if the flight
    is cut."""
    arrival = asyncio.ensure_future(flight.signal.wait())
    sent = 0
    try:
        while sent < len(data):
            await asyncio.wait([arrival], timeout=TICK)  # even if bytes are ready: a chunk for each would take all time
            if arrival.done():
                arrival.result()
            # The last byte waits until the record has the flight's end: the reply must not count before.
            allowed = len(data) if flight.landed else min(flight.carried(), len(data) - 1)
            if allowed > sent:
                yield data[sent:allowed]
                sent = allowed
    finally:
        if not arrival.cancel() and not arrival.cancelled():
            arrival.exception()  # the flight may be cut while a chunk is written; unread, asyncio would warn


def _parcel(data: bytes, names: tuple[str, str], store: Store) -> Parcel:
    """Decodes a message.  Raises RefusedMessage unless its header holds the two numbers `names`.

    The header of a reply may also hold the reason for which the device refuses, or the loss and the steps of its
    training; that of a request a third number, `combined`.
    """
    header, body = envelope.unpack(data)
    why = header.get("refusal", "") if "examples" in names else ""
    if type(why) is not str or not why.isprintable():  # a terminal will show it
        raise RefusedMessage("the header's refusal must be printable text")
    kinds = {"loss": float, "steps": int} if "examples" in names else {}
    told = {name for name, kind in kinds.items() if type(header.get(name)) is kind}
    numbers = header.keys() - told - ({"refusal"} if why else {"combined"} if "counted" in names else set())
    others = {type(header.get(name)) for name in (names[1], "combined")}
    if numbers != set(names) or type(header["round"]) is not int or others - {int, type(None)}:
        raise RefusedMessage(f"the header has {sorted(header)}; it must have numbers {' and '.join(names)}")
    return Parcel.of(header, Arrived(payload.view(body), store))

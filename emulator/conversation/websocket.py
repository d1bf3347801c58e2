"""The two ends of a line over a WebSocket (RFC 6455).  A device has one connection.

The device opens the connection with its token for this run (`Authorization: Bearer`, RFC 6750); to a request without
the token the server answers 401 and does nothing else.  Then the device asks for its next request, with the word
`ready` while it works and `resting` when it has nothing to do.  The server answers each word once it has a request for
the device, or with `stop`.  Replies may go up meanwhile.  When the modelled device goes offline, the server closes the
connection at once, and the device opens another.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
import secrets
import socket
from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp import WSCloseCode, web
from aiohttp.http import HttpProcessingError

from emulator.conversation.channel import Inbox, Line
from emulator.conversation.device import Attendant
from emulator.conversation.peer import HEADER, Peer
from emulator.conversation.traffic import Traffic
from emulator.conversation.underway import RunFailed
from emulator.messages.store import Store
from emulator.worlds.interface import Cancelled, Lost, Parcel, World
from network.wire.form import RefusedMessage

READY, RESTING, STOP = "ready", "resting", "stop"
STRANGERS = 8  # connections that may be open in addition to the devices'
SILENT = 2.0  # s of real time for a connection to show its token
CLOSES = 1.0  # s of real time for a device to confirm that its connection is closed


class WebLine(Line):
    """The server's end of a line over a WebSocket (worlds/interface.py, ServerEnd)."""

    def __init__(self, world: World, traffic: Traffic, attendant: Attendant) -> None:
        super().__init__(world, traffic, attendant)
        self.token = secrets.token_urlsafe()  # identifies the device; a new one in each run
        self.turn = asyncio.Lock()  # a second connection of the device waits until the first has ended
        self.waiting = Inbox(world)  # requests and stops for which the device has not asked yet

    async def send(self, parcel: Parcel) -> None:
        flight = self.launch("down", parcel)
        self.resting = False
        self.push((parcel, flight))
        await self.fly(flight)

    def push(self, item: Any) -> None:
        self.waiting.put(item)

    def expects(self, parcel: Parcel) -> bool:
        """Returns true if `parcel` is the upload whose last byte has arrived on the modelled link and that is not read
        yet."""
        flight = self.traffic.flying.get(self.name)
        if flight is None or flight.direction != "up" or not flight.landed:
            return False
        return (parcel.header["round"], sum(parcel.sizes.values())) == (flight.call.round, flight.nbytes)

    async def converse(self, device: Peer) -> None:
        """Sends a device its requests and takes its replies, until the connection ends.

        Raises Lost when the device goes offline or its connection ends, and RefusedMessage for a wrong message.
        """
        asked = asyncio.Semaphore(0)
        await self.world.together([self._answer(device, asked), self._heed(device, asked)])

    async def _answer(self, device: Peer, asked: asyncio.Semaphore) -> None:
        while await asked.acquire():
            item = await self.waiting.get()
            if item is None:
                await device.say(STOP)
            else:
                await device.send(*item)

    async def _heed(self, device: Peer, asked: asyncio.Semaphore) -> None:
        while True:
            heard = await device.hear()
            if isinstance(heard, str):
                if heard == RESTING and not self.waiting.items:
                    self.rests()
                asked.release()
            elif self.expects(heard):
                self.replied(heard)
            else:
                raise RefusedMessage("it answers no request")


class Reception:
    """The server's side of all connections.  `largest`: bytes of the largest upload that a device may send."""

    def __init__(self, lines: Mapping[str, WebLine], largest: int, store: Store) -> None:
        self.lines, self.largest, self.store = lines, largest, store
        self.strangers = 0  # requests without the token of the device that they named
        self.speaking: set[object] = set()  # connections that have shown a token, one per device
        log = logging.getLogger(__name__)
        log.addFilter(_is_ours)
        # A handler ends with its connection: otherwise the device's next one would wait for its turn.
        self.server = web.Server(
            self._converse,
            handler_cancellation=True,
            access_log=None,
            logger=log,
            auto_decompress=False,
            keepalive_timeout=SILENT,
        )

    async def welcome(self, listening: socket.socket) -> None:
        """Accepts connections until it is cancelled.  Raises RunFailed if this process may open no more files.

        A device shows its token at once.  So if there are more connections than one for each device and STRANGERS, the
        oldest one that has shown no token is closed.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except ConnectionAbortedError:  # the other end has closed it
                continue
            except OSError as error:
                raise _no_file(error) from None
            await loop.connect_accepted_socket(self.server, connection)
            others = [handler.transport for handler in self.server.connections if handler not in self.speaking]
            strangers = [transport for transport in others if transport and not transport.is_closing()]
            if len(strangers) + len(self.speaking) > len(self.lines) + STRANGERS:
                strangers[0].abort()

    def _line_of(self, request: web.BaseRequest) -> WebLine:
        """Returns the line of the device that a request names.  Raises HTTPUnauthorized (401) unless the request has
        that device's token."""
        line = self.lines.get(request.query.get("device", ""))
        said = request.headers.get("Authorization", "").encode(errors="replace")
        if line is None or not hmac.compare_digest(said, _bearer(line).encode()):
            self.strangers += 1
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"}, text="this device has another token")
        return line

    async def _converse(self, request: web.BaseRequest) -> web.StreamResponse:
        line = self._line_of(request)
        answer = web.WebSocketResponse(compress=False, max_msg_size=self.largest + HEADER, timeout=CLOSES)
        async with line.turn:
            self.speaking.add(request.protocol)
            try:
                await answer.prepare(request)
                await line.converse(Peer(answer, (READY, RESTING), ("round", "examples"), self.largest, self.store))
            except Lost:
                line.broken()
                await answer.close(code=WSCloseCode.GOING_AWAY)
            except RefusedMessage as refused:
                line.broken()
                why = str(refused).encode("ascii", "replace")[:120]  # RFC 6455: 123 bytes at most
                await answer.close(code=WSCloseCode.POLICY_VIOLATION, message=why)
            finally:
                self.speaking.discard(request.protocol)
        return answer


def _is_ours(record: logging.LogRecord) -> bool:
    """Returns false for log messages of aiohttp about bytes that are not HTTP, which it answers with status 400."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _bearer(line: WebLine) -> str:
    return f"Bearer {line.token}"


class WebEnd:
    """The device's end of a line over a WebSocket (worlds/interface.py, WaitingEnd)."""

    def __init__(self, session: aiohttp.ClientSession, url: str, line: WebLine, largest: int) -> None:
        self.session = session
        self.url = url
        self.line = line  # for the modelled links' pace alone: messages go over the socket
        self.largest = largest  # bytes of the largest download
        self.server: Peer | None = None

    async def receive(self, resting: bool) -> Parcel | None:
        try:
            self.server = self.server or await self._connect()
            await self.server.say(RESTING if resting else READY)
            heard = await self.server.hear()
        except (Lost, RefusedMessage) as error:
            self.line.broken()
            await self.close()
            raise Lost(str(error)) from None
        return None if isinstance(heard, str) else heard

    async def send(self, parcel: Parcel) -> None:
        flight = self.line.launch("up", parcel)
        try:
            if self.server is None:
                raise Lost("not connected")
            await self.server.send(parcel, flight)
        except Cancelled:
            flight.abort("closed")
            raise
        except Lost:
            self.line.broken()
            flight.abort("off")  # unless `broken` has cut it
            raise

    async def _connect(self) -> Peer:
        try:
            connection = await self.session.ws_connect(
                self.url,
                params={"device": self.line.name},
                headers={"Authorization": _bearer(self.line)},
                max_msg_size=self.largest + HEADER,
            )
        except aiohttp.ClientConnectorError as error:
            if error.os_error.errno in (errno.EMFILE, errno.ENFILE):
                raise _no_file(error.os_error) from None  # otherwise the server would wait forever
            raise Lost(str(error)) from None
        except aiohttp.ClientError as error:
            raise Lost(str(error)) from None
        return Peer(connection, (STOP,), ("round", "counted"), self.largest, self.line.world.store)

    async def close(self) -> None:
        """Closes the connection to the server, if there is one."""
        server, self.server = self.server, None
        if server:
            await server.socket.close()


def _no_file(error: OSError) -> RunFailed:
    return RunFailed(f"a connection could not be opened: {error.strerror}; raise `ulimit -n`")

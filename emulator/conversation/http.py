"""The two ends of a line over HTTP.  With sockets.py the only file that sleeps for real.

A device polls `POST /next` and is answered when the server has something for it: a request (its bytes at the
pace of the links), or 204: stop.  (A GET would be tried again behind our back when its connection is cut.)
Its reply goes up by `POST /reply`.  Both carry the device's token of this run (`Authorization: Bearer`, RFC 6750);
without it the answer is 401, and nothing else is done or said.  A device has one connection open, on which it polls,
and a second one while it uploads.

Bytes from the network are hostile: sizes are bounded before they are read, no Content-Encoding is accepted, and what
is decoded must be of a closed form (network/wire/payload.py), with shapes and dtypes of the model and finite values
(exchange.py).
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import secrets
from collections import deque
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import Any

import aiohttp
from aiohttp import web

from emulator.conversation.channel import LOST, Line
from emulator.conversation.device import Attendant
from emulator.conversation.traffic import Flight, Traffic
from emulator.conversation.underway import RunFailed
from emulator.study.store import Ref, Store
from emulator.worlds.interface import Cancelled, Lost, Parcel, World
from network.wire import envelope, payload
from network.wire.form import Refused

TICK = 0.01  # s of real time between two looks at how many bytes the links let through
HEADER = 4100  # bytes: the largest header of an envelope, with its length


class Arrived:
    """A message that has come over a socket (interface.Message); the store gets it when somebody asks for its Ref."""

    def __init__(self, view: payload.View, store: Store) -> None:
        self.view, self.store = view, store
        self.sizes, self.check = view.sizes, view.check

    @cached_property
    def ref(self) -> Ref:
        return self.store.put(bytes(self.view.data))


class WebLine(Line):
    """The server's end of a line over HTTP (interface.ServerEnd)."""

    def __init__(self, world: World, traffic: Traffic, attendant: Attendant) -> None:
        super().__init__(world, traffic, attendant)
        self.token = secrets.token_urlsafe()  # who has it speaks for the device; a new one in each run
        self.polls: deque[asyncio.Future[Any]] = deque()  # that wait for an answer, the first to come first
        self.waiting: deque[Any] = deque()  # answers that wait for a poll

    async def send(self, parcel: Parcel) -> None:
        flight = self.launch("down", parcel)
        self.resting = False
        self.push((parcel, flight))
        await self.fly(flight)

    def push(self, item: Any) -> None:
        self.waiting.append(item)
        self._answer()

    def _answer(self) -> None:
        while self.polls and self.waiting:
            self.polls.popleft().set_result(self.waiting.popleft())

    def expects(self, parcel: Parcel) -> bool:
        """Whether this is the upload whose last byte the links have just let through; any other is refused."""
        flight = self.traffic.flying.get(self.name)
        if flight is None or flight.direction != "up" or not flight.landed:
            return False
        return (parcel.header["round"], sum(parcel.sizes.values())) == (flight.call.round, flight.nbytes)

    async def poll(self, resting: bool) -> Any:
        """The next item for the device: a parcel with its flight, None (stop) or LOST.

        A second poll waits behind the first one and takes nothing from it.
        """
        if resting and not self.waiting:
            self.rests()
        poll: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.polls.append(poll)
        self._answer()
        try:
            return await asyncio.shield(poll)
        except asyncio.CancelledError:  # the device broke off its poll: the next one is told instead
            if poll.done():
                self.waiting.appendleft(poll.result())
                self._answer()
            else:
                self.polls.remove(poll)
                poll.cancel()
            raise


class Reception:
    """The server's web application.  `largest`: bytes of the largest upload that a device may send."""

    def __init__(self, lines: Mapping[str, WebLine], largest: int, store: Store) -> None:
        self.lines, self.largest, self.store = lines, largest, store
        self.strangers = 0  # requests that did not carry the token of the device that they named

    def runner(self) -> web.AppRunner:
        """The application, ready to be served.

        Bodies are not inflated: half a megabyte of zeros would cost seconds.  A handler ends with its connection:
        else a poll that was broken off would wait on, and take what is meant for the next.
        """
        app = web.Application(client_max_size=self.largest + HEADER)
        app.add_routes([web.post("/next", self._following), web.post("/reply", self._reply)])
        return web.AppRunner(
            app,
            auto_decompress=False,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=1,
        )

    def _line_of(self, request: web.Request) -> WebLine:
        """The line of the device that a request names.  Raises 401 unless the request carries that device's token."""
        line = self.lines.get(request.query.get("device", ""))
        said = request.headers.get("Authorization", "").encode(errors="replace")
        if line is None or not hmac.compare_digest(said, _bearer(line).encode()):
            self.strangers += 1
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"}, text="this device has another token")
        return line

    async def _following(self, request: web.Request) -> web.StreamResponse:
        item = await self._line_of(request).poll(request.query.get("resting") == "1")
        if item is None:
            return web.Response(status=204)
        if item is LOST:
            return _hang_up(request)
        parcel, flight = item
        data = envelope.pack(parcel.header, self.store.get(parcel.message.ref))
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        try:
            async for chunk in paced(flight, data):
                await response.write(chunk)
        except Lost:
            return _hang_up(request)
        await response.write_eof()
        return response

    async def _reply(self, request: web.Request) -> web.StreamResponse:
        line = self._line_of(request)
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise web.HTTPUnsupportedMediaType(text="send the bytes as they are, without Content-Encoding")
        try:
            parcel = _parcel(await request.read(), ("round", "examples"), self.store)
        except Refused as refused:
            raise web.HTTPBadRequest(text=str(refused)[:200]) from None
        except ConnectionResetError:  # the device went off while it was sending; traffic.py has written that down
            return _hang_up(request)
        if not line.expects(parcel):
            raise web.HTTPConflict(text="nothing was asked that this answers")
        line.replied(parcel)
        return web.Response(status=204)


def _bearer(line: WebLine) -> str:
    return f"Bearer {line.token}"


class WebEnd:
    """The device's end of a line over HTTP (interface.DeviceEnd)."""

    def __init__(self, session: aiohttp.ClientSession, url: str, line: WebLine, largest: int) -> None:
        self.session = session
        self.url = url
        self.line = line  # only to know the links' pace: what is said goes over the socket
        self.largest = largest  # length of the largest download
        self.headers = {"Authorization": _bearer(line)}

    async def receive(self, resting: bool) -> Parcel | None:
        query = {"device": self.line.name, "resting": "1" if resting else "0"}
        try:
            async with self.session.post(f"{self.url}/next", params=query, headers=self.headers) as response:
                if response.status == 204:
                    return None
                length = response.content_length
                if response.status != 200 or length is None or length > self.largest + HEADER:
                    raise Lost(f"the server answered {response.status} with {length} bytes")
                return _parcel(await response.read(), ("round", "counted"), self.line.world.store)
        except (aiohttp.ClientError, Refused) as error:
            _check_files(error)
            raise Lost(str(error)) from None

    async def send(self, parcel: Parcel) -> None:
        data = envelope.pack(parcel.header, self.line.world.store.get(parcel.message.ref))
        flight = self.line.launch("up", parcel)
        headers = {**self.headers, "Content-Length": str(len(data))}
        query = {"device": self.line.name}
        try:
            async with self.session.post(
                f"{self.url}/reply", params=query, data=paced(flight, data), headers=headers
            ) as response:
                await response.read()
        except Cancelled:
            flight.abort("closed")
            raise
        except (aiohttp.ClientError, Lost) as error:
            _check_files(error)
            flight.abort("off")
            raise Lost(str(error)) from None


def _check_files(error: Exception) -> None:
    """Raises RunFailed if a connection could not be opened for want of open files: the device is there, and the server
    would wait for it for ever."""
    reason = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
    if reason is not None and reason.errno in (errno.EMFILE, errno.ENFILE):
        raise RunFailed(
            f"a device could not open a connection: {reason.strerror}; "
            "another process on this machine may hold connections to the server open; raise `ulimit -n`"
        )


async def paced(flight: Flight, data: bytes) -> AsyncIterator[bytes]:
    """The bytes, at the pace at which the modelled links carry them.  Raises Lost if the flight is cut."""
    arrival = asyncio.ensure_future(flight.signal.wait())
    sent = 0
    try:
        while sent < len(data):
            await asyncio.wait([arrival], timeout=TICK)  # always: a chunk for every byte would leave no time to others
            if arrival.done():
                arrival.result()
            # The last byte waits until the flight has landed and is written down: nobody may count it before.
            allowed = len(data) if flight.landed else max(sent, min(flight.carried(), len(data) - 1))
            yield data[sent:allowed]
            sent = allowed
    finally:
        if not arrival.cancel() and not arrival.cancelled():
            arrival.exception()  # the flight may be cut while a chunk is written: asyncio wants to see that


def _parcel(data: bytes, names: tuple[str, str], store: Store) -> Parcel:
    """A message with these two numbers; a reply may say beside them why it is a refusal."""
    header, body = envelope.unpack(data)
    why = header.get("refusal", "") if "examples" in names else ""
    if type(why) is not str or not why.isprintable():  # it will be shown on a terminal
        raise Refused("the header's refusal must be printable text")
    numbers = header.keys() - {"refusal"} if why else header.keys()
    if numbers != set(names) or type(header["round"]) is not int or type(header[names[1]]) not in (int, type(None)):
        raise Refused(f"the header has {sorted(header)}; it must have numbers {' and '.join(names)}")
    return Parcel.of(header, Arrived(payload.view(body), store))


def _hang_up(request: web.Request) -> web.StreamResponse:
    if request.transport:
        request.transport.abort()
    return web.Response(status=410)

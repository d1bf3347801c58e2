"""Further promises of a line over a WebSocket: about other callers, and about faulty messages from a device."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import WSCloseCode, WSMsgType

from emulator.conversation import websocket
from emulator.conversation.peer import HEADER, paced
from emulator.conversation.traffic import Flight
from emulator.conversation.websocket import RESTING, STRANGERS, WebEnd
from emulator.messages.forms import UploadForm
from emulator.messages.store import stored
from emulator.worlds.interface import Lost, Parcel
from emulator.worlds.sockets import RealSignal
from network.wire import envelope, payload
from tests.all_of import all_of
from tests.contracts.lines import BODY, LARGEST, OTHER, PATIENT, SOON, STORE, Stage, Way, body_of, down, outcome, up

GOOD = envelope.pack(up(0).header, OTHER)
PROMPT = 5.0  # s of real time until which what must come at once has come


@pytest.fixture
def play(tmp_path: Path) -> Stage:
    return Stage("web", tmp_path)


async def whole_round(way: Way, round: int = 0) -> bool:
    way.open(round)
    await way.line.send(down(round))
    reply = await way.line.receive()
    return bool(reply.header["round"] == round and body_of(reply) == OTHER)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def shown(way: Way) -> Any:
    """A connection with the device's token."""
    return way.session.ws_connect(way.url, params={"device": "a"}, headers=bearer(way.line.token))


async def turns() -> None:
    """Time for the loop to carry a few frames to and fro."""
    for _ in range(200):
        await asyncio.sleep(0)


async def connected(way: Way) -> None:
    while not way.reception.server.connections:
        await asyncio.sleep(0)


# --- one connection ---------------------------------------------------------------------------------------------


def test_a_device_has_one_connection_all_the_time_also_while_it_uploads(play: Stage) -> None:
    async def main(way: Way) -> tuple[list[int], int]:
        counts: list[int] = []
        way.device_works()
        await asyncio.wait_for(connected(way), PROMPT)  # a server that sends before has its bytes wait for the device
        for round in range(3):
            for event in ("down.start", "compute.start", "up.start", "up.end"):
                way.then(event, SOON, lambda: counts.append(len(way.reception.server.connections)))
            assert await whole_round(way, round)
            await way.world.sleep(1.0)
        return counts, way.reception.server.requests_count

    assert play(main) == ([1] * 12, 1)


def test_a_device_that_was_offline_opens_another_in_place_of_the_one_that_was_cut(play: Stage) -> None:
    async def main(way: Way) -> tuple[Any, int, bool, int]:
        way.device_works()
        way.open(0)
        way.then("up.start", SOON, way.line.lose)
        await way.line.send(down(0))
        lost = await outcome(way.line.receive())
        await way.line.rest()
        connections = len(way.reception.server.connections)
        return lost, connections, await whole_round(way, 1), way.reception.server.requests_count

    play.speedup = PATIENT
    assert play(main) == ("lost", 1, True, 2)


def test_a_second_connection_of_a_device_takes_nothing_from_the_first(play: Stage) -> None:
    """The second connection waits until the first has ended, and then gets the next message."""

    async def main(way: Way) -> tuple[Any, bool, Any]:
        first = asyncio.ensure_future(outcome(way.end.receive(resting=True)))
        await waits(way)
        other = WebEnd(way.session, way.url, way.line, LARGEST)
        second = asyncio.ensure_future(outcome(other.receive(resting=True)))
        while way.reception.server.requests_count < 2:
            await asyncio.sleep(0)
        await turns()
        way.open(0)
        await way.line.send(down(0))
        body, waiting = body_of(await asyncio.wait_for(first, PROMPT)), not second.done()
        await way.end.server.socket.close()
        way.line.push(None)
        return body, waiting, await asyncio.wait_for(second, PROMPT)

    assert play(main) == (BODY, True, None)


async def waits(way: Way) -> None:
    """Returns when the device has asked for what is next, and nothing lies ready for it."""
    while way.line.waiting.reader is None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("sent", ["after the second", "between the two"])
def test_who_breaks_off_waiting_for_a_message_swallows_none(play: Stage, sent: str) -> None:
    """Trap 2, over a WebSocket: what comes while nobody listens is kept for who listens next."""

    async def main(way: Way) -> bytes:
        way.open(0)
        first = asyncio.ensure_future(way.end.receive(resting=True))
        await waits(way)
        first.cancel()
        await turns()
        if sent == "between the two":
            await way.line.send(down(0))
        second = asyncio.ensure_future(way.end.receive(resting=True))
        if sent == "after the second":
            await turns()
            await way.line.send(down(0))
        return body_of(await asyncio.wait_for(second, PROMPT))

    assert play(main) == BODY


# --- strangers --------------------------------------------------------------------------------------------------

TOKENS: list[Callable[[Way], dict[str, str]]] = [
    lambda _: {},
    lambda _: bearer(""),
    lambda _: bearer("no token of ours"),
    lambda way: bearer(way.line.token[:-1]),
    lambda way: bearer(way.reception.lines["b"].token),  # another device of the run
    lambda way: {"Authorization": way.line.token},
    lambda way: {"Authorization": f"Basic {way.line.token}"},
]


@pytest.mark.parametrize("headers", TOKENS)
@pytest.mark.parametrize("named", [{"device": "a"}, {"device": "c"}, {}], ids=["a", "c", "nobody"])
def test_who_has_no_token_of_a_device_is_counted_and_changes_nothing(
    play: Stage, named: dict[str, str], headers: Callable[[Way], dict[str, str]]
) -> None:
    """A request lies ready for the device, and the device has not asked: the stranger does not get it."""

    async def main(way: Way) -> tuple[Any, ...]:
        way.open(0)
        sending = way.world.start(way.line.send(down(0)))
        await way.after("down.end", 0.0)
        before = way.events(), len(way.line.waiting.items), way.line.resting
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await way.session.ws_connect(way.url, params=named, headers=headers(way))
        assert refused.value.headers is not None
        answer = refused.value.status, refused.value.headers["WWW-Authenticate"], way.reception.strangers
        unchanged = before == (way.events(), len(way.line.waiting.items), way.line.resting)
        way.device_works()
        reply = await way.line.receive()
        return *answer, unchanged, sending.ended, body_of(reply) == OTHER

    assert play(main) == (401, "Bearer", 1, True, True, True)


def test_a_stranger_that_calls_all_the_time_does_not_stall_a_device(play: Stage) -> None:
    async def main(way: Way) -> tuple[bool, set[int], bool]:
        seen: list[int] = []

        async def stranger() -> None:
            while True:
                try:
                    await way.session.ws_connect(way.url, params={"device": "a"})
                except aiohttp.WSServerHandshakeError as refused:
                    seen.append(refused.status)

        way.device_works()
        calling = [way.world.start(stranger()) for _ in range(3)]
        undisturbed = await whole_round(way)
        for each in calling:
            await each.cancel()
        return undisturbed, set(seen), way.reception.strangers >= len(seen) > 0

    assert play(main) == (True, {401}, True)


@asynccontextmanager
async def silent(way: Way, number: int) -> AsyncIterator[list[socket.socket]]:
    """Connections on which nothing is ever said."""
    host, port = way.url.removeprefix("http://").split(":")
    with ExitStack() as stack:
        ends = [stack.enter_context(socket.socket()) for _ in range(number)]
        for end in ends:
            end.setblocking(False)
            await asyncio.get_running_loop().sock_connect(end, (host, int(port)))
        yield ends


def test_silent_connections_are_few_and_keep_no_device_out(play: Stage) -> None:
    """Two devices may connect at any time, so that many more than the strangers may be open and silent."""

    async def main(way: Way) -> tuple[bool, int]:
        async with silent(way, 150):
            way.device_works()
            played = await asyncio.wait_for(whole_round(way), PROMPT)
            return played, len(way.reception.server.connections)

    played, connections = play(main)
    assert played
    assert connections <= 2 + STRANGERS


def test_a_connection_that_stays_silent_is_closed_and_a_device_s_is_not(
    play: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "SILENT", 0.05)

    async def main(way: Way) -> tuple[bytes, int, bool, int]:
        way.device_works()
        async with silent(way, 1) as [end]:
            heard = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(end, 1), PROMPT)
        return heard, len(way.reception.server.connections), await whole_round(way), way.reception.server.requests_count

    assert play(main) == (b"", 1, True, 1)


@pytest.mark.parametrize(
    "noise",
    [
        b"\x00\xff" * 100,
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: here\r\nLong: " + b"a" * 20_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["bytes", "no host", "a long header", "HTTP/2", "a broken chunk"],
)
def test_noise_is_refused_and_prints_nothing(
    play: Stage, noise: bytes, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main(way: Way) -> tuple[bytes, bool]:
        async with silent(way, 1) as [end]:
            await asyncio.get_running_loop().sock_sendall(end, noise)
            answer = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(end, 12), PROMPT)
        way.device_works()
        return answer, await whole_round(way)

    answer, undisturbed = play(main)
    assert answer in (b"HTTP/1.0 400", b"HTTP/1.1 400", b"HTTP/1.1 401")
    assert undisturbed
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_every_device_has_a_token_of_its_own_in_every_run(play: Stage) -> None:
    async def main(way: Way) -> list[str]:
        return [line.token for line in way.reception.lines.values()]

    tokens = {*play(main), *play(main)}
    assert len(tokens) == 4
    assert all_of(len(token) >= 43 for token in tokens)  # 256 bits in base64


@pytest.mark.parametrize("method", ["get", "post", "delete"])
def test_what_opens_no_websocket_is_refused(play: Stage, method: str) -> None:
    async def main(way: Way) -> tuple[int, bool]:
        answer = await way.session.request(
            method, way.url, params={"device": "a"}, headers=bearer(way.line.token), data=bytes(1000)
        )
        way.device_works()
        return answer.status, await asyncio.wait_for(whole_round(way), PROMPT)

    assert play(main) == (400, True)


# --- what a device may send -------------------------------------------------------------------------------------


def framed(data: bytes) -> tuple[str | bytes, ...]:
    return str(len(data)), data


REFUSED = WSCloseCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("code", "frames"),
    [
        (REFUSED, ("garbage",)),
        (REFUSED, ("stop",)),  # the server's word
        (REFUSED, ("",)),
        (REFUSED, ("-1",)),
        (REFUSED, ("1e3",)),
        (REFUSED, ("٣",)),
        (REFUSED, ("9" * 13,)),
        (REFUSED, ("9" * 5000,)),
        (REFUSED, (str(LARGEST + HEADER + 1),)),
        (REFUSED, (b"bytes before their length",)),
        (REFUSED, (b"",)),
        (REFUSED, ("3", b"fo", b"ur")),
        (REFUSED, framed(b"")),
        (REFUSED, framed(b"garbage")),
        (REFUSED, framed(b"\xff" * 100)),
        (REFUSED, framed(GOOD[:-1])),
        (REFUSED, framed(envelope.pack({"round": 0, "counted": 1}, OTHER))),
        (REFUSED, framed(envelope.pack({"round": "0", "examples": 3}, OTHER))),
        (REFUSED, framed(GOOD)),  # nobody asked
        (REFUSED, ("7", b"only", RESTING, *framed(GOOD))),
        (WSCloseCode.MESSAGE_TOO_BIG, ("3", bytes(LARGEST + HEADER))),
        (WSCloseCode.MESSAGE_TOO_BIG, ("9" * (LARGEST + HEADER),)),
    ],
)
def test_what_is_no_reply_closes_its_connection_and_disturbs_nobody(
    play: Stage, code: int, frames: tuple[str | bytes, ...]
) -> None:
    async def main(way: Way) -> tuple[int | None, bool]:
        async with shown(way) as connection:
            for frame in frames:
                await (connection.send_str(frame) if isinstance(frame, str) else connection.send_bytes(frame))
            answer = await asyncio.wait_for(connection.receive(), PROMPT)
            assert answer.type is WSMsgType.CLOSE
        way.device_works()
        return connection.close_code, await asyncio.wait_for(whole_round(way), PROMPT)

    assert play(main) == (code, True)


@pytest.mark.parametrize(
    ("code", "data", "compress"),
    [(WSCloseCode.PROTOCOL_ERROR, GOOD, 15), (WSCloseCode.INVALID_TEXT, b"\xff", None)],
    ids=["compressed", "no text"],
)
def test_frames_are_neither_inflated_nor_guessed(play: Stage, code: int, data: bytes, compress: int | None) -> None:
    async def main(way: Way) -> tuple[int | None, bool]:
        async with shown(way) as connection:
            await connection.send_frame(data, WSMsgType.TEXT, compress)
            await asyncio.wait_for(connection.receive(), PROMPT)
        way.device_works()
        return connection.close_code, await asyncio.wait_for(whole_round(way), PROMPT)

    assert play(main) == (code, True)


def test_no_compression_is_agreed_on(play: Stage) -> None:
    async def main(way: Way) -> Any:
        offer = {**bearer(way.line.token), "Sec-WebSocket-Extensions": "permessage-deflate"}
        async with way.session.ws_connect(way.url, params={"device": "a"}, headers=offer) as connection:
            return connection._response.headers.get("Sec-WebSocket-Extensions")

    assert play(main) is None


def test_garbage_while_the_device_is_connected_waits_and_does_not_disturb_its_round(play: Stage) -> None:
    async def main(way: Way) -> tuple[bool, bool, list[str]]:
        way.device_works()
        way.open(0)
        await way.line.send(down(0))
        second = asyncio.ensure_future(shown(way)._coro)
        reply = await way.line.receive()
        waiting = not second.done()
        second.cancel()
        return waiting, body_of(reply) == OTHER, [event for event in way.events() if "cut" in event]

    assert play(main) == (True, True, [])


def test_a_stray_reply_does_not_pass_for_rest(play: Stage) -> None:
    """`stop` returns when the device has dropped what it was doing, whatever else was received."""

    async def main(way: Way) -> list[str]:
        way.device_works()
        way.open(0)
        way.world.start(way.line.send(down(0)))
        await way.after("compute.start", 0.0)
        for frame in framed(envelope.pack(up(7).header, OTHER)):
            connection = way.end.server.socket
            await (connection.send_str(frame) if isinstance(frame, str) else connection.send_bytes(frame))
        await asyncio.wait_for(way.line.stop(), PROMPT)
        return [cut["event"] for cut in way.cuts()]

    assert play(main) == ["compute.cut"]


def test_a_device_reads_no_download_that_is_larger_than_any_can_be(play: Stage) -> None:
    async def main(way: Way) -> Any:
        way.end.largest = len(BODY) - HEADER
        way.open(0)
        sending = way.world.start(outcome(way.line.send(down(0))))
        answer = await outcome(way.end.receive(resting=True))
        await sending.cancel()
        return answer

    assert play(main) == "lost"


# --- in and out of frames ---------------------------------------------------------------------------------------


def test_each_message_off_a_socket_is_parsed_once(play: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """And none that this process has made: the request at the device, the reply at the server."""
    seen: list[bytes] = []
    parse = payload._entries
    monkeypatch.setattr(payload, "_entries", lambda data, limit: seen.append(data) or parse(data, limit))

    async def main(way: Way) -> list[bytes]:
        way.device_works()
        way.open(0)
        request = Parcel.of({"round": 0, "counted": None}, stored(STORE, payload.trusted(BODY)))
        await way.line.send(request)
        reply = await way.line.receive()
        reply.message.check(UploadForm(lambda: payload.manifest(payload.trusted(OTHER).arrays())))
        return seen

    assert play(main) == [BODY, OTHER]


@pytest.mark.parametrize("ends", ["landed", "cut", None])
def test_a_body_that_is_given_up_leaves_nothing_behind(ends) -> None:
    """Its connection breaks while a chunk is written, and its flight ends in that moment, or does not."""

    async def given_up() -> list[dict[str, Any]]:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        signal = RealSignal()
        chunks = paced(cast(Flight, SimpleNamespace(signal=signal, landed=False, carried=lambda: 10)), BODY)
        assert len(await anext(chunks)) == 10
        if ends == "cut":
            signal.fail(Lost("off"))
        elif ends:
            signal.set()
        for _ in range(3):  # turns of the loop, in which who waits for the flight hears of its end
            await asyncio.sleep(0)
        await chunks.aclose()
        del chunks
        gc.collect()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return complaints

    assert asyncio.run(given_up()) == []

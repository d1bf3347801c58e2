"""What every line between the server and a device promises: one suite, in memory and over HTTP."""

from __future__ import annotations

import asyncio
import gc
import gzip
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import numpy as np
import pytest
from aiohttp import web

from devices.device import NEVER, profiles
from emulator.conversation.channel import LOST, Inbox, MemoryLine
from emulator.conversation.device import Attendant
from emulator.conversation.exchange import Exchange
from emulator.conversation.http import HEADER, Reception, WebEnd, WebLine, paced
from emulator.conversation.processor import Bench
from emulator.conversation.traffic import Flight, Traffic
from emulator.record.events import Event
from emulator.record.record import Record, read_lines
from emulator.record.run import Run
from emulator.record.tally import Bill
from emulator.study.jobs import Trained
from emulator.study.links import LinksAtOffsets
from emulator.study.store import EMPTY, stored
from emulator.worlds.interface import Cancelled, Lost, Parcel, World
from emulator.worlds.sockets import RealSignal, SocketWorld
from emulator.worlds.stores import Memory
from emulator.worlds.virtual import VirtualWorld
from network.links.link import Link
from network.wire import envelope, payload

SPEEDUP = 100.0
PATIENCE = 3000.0  # modelled seconds until nothing is expected any more: half a minute on a busy machine
RATE = 1000.0  # bytes/s, both ways
COMPUTE = 4.0  # s
BODY = payload.encode({"weights": {"w": np.arange(4000, dtype=np.uint8)}})
OTHER = payload.encode({"weights": {"w": np.arange(4000, 0, -1, dtype=np.int16).view(np.uint8)[:4000]}})
STORE = Memory()
LARGEST = len(BODY) + 100  # that may be sent, either way


def down(round: int, body: bytes = BODY) -> Parcel:
    return Parcel.of({"round": round, "counted": None}, stored(STORE, body))


def up(round: int, body: bytes = OTHER) -> Parcel:
    return Parcel.of({"round": round, "examples": 3}, stored(STORE, body))


def body_of(parcel: Parcel) -> bytes:
    return bytes(STORE.get(parcel.message.ref))


def seconds(parcel: Parcel) -> float:
    """How long its bytes take on the way: they are those of the envelope, and no others."""
    return len(envelope.pack(parcel.header, body_of(parcel))) / RATE


DOWN, UP = seconds(down(0)), seconds(up(0))
ARRIVED = DOWN  # when the device has the request and computes
UPLOADS = DOWN + COMPUTE
DONE = DOWN + COMPUTE + UP


class Trains:
    """Whatever the job, the device's half of a round comes out."""

    store = STORE

    def submit(self, job: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(Trained(stored(STORE, OTHER), 3, EMPTY, EMPTY))
        return future


class Costs:
    """Every training costs COMPUTE seconds."""

    def duty(self, *_: Any) -> None:
        """Nobody knows what else it asks."""

    def refusal(self, *_: Any) -> None:
        """Every device has memory enough."""

    study = SimpleNamespace(
        fleet={"a": SimpleNamespace(profile=replace(profiles()["pi-4"], flops_per_s=1e6, throttle=NEVER))}
    )

    def device(self, *_: object) -> Bill:
        return Bill({"train": COMPUTE * 1e6}, {"train": COMPUTE})


class Watched(Record):
    """A record that does something, a while after the line of an event was written."""

    def __init__(self, folder: Path, world: Any) -> None:
        super().__init__(folder, world.now)
        self.world = world
        self.watches: dict[str, tuple[float, Callable[[], None]]] = {}

    def _write(self, event: Event) -> float:
        t = super()._write(event)
        name = str(event.plain["event"])
        if name in self.watches:
            seconds, action = self.watches.pop(name)
            self.world.call_at(t + seconds, action)
        return t


@dataclass
class Way:
    """Both ends of the way to the device `a`, and what surrounds them."""

    kind: str
    world: Any
    line: Any
    end: Any
    record: Watched
    url: str = ""
    session: Any = None
    reception: Any = None

    def open(self, round: int) -> None:
        self.record.open(round, ["a"], "m")

    def device_works(self) -> None:
        """The device's half of the conversation, as in a run."""
        self.world.start(self.line.attendant.attend(self.end))

    def lines(self) -> list[dict[str, Any]]:
        self.record.events.flush()
        return list(read_lines(self.record.folder / "events.jsonl"))

    def cuts(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"].endswith(".cut")]

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines()]

    def then(self, event: str, seconds: float, action: Callable[[], None]) -> None:
        """Acts so many seconds after the next line of this event."""
        self.record.watches[event] = (seconds, action)

    async def after(self, event: str, seconds: float) -> None:
        """Returns so many seconds after the next line of this event."""
        signal = self.world.signal()
        self.then(event, seconds, signal.set)
        await signal.wait()

    def is_time(self, found: float, expected: float) -> bool:
        if self.kind == "memory":
            return found == pytest.approx(expected, abs=1e-9)
        return expected - 0.01 <= found < expected + 100.0


Main = Callable[[Way], Coroutine[Any, Any, Any]]


@dataclass
class Stage:
    """Plays a conversation over one kind of line."""

    kind: str
    folder: Path
    speedup: float = SPEEDUP

    def __call__(self, main: Main) -> Any:
        async def conducted() -> Any:
            async with self.way() as way:
                return await way.world.run(main(way))

        return asyncio.run(asyncio.wait_for(conducted(), 60.0))

    @asynccontextmanager
    async def way(self) -> AsyncIterator[Way]:
        world: Any = VirtualWorld(Trains()) if self.kind == "memory" else SocketWorld(Trains(), self.speedup)
        record = Watched(self.folder, world)
        link = Link(RATE, RATE, 0.0)
        traffic = Traffic(world, record, LinksAtOffsets(Link(1e6, 1e6, 0.0), {"a": link}))
        costs: Any = Costs()
        bench = Bench(world, record, Costs.study.fleet["a"].profile)
        attendant = Attendant("a", Run("fedavg", 1), world, costs, bench, {}, lambda _: False)
        try:
            if self.kind == "memory":
                memory = MemoryLine(world, traffic, attendant)
                yield Way(self.kind, world, memory, memory.device, record)
            else:
                line = WebLine(world, traffic, attendant)
                reception = Reception({"a": line, "b": WebLine(world, traffic, attendant)}, LARGEST, STORE)
                async with served(reception) as (url, session):
                    end = WebEnd(session, url, line, LARGEST)
                    yield Way(self.kind, world, line, end, record, url, session, reception)
        finally:
            record.shut()


@asynccontextmanager
async def served(reception: Reception) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    server_side = reception.runner()
    await server_side.setup()
    await web.TCPSite(server_side, "127.0.0.1", 0).start()
    host, port = server_side.addresses[0][:2]
    try:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            yield f"http://{host}:{port}", session
    finally:
        await server_side.cleanup()


@pytest.fixture(params=["memory", "web"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


@pytest.fixture
def over_http(tmp_path: Path) -> Stage:
    return Stage("web", tmp_path)


async def outcome(work: Coroutine[Any, Any, Any]) -> Any:
    """What the work returned, or that it was Lost."""
    try:
        return await work
    except Lost:
        return "lost"


# --- there and back ---------------------------------------------------------------------------------------------


def test_both_ways_the_same_bytes_arrive_that_were_sent(play: Stage) -> None:
    async def main(way: Way) -> tuple[Parcel, Parcel, float]:
        async def device() -> Parcel:
            parcel = await way.end.receive(resting=True)
            await way.end.send(up(0))
            return parcel  # type: ignore[no-any-return]

        async def server() -> Parcel:
            await way.line.send(down(0))
            return await way.line.receive()  # type: ignore[no-any-return]

        way.open(0)
        there, back = await way.world.together([device(), server()])
        assert way.is_time(way.world.now(), DOWN + UP)
        return there, back, way.world.now()

    there, back, _ = play(main)
    assert (dict(there.header), body_of(there), dict(there.sizes)) == (
        {"round": 0, "counted": None},
        BODY,
        dict(down(0).sizes),
    )
    assert (dict(back.header), body_of(back), dict(back.sizes)) == (
        {"round": 0, "examples": 3},
        OTHER,
        dict(up(0).sizes),
    )


def test_several_rounds_go_over_one_line(play: Stage) -> None:
    async def main(way: Way) -> list[Any]:
        way.device_works()
        answers = []
        for round in range(2):
            way.open(round)
            await way.line.send(down(round))
            reply = await way.line.receive()
            await way.line.rest()
            answers.append((reply.header["round"], body_of(reply) == OTHER))
        return answers

    assert play(main) == [(0, True), (1, True)]


def test_what_is_charged_is_the_length_of_what_is_sent() -> None:
    for parcel in (down(3), up(12)):
        assert sum(parcel.sizes.values()) == len(envelope.pack(parcel.header, body_of(parcel)))


# --- stop -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("doing", "began"), [("compute", ARRIVED), ("up", UPLOADS)])
def test_stop_returns_when_the_device_rests_and_the_record_says_closed(play: Stage, doing: str, began: float) -> None:
    async def main(way: Way) -> tuple[list[dict[str, Any]], bool, Any]:
        way.device_works()
        way.open(0)
        asked = way.world.start(way.line.send(down(0)))
        await way.after(f"{doing}.start", 1.0)
        assert asked.ended
        await way.line.stop()
        cuts, rests = way.cuts(), way.line.resting
        way.open(1)
        await way.line.send(down(1))
        reply = await way.line.receive()
        return cuts, rests, reply.header["round"]

    play.speedup = 20.0  # the upload ends after 3 seconds more: time enough for a busy machine
    cuts, rests, answered = play(main)
    assert [(cut["event"], cut["why"]) for cut in cuts] == [(f"{doing}.cut", "closed")]
    assert rests is True
    assert answered == 1  # nothing is left of round 0
    if doing == "up":
        assert isinstance(cuts[0]["bytes"], int)
        assert 0 < cuts[0]["bytes"] < sum(up(0).sizes.values())
    if play.kind == "memory":
        assert cuts[0]["t"] == pytest.approx(began + 1.0, abs=1e-9)
        assert cuts[0]["seconds" if doing == "compute" else "bytes"] == pytest.approx({"compute": 1, "up": 1000}[doing])


def test_to_stop_a_device_that_rests_takes_no_time(play: Stage) -> None:
    async def main(way: Way) -> tuple[float, Any]:
        way.device_works()
        await way.line.stop()
        now = way.world.now()
        way.open(0)
        await way.line.send(down(0))
        return now, (await way.line.receive()).header["round"]

    now, answered = play(main)
    assert now == 0.0 if play.kind == "memory" else now < PATIENCE
    assert answered == 0


def test_rest_waits_until_the_device_has_nothing_more_to_do(play: Stage) -> None:
    async def main(way: Way) -> float:
        way.device_works()
        way.open(0)
        await way.line.send(down(0))
        reply = way.world.start(way.line.receive())
        await way.line.rest()
        assert reply.ended or play.kind == "web"
        return way.world.now()  # type: ignore[no-any-return]

    now = play(main)
    assert now >= DONE - 0.01


# --- lose -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("doing", "began"), [("down", 0.0), ("compute", ARRIVED), ("up", UPLOADS)])
def test_a_device_that_goes_off_is_cut_at_that_instant_and_can_be_asked_again(
    play: Stage, doing: str, began: float
) -> None:
    async def main(way: Way) -> tuple[Any, list[dict[str, Any]], Any]:
        async def ask(round: int) -> Any:
            await way.line.send(down(round))
            return await way.line.receive()

        way.device_works()
        way.open(0)
        way.then(f"{doing}.start", 1.0, way.line.lose)
        learnt = await outcome(ask(0))
        await way.line.rest()
        cuts = way.cuts()
        way.open(1)
        reply = await ask(1)
        return learnt, cuts, reply.header["round"]

    learnt, cuts, answered = play(main)
    assert learnt == "lost"
    assert [(cut["event"], cut["why"]) for cut in cuts] == [(f"{doing}.cut", "off")]
    assert answered == 1
    if doing != "compute":
        assert isinstance(cuts[0]["bytes"], int)
        sent = down(0) if doing == "down" else up(0)
        assert 0 < cuts[0]["bytes"] <= sum(sent.sizes.values())  # all of them, where the machine was late
    if play.kind == "memory":
        assert cuts[0]["t"] == pytest.approx(began + 1.0, abs=1e-9)
        assert cuts[0]["seconds" if doing == "compute" else "bytes"] == pytest.approx(1 if doing == "compute" else 1000)


@pytest.mark.parametrize("doing", ["downloads", "computes", "uploads", "rests"])
def test_the_device_end_learns_that_it_is_off(play: Stage, doing: str) -> None:
    """`receive` and `send` raise Lost if this device goes off, whatever it was doing."""

    async def main(way: Way) -> Any:
        async def device() -> Any:
            if doing in ("rests", "downloads"):
                return await outcome(way.end.receive(resting=True))
            await way.end.receive(resting=True)
            if doing == "computes":
                return await outcome(way.end.receive(resting=False))
            return await outcome(way.end.send(up(0)))

        async def server() -> None:
            if doing == "rests":
                return
            way.open(0)
            await outcome(way.line.send(down(0)))

        if doing == "rests":
            way.world.call_at(1.0, way.line.lose)
        else:
            event = {"downloads": "down.start", "computes": "down.end", "uploads": "up.start"}[doing]
            way.then(event, 1.0, way.line.lose)
        works = way.world.together([device(), server()])
        return (await way.world.within(PATIENCE, works))[0]

    assert play(main) == "lost"


def test_a_device_that_goes_off_as_the_last_byte_arrives_has_not_got_it(play: Stage) -> None:
    async def main(way: Way) -> Any:
        way.device_works()
        way.open(0)
        way.world.call_at(DOWN, way.line.lose)
        return await outcome(way.world.within(PATIENCE, both(way)))

    async def both(way: Way) -> Any:
        await way.line.send(down(0))
        return await way.line.receive()

    assert play(main) == "lost"


# --- what is left over ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["virtual", "sockets"])
def test_a_reader_that_is_cancelled_takes_no_message_with_it(kind: str) -> None:  # trap 2
    async def main(world: World) -> Any:
        inbox = Inbox(world)
        impatient = world.start(inbox.get())
        await world.sleep(1.0)
        await impatient.cancel()
        inbox.put("message")
        return await inbox.get()

    assert _in_world(kind, main) == "message"


@pytest.mark.parametrize("kind", ["virtual", "sockets"])
def test_a_reader_that_is_cancelled_in_the_instant_of_the_message_leaves_it(kind: str) -> None:  # trap 2
    async def main(world: World) -> list[Any]:
        inbox, got = Inbox(world), list[Any]()

        async def reader() -> None:
            got.append(await inbox.get())

        impatient = world.start(reader())
        await world.sleep(1.0)
        inbox.put("message")
        await impatient.cancel()
        return got or [await inbox.get()]

    assert _in_world(kind, main) == ["message"]


@pytest.mark.parametrize("kind", ["virtual", "sockets"])
def test_an_inbox_keeps_the_order_and_tells_of_a_loss_once(kind: str) -> None:
    async def main(world: World) -> list[Any]:
        inbox = Inbox(world)
        for item in (1, LOST, 2):
            inbox.put(item)
        return [await outcome(inbox.get()) for _ in range(3)]

    assert _in_world(kind, main) == [1, "lost", 2]


def _in_world(kind: str, main: Callable[[World], Coroutine[Any, Any, Any]]) -> Any:
    async def conducted() -> Any:
        world: Any = VirtualWorld(Trains()) if kind == "virtual" else SocketWorld(Trains(), SPEEDUP)
        return await world.run(main(world))

    return asyncio.run(conducted())


class Reads:
    """A line on which some parcels have arrived."""

    def __init__(self, *parcels: Parcel) -> None:
        self.parcels = list(parcels)
        self.stopped = 0

    async def receive(self) -> Parcel:
        if not self.parcels:
            raise Cancelled("stopped")
        return self.parcels.pop(0)

    async def stop(self) -> None:
        self.stopped += 1


def test_a_late_reply_to_round_3_is_not_read_as_that_of_round_4() -> None:  # trap 5
    line: Any = Reads(up(3), up(2), up(4), up(3))
    playing: Any = SimpleNamespace(round=SimpleNamespace(number=4))
    reply = asyncio.run(Exchange._reply(playing, line))
    assert reply.header["round"] == 4
    assert [parcel.header["round"] for parcel in line.parcels] == [3]


def test_who_is_stopped_while_it_waits_for_a_reply_stops_the_device() -> None:
    line: Any = Reads(up(3))
    playing: Any = SimpleNamespace(round=SimpleNamespace(number=4))
    with pytest.raises(Cancelled):
        asyncio.run(Exchange._reply(playing, line))
    assert line.stopped == 1


# --- over HTTP: strangers ---------------------------------------------------------------------------------------

GOOD = envelope.pack(up(0).header, OTHER)


async def whole_round(way: Way, round: int = 0) -> bool:
    way.open(round)
    await way.line.send(down(round))
    reply = await way.line.receive()
    return bool(reply.header["round"] == round and body_of(reply) == OTHER)


@pytest.mark.parametrize(
    ("status", "data", "headers"),
    [
        (415, gzip.compress(GOOD, mtime=0), {"Content-Encoding": "gzip"}),
        (415, GOOD, {"Content-Encoding": "br"}),
        (413, bytes(LARGEST + HEADER + 1), {}),
        (400, b"", {}),
        (400, b"garbage", {}),
        (400, b"\xff" * 100, {}),
        (400, GOOD[:-1], {}),
        (400, envelope.pack({"round": 0, "counted": 1}, OTHER), {}),
        (400, envelope.pack({"round": "0", "examples": 3}, OTHER), {}),
    ],
)
def test_a_reply_that_is_no_reply_is_refused_and_disturbs_nobody(
    over_http: Stage, status: int, data: bytes, headers: dict[str, str]
) -> None:
    async def main(way: Way) -> tuple[int, bool]:
        way.device_works()
        before, _ = await asyncio.gather(
            way.session.post(f"{way.url}/reply?device=a", data=data, headers={**way.end.headers, **headers}),
            asyncio.sleep(0),
        )
        return before.status, await whole_round(way)

    assert over_http(main) == (status, True)


def test_an_upload_of_unsaid_length_is_cut_off_at_the_limit(over_http: Stage) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield bytes(LARGEST + HEADER)

    async def main(way: Way) -> tuple[Any, bool]:
        way.device_works()
        try:
            response = await way.session.post(f"{way.url}/reply?device=a", data=endless(), headers=way.end.headers)
            answer = response.status
        except aiohttp.ClientError:
            answer = "hung up"
        return answer, await whole_round(way)

    answer, undisturbed = over_http(main)
    assert answer in (413, "hung up")
    assert undisturbed


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


STRANGERS: list[Callable[[Way], dict[str, str]]] = [
    lambda _: {},
    lambda _: bearer(""),
    lambda _: bearer("no token of ours"),
    lambda way: bearer(way.line.token[:-1]),
    lambda way: bearer(way.reception.lines["b"].token),  # another device of the run
    lambda way: {"Authorization": way.line.token},
    lambda way: {"Authorization": f"Basic {way.line.token}"},
]


@pytest.mark.parametrize("headers", STRANGERS)
@pytest.mark.parametrize("path", ["next?device=a&resting=1", "reply?device=a", "next?device=c", "next", "reply"])
def test_who_has_no_token_of_a_device_is_counted_and_changes_nothing(
    over_http: Stage, path: str, headers: Callable[[Way], dict[str, str]]
) -> None:
    """A request lies ready for the device, and the device has not polled: the stranger does not get it."""

    async def main(way: Way) -> tuple[Any, ...]:
        way.open(0)
        sending = way.world.start(way.line.send(down(0)))
        await asyncio.sleep(0)
        before = way.events(), len(way.line.waiting), way.line.resting
        async with way.session.post(f"{way.url}/{path}", data=GOOD, headers=headers(way)) as response:
            answer = response.status, response.headers["WWW-Authenticate"], way.reception.strangers
        unchanged = before == (way.events(), len(way.line.waiting), way.line.resting)
        way.device_works()
        reply = await way.line.receive()
        return *answer, unchanged, sending.ended, body_of(reply) == OTHER

    assert over_http(main) == (401, "Bearer", 1, True, True, True)


def test_a_stranger_that_polls_and_answers_all_the_time_does_not_stall_a_device(over_http: Stage) -> None:
    """Without tokens each poll took the place of the one before, and the device never came by its request."""

    async def main(way: Way) -> tuple[bool, set[int], bool]:
        seen: list[int] = []

        async def stranger(path: str) -> None:
            while True:
                async with way.session.post(f"{way.url}/{path}", data=GOOD) as response:
                    seen.append(response.status)

        way.device_works()
        calling = [
            way.world.start(stranger(path)) for path in ("next?device=a", "next?device=a&resting=1", "reply?device=a")
        ]
        undisturbed = await whole_round(way)
        for each in calling:
            await each.cancel()
        return undisturbed, set(seen), way.reception.strangers >= len(seen) > 0

    assert over_http(main) == (True, {401}, True)


def test_every_device_has_a_token_of_its_own_in_every_run(over_http: Stage) -> None:
    async def main(way: Way) -> list[str]:
        return [line.token for line in way.reception.lines.values()]

    tokens = {*over_http(main), *over_http(main)}
    assert len(tokens) == 4
    assert all(len(token) >= 43 for token in tokens)  # 256 bits in base64


def test_each_message_off_a_socket_is_parsed_once(over_http: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """And none that this process has made: the request at the device, the reply at the server."""
    seen: list[bytes] = []
    parse = payload._entries
    monkeypatch.setattr(payload, "_entries", lambda data, limit: seen.append(data) or parse(data, limit))

    async def main(way: Way) -> list[bytes]:
        way.device_works()
        way.open(0)
        request = Parcel.of({"round": 0, "counted": None}, stored(STORE, BODY))
        await way.line.send(request)
        reply = await way.line.receive()
        reply.message.check(payload.manifest(payload.trusted(OTHER).arrays()))
        return seen

    assert over_http(main) == [BODY, OTHER]


@pytest.mark.parametrize("path", ["/next", "/reply", "/other"])
def test_nothing_is_fetched_with_get(over_http: Stage, path: str) -> None:
    async def main(way: Way) -> tuple[int, bool]:
        way.device_works()
        async with way.session.get(f"{way.url}{path}?device=a", headers=way.end.headers) as response:
            return response.status, await whole_round(way)

    assert over_http(main) == (404 if path == "/other" else 405, True)


def test_garbage_while_the_device_computes_does_not_disturb_its_round(over_http: Stage) -> None:
    async def main(way: Way) -> tuple[int, bool, list[str]]:
        way.device_works()
        way.open(0)
        await way.line.send(down(0))
        async with way.session.post(f"{way.url}/reply?device=a", data=b"garbage", headers=way.end.headers) as response:
            reply = await way.line.receive()
            return response.status, body_of(reply) == OTHER, [event for event in way.events() if "cut" in event]

    assert over_http(main) == (400, True, [])


async def polling(way: Way, number: int = 1) -> None:
    """Returns when so many polls wait at the server."""
    while len(way.line.polls) != number:
        await asyncio.sleep(0.001)


def test_a_second_poll_of_a_device_takes_nothing_from_the_first(over_http: Stage) -> None:
    """It waits its turn, and is answered with what is sent next."""

    async def main(way: Way) -> tuple[Any, bool, Any]:
        way.open(0)
        first = asyncio.ensure_future(outcome(way.end.receive(resting=True)))
        await polling(way, 1)
        second = asyncio.ensure_future(outcome(way.end.receive(resting=True)))
        await polling(way, 2)
        await way.line.send(down(0))
        body, waits = body_of(await first), not second.done()
        way.line.push(None)
        return body, waits, await second

    assert over_http(main) == (BODY, True, None)


@pytest.mark.parametrize("sent", ["after the second", "between the two"])
def test_a_poll_that_was_broken_off_swallows_no_message(over_http: Stage, sent: str) -> None:
    """Trap 2, over HTTP: what is sent while no poll waits is kept for the next."""

    async def main(way: Way) -> bytes:
        way.open(0)
        first = asyncio.ensure_future(way.end.receive(resting=True))
        await polling(way, 1)
        first.cancel()
        await polling(way, 0)
        if sent == "between the two":
            await way.line.send(down(0))
        second = asyncio.ensure_future(way.end.receive(resting=True))
        if sent == "after the second":
            await polling(way, 1)
            await way.line.send(down(0))
        return body_of(await second)

    assert over_http(main) == BODY


def test_a_stray_reply_does_not_pass_for_rest(over_http: Stage) -> None:
    """`stop` returns when the device has dropped what it was doing, whatever else was received."""

    async def main(way: Way) -> tuple[int, list[str]]:
        way.device_works()
        way.open(0)
        way.world.start(way.line.send(down(0)))
        await way.after("compute.start", 0.0)
        stray = envelope.pack(up(7).header, OTHER)
        async with way.session.post(f"{way.url}/reply?device=a", data=stray, headers=way.end.headers) as response:
            status = response.status
        await way.line.stop()
        return status, [cut["event"] for cut in way.cuts()]

    assert over_http(main) == (409, ["compute.cut"])


def test_a_device_reads_no_download_that_is_larger_than_any_can_be(over_http: Stage) -> None:
    async def main(way: Way) -> Any:
        way.end.largest = len(BODY) - HEADER
        way.open(0)
        sending = way.world.start(outcome(way.line.send(down(0))))
        answer = await outcome(way.end.receive(resting=True))
        await sending.cancel()
        return answer

    assert over_http(main) == "lost"


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

"""Both ends of the way to one device, in memory or over a WebSocket, for tests of what lines promise."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import numpy as np
import pytest

from devices.device import NEVER, profiles
from emulator.conversation.channel import LOST, Inbox, MemoryLine
from emulator.conversation.device import Attendant
from emulator.conversation.peer import TICK
from emulator.conversation.processor import Bench
from emulator.conversation.traffic import Traffic
from emulator.conversation.trainings import Trainings
from emulator.conversation.websocket import Reception, WebEnd, WebLine
from emulator.lab.links import LinksAtOffsets
from emulator.lab.training import Trained
from emulator.messages.files import Memory
from emulator.messages.store import EMPTY, stored
from emulator.record.lines import read_lines
from emulator.record.record import Record
from emulator.record.run import Run
from emulator.record.tally import Bill
from emulator.worlds.interface import CallingEnd, Lost, Parcel
from emulator.worlds.sockets import SocketWorld
from emulator.worlds.virtual import VirtualWorld
from network.links.link import Link
from network.wire import envelope, payload

SPEEDUP = 100.0
PATIENT = 10.0  # a speedup under which a machine, however busy, acts in the 4 seconds that a transfer takes
SOON = 0.5 * TICK * SPEEDUP  # s: before a sender first looks how far its bytes are, on a machine however busy
PATIENCE = 3000.0  # modelled seconds until nothing is expected any more: half a minute on a busy machine
RATE = 1000.0  # bytes/s, both ways
COMPUTE = 4.0  # s
BODY = payload.encode({"weights": {"w": np.arange(4000, dtype=np.uint8)}})
OTHER = payload.encode({"weights": {"w": np.arange(4000, 0, -1, dtype=np.int16).view(np.uint8)[:4000]}})
STORE = Memory()
LARGEST = len(BODY) + 100  # that may be sent, either way


def down(round: int, body: bytes = BODY) -> Parcel:
    return Parcel.of({"round": round, "counted": None}, stored(STORE, payload.trusted(body)))


def up(round: int, body: bytes = OTHER) -> Parcel:
    return Parcel.of({"round": round, "examples": 3}, stored(STORE, payload.trusted(body)))


def body_of(parcel: Parcel) -> bytes:
    return bytes(STORE.get(parcel.message.ref))


def seconds(parcel: Parcel) -> float:
    """The seconds that the message's bytes take on the way: the bytes of its envelope, and no others."""
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
        future.set_result(Trained(stored(STORE, payload.trusted(OTHER)), 3, EMPTY, EMPTY))
        return future


class Costs:
    """Every training costs COMPUTE seconds."""

    def duty(self, *_: Any) -> None:
        """Nobody knows what else it asks."""

    def refusal(self, *_: Any) -> None:
        """Every device has memory enough."""

    lab = SimpleNamespace(
        fleet={"a": SimpleNamespace(profile=replace(profiles()["pi-4"], flops_per_s=1e6, throttle=NEVER))},
        tells_steps=lambda label: False,
    )

    def device(self, *_: object) -> Bill:
        return Bill({"train": COMPUTE * 1e6}, {"train": COMPUTE})


class Watched(Record):
    """A record that does something, a while after the line of an event was written."""

    def __init__(self, folder: Path, world: Any) -> None:
        super().__init__(folder, world.now)
        self.world = world
        self.watches: dict[str, tuple[float, Callable[[], None]]] = {}

    def _say(self, to: Any, line: Mapping[str, Any]) -> None:
        super()._say(to, line)
        name = line.get("event")
        if name in self.watches:
            seconds, action = self.watches.pop(name)
            self.world.call_at(line["t"] + seconds, action)


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
        if self.kind == "memory":
            del self.line.attendant.hear  # which a test's own end stands for
        else:
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


class Ear:
    """The device's end of a MemoryLine, which keeps what it tells the device until a test asks for it."""

    def __init__(self, line: MemoryLine) -> None:
        self.line, self.heard = line, Inbox(line.world)
        line.attendant.hear = self.hear  # type: ignore[method-assign]

    def hear(self, _: CallingEnd, parcel: Parcel | None) -> None:
        self.heard.put(LOST if parcel is None and self.line.attendant.off else parcel)

    async def send(self, parcel: Parcel) -> None:
        await self.line.device.send(parcel)

    async def receive(self, resting: bool) -> Any:
        if resting and not self.heard.items:
            self.line.rests()
        return await self.heard.get()


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
        bench = Bench(world, record, Costs.lab.fleet["a"].profile)
        trainings = Trainings(world, Costs.lab, Run("fedavg", 1), lambda _: False)
        attendant = Attendant("a", world, costs, bench, {}, trainings)
        try:
            if self.kind == "memory":
                memory = MemoryLine(world, traffic, attendant)
                yield Way(self.kind, world, memory, Ear(memory), record)
            else:
                line = WebLine(world, traffic, attendant)
                reception = Reception({"a": line, "b": WebLine(world, traffic, attendant)}, LARGEST, STORE)
                async with served(reception) as (url, session):
                    end = WebEnd(session, url, line, LARGEST)
                    yield Way(self.kind, world, line, end, record, url, session, reception)
                    await end.close()
        finally:
            record.shut()


@asynccontextmanager
async def served(reception: Reception) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        host, port = listening.getsockname()
        welcoming = asyncio.ensure_future(reception.welcome(listening))
        try:
            async with aiohttp.ClientSession() as session:
                yield f"http://{host}:{port}", session
        finally:
            welcoming.cancel()
            await asyncio.wait([welcoming])
            await reception.server.shutdown(1.0)


async def outcome(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of the work, or that it was Lost."""
    try:
        return await work
    except Lost:
        return "lost"

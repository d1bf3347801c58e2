"""The server in a process of its own: rounds over HTTP with real devices, and nothing that paces them.

Run as: python -m benchmarks.testbed.host SCENARIO.  A line on standard input, "label seed rounds", plays so many
rounds in which all devices are asked and all count; then it says when what happened (CLOCK_MONOTONIC, s).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from dataclasses import dataclass, field

from aiohttp import web

from benchmarks.testbed.device import PORT, warm
from benchmarks.testbed.ends import NICE
from benchmarks.testbed.namespaces import say
from emulator.compute.executors import quiet_torch
from emulator.lab import jobs
from emulator.lab.build import lab_of
from emulator.lab.lab import Lab
from emulator.messages.files import Memory
from network.wire import envelope
from scenarios.load import load

LARGEST = 1 << 28  # bytes of an upload


@dataclass
class Desk:
    """The request that is ready for one device, and the answers that came from it."""

    out: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    back: asyncio.Queue[tuple[bytes, int]] = field(default_factory=asyncio.Queue)
    arrived: float = 0.0


def application(desks: dict[str, Desk]) -> web.Application:
    """The web application that devices poll and answer; nothing paces it."""

    async def following(request: web.Request) -> web.Response:
        desk = desks[request.query["device"]]
        data = await desk.out.get()
        if data is None:
            return web.Response(status=204)
        return web.Response(body=data)

    async def reply(request: web.Request) -> web.Response:
        desk = desks[request.query["device"]]
        data = await request.read()
        desk.arrived = time.monotonic()
        header, body = envelope.unpack(data)
        assert isinstance(header["examples"], int)
        desk.back.put_nowait((body, header["examples"]))
        return web.Response(status=204)

    app = web.Application(client_max_size=LARGEST)
    app.add_routes([web.post("/next", following), web.post("/reply", reply)])
    return app


async def play(lab: Lab, run: jobs.Run, rounds: int, desks: dict[str, Desk]) -> list[dict[str, object]]:
    """The rounds, from opening to the new model; evaluating is no part of them."""
    store, told, counted = Memory(), [], None
    state = jobs.start(lab, store, run)
    for number in range(rounds):
        began = time.monotonic()
        opening = jobs.request(lab, store, run, number, state.message, tuple(lab.fleet))
        asked = time.monotonic()
        for name, desk in desks.items():
            body = store.get(opening.extra.get(name, opening.download).ref)
            desk.out.put_nowait(envelope.pack({"round": number, "counted": counted}, body))
        replies = {}
        for name, desk in desks.items():
            body, examples = await desk.back.get()
            replies[name] = (store.put(body), examples)
        heard = time.monotonic()
        # Its answer to the last reply goes out meanwhile.
        download = opening.download.ref
        state = await asyncio.to_thread(jobs.combine, lab, store, run, number, state.message, replies, download)
        told.append(
            {
                "began": began,
                "asked": asked,
                "heard": heard,
                "combined": time.monotonic(),
                "arrived": {name: desk.arrived for name, desk in desks.items()},
            }
        )
        counted = number
    for desk in desks.values():
        desk.out.put_nowait(None)
    return told


async def serve(lab: Lab) -> None:
    """Until standard input ends."""
    desks = {name: Desk() for name in lab.fleet}
    runner = web.AppRunner(application(desks), access_log=None, shutdown_timeout=1)
    await runner.setup()
    listening = socket.create_server(("", PORT))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, lab.server_link.tcp.congestion.encode())
    await web.SockSite(runner, listening).start()
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        label, seed, rounds = line.split()
        say(json.dumps(await play(lab, jobs.Run(label, int(seed)), int(rounds), desks)))
    await runner.cleanup()


def main(scenario: str) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    quiet_torch()
    lab = lab_of(load(scenario))
    warm(lab, min(lab.fleet))
    asyncio.run(serve(lab))


if __name__ == "__main__":
    main(*sys.argv[1:])

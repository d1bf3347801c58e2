"""Plays one run over real sockets on loopback."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from emulator.compute.executor import Executor
from emulator.conversation.server import After, Server
from emulator.conversation.versions import AsyncServer
from emulator.conversation.websocket import CLOSES, STRANGERS, Reception, WebEnd, WebLine
from emulator.lab.faulty import Faulty
from emulator.lab.jobs import message_limits, request, start
from emulator.lab.lab import Lab
from emulator.lab.training import personalise_stack
from emulator.messages.store import NOTHING
from emulator.play.conduct import Conduct
from emulator.play.rows import GoingOn, Progress
from emulator.play.run import play, seal
from emulator.play.stage import Outcome, Stage
from emulator.pricing.costs import Costs
from emulator.record.record import Record
from emulator.record.run import Run
from emulator.worlds.sockets import SocketWorld
from scenarios.text.faults import BadScenario

SPARE = 64  # open files of this process: terminal, event loop, modules being imported
OF_WORKER = 2  # open files of a worker: its pipes
OF_RUN = 4 + STRANGERS  # files of a run: three of its record, the listening socket, and connections of strangers
OF_DEVICE = 2  # files of a device: both ends of its connection, which are in this process
WARM = 8  # trainings before the clock starts; with more workers some start cold


def make_room(devices: int, runs: int, workers: int = 0) -> None:
    """Raises this process's soft limit of open files to what `runs` simultaneous runs and their workers need.

    Raises BadScenario, with the numbers, if the hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    others = SPARE + OF_WORKER * workers
    needed = others + runs * (OF_RUN + OF_DEVICE * devices)
    unbounded = hard == resource.RLIM_INFINITY
    if needed > hard and not unbounded:
        most = max(0, ((hard - others) // runs - OF_RUN) // OF_DEVICE)
        raise BadScenario(
            f"fleet: {devices} devices in {runs} run{'s' * (runs > 1)} over sockets need {needed} open files; this "
            f"system allows {hard} (ulimit -Hn), enough for {most}; ask for fewer devices, algorithms or seeds"
        )
    # macOS reports an infinite hard limit, and refuses it as a soft limit.
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed) if unbounded else hard, hard))


async def run_sockets(
    lab: Lab,
    run: Run,
    conduct: Conduct,
    executor: Executor,
    folder: Path,
    going_on: GoingOn = lambda: True,
    progress: Progress = lambda _run, _row: None,
    speedup: float = 1.0,
) -> Outcome:
    """Plays one run over real sockets on loopback, writes its record to `folder`, and returns its outcome.

    `going_on` is asked after each round; False ends the run.  `speedup` modelled seconds pass in one real second.
    """
    world, outcome = SocketWorld(executor, speedup), Outcome(run)
    stage = Stage(world, lab, run, conduct, Record(folder, world.now), Costs(lab, run.label, run.seed))
    lines = {name: WebLine(world, stage.traffic, stage.attendant(name)) for name in lab.fleet}
    try:
        down, up = message_limits(lab, run)
    except Faulty as fault:
        outcome.blame(fault)
        stage.close(outcome)
        seal(stage, outcome)
        return outcome
    reception = Reception(lines, up, executor.store)
    line = lines.__getitem__
    kind = AsyncServer if conduct.rules.asynchronous else Server
    server = kind(world, lab, run, conduct.rules, stage.record, stage.costs, line, plan=stage.plan)

    async def serve(after: After) -> None:
        await warm(stage, executor)
        await world.run(server.serve(after))

    try:
        async with attended(world, reception, lines.values(), down):
            await play(stage, outcome, going_on, progress, serve)
    finally:
        stage.close(outcome)
        await reception.server.shutdown(CLOSES)
    outcome.overruns, outcome.keeps, outcome.strangers = world.overruns, world.keeps, reception.strangers
    seal(stage, outcome)
    return outcome


@asynccontextmanager
async def attended(
    world: SocketWorld, reception: Reception, lines: Collection[WebLine], limit: int
) -> AsyncIterator[None]:
    """Runs the server's listening socket on loopback, and the devices, for as long as the context is open.

    `limit`: bytes of the largest request that a device accepts.
    """
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    with socket.create_server(("127.0.0.1", 0), backlog=len(lines)) as listening:
        listening.setblocking(False)
        host, port = listening.getsockname()
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            ends = [WebEnd(session, f"http://{host}:{port}", line, limit) for line in lines]
            try:
                world.start(reception.welcome(listening))
                for end in ends:
                    world.start(end.line.attendant.attend(end))
                yield
            finally:
                await world.end()
                await asyncio.gather(*(end.close() for end in ends))


async def warm(stage: Stage, executor: Executor) -> None:
    """Trains and computes prices once before the clock starts, because the first time takes seconds.  This changes
    no result."""
    run, names = stage.run, sorted(stage.lab.fleet)
    state = await asyncio.wrap_future(executor.submit(start, run))
    opening = await asyncio.wrap_future(executor.submit(request, run, 0, state.message, tuple(names)))
    trials = []
    for devices in stage.lab.stacks(run.label, names)[:WARM]:
        downloads, memories = [opening.download.ref] * len(devices), [NOTHING] * len(devices)
        trials.append(executor.submit(personalise_stack, run, 0, tuple(devices), tuple(downloads), tuple(memories)))
    await asyncio.gather(*(asyncio.wrap_future(trial) for trial in trials))
    kinds, costs = stage.lab.algorithms[run.label].downloads, stage.costs
    for name in stage.lab.fleet:
        for received in ((), kinds):
            costs.device(name, 0, {"weights", *received}, ())
    costs.request(0)
    costs.combine(0, 1)

"""Plays one run (an algorithm with a seed), and writes its record and its final model to a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from filecmp import cmp
from functools import cache
from pathlib import Path

from devices.generated_presence import Undrawn
from emulator.compute.executor import Executor
from emulator.conversation.channel import MemoryLine
from emulator.conversation.server import After, Server
from emulator.conversation.underway import RunFailed
from emulator.conversation.versions import AsyncServer
from emulator.lab.faulty import Faulty
from emulator.lab.guarded import facts_of
from emulator.lab.jobs import State, export
from emulator.lab.lab import Lab
from emulator.messages.store import Ref
from emulator.play.conduct import Conduct
from emulator.play.rows import Diary, GoingOn, Progress
from emulator.play.stage import Outcome, Stage
from emulator.pricing.costs import Costs
from emulator.record.record import MODEL, Earlier, Record
from emulator.record.run import Run
from emulator.record.seal import seal_run
from emulator.record.writing import PARTIAL, named, replace_file
from emulator.worlds.interface import World
from emulator.worlds.virtual import VirtualWorld


async def play(
    stage: Stage, outcome: Outcome, going_on: GoingOn, progress: Progress, serve: Callable[[After], Awaitable[None]]
) -> None:
    """Plays a run to its end, completes its record and saves its final model.  `serve` runs the server in its world.

    If the run cannot continue, or the algorithm makes a mistake of its own, `outcome` has the reason, and other runs go
    on.
    """
    diary = Diary(stage, outcome, going_on, progress)
    try:
        facts = facts_of(stage.lab.algorithms[stage.run.label])
        if stage.run.label in stage.lab.selections:
            facts = replace(facts, any_cohort_will_do=False, cohort="chosen")
        if stage.lab.model.keep:
            facts = replace(facts, keeps_uncounted=True)
        stage.record.about(stage.run, facts)
        await serve(diary.after)
    except (RunFailed, Undrawn) as failed:
        outcome.give_up(failed)
    except Faulty as fault:
        outcome.blame(fault)
    diary.write_settled()
    stage.record.finish()
    outcome.looped = stage.traffic.placed.loops.most(outcome.length)
    wanted = stage.conduct.keeps_model and diary.state
    if wanted and stage.record.folder and not (stage.record.unwritten or stage.record.halted):
        try:
            await save_model(stage.record.folder, wanted, stage.world)
        except OSError as error:
            stage.record.unwritten = error


async def save_model(folder: Path, state: State, world: World) -> None:
    """Writes the final model to `folder`; if another run's is equal, both are one file on the disk, unless the file
    system has no hard links.  Raises OSError."""
    with named(folder / MODEL):
        future = world.submit(export, state.weights).future
        # An executor without workers needs no event loop.
        file: Ref = future.result() if future.done() else await asyncio.wrap_future(future)
        replace_file(folder / MODEL, world.store.get(file))
    with suppress(OSError):  # a second copy does no harm
        share(folder / MODEL)


def share(path: Path) -> None:
    """Replaces a file by a hard link to an equal one of the same name in another folder next to its own.  Raises
    OSError."""
    for other in sorted(path.parent.parent.glob(f"*/{path.name}")):
        if other.stat().st_ino != path.stat().st_ino and cmp(path, other, shallow=False):
            linked = path.with_name(path.name + PARTIAL)
            linked.unlink(missing_ok=True)
            linked.hardlink_to(other)
            linked.replace(path)
            return


def seal(stage: Stage, outcome: Outcome) -> None:
    """Seals the record of a run that has ended, if the record is complete.  An interrupted run's record stays open."""
    outcome.unwritten = stage.record.unwritten
    if stage.record.folder is None or outcome.unwritten or outcome.interrupted:
        return
    try:
        seal_run(stage.record.folder, outcome.failure)
    except OSError as error:
        outcome.unwritten = error


async def run_virtual(
    lab: Lab,
    run: Run,
    conduct: Conduct,
    executor: Executor,
    folder: Path | None,
    going_on: GoingOn = lambda: True,
    progress: Progress = lambda _run, _row: None,
    earlier: Earlier = "replaced",
) -> Outcome:
    """Plays one run in virtual time, writes its record to `folder`, if there is one, and returns its outcome.

    `going_on` is asked after each round; False ends the run.  `earlier`: how to treat a record that is already in the
    folder.  With "compared", raises Otherwise if the run differs from that record.
    """
    world, outcome = VirtualWorld(executor), Outcome(run)
    stage = Stage(world, lab, run, conduct, Record(folder, world.now, earlier), Costs(lab, run.label, run.seed))
    line = cache(lambda name: MemoryLine(world, stage.traffic, stage.attendant(name)))
    kind = AsyncServer if conduct.rules.asynchronous else Server
    server = kind(world, lab, run, conduct.rules, stage.record, stage.costs, line, plan=stage.plan)
    try:
        await play(stage, outcome, going_on, progress, lambda after: world.run(server.serve(after)))
    finally:
        stage.close(outcome)
    seal(stage, outcome)
    return outcome

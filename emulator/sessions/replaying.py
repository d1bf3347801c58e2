"""Plays many replays with a progress line, and keeps the complete ones after a Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from rich.console import Console
from rich.status import Status

from emulator.play.progress import about
from emulator.record.removal import remove, written
from emulator.replay.batch import Batch, Order
from emulator.replay.findings import ReplayResult
from emulator.sessions.compiling import compile_replays
from emulator.sessions.computing import workers_of
from emulator.terminal.errors import FAILED
from emulator.terminal.stopping import code_of

Play = Callable[[Sequence[Order]], "Played"]


@dataclass(frozen=True)
class Played:
    """The results of replays, in the order in which they were asked for; if the command was stopped, only the first
    ones."""

    results: Sequence[ReplayResult]
    code: int = 0  # the command's exit code
    why: str = ""  # reason for an early end
    trained: str = ""  # a sentence on the amount of training

    @property
    def whole(self) -> bool:
        return not self.why


def play_all(
    batch: Batch,
    orders: Sequence[Order],
    workers: int | None,
    quiet: bool = False,
    console: Console | None = None,
) -> Played:
    """Makes the replays, and returns their results; unless `quiet`, shows on a terminal how many are done.

    `orders`: one for each replay.  `workers`: the number of processes; None: chosen by the amount of work.
    """
    count = None if workers is None else workers_of(workers)
    compile_replays(batch, orders)
    console = Console(stderr=True, quiet=quiet) if console is None else console
    return gathered(batch.all(orders, count), orders, console)


def gathered(results_of: Generator[ReplayResult, None, None], orders: Sequence[Order], console: Console) -> Played:
    """Collects the results of replays from a generator, which yields them in the sequence of `orders`.

    After a Ctrl-C or a killed worker, returns the results so far, and removes the timelines of all other orders.
    """
    results: list[ReplayResult] = []
    ended = Played(results)
    try:
        with closing(results_of) as made, counted(len(orders), console) as tell:
            for each in made:
                results.append(each)
                tell(len(results))
    except KeyboardInterrupt as stop:
        ended = Played(results, code_of(stop), "stopped")
    except ChildProcessError as error:
        ended = Played(results, FAILED, str(error))
    for order in orders[len(results) :] if ended.why else ():
        if order.folder is not None:
            with suppress(OSError):
                remove(written(order.folder, "run"))
                order.folder.rmdir()
    return ended


@contextmanager
def counted(
    total: int, console: Console, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int], None]]:
    """Shows `12 of 100, ~40 s left` on a terminal until the block ends; shows nothing if the console is no terminal.

    Yields a function that takes the number of finished replays.
    """
    if not console.is_terminal or console.is_dumb_terminal or console.quiet:
        yield lambda _: None
        return
    began = clock()
    with Status(f"0 of {total}", console=console) as status:
        yield lambda done: status.update(f"{done} of {total}, {about((clock() - began) / done * (total - done))} left")

"""Kills a small run again and again, lets it go on, and compares every byte: `python -m tests.torture` (make torture).

Each session is a process of its own, forked from this one, which has imported everything: it plays `fedlapse resume`
as a user would.  Sessions are killed after each line of the record in turn, and at random instants: by SIGKILL (the
command, one of its workers, or both), by Ctrl-C, and by two SIGTERMs.  Once it may come to its end, the folder must
hold the bytes of a run that was never killed (host.json aside), each message that a job has read must have been right,
and nothing may be left of those that were killed: no temporary file, no process.

A job counts as computed when it begins.  More than the unkilled run's jobs may be computed by those that were in flight
when a session was killed: at most one batch for each worker (or one job, without workers), and one for each worker
whose results were on their way.  What must be made again since its bytes were lost counts too.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from emulator.compute import crew, executors
from emulator.ledger.results import FORMS
from emulator.messages import files as stores
from emulator.messages import scratch
from emulator.messages.store import NOTHING, Ref
from emulator.record.record import Record
from tests.conftest import SMALL, digests, merged, results

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 20}
SCENARIO = merged(
    SMALL,
    {
        "seeds": [1],
        "rounds": {"max": 3, "fraction": 0.34},
        "fleet": [{"profile": "phone-mid", "count": 4, "link": LINK}, {"profile": "pi-4", "count": 2, "link": LINK}],
        "algorithms": ["scaffold", {"fedcurv": {"rounds": {"mode": "async", "buffer": 2, "in_flight": 3}}}],
    },
)
LOG = "FEDLAPSE_TORTURE_LOG"
PATIENCE = 300.0  # s
BATCH = 10  # jobs travel together at most, as none of these takes less than a ms (emulator.compute.batches.LONGEST)


READ, WRONG = "read", "wrong"
# How a session ends early, and with how many workers it plays.
WAYS = (("main", 0), ("main", 2), ("worker", 2), ("both", 2), ("SIGINT", 0), ("SIGTERM twice", 2))
SIGNALS = {"SIGINT": [signal.SIGINT], "SIGTERM twice": [signal.SIGTERM] * 2}
CODES = (0, 1, -signal.SIGKILL, 130, 143)

_mapped = stores.mapped


def computed(orders: Sequence[tuple[Any, Any]]) -> Any:
    """executors._do, which notes that each job begins, and whether what it reads is right."""
    stores.mapped = checked
    return executors._do([(partial(_noted, job), args) for job, args in orders])


def checked(folders: Sequence[Path], ref: Ref, *mapping: stores.Map) -> memoryview:
    data = _mapped(folders, ref, *mapping)
    _note(READ if ref in (Ref.of(bytes(data)), NOTHING) else WRONG)
    return data


def _noted(job: Any, *args: Any) -> Any:
    _begins(job)
    return job(*args)


def _begins(job: Any) -> None:
    if job in FORMS:
        _note(job.__name__)


def _note(word: str) -> None:
    number = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(number, f"{word}\n".encode())
    os.close(number)


class Inline(executors.Inline):
    def submit(self, job: Any, *args: Any) -> Future[Any]:
        _begins(job)
        return super().submit(job, *args)


class Processes(executors.Processes):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.batches.send = partial(self._sent, computed)


@dataclass
class Place:
    """A folder with a scenario's results, their ledger, and temporary folders of their own."""

    root: Path
    workers: int
    kills: int = 0
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for folder in (self.root, self.temporary, self.memory):
            folder.mkdir(parents=True)

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger"

    @property
    def temporary(self) -> Path:
        return self.root / "temporary"

    @property
    def memory(self) -> Path:
        return Path("/dev/shm") / f"torture-{os.getpid()}-{self.root.name}"

    @property
    def noted(self) -> list[str]:
        """The jobs that began, READ and WRONG."""
        log = self.root / "noted"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def jobs(self) -> int:
        """The number of jobs that began."""
        return sum(word not in (READ, WRONG) for word in self.noted)

    def session(self, workers: int, after: int | None = None) -> int:
        """Starts one, which kills itself `after` so many lines of the record; its process."""
        sys.stdout.flush()
        number = os.fork()
        if number == 0:
            self._play(workers, after)
        return number

    def _play(self, workers: int, after: int | None) -> NoReturn:
        code = 99
        try:
            os.setsid()
            file = os.open(self.root / "said", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(file, 1)
            os.dup2(file, 2)
            os.environ |= {"TMPDIR": str(self.temporary), LOG: str(self.root / "noted")}
            tempfile.tempdir = None
            scratch.IN_MEMORY = self.memory
            crew.Inline, crew.Processes = Inline, Processes  # type: ignore[misc]
            stores.mapped = checked
            if after is not None:
                _killing(after)
            words = ["compare", str(self.root.parent / "small.yaml"), "--out", str(self.out)]
            if (self.out / "scenario.yaml").exists():
                words = ["resume", str(self.out)]
            sys.argv = ["fedlapse", *words, "-q", "--workers", str(workers), "--ledger", str(self.ledger)]
            from emulator.__main__ import main

            main()
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def finish(self, workers: int = 0) -> float:
        """Lets it come to its end, and looks at what is there; how many seconds it took."""
        began = time.monotonic()
        number = self.session(workers)
        code = _ended(number)
        assert code == 0, (self.root / "said").read_text()[-3000:]
        seconds = time.monotonic() - began
        assert _session(number) == [], "a process is left"
        assert WRONG not in self.noted, "a job has read a message that was wrong"
        self.clean()
        return seconds

    def clean(self) -> None:
        """Nothing temporary is left."""
        left = [*self.temporary.glob("fedlapse-*"), *self.memory.iterdir(), *self.root.rglob("*.partial")]
        left += [*(self.ledger / "live").iterdir(), *(self.ledger / "left").iterdir()]
        left += (self.ledger / "quarantine").iterdir()
        assert left == [], left

    def gone(self) -> None:
        shutil.rmtree(self.root)
        shutil.rmtree(self.memory)


def _killing(after: int) -> None:
    """From now on this process kills itself once it has written so many lines."""
    say, left = Record._say, [after]

    def said(record: Record, to: Any, line: Any) -> None:
        say(record, to, line)
        to.flush()
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    Record._say = said  # type: ignore[method-assign]


def _ended(number: int) -> int:
    """The exit code of a session, or minus the signal that killed it; all its processes are gone then."""
    until = time.monotonic() + PATIENCE
    while True:
        found, status = os.waitpid(number, os.WNOHANG)
        if found:
            break
        if time.monotonic() > until:
            os.killpg(number, signal.SIGKILL)
            raise AssertionError("a session does not end")
        time.sleep(0.005)
    while _session(number):
        assert time.monotonic() < until, "a process is left"
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(status)


def _session(number: int) -> list[int]:
    """The processes of a session that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == number and state != "Z":
            found.append(int(path.parent.name))
    return found


def _parent(number: int) -> int:
    return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])


def _workers(number: int) -> list[int]:
    """The processes that compute."""
    found = []
    for each in _session(number):
        try:
            forked = b"forkserver" in Path(f"/proc/{each}/cmdline").read_bytes()
            if forked and _parent(each) != number:  # the command's own child is the one that they are forked from
                found.append(each)
        except OSError:
            continue
    return found


def kill_at_random(place: Place, whom: str, draw: random.Random, seconds: float) -> None:
    """Ends a session early, at an instant of its first `seconds`, if it has not come to its end before."""
    number = place.session(place.workers)
    time.sleep(draw.uniform(0, seconds))
    workers: list[int] = []
    while whom in ("worker", "both") and not workers and _session(number):  # none may be there yet
        workers = _workers(number)
        time.sleep(0.01)
    victims = ([draw.choice(workers)] if workers else []) + ([number] if whom in ("main", "both") else [])
    for victim in victims:
        _send(os.kill, victim, signal.SIGKILL)
    for each in SIGNALS.get(whom, ()):  # as a terminal does, to all of them
        _send(os.killpg, number, each)
        time.sleep(draw.uniform(0, 0.1))
    code = _ended(number)
    assert code in CODES, (code, (place.root / "said").read_text()[-3000:])
    assert "Traceback" not in (place.root / "said").read_text(), (place.root / "said").read_text()[-3000:]
    place.kills += 1


def _send(kill: Callable[[int, int], None], whom: int, number: int) -> None:
    try:
        kill(whom, number)
    except ProcessLookupError:  # it has come to its end
        pass


@contextmanager
def tortured(root: Path) -> Iterator[Callable[[str, int], Place]]:
    places: list[Place] = []

    def place(name: str, workers: int) -> Place:
        places.append(Place(root / name, workers))
        return places[-1]

    try:
        yield place
    finally:
        for each in places:
            shutil.rmtree(each.memory, ignore_errors=True)


def judged(place: Place, expected: dict[str, str], jobs: int) -> int:
    """The number of jobs that were computed more than once."""
    place.finish()
    assert digests(place.out) == expected, {k for k, v in digests(place.out).items() if expected.get(k) != v}
    again = place.jobs - jobs
    most = place.kills * 2 * max(1, place.workers * BATCH)
    assert 0 <= again <= most, f"{again} jobs again after {place.kills} kills"
    return again


@dataclass
class Row:
    """A row of the final table: the results of one way."""

    kills: int = 0
    runs: int = 0
    again: int = 0
    reads: int = 0

    def add(self, place: Place, again: int) -> None:
        self.kills, self.runs, self.again = self.kills + place.kills, self.runs + 1, self.again + again
        self.reads += place.noted.count(READ)


class Progress:
    """Prints a line for each run, and a table at the end."""

    def __init__(self, kills: int) -> None:
        self.rows: dict[str, Row] = {}
        self.kills, self.began = kills, time.monotonic()

    def add(self, way: str, place: Place, again: int) -> None:
        self.rows.setdefault(way, Row()).add(place, again)
        done, seconds = sum(row.kills for row in self.rows.values()), time.monotonic() - self.began
        left = seconds / max(1, done) * (self.kills - done)
        print(
            f"{done:>4} of {self.kills} kills, {seconds:4.0f} s, about {left:.0f} s left: {place.kills} of {way}: "
            f"the same bytes, {again} jobs again",
            flush=True,
        )

    def table(self) -> None:
        print(f"\n{'killed':<24}{'kills':>7}{'runs':>7}{'jobs again':>12}{'reads':>9}{'wrong':>7}{'left over':>11}")
        for way, row in self.rows.items():
            print(f"{way:<24}{row.kills:>7}{row.runs:>7}{row.again:>12}{row.reads:>9}{0:>7}{0:>11}")
        kills, runs = (sum(getattr(row, name) for row in self.rows.values()) for name in ("kills", "runs"))
        seconds = time.monotonic() - self.began
        print(f"{kills} kills, {runs} runs, all files the same bytes, no wrong read, nothing left; {seconds:.0f} s")


def main() -> None:
    from emulator.report import page
    from scenarios.load import build, dump

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    page.page = lambda results, **_: "a page"  # a real one takes longer than all the rest
    draw = random.Random(wanted.seed)
    with tempfile.TemporaryDirectory() as folder, tortured(Path(folder)) as place:
        root = Path(folder)
        with redirect_stdout(io.StringIO()):
            results(root / "first", SCENARIO)  # what every session needs is imported and priced once
        (root / "small.yaml").write_text(dump(build(SCENARIO)))
        whole = place("whole", 0)
        seconds = {0: whole.finish()}
        seconds[2] = place("workers", 2).finish(2)
        expected, jobs = digests(whole.out), whole.jobs
        print(
            f"a run that nobody kills: {jobs} jobs, {seconds[0]:.1f} s, {seconds[2]:.1f} s with two workers", flush=True
        )
        progress = Progress(wanted.kills)
        lines = place("lines", 0)
        while lines.kills < wanted.kills * 6 // 10:  # after each line in turn; there are 181
            if _ended(lines.session(0, after=lines.kills + 1)) == 0:
                break
            lines.kills += 1
            if lines.kills % 20 == 0:
                print(f"{lines.kills:>4} of {wanted.kills} kills, after as many lines of the record", flush=True)
        progress.add("main after each line", lines, judged(lines, expected, jobs))
        done, number = lines.kills, 0
        while done < wanted.kills:
            whom, workers = WAYS[number % len(WAYS)]
            here = place(f"random-{number}", workers)
            for _ in range(min(draw.randint(2, 6), wanted.kills - done)):
                kill_at_random(here, whom, draw, seconds[workers])
            progress.add(f"{whom}, {workers} workers", here, judged(here, expected, jobs))
            done, number = done + here.kills, number + 1
            here.gone()
        progress.table()


if __name__ == "__main__":  # workers find what it does by the name of this file
    from tests import torture

    torture.main()

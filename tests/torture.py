"""Kills a small run again and again, lets it go on, and compares every byte: `python -m tests.torture` (make torture).

Each session is a process of its own, forked from this one, which has imported everything: it plays `fedlapse resume`
as a user would.  Sessions are killed by SIGKILL at random instants (the command, one of its workers, or both), and
after each line of the record in turn.  Once it may come to its end, the folder must hold the bytes of a run that was
never killed (host.json aside), and nothing may be left of those that were: no temporary file, no process.

A job counts as computed when it begins.  More than the unkilled run's jobs may be computed by those that were in flight
when a session was killed: at most one batch for each worker (or one job, without workers), and one for each worker
whose results were on their way.  What must be made again since its bytes were lost counts too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from emulator.ledger import scratch
from emulator.ledger.results import FORMS
from emulator.record.record import Record
from emulator.worlds import executors
from tests.conftest import SMALL, merged

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 20}
SCENARIO = merged(
    SMALL,
    {
        "seeds": [1],
        "rounds": {"max": 3, "fraction": 0.5},
        "fleet": [{"profile": "phone-mid", "count": 4, "link": LINK}, {"profile": "pi-4", "count": 2, "link": LINK}],
        "algorithms": ["fedavg", "scaffold"],
    },
)
LOG = "FEDLAPSE_TORTURE_LOG"
PATIENCE = 300.0  # s
BATCH = 5  # jobs travel together at most, as none of these takes less than a ms (emulator.worlds.batches.LONGEST)


def computed(orders: Sequence[tuple[Any, Any]]) -> Any:
    """executors._do, which notes that each job begins."""
    return executors._do([(partial(_noted, job), args) for job, args in orders])


def _noted(job: Any, *args: Any) -> Any:
    _note(job)
    return job(*args)


def _note(job: Any) -> None:
    if job in FORMS:
        number = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(number, f"{job.__name__}\n".encode())
        os.close(number)


class Inline(executors.Inline):
    def submit(self, job: Any, *args: Any) -> Future[Any]:
        _note(job)
        return super().submit(job, *args)


class Processes(executors.Processes):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.batches.do = computed


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
    def jobs(self) -> int:
        """How many were begun."""
        log = self.root / "jobs"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def session(self, after: int | None = None) -> int:
        """Starts one, which kills itself `after` so many lines of the record; its process."""
        sys.stdout.flush()
        number = os.fork()
        if number == 0:
            self._play(after)
        return number

    def _play(self, after: int | None) -> NoReturn:
        code = 99
        try:
            os.setsid()
            file = os.open(self.root / "said", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(file, 1)
            os.dup2(file, 2)
            os.environ |= {"TMPDIR": str(self.temporary), LOG: str(self.root / "jobs")}
            tempfile.tempdir = None
            scratch.IN_MEMORY = self.memory
            from emulator.worlds import remembering

            remembering.Inline, remembering.Processes = Inline, Processes  # type: ignore[misc]
            if after is not None:
                _killing(after)
            words = ["compare", str(self.root.parent / "small.yaml"), "--out", str(self.out)]
            if (self.out / "scenario.yaml").exists():
                words = ["resume", str(self.out)]
            sys.argv = ["fedlapse", *words, "-q", "--workers", str(self.workers), "--ledger", str(self.ledger)]
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

    def finish(self) -> None:
        """Lets it come to its end, and looks at what is there."""
        began = time.monotonic()
        number = self.session()
        code = _ended(number)
        assert code == 0, (self.root / "said").read_text()[-3000:]
        self.seconds = time.monotonic() - began
        assert _session(number) == [], "a process is left"
        self.clean()

    def clean(self) -> None:
        """Nothing temporary is left."""
        left = [*self.temporary.glob("fedlapse-*"), *self.memory.iterdir(), *self.root.rglob("*.partial")]
        left += [*(self.ledger / "live").iterdir(), *(self.ledger / "left").iterdir()]
        left += (self.ledger / "quarantine").iterdir()
        assert left == [], left

    def files(self) -> dict[str, str]:
        """SHA-256 by name, but for what belongs to the moment."""
        found = {}
        for path in sorted(self.out.rglob("*")):
            if path.is_file() and path.name != "host.json":
                data = path.read_bytes()
                if path == self.out / "seal.json":
                    seal = json.loads(data)
                    seal["files"].pop("host.json")
                    data = json.dumps(seal, sort_keys=True).encode()
                found[str(path.relative_to(self.out))] = hashlib.sha256(data).hexdigest()
        return found

    def gone(self) -> None:
        shutil.rmtree(self.root)
        shutil.rmtree(self.memory)


def _killing(after: int) -> None:
    """From now on this process kills itself once it has written so many lines."""
    say, left = Record._say, [after]

    def said(record: Record, to: Any, lines: Any) -> None:
        for line in list(lines):
            say(record, to, (line,))
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


def _workers(number: int) -> list[int]:
    """Those that compute."""
    found = []
    for each in _session(number):
        try:
            if each != number and b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(each)
        except OSError:
            continue
    return found


def kill_at_random(place: Place, whom: str, draw: random.Random, seconds: float) -> bool:
    """Whether the kill came before the end."""
    number = place.session()
    time.sleep(draw.uniform(0, seconds))
    workers = _workers(number) if whom != "main" else []
    victims = ([draw.choice(workers)] if workers else []) + ([number] if whom != "worker" else [])
    for victim in victims:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass
    code = _ended(number)
    assert code in (0, -signal.SIGKILL, 1), (code, (place.root / "said").read_text()[-3000:])
    assert "Traceback" not in (place.root / "said").read_text()
    place.kills += bool(victims)
    return code != 0


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
    """How many jobs were computed more than once."""
    place.finish()
    assert place.files() == expected, {k for k in expected if place.files().get(k) != expected[k]}
    again = place.jobs - jobs
    most = place.kills * 2 * max(1, place.workers * BATCH)
    assert 0 <= again <= most, f"{again} jobs again after {place.kills} kills"
    return again


def main() -> None:
    from emulator.report import page  # noqa: F401  what every session needs is imported once
    from emulator.study.build import study_of
    from scenarios.load import build, dump

    study_of(build(SCENARIO))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    draw, began = random.Random(wanted.seed), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tortured(Path(folder)) as place:
        root = Path(folder)
        (root / "small.yaml").write_text(dump(build(SCENARIO)))
        whole = place("whole", 0)
        whole.finish()
        expected, jobs = whole.files(), whole.jobs
        kills = again = runs = 0
        print(f"the unkilled run: {jobs} jobs, {whole.seconds:.1f} s", flush=True)
        lines = place("lines", 0)
        while kills < wanted.kills // 2:  # after each line in turn
            if _ended(lines.session(after=kills + 1)) == 0:
                break
            kills += 1
            lines.kills += 1
        again += judged(lines, expected, jobs)
        print(f"killed after each of {kills} lines: the same bytes, {again} jobs of {jobs} again", flush=True)
        whom = 0
        while kills < wanted.kills:
            workers = 0 if whom % 2 else 2
            kind = "main" if not workers else ("main", "worker", "both")[whom // 2 % 3]
            here = place(f"random-{runs}", workers)
            for _ in range(min(draw.randint(1, 5), wanted.kills - kills)):
                kill_at_random(here, kind, draw, whole.seconds * (1 + (workers > 0)))
            kills += here.kills
            more = judged(here, expected, jobs)
            print(f"{here.kills} kills of {kind}, {workers} workers: the same bytes, {more} jobs again", flush=True)
            again, runs, whom = again + more, runs + 1, whom + 1
            here.gone()
    print(f"{kills} kills, {runs + 1} runs, {again} jobs again, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

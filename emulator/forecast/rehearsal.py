"""The cost of rounds, found by playing some of them with almost no training.

The rounds are played by the same code as in a run, with the same fleet, links, presence, cohorts, deadlines, encodings
and declared work.  Only the jobs are cut: a device trains on two examples, once for all devices with the same request.
So times and bytes equal those of the run, for any algorithm, as long as none depends on a trained value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

from numpy import ndarray

from algorithms.algorithm import Load, Work
from emulator.compute.batches import Job
from emulator.compute.executors import Inline
from emulator.conversation.rounds import RoundRules
from emulator.forecast.host import timed
from emulator.forecast.mean_round import Kind, first_of_each
from emulator.lab.faulty import Faulty
from emulator.lab.guarded import Guarded
from emulator.lab.jobs import NONE_STALE, NONE_TOLD, combine, message_sizes, request
from emulator.lab.lab import Division, Held, Lab
from emulator.lab.training import Trained, train
from emulator.messages.scratch import Scratch
from emulator.messages.store import EMPTY, Ref, Store
from emulator.play.conduct import Conduct
from emulator.play.metrics import Schedule
from emulator.play.run import run_virtual
from emulator.play.stage import Row
from emulator.record.events import Event, events_of
from emulator.record.lines import read_lines
from emulator.record.run import Run
from emulator.worlds.virtual import at_once
from network.wire import payload
from network.wire.form import FRAME
from scenarios.builders.roster import Made
from scenarios.text.faults import BadScenario

ROUNDS = 11  # round 0, which is often special, and ten more, so that an event of every tenth round occurs once
REQUESTS = 11_000  # to devices in a rehearsal; a thousand take at least a second
FEW = 2  # examples of a job
STILL = 1e-12  # learning rate: thousands of updates on two examples must not diverge
MOST = 1 << 28  # bytes of replies for one real combine; the server is charged for all replies

Sizes = frozenset[tuple[str, int]]  # bytes by kind
Replies = Mapping[str, tuple[Ref, int]]  # by device: its upload, and the number of its examples


@dataclass(frozen=True)
class Rehearsal:
    """A forecast of the first rounds of a run, and the largest messages in them."""

    rows: Sequence[Row]  # as in rounds.jsonl, without metrics
    events: Sequence[Event]  # as in events.jsonl, but with meaningless digests
    failure: str | None  # reason why it could not continue
    downloaded: Mapping[str, int]  # bytes of tensors by kind in the largest download
    uploaded: Mapping[str, int]  # in the largest upload
    kept: Mapping[str, int]  # in the largest state that a device keeps between rounds
    combining: float = 0.0  # s of the longest combine on this computer; it varies


def enough(
    kinds: Mapping[str, Kind], rules: Mapping[str, RoundRules]
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Returns the number of rounds to rehearse by label, and {label: {kind of rounds not among them: its first
    round}}.

    The rounds cover all kinds if that is affordable; algorithms whose rounds have equal rules rehearse equally many.
    """
    firsts = {label: first_of_each(rules[label].max, kind) for label, kind in kinds.items()}
    rounds, unseen = {}, {}
    for label, of in rules.items():
        alike = [firsts[other] for other, their in rules.items() if their == of]
        each = max(1, of.ask // of.needed) if of.asynchronous else 1  # versions in which each device replies once
        wanted = max(ROUNDS * each, 1 + max(number for first in alike for number in first.values()))
        rounds[label] = played = min(wanted, of.max, max(2, REQUESTS * each // of.ask))
        kind = kinds[label]
        unseen[label] = {name: at for name, at in firsts[label].items() if at >= played and name != kind(0)}
    return rounds, unseen


def rehearse(lab: Lab, run: Run, conduct: Conduct, rounds: int = ROUNDS) -> Rehearsal:
    """Plays at most `rounds` rounds of a run.  Raises Faulty for the algorithm's own mistake."""
    short = replace(
        conduct,
        rules=replace(conduct.rules, max=min(rounds, conduct.rules.max)),
        schedule=Schedule(0, 0),
        stop_at=None,
        until=None,
    )
    lab = replace(lab, stack={}, preloaded=True)  # nothing is trained here, and each mean is of later rounds
    understudy = Understudy(lab, run)
    with closing(Scratch()) as scratch:
        outcome = at_once(run_virtual(lab, run, short, understudy, scratch.path))
        events = list(events_of(read_lines(scratch.path / "events.jsonl")))
    if outcome.fault:
        raise outcome.fault
    down, up, kept = (
        {kind: size for kind, size in sizes.items() if kind != FRAME}
        for sizes in (understudy.downloaded, understudy.uploaded, understudy.kept)
    )
    return Rehearsal(outcome.rows, events, outcome.failure, down, up, kept, understudy.combining)


def sound(lab: Lab, seed: int) -> tuple[Lab, dict[str, str]]:
    """Returns the lab without the algorithms whose own code fails before any round, and {label: reason} for those.

    Raises BadScenario if all algorithms fail.
    """
    failing = {}
    for label, algorithm in lab.algorithms.items():
        try:
            algorithm.round_kind(0)
            message_sizes(lab, Run(label, seed))
        except Faulty as fault:
            failing[label] = str(fault)
    left = {label: algorithm for label, algorithm in lab.algorithms.items() if label not in failing}
    if not left:
        raise BadScenario(next(iter(failing.values())))
    return replace(lab, algorithms=left), failing


class Understudy(Inline):
    """An executor that stands in for the real one: its jobs compute on two examples and return results of the right
    form."""

    def __init__(self, lab: Lab, run: Run) -> None:
        super().__init__(_with_few(lab, run.seed))
        self.proxy = lab.splits[run.seed].proxy
        self.whole = lab
        self.round = -1
        # For this round, by sizes of the inputs: the result, and True if it used all examples of the device.
        self.known: dict[tuple[Sizes, Sizes], tuple[Trained, bool]] = {}
        self.seen: dict[str, Sizes] = {}  # by digest
        self.served: dict[bool, Lab] = {}  # the server's lab, True: with few examples; it keeps what it has built
        self.downloaded = self.uploaded = self.kept = EMPTY.sizes  # the largest ones
        self.combining = 0.0

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        cut: dict[Job, Job] = {train: self._train, combine: self._combine, request: self._request}
        return super().submit(cut.get(job, job), *args)

    def _train(
        self, lab: Lab, store: Store, run: Run, device: str, round: int, download: Ref, memory: Ref, *more: Any
    ) -> Trained:
        """Returns the result of the first device that had the same request, with this device's number of examples."""
        if round != self.round:  # results of earlier rounds are never requested again
            self.round = round
            self.known.clear()
            self.seen.clear()
        key = (self._sizes(download), self._sizes(memory))
        if key not in self.known:
            done = train(lab, store, run, device, round, download, memory, False, *more[1:])
            kept = (done.kept_if_counted or done.kept).sizes
            self.downloaded = max(self.downloaded, dict(self._sizes(download)), key=_length)
            self.uploaded = max(self.uploaded, done.upload.sizes, key=_length)
            self.kept = max(self.kept, done.kept.sizes, kept, key=_length)
            self.known[key] = (done, done.examples == len(self._held(lab, run, device, round)))
        done, tells_all = self.known[key]
        return replace(done, examples=len(self._held(self.whole, run, device, round))) if tells_all else done

    @staticmethod
    def _held(lab: Lab, run: Run, device: str, round: int) -> ndarray:
        return lab.held(run.seed, device, lab.cycle(run.label, round))

    def _request(self, lab: Lab, store: Store, run: Run, round: int, *args: Any) -> Any:
        """Returns the server's request, computed with only a few examples of the server's proxy set."""
        work = lab.algorithms[run.label].request_work(Load(lab.turn(run.label, round), len(self.proxy), 0))
        return request(self._served(lab, run, work), store, run, round, *args)

    def _combine(
        self,
        lab: Lab,
        store: Store,
        run: Run,
        round: int,
        state: Ref,
        replies: Replies,
        download: Ref,
        stale: Mapping[str, tuple[int, Ref]] = NONE_STALE,
        steps: Mapping[str, int] = NONE_TOLD,
    ) -> Any:
        work = lab.algorithms[run.label].combine_work(
            Load(
                lab.turn(run.label, round),
                len(self.proxy),
                0,
                replies=len(replies),
                proxy=len(self.proxy),
                ahead=lab.ahead(run.label, round),
            )
        )
        most = max(1, MOST // max(upload.nbytes for upload, _ in replies.values()))
        some = dict(list(replies.items())[:most])
        served = self._served(lab, run, work)
        done, seconds = timed(lambda: combine(served, store, run, round, state, some, download, stale, steps))
        self.combining = max(self.combining, seconds * len(replies) / len(some))
        return done

    def _served(self, lab: Lab, run: Run, work: Work) -> Lab:
        few = any(phase.examples or phase.second_order for phase in work)
        if few not in self.served:
            split = replace(lab.splits[run.seed], proxy=self.proxy[:FEW] if few else self.proxy)
            self.served[few] = replace(lab, splits={run.seed: split})
        return self.served[few]

    def _sizes(self, message: Ref) -> Sizes:
        if message.digest not in self.seen:
            sizes = payload.trusted(self.store.get(message)).sizes
            self.seen[message.digest] = frozenset(sizes.items())
        return self.seen[message.digest]


def _length(sizes: Mapping[str, int]) -> int:
    return sum(sizes.values())


def _with_few(lab: Lab, seed: int) -> Lab:
    """Returns a lab for the cut jobs: devices have two examples each, and algorithms train with a tiny learning
    rate."""
    held = lab.splits[seed].train
    train = Made(held, partial(_few, held), keep=0)
    split = Division(train, {}, {}, lab.splits[seed].proxy)
    algorithms = {label: _idle(algorithm) for label, algorithm in lab.algorithms.items()}
    return replace(lab, splits={seed: split}, algorithms=algorithms)


def _few(held: Held, name: str) -> tuple[ndarray, ...]:
    return tuple(part[:FEW] for part in held[name])


def _idle(algorithm: Any) -> Any:
    """Returns the algorithm with one epoch of steps and a tiny learning rate, or unchanged if its constructor takes no
    `training`."""
    if isinstance(algorithm, Guarded):
        return replace(algorithm, algorithm=_idle(algorithm.algorithm))
    if not is_dataclass(algorithm) or "training" not in {field.name for field in fields(algorithm)}:
        return algorithm
    made: Any = algorithm
    return replace(made, training=replace(made.training, epochs=1, steps=0, seconds=0.0, lr=STILL))

"""Writes and reads the record of a run, as JSON lines.  work.jsonl is described in emulator/record/work.py.

events.jsonl, one object a line with sorted keys, `t` in virtual seconds, `round` from 0:

    open   {asked, model, idle}        ask {asked, idle}        close   {reason: all|first|deadline|too_few, counted}
    down / up  .start {device, bytes: {kind: n, frame: n}, reply_to, setup, wire, from}
               .end {device}   .cut {device, bytes, why: off|closed|broken, then: resume|restart}
    compute    .start {device, phases: {name: flops}, seconds: {name: s}, rate, jitter: {name: factor}, throttled}
               .end {device, update, overrun, loss}   .cut {device, seconds, why, done, then: pause|restart}
    server     .start {what: request|combine, phases, seconds, flops, rate}          .end {what, model, overrun}
    off / on   {device}, only for devices of an open round        refused {device, kind, why}

`broken` occurs over sockets only: a connection ended, though its device had not gone offline.
A download's `reply_to` is the device's last counted round, which it acknowledges; an upload's is the round that it
answers.  `setup` is the time in seconds that a transfer spends on round trips and on waking the radio before its bytes
flow.  `jitter` and `throttled` are factors that `seconds` already contains.  A key without effect is left out.
`then` is written when a device goes offline for a while.  It names what the device does when it is back: another
`.start` follows, for the rest or for everything; for the rest of a message, `from` is its first byte.
`done` is the share of the work that was done before it was cut, if heat makes it differ from the share of seconds.
`overrun`, in seconds, is written over sockets only, where real training may take longer than is charged.
`model` and `update` are prefixes of the BLAKE3 of the encoded tensors.  `idle` is a prefix of the SHA-256 of the names
of the devices that are online and idle; it is written unless devices are drawn at random.  `loss` is that of the
training (algorithms/selection/past.py), written if the scenario's `selection` asks for it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, Concatenate, Literal, ParamSpec

from algorithms.cohort import CohortRule
from emulator.record.call import Call
from emulator.record.events import (
    Asked,
    CameBack,
    Closed,
    ComputeCut,
    ComputeEnded,
    ComputeStarted,
    Event,
    Opened,
    Refused,
    ServerEnded,
    ServerStarted,
    TransferCut,
    TransferEnded,
    TransferStarted,
    Unsound,
    Way,
    WentOff,
)
from emulator.record.lines import encode
from emulator.record.repeated import BUFFER, Otherwise, RepeatedFile, known
from emulator.record.run import RUN, AlgorithmFacts, Run, text_of
from emulator.record.tally import Bill, Stint, Transfer, Trip
from emulator.record.work import Duty, WorkLines
from emulator.record.writing import replace_file

Values = ParamSpec("Values")  # values of an event, after its time
MODEL = "final.safetensors"
SECOND_NAMES = "second_names"  # in the model's metadata: JSON, each further name of a tensor -> its first name
FILES = ("events.jsonl", "rounds.jsonl", "work.jsonl")
Earlier = Literal["replaced", "compared", "cut"]  # how to treat an earlier record in the same folder


class Record:
    """The record of a run, written as the run proceeds.  At any instant its files are valid up to their last whole
    line.

    With `earlier` other than "replaced", an earlier record of the run stays as long as this run writes the same lines,
    and is then extended.  At the first line that differs, "compared" raises Otherwise, and "cut" removes that line and
    the rest.

    Without a folder, a Record writes nothing and only counts.  If a file cannot be written, for example on a full disk,
    it continues counting; `unwritten` then holds the error, and the files hold the earlier rounds.
    """

    def __init__(self, folder: Path | None, now: Callable[[], float], earlier: Earlier = "replaced") -> None:
        self.folder, self.earlier = folder, earlier
        self.halted = False  # stopped within the earlier record, which stays unchanged
        self.clock = now
        self.standing: float | None = None  # the time inside `instant`
        self.began = self.served = 0.0  # the server's work: its start, and its charged seconds
        self.events, self.rounds, self.works = _opened(folder, earlier)
        self.ledger = WorkLines()
        self.trips: dict[Call, Trip] = {}
        self.unwritten: OSError | None = None
        self.cohort: CohortRule = "drawn"
        self.stale: Sequence[Any] | None = None  # see AlgorithmFacts

    def about(self, run: Run, facts: AlgorithmFacts) -> None:
        """Writes run.json: the run's algorithm and seed, and the facts about the algorithm that a replay needs."""
        self.cohort, self.stale = facts.cohort, facts.stale
        if self.folder is None:
            return
        path, text = self.folder / RUN, text_of(run, facts)
        try:
            if self.earlier == "compared" and path.is_file() and any(file.behind for file in self._again):
                if path.read_bytes() != text.encode():
                    raise Otherwise(path)
            else:
                replace_file(path, text)
        except OSError as error:
            self.unwritten = self.unwritten or error

    def stop(self) -> None:
        """Notes that the run will end before its last round, so that an earlier record may have more lines than this
        run.  Lines that are written later are dropped if the earlier record has lines that this run has not written
        again."""
        self.halted = any(file.behind for file in self._again)

    def finish(self) -> None:
        """Ends the record of a run that has ended.  If an earlier record has more lines than the run wrote, removes
        them, or raises Otherwise if `earlier` is "compared"."""
        for file in self._again if not (self.halted or self.unwritten) else ():
            try:
                file.end()
            except Otherwise as error:
                self._cut(error)

    @property
    def _again(self) -> list[RepeatedFile]:
        return [file for file in (self.events, self.rounds, self.works) if isinstance(file, RepeatedFile)]

    def _cut(self, error: Otherwise) -> None:
        """Removes the lines of an earlier record that this run has not written again; raises `error` if `earlier` is
        "compared"."""
        if self.earlier == "compared":
            raise error
        for file in self._again:
            file.cut()

    def now(self) -> float:
        return self.clock() if self.standing is None else self.standing

    def instant(self) -> Instant:
        """Gives all lines written inside this context the same time, even if a real clock runs on."""
        return Instant(self)

    def open(self, round: int, asked: Sequence[str], model: str, idle: Sequence[str] = ()) -> float:
        """Records that a round opens, and returns the time.  `idle`: the devices from which the round's devices were
        chosen."""
        self.trips.update({Call(device, round): Trip() for device in asked})
        return self._write(Opened, self.now(), round, list(asked), model, self._among(idle))

    def ask(self, round: int, asked: Sequence[str], idle: Sequence[str] = ()) -> None:
        """Records that a version asks further devices.  `idle`: as in `open`."""
        self.trips.update({Call(device, round): Trip() for device in asked})
        self._write(Asked, self.now(), round, list(asked), self._among(idle))

    def _among(self, idle: Sequence[str]) -> str | None:
        return digest_of(idle) if idle and self.cohort != "drawn" else None

    def close(self, round: int, reason: str, counted: Sequence[str | Call]) -> float:
        plain = [list(each) if isinstance(each, Call) else each for each in counted]
        return self._write(Closed, self.now(), round, reason, plain)

    def start(
        self,
        direction: Way,
        call: Call,
        sizes: Mapping[str, int],
        reply_to: int | None,
        setup: float = 0.0,
        headers: int = 0,
        since: int = 0,
    ) -> None:
        """Records that a transfer starts.  `setup`: seconds before its bytes flow; `since`: the index of the first byte
        of the message that it sends, above 0 if it continues an earlier transfer."""
        wire = sum(sizes.values()) - since + headers if headers else None
        started = self.now(), call.round, call.device, direction, dict(sizes), reply_to, setup, wire, since
        t = self._write(TransferStarted, *started)
        trip = self.trips[call]
        if before := getattr(trip, direction):
            trip.earlier.append((direction, before))
        setattr(trip, direction, Transfer(t, sizes, t, setup=setup, since=since))
        trip.busy = True

    def end(self, direction: Way, call: Call) -> None:
        t = self._write(TransferEnded, self.now(), call.round, call.device, direction)
        trip = self.trips[call]
        transfer: Transfer = getattr(trip, direction)
        trip.busy = direction == "down"
        transfer.stop, transfer.whole = t, True
        transfer.moved = sum(transfer.sizes.values()) - transfer.since

    def cut(self, direction: Way, call: Call, why: str, nbytes: int, then: str | None = None) -> None:
        """Records that a transfer is cut after `nbytes` bytes.  `then`: what follows when the device is back, "resume"
        or "restart"; None: nothing, and the message is lost."""
        t = self._write(TransferCut, self.now(), call.round, call.device, direction, nbytes, why, then)
        transfer: Transfer = getattr(self.trips[call], direction)
        transfer.stop, transfer.moved = t, nbytes
        transfer.kept, transfer.vain = then == "resume", then == "restart"
        self.trips[call].cut(why, then)

    def duty(self, call: Call, duty: Duty) -> None:
        """Records what a device is asked to do in a round, whether or not it does it."""
        if self.works:
            for line in self.ledger.device(call.device, call.round, duty):
                self._say(self.works, line)

    def compute_start(self, call: Call, bill: Bill, rate: float, t: float) -> None:
        charged = bill.flops, bill.seconds, rate, bill.jitter, bill.throttled
        self._write(ComputeStarted, t, call.round, call.device, *charged)
        self.trips[call].work.append(Stint(bill, t, t))

    def compute_end(self, call: Call, update: str, loss: float | None = None) -> None:
        stint, t = self.trips[call].work[-1], self.now()
        stint.stop, stint.share = t, 1.0
        overrun = _overrun(stint.seconds, stint.bill.total_seconds)
        told = None if loss is None or not isfinite(loss) else loss  # one that is not finite is refused
        self._write(ComputeEnded, t, call.round, call.device, update, overrun, told)

    def compute_cut(self, call: Call, why: str, done: float | None = None, then: str | None = None) -> None:
        """Records that work is cut.  `done`: the share of the work that was done; None: the share of its seconds
        that passed.  `then`: what follows when the device is back, "pause" (the rest) or "restart"; None: the work
        is lost."""
        stint, t = self.trips[call].work[-1], self.now()
        stint.stop, stint.vain = t, then == "restart"
        self.trips[call].cut(why, then)
        planned = stint.bill.total_seconds
        passed = min(1.0, stint.seconds / planned) if planned else 0.0
        stint.share = passed if done is None else done
        written = done if stint.share != passed else None
        self._write(ComputeCut, t, call.round, call.device, stint.seconds, why, written, then)

    def server_start(self, round: int, what: str, bill: Bill, rate: float) -> float:
        if self.works and bill.pieces:
            for line in self.ledger.server(what, round, bill.pieces):
                self._say(self.works, line)
        self.served = bill.total_seconds
        charged = bill.flops, bill.seconds, bill.total_flops, rate
        self.began = self._write(ServerStarted, self.now(), round, what, *charged)
        return self.began

    def server_end(self, round: int, what: str, model: str) -> float:
        t = self.now()
        return self._write(ServerEnded, t, round, what, model, _overrun(t - self.began, self.served))

    def refused(self, call: Call, kind: Unsound, why: str) -> Refused:
        event = Refused(self.now(), call.round, call.device, kind, why)
        if self.events:
            self._say(self.events, event.plain)
        return event

    def off(self, call: Call) -> None:
        self._write(WentOff, self.now(), call.round, call.device)

    def on(self, call: Call) -> None:
        self._write(CameBack, self.now(), call.round, call.device)

    def row(self, row: Mapping[str, Any]) -> None:
        """Writes the row of a round that has ended, and passes all lines so far to the operating system, so that a
        crash of this process loses none of them."""
        if not (self.events and self.rounds and self.works):
            return
        self._flush(self.events)  # first: a row must not exist without the events that it sums up
        self._flush(self.works)
        self._say(self.rounds, row)
        self._flush(self.rounds)

    def shut(self) -> None:
        for file in (self.events, self.rounds, self.works):
            if file and not file.closed:
                try:
                    with file:
                        file.flush()
                        os.fsync(file.fileno())
                except OSError as error:
                    self._failed(file, error)

    def _write(
        self, kind: Callable[Concatenate[float, Values], Event], t: float, *values: Values.args, **more: Values.kwargs
    ) -> float:
        """Writes an event, if there is a file for events, and returns its time `t`.  Callers count seconds from that
        time, because a real clock runs on meanwhile."""
        if self.events:
            self._say(self.events, kind(t, *values, **more).plain)
        return t

    def _say(self, to: BinaryIO | RepeatedFile, line: Mapping[str, Any]) -> None:
        if to.closed or self.unwritten or self.halted:  # after a second Ctrl-C tasks still unwind
            return
        text = encode(line)
        try:
            try:
                to.write(text)
            except Otherwise as error:
                self._cut(error)
                to.write(text)
        except OSError as error:
            self._failed(to, error)

    def _flush(self, file: BinaryIO | RepeatedFile) -> None:
        if self.unwritten:
            return
        try:
            file.flush()
        except OSError as error:
            self._failed(file, error)

    def _failed(self, file: BinaryIO | RepeatedFile, error: OSError) -> None:
        """Keeps the first error in writing a file, in `unwritten`; the run goes on to the end of its round."""
        error.filename = file.name
        self.unwritten = self.unwritten or error


class Instant:
    """The context that Record.instant returns: the time stands still in it.  A generator would take four times as
    long."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def __enter__(self) -> None:
        self.before, self.record.standing = self.record.standing, self.record.now()

    def __exit__(self, *_: object) -> None:
        self.record.standing = self.before


def digest_of(names: Sequence[str]) -> str:
    """Returns the first 16 hex digits of the SHA-256 of the names, one a line."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _opened(folder: Path | None, earlier: Earlier) -> Sequence[BinaryIO | RepeatedFile | None]:
    if folder is None:
        return [None for _ in FILES]
    folder.mkdir(parents=True, exist_ok=True)
    lengths = {} if earlier == "replaced" else known(folder, FILES)
    files: list[BinaryIO | RepeatedFile] = []
    with ExitStack() as opened:  # which closes the first files if a later one cannot be opened
        for path in (folder / name for name in FILES):
            known_file = path.name in lengths
            files.append(RepeatedFile(path, lengths[path.name]) if known_file else path.open("wb", buffering=BUFFER))
            opened.push(files[-1])
        opened.pop_all()
    return files


def _overrun(passed: float, charged: float) -> float:
    """Returns the seconds by which work took longer than it was charged; 0 if the difference is only that of
    rounding."""
    late = passed - charged
    return late if late > 1e-6 * charged + 1e-9 else 0.0

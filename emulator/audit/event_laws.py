"""Checks the events of a record line by line.  Pure.

docs/design/record.md §1 defines the laws I1 to I8.  Of law I4, a record shows only which round a device acknowledges.
"""

from __future__ import annotations

from itertools import chain

from emulator.audit import version_laws, whole_record
from emulator.audit.stragglers import faults as after_the_close
from emulator.audit.timeline import AuditedRound, Event, Stretch, Visit, late, losses
from emulator.audit.whole_record import slack
from emulator.record.call import AGAIN, version

AFTER: dict[str, str | None] = {  # event -> the event before it in a device-round
    "down.start": None,
    "down.end": "down.start",
    "down.cut": "down.start",
    "compute.start": "down.end",
    "compute.end": "compute.start",
    "compute.cut": "compute.start",
    "up.start": "compute.end",
    "up.end": "up.start",
    "up.cut": "up.start",
    "refused": "up.end",
}


class Timeline:
    """The rounds of a record, built line by line with `read`; `faults` has a sentence for each broken law."""

    def __init__(self) -> None:
        self.rounds: dict[int, AuditedRound] = {}
        self.faults: list[str] = []
        self.latest: Event | None = None
        self.serving: Stretch | None = None  # the server's current work
        self.rates: dict[str, float] = {}  # FLOP/s by device; the server's under ""
        self.back: list[tuple[Event, AuditedRound, Visit, Event | None]] = []  # returns at this instant; what each cut
        self.acknowledged: dict[str, int] = {}  # by device: its last counted round
        self.model: str | None = None  # digest; None if a broken record leaves it open
        self.working: dict[str, Visit] = {}  # devices at work for asynchronous versions, as far as the record shows
        self.crowd: tuple[int, Event | None] = 0, None  # most devices at work, and the line that asks the last of them

    def fault(self, law: str, line: Event, what: str) -> None:
        self.faults.append(f"{law}: {line.where}: {what}")

    def read(self, line: Event) -> None:
        if self.latest and line.t < self.latest.t:
            self.fault("I7", line, f"time goes back from {self.latest.t} to {line.t}")
        if self.latest and line.t > self.latest.t:
            self._went_on()
        self.latest = line
        round = self.rounds.get(line.round)
        if line.event == "open":
            self._open(line)
        elif line.event == "ask":
            self._ask(line)
        elif round is None:
            self.fault("rounds", line, f"{line.event} in a round that has not opened")
        elif line.event == "close":
            self._close(line, round)
        elif line.event.startswith("server"):
            self._server(line, round)
        elif line.device not in round.visits:
            self.fault("I7", line, f"{line.event} of a device that was not selected")
        elif line.event in ("off", "on"):
            self._presence(line, round, round.visits[line.device])
        else:
            self._work(line, round, round.visits[line.device])

    def _open(self, line: Event) -> None:
        asked, due = line.body["asked"], max(map(version, self.rounds), default=-1) + 1
        if line.round != due:
            self.fault("rounds", line, f"opens where round {due} is due")
        before = self.rounds.get(due - 1)
        if before and before.stamp is None:
            self.fault("rounds", line, f"opens before round {due - 1} was closed and combined")
        if self.model not in (None, line.body["model"]):
            self.fault("I8", line, f"opens with model {line.body['model']}, but round {due - 1} left {self.model}")
        if len(set(asked)) < len(asked):
            self.fault("I1", line, f"selects a device twice: {asked}")
        if line.round not in self.rounds:
            self.rounds[line.round] = AuditedRound(line, {name: Visit(line) for name in asked})
            self.model = line.body["model"]

    def _ask(self, line: Event) -> None:
        """Checks that an asynchronous version asks devices while it is open, and none that is at work."""
        made = self.rounds.get(version(line.round))
        if made is None or made.close:
            self.fault("rounds", line, "asks on a version that is not open")
            return
        made.asynchronous = True
        round = self.rounds.get(line.round)
        if round is None:
            round = self.rounds[line.round] = AuditedRound(line, {}, asynchronous=True)
            made.again.append(round)
        before = self.rounds.get(line.round - AGAIN)
        for name in line.body["asked"]:
            if name in self.working:
                self.fault("I7", line, f"selects {name!r}, which is at work for line {self.working[name].asked.number}")
            if name in round.visits or (line.round >= AGAIN and (before is None or name not in before.visits)):
                self.fault("I1", line, f"selects {name!r} twice, or again without a first time")
            self.working[name] = round.visits.setdefault(name, Visit(line))
        if len(self.working) > self.crowd[0]:
            self.crowd = len(self.working), line

    def _close(self, line: Event, round: AuditedRound) -> None:
        if round.close:
            self.fault("rounds", line, f"closes again; line {round.close.number} closed it")
            return
        round.close = line
        if len(set(round.counted)) < len(round.counted):
            self.fault("I1", line, f"aggregates an update twice: {round.counted}")
        for name in dict.fromkeys(round.counted):
            visit = round.visits.get(name)
            if visit is None:
                self.fault("I1", line, f"aggregates {name!r}, which was not selected")
            elif visit.refused:
                self.fault("I2", line, f"aggregates {name!r}, whose reply was refused")
            elif visit.last is None or visit.last.event != "up.end":
                last = f"{visit.last.event} in line {visit.last.number}" if visit.last else "nothing"
                self.fault("I2", line, f"aggregates {name!r} before its upload has ended; its last event is {last}")
            elif "compute" not in visit.did:
                self.fault("I2", line, f"aggregates {name!r}, which has computed nothing")
        for each in round.again:
            each.close = line
        self._stale(line, round)
        self._told(round)
        round.lost = losses(round)
        self._reason(line, round)

    def _stale(self, line: Event, round: AuditedRound) -> None:
        """Checks the replies to earlier rounds that count in this one: each was asked for, is whole, came after the
        close of its own round, and counts once."""
        if len(set(round.stale)) < len(round.stale):
            self.fault("I1", line, f"aggregates an update twice: {round.stale}")
        for name, number in dict.fromkeys(round.stale):
            asked = self.rounds.get(number)
            visit = asked.visits.get(name) if asked and asked is not round else None
            said = f"{name!r}, selected in round {number}"
            if asked is None or visit is None:
                self.fault("I1", line, f"aggregates {said}, which no earlier round selected")
            elif name in asked.counted or name in asked.later:
                self.fault("I1", line, f"aggregates {said}, whose reply was aggregated before")
            elif visit.refused or visit.last is None or visit.last.event != "up.end" or "compute" not in visit.did:
                self.fault("I2", line, f"aggregates {said}, which has not sent a whole reply")
            elif asked.close and not (round.asynchronous or late(visit.last, asked)):
                self.fault("I3", line, f"aggregates {said}, whose reply came before the close of that round")
            elif not round.failed:
                asked.later.add(name)

    def _told(self, round: AuditedRound) -> None:
        """Checks that each request of a synchronous round acknowledges the device's last reply that counts; a late one
        counts in this round, and has done so before the request went."""
        late = dict(round.stale)
        for name, line in round.told.items():
            reply, known = line.body["reply_to"], late.get(name, self.acknowledged.get(name))
            open_yet = round.close is None and reply in self.rounds and name in self.rounds[reply].visits
            if reply != known and not open_yet:
                self.fault("I4", line, f"acknowledges round {reply}, but the device was last counted in {known}")

    def _reason(self, line: Event, round: AuditedRound) -> None:
        reason, asked = line.body["reason"], len(round.visits)
        if round.asynchronous:
            return
        heard = len(round.counted) + sum(visit.refused for visit in round.visits.values())
        least, most = (heard + lost for lost in round.lost)
        if reason == "all" and most < asked:
            self.fault("rounds", line, f"closed for 'all', but only {most} of {asked} were heard or lost")
        if reason in ("first", "deadline") and least >= asked:
            self.fault("rounds", line, f"closed for {reason!r}, but all of {asked} were heard or lost")
        if reason != "too_few" and not (round.counted or round.stale):
            self.fault("rounds", line, f"closed for {reason!r}, but aggregates no reply")
        counted = [round.visits[name].last for name in round.counted if name in round.visits]
        arrived = max((last.number for last in counted if last), default=0)
        for cut in (visit.cut("closed") for visit in round.visits.values()):
            if cut and cut.number < arrived:
                self.fault("I7", cut, f"cut by a close whose last counted reply came later, in line {arrived}")

    def _server(self, line: Event, round: AuditedRound) -> None:
        what, starts = line.body["what"], line.event == "server.start"
        if not starts:
            self._served(line, round, what)
            return
        if self.serving:
            self.fault(
                "I6",
                line,
                f"the server starts {what} before what it began in line {self.serving.start.number} has ended",
            )
        if what in round.server:
            self.fault("I6", line, f"the server starts a second {what}")
            return
        if what == "request" and (round.close or any(visit.last for visit in round.visits.values())):
            self.fault("I7", line, "the server prepares a request that was sent before")
        if what == "combine" and not round.close:
            self.fault("I7", line, "the server combines before the close")
        if what == "combine" and round.failed:
            self.fault("I8", line, "the server combines a failed round")
        charge, phases = line.body["flops"], line.body["phases"]
        if not near(charge, sum(phases.values()), 1e-9):
            self.fault("I6", line, f"flops is {charge}, but the phases sum to {sum(phases.values())}")
        self._roofline(line)
        self.serving = round.server[what] = Stretch(line)

    def _served(self, line: Event, round: AuditedRound, what: str) -> None:
        stretch, model = self.serving, line.body["model"]
        if stretch is None or (stretch.start.round, stretch.start.body["what"]) != (line.round, what):
            self.fault("I6", line, f"the server ends a {what} that it was not doing")
            return
        stretch.stop, self.serving = line, None
        self._duration(stretch)
        if what == "combine":
            self.model = model
            self.acknowledged.update({**dict(round.stale), **dict.fromkeys(round.counted, line.round)})
        elif model != self.model:
            self.fault("I8", line, f"the request leaves model {model}, but the round opened with {self.model}")

    def _presence(self, line: Event, round: AuditedRound, visit: Visit) -> None:
        if round.close and visit.over:
            self.fault("I7", line, f"{line.event} after the close, of a device that had nothing more to do")
        if visit.off == (line.event == "off"):
            self.fault("I6", line, f"goes {line.event}, but it was {line.event} already")
        elif line.event == "off":
            visit.away.append(Stretch(line))
            if visit.last is None or visit.last.event == "down.end":  # its request may be lost
                self.working.pop(line.device, None)
        else:
            visit.away[-1].stop = line
            if visit.suspended:
                self.back.append((line, round, visit, visit.last))

    def _went_on(self) -> None:
        """Checks that each device that came back at this instant has continued the work or transfer that its absence
        had cut.

        This holds after the round's close, too, unless the close stopped the device in the same instant.
        """
        for line, round, visit, before in self.back:
            stopped = round.close is not None and round.close.number > line.number
            if visit.last is before and before and not (visit.off or stopped):
                self.fault("I7", line, f"is back, but does not go on with what line {before.number} has put off")
        self.back.clear()

    def _work(self, line: Event, round: AuditedRound, visit: Visit) -> None:
        before = visit.last.event if visit.last else None
        phase, _, step = line.event.partition(".")
        cut = visit.did.get(phase)
        again = step == "start" and visit.suspended and cut is not None and cut.stop is visit.last
        # A device that cannot take part replies at once, without a tensor.
        declines = before == "down.end" and line.event == "up.start" and set(line.body["bytes"]) == {"frame"}
        if before != AFTER[line.event] and not again and not declines:
            self.fault("I7", line, f"{line.event} follows {before or 'nothing'}, not {AFTER[line.event] or 'nothing'}")
        visit.last = line
        if visit.over and self.working.get(line.device) is visit:
            del self.working[line.device]
        if phase == "refused":
            visit.refused = True
            if (line.body["kind"] == "device") == ("compute" in visit.did):
                done = "it has computed" if "compute" in visit.did else "it has computed nothing"
                self.fault("I2", line, f"refused for {line.body['kind']!r}, but {done}")
            if round.close and not round.asynchronous:
                self.fault("I2", line, f"refused after the close in line {round.close.number}")
        elif step == "start":
            if again:
                visit.earlier.append(visit.did.pop(phase))
                self._goes_on(line, visit.earlier[-1])
            else:
                self._starts(line, round, phase)
            visit.did.setdefault(phase, Stretch(line))
        elif phase in visit.did and visit.did[phase].stop is None:
            visit.did[phase].stop = line
            self._stops(line, visit, visit.did[phase])

    def _goes_on(self, line: Event, before: Stretch) -> None:
        """Checks that a transfer or work which an absence cut (`before`) continues with exactly the rest, or starts
        again from the beginning, as the line of the cut says."""
        if "seconds" in line.body:
            self._roofline(line)
            self._rest_of_work(line, before)
            return
        reached = before.since + before.moved if before.then == "resume" else 0
        if line.body.get("from", 0) != reached:
            self.fault("I5", line, f"goes on from byte {line.body.get('from', 0)}; it must be {reached}")
        if any(line.body[key] != before.start.body[key] for key in ("bytes", "reply_to")):
            self.fault("I5", line, f"goes on with another message than that of line {before.start.number}")

    def _rest_of_work(self, line: Event, before: Stretch) -> None:
        """Checks that the continued work is what the cut one left.  Seconds are compared as on a cold machine, because
        the device may have cooled down meanwhile."""
        left = 1 - before.share if before.then == "pause" else 1.0
        for what in ("phases", "seconds"):
            heat, heat_before = (
                body.get("throttled", 1.0) if what == "seconds" else 1.0 for body in (line.body, before.start.body)
            )
            said, due = line.body[what], before.start.body[what]
            if said.keys() != due.keys() or not all(
                near(said[phase] / heat, left * due[phase] / heat_before, 1e-6) for phase in due
            ):
                self.fault("I6", line, f"goes on with {what} {said}, but {left} of {due} were left")
        if line.body.get("jitter") != before.start.body.get("jitter"):
            self.fault("I6", line, f"goes on with another jitter than that of line {before.start.number}")

    def _starts(self, line: Event, round: AuditedRound, phase: str) -> None:
        if line.body.get("from"):
            self.fault("I5", line, f"begins with byte {line.body['from']}, but nothing of it was sent before")
        reply = line.body.get("reply_to")
        if phase == "compute":
            self._roofline(line)
        elif phase == "up":
            if reply != line.round:
                self.fault("I3", line, f"an upload that answers round {reply}")
        else:
            if not round.asynchronous:
                round.told.setdefault(line.device, line)
            if round.close:
                self.fault("I7", line, f"a download that starts after the close in line {round.close.number}")
            if self.serving and self.serving.start.round == line.round:
                self.fault(
                    "I7",
                    line,
                    f"a download that starts before the server's work of line {self.serving.start.number} has ended",
                )

    def _stops(self, line: Event, visit: Visit, stretch: Stretch) -> None:
        if line.body.get("why") == "off" and not visit.off:
            self.fault("I7", line, f"{line.event} because it is off, but no line says that it went off")
        if line.body.get("why") == "closed" and line.body.get("then"):
            self.fault("I7", line, f"{line.event} by the close, which is not followed by more")
        if "seconds" in stretch.start.body:
            self._duration(stretch)
            self._done(line, stretch)
        elif stretch.whole and stretch.seconds < (setup := stretch.start.body.get("setup", 0.0)) - slack(line.t):
            self.fault("I5", line, f"took {stretch.seconds} s, less than its set-up of {setup} s")
        elif stretch.since + stretch.moved > stretch.announced:
            announced = stretch.announced - stretch.since
            self.fault("I5", line, f"{stretch.moved} bytes went through of {announced} announced")

    def _done(self, line: Event, stretch: Stretch) -> None:
        """Checks which share of the work was done before a cut: at least the share of the seconds that passed, at most
        the share that a cold machine would have done in them.

        A device heats up as it computes, so its first seconds do more work than the later ones.
        """
        if stretch.whole or not stretch.charged:
            return
        share, heat = min(1.0, stretch.seconds / stretch.charged), stretch.start.body.get("throttled", 1.0)
        if not share * (1 - 1e-6) - 1e-9 <= stretch.share <= min(1.0, share * heat) * (1 + 1e-6) + 1e-9:
            said = f"{stretch.share} of the work is done in {stretch.seconds} of {stretch.charged} s"
            self.fault("I6", line, f"{said}; it must be {share} at least, and {min(1.0, share * heat)} at most")

    def _roofline(self, line: Event) -> None:
        phases, seconds, rate = line.body["phases"], line.body["seconds"], line.body["rate"]
        if self.rates.setdefault(line.body.get("device", ""), rate) != rate:
            self.fault("I6", line, f"the rate is {rate} FLOP/s; it was another before, and no machine changes its own")
        if phases.keys() != seconds.keys():
            self.fault("I6", line, f"charges FLOPs for {sorted(phases)}, but seconds for {sorted(seconds)}")
            return
        jitter, throttled = line.body.get("jitter", dict.fromkeys(phases, 1.0)), line.body.get("throttled", 1.0)
        if jitter.keys() != phases.keys():
            self.fault("I6", line, f"charges FLOPs for {sorted(phases)}, but has jitter for {sorted(jitter)}")
            return
        if throttled < 1:
            self.fault("I6", line, f"throttled is {throttled}; heat makes no machine quicker")
        for phase, flops in phases.items():
            if seconds[phase] < flops / rate * jitter[phase] * throttled * (1 - 1e-9):
                self.fault(
                    "I6", line, f"{phase} takes {seconds[phase]} s, but {flops} FLOPs at {rate} FLOP/s take longer"
                )

    def _duration(self, stretch: Stretch) -> None:
        """Checks that work lasts as many seconds as it is charged, plus its recorded overrun: over sockets, real
        training may take longer than its charge."""
        assert stretch.stop
        stop, passed, charged = stretch.stop, stretch.seconds, stretch.charged
        margin = slack(stop.t)
        overrun = stop.body.get("overrun", 0.0)
        if stretch.whole and abs(passed - charged - overrun) > 1e-6 * charged + margin:
            self.fault("I6", stop, f"the work took {passed} s; {charged} s are charged, and the overrun is {overrun} s")
        if not stretch.whole and abs(stop.body["seconds"] - passed) > 1e-6 * passed + margin:
            self.fault("I6", stop, f"says it was cut after {stop.body['seconds']} s, but {passed} s passed")

    def finish(self, stragglers: bool | None = None) -> None:
        """Applies the laws that need the whole record.  `stragglers`: true if devices may finish after the close of a
        round, false if they are stopped, None if unknown."""
        for round in self.rounds.values():
            if round.close is None:
                self._told(round)
        asynchronous = any(round.asynchronous for round in self.rounds.values())
        after = version_laws.faults(self.rounds) if asynchronous else after_the_close(self.rounds, stragglers)
        for law, line, what in chain(after, whole_record.absences(self.rounds.values())):
            self.fault(law, line, what)
        self.faults += whole_record.overlaps(self.rounds, self.latest.t if self.latest else 0.0)


def near(a: float, b: float, relative: float) -> bool:
    return abs(a - b) <= relative * max(abs(a), abs(b)) + 1e-9

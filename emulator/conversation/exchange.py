"""Requests and replies, seen from the server: sends a device its request of a round, and checks its reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Protocol

from algorithms.algorithm import MOST_STEPS
from emulator.conversation.underway import Arrival, Play
from emulator.lab.lab import Lab
from emulator.record.call import Call
from emulator.record.events import Refused, Unsound
from emulator.record.record import Record
from emulator.record.run import Run
from emulator.worlds.interface import Cancelled, Lost, Parcel, ServerEnd, Unread
from network.wire import form


@dataclass(frozen=True)
class Refusal:
    """The reason why a reply does not count; `text` is one line without the device's name.

    `kind`: the device itself refuses (too little memory), it reports a wrong number of examples, the message has the
    wrong form, or a value in it is not finite.
    """

    kind: Unsound
    text: str


class Judge(Protocol):
    """A rule that decides which replies are sound, so that they may count."""

    def refusal(self, play: Play, name: str, reply: Parcel) -> Refusal | None:
        """Returns the reason to refuse this reply, which has an upload; None if the reply is sound."""


class ReplyJudge:
    """The judge of a run with training; a replay has another one.

    A sound reply reports possible numbers of examples and, if replies tell them, of steps; its message has this round's
    shapes and finite values.
    """

    def __init__(self, lab: Lab, run: Run) -> None:
        self.lab, self.run = lab, run

    def refusal(self, play: Play, name: str, reply: Parcel) -> Refusal | None:
        examples = reply.header.get("examples")
        held = len(self.lab.held(self.run.seed, name, self.lab.cycle(self.run.label, play.round.number)))
        if not isinstance(examples, int) or not 1 <= examples <= held:
            return Refusal("examples", f"says it used {examples} examples; it holds {held}")
        loss = reply.header.get("loss")
        if self.lab.loss_power(self.run.label) and not (isinstance(loss, float) and isfinite(loss)):
            return Refusal("values", f"says its loss is {loss}; it must be a finite number")
        steps = reply.header.get("steps")
        if self.lab.tells_steps(self.run.label) and not (isinstance(steps, int) and 1 <= steps <= MOST_STEPS):
            return Refusal("examples", f"says it took {steps} steps; it may take 1 to {MOST_STEPS}")
        try:
            reply.message.check(self.lab.upload_form(self.run.label, play.round.number, self.run.seed))
        except form.NotFinite as fault:
            return Refusal("values", str(fault))
        except form.RefusedMessage as fault:
            return Refusal("form", str(fault))
        return None


class Exchange:
    """The server's side of requests and replies: asks devices, and puts their sound replies into one inbox."""

    def __init__(self, line: Callable[[str], ServerEnd], record: Record, judge: Judge) -> None:
        self.line, self.record, self.judge = line, record, judge
        self.last: Refused | None = None  # of the run so far
        self.inbox: list[Arrival] = []  # in order of arrival, until a round takes them in
        self.open: Play | None = None  # the round that takes in replies
        self.reached: set[str] = set()  # devices that have received a whole message
        self.at_once = True  # a reply is taken in when it arrives, if a round is open

    async def ask(self, play: Play, name: str, parcel: Parcel) -> None:
        """Sends one device its request and waits for its reply.  The reply then waits in the inbox, or the round notes
        that it is refused or lost."""
        round, line = play.round, self.line(name)
        try:
            if name in play.away:
                raise Lost("off")
            await line.send(parcel)
            self.reached.add(name)
            reply = await self._reply(play, line)
        except Lost:
            round.lose(name)
            await line.rest()
        except Unread:
            self._refuse(play, name, Refusal("form", "the connection ended before all of it was read"))
            await line.rest()
        else:
            self._weigh(play, name, reply)
        if round.reason is not None:
            play.closing.set()

    @staticmethod
    async def _reply(play: Play, line: ServerEnd) -> Parcel:
        try:
            while True:
                reply = await line.receive()
                if reply.header["round"] == play.round.number:  # otherwise it answers an older request
                    return reply
        except Cancelled:
            await line.stop()
            raise

    def _weigh(self, play: Play, name: str, reply: Parcel) -> None:
        """Puts a reply that has arrived into the inbox if it is sound and may count; refuses it if it is not sound."""
        why = reply.header.get("refusal")
        refusal = Refusal("device", str(why)) if why else self.judge.refusal(play, name, reply)
        if refusal:
            self._refuse(play, name, refusal)
        # After the close it may still count: in an asynchronous version, or one round late if the rules admit that.
        elif play.round.reason is None or play.round.rules.asynchronous or play.round.rules.admit(1, 0):
            examples = reply.header["examples"]
            assert isinstance(examples, int)
            loss, steps = reply.header.get("loss"), reply.header.get("steps")
            play.waiting.add(name)
            arrival = Arrival(
                *(self.record.now(), name, play, examples, reply.message.ref),
                loss=loss if isinstance(loss, float) else None,
                steps=steps if isinstance(steps, int) else 0,
            )
            self.inbox.append(arrival)
            if self.at_once:
                self.take_in()

    def take_in(self) -> list[Arrival]:
        """Counts the replies in the inbox while a round is open that may count them; drops those that it may not.
        Returns the replies that it has taken."""
        taken: list[Arrival] = []
        if len(self.inbox) > 1:
            self.inbox.sort(key=lambda arrival: arrival.place)
        while self.inbox and self.open and self.open.round.reason is None:
            arrival = self.inbox.pop(0)
            taken.append(arrival)
            if self.open.round.count(*arrival.call):
                self.open.replies.append(arrival)
            else:
                self.open.dropped += 1
                arrival.asked.waiting.discard(arrival.device)
            if self.open.round.reason is not None:
                self.open.closing.set()
        return taken

    def _refuse(self, play: Play, name: str, refusal: Refusal) -> None:
        """Records that a reply is refused.  Does nothing after the close of a synchronous round, when the device counts
        as late."""
        if play.round.reason is None or play.round.rules.asynchronous:
            self.last = self.record.refused(Call(name, play.round.number), refusal.kind, refusal.text)
            play.round.refuse(name)
            play.not_finite += refusal.kind == "values"

"""The server of an asynchronous run: a round is a version of the model, made of the first K replies to any version.

M devices are at work whenever enough are online.  At one instant replies are taken in, in their total order, until the
buffer is full; a full buffer is combined at once, then the free places are filled with the newest version, and the next
replies of that instant are taken in (docs/design/async.md).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from emulator.conversation.server import Server
from emulator.conversation.underway import Play
from emulator.lab.seeds import seed
from emulator.messages.store import NOTHING
from emulator.record.call import AGAIN, version
from emulator.worlds.interface import Late, Parcel

DRAWS = 20  # for each free place


class AsyncServer(Server):
    """A server whose rounds overlap: `stragglers` are the devices at work, whichever version asked them.

    A device's place is free when its reply was taken in, refused, lost, or not there in time.  A version may ask a
    device again once its reply was taken in (record/call.py, Call): the device then draws other batches.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.exchange.at_once = False
        self.silent: set[str] = set()  # devices that have not replied to the open version, which asks them no more

    async def _play(self, number: int) -> Play:
        play = self._play_of(number, ())
        play.opened = self.record.open(number, (), self.state.weights.short)
        self.exchange.open = play
        self.silent.clear()
        fills = 0
        while play.round.reason is None:
            if await self._fill(play, fills):
                fills += 1
            elif self.exchange.inbox:
                await self._take_in()
            else:
                await self._something(play)
        return await self._finish(play)

    async def _fill(self, play: Play, fills: int) -> bool:
        """Fills the free places with this version.  Returns false if there are none, or nobody who could be asked.

        `fills`: how often this version has asked before.
        """
        number, free = play.round.number, self.rules.ask - len(self.stragglers)
        if free <= 0:
            return False
        root = seed(self.run.seed, "cohort", number, *([fills] if fills else []))
        few = free if self._any_will_do else None
        present = self._present(root, few, self._unasked)
        names = self._chosen(number, present, free, root) if present else ()
        for request, asked in self._requests(play, names):
            request.round.asked = [*request.round.asked, *asked]
            self.record.ask(request.round.number, asked, present)
            self.stragglers.update(dict.fromkeys(asked, request))
            if not self.always_on:
                self.presences.follow(request, asked)
            opening = await self._request(request, asked)
            request.download = opening.download.ref if self.lab.up.get(self.run.label) else NOTHING
            self._send(request, opening, asked)
        return bool(names)

    @property
    def _unasked(self) -> Collection[str]:
        """The devices that this version cannot ask now."""
        return self.stragglers.keys() | self.silent if self.silent else self.stragglers

    def _present(self, root: int, few: int | None, busy: Collection[str]) -> list[str]:
        """Returns the names as `Server` does, but draws the `few` one by one, as most versions fill a single place and
        an order of all names takes as long as some replies."""
        rng, now, total, found = np.random.default_rng(root), self.world.now(), len(self.names), dict[str, None]()
        for number in rng.integers(total, size=DRAWS * few).tolist() if few else ():
            name = self.names[number]
            if name not in busy and (self.always_on or self.lab.fleet[name].presence.on(now)):
                found[name] = None
                if len(found) == few:
                    return sorted(found)
        return super()._present(root, few, busy)  # few are online and idle, or nearly all are asked

    def _requests(self, play: Play, names: Sequence[str]) -> list[tuple[Play, list[str]]]:
        """Divides these devices by how often the version has asked them before; returns each part with its request."""
        parts: list[tuple[Play, list[str]]] = []
        requests = [play, *play.again]
        while names:
            if len(parts) == len(requests):
                again = self._play_of(play.round.number + len(parts) * AGAIN, ())
                again.bills, again.written, again.opened = play.bills, play.written, self.record.now()
                play.again.append(again)
                requests.append(again)
            before = requests[len(parts)]
            parts.append((before, [name for name in names if name not in before.asks]))
            names = [name for name in names if name in before.asks]
        return [part for part in parts if part[1]]

    async def _ask(self, play: Play, name: str, parcel: Parcel) -> None:
        asking = self.exchange.ask(play, name, parcel)
        try:
            await (asking if self.rules.timeout is None else self.world.within(self.rules.timeout, asking))
        except Late:
            pass
        if name not in play.waiting:
            if self.exchange.open and version(play.round.number) == self.exchange.open.round.number:
                self.silent.add(name)
            await self._free(name)
        self.freed.set()

    async def _free(self, name: str) -> None:
        play = self.stragglers.pop(name, None)
        if play and name in play.watches:
            await self._end_all([play.watches[name]])

    async def _take_in(self) -> None:
        """Takes in the replies that have arrived, once all replies of this instant are there."""
        await self.world.settled()
        for arrival in self.exchange.take_in():
            await self._free(arrival.device)

    async def _something(self, play: Play) -> None:
        """Waits until a reply arrives, a device is lost, or one comes back that could be asked.  Closes the version if
        nothing of this will happen."""
        places = self.rules.ask > len(self.stragglers)
        back = self._next_back(self._unasked) if places else math.inf
        if back == math.inf and not self.stragglers:
            play.round.exhaust()
        else:
            await self._someone(back)

    async def _close(self, play: Play) -> float:
        for request in play.again:
            request.round.reason = play.round.reason
        return await super()._close(play)

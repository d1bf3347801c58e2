"""The server of an asynchronous run: a round is a version of the model, made of the first K replies to any version.

M devices are at work whenever enough are online.  At one instant replies are taken in, in their total order, until the
buffer is full; a full buffer is combined at once, then the free places are filled with the newest version, and the next
replies of that instant are taken in (docs/design/async.md).
"""

from __future__ import annotations

import math
from typing import Any

from emulator.conversation.server import Server
from emulator.conversation.underway import Play
from emulator.lab.seeds import seed
from emulator.messages.store import NOTHING
from emulator.worlds.interface import Late, Parcel
from scenarios.builders.roster import EACH


class AsyncServer(Server):
    """A server whose rounds overlap: `stragglers` are the devices at work, whichever version asked them.

    A device's place is free when its reply was taken in, refused, lost, or not there in time.  No device is asked twice
    with one version: it would compute from the same model and the same examples again.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.exchange.at_once = False

    async def _play(self, number: int) -> Play:
        play = self._play_of(number, ())
        play.opened = self.record.open(number, (), self.state.weights.short)
        self.exchange.open = play
        fills = 0
        while play.round.reason is None:
            if await self._fill(play, fills):
                fills += 1
            elif self.exchange.inbox:
                await self._take_in(play)
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
        few = free if len(self.names) > EACH and self.algorithm.any_cohort_will_do else None
        present = self._present(root, few, self.stragglers.keys() | play.asks.keys())
        names = self.algorithm.cohort(number, present, free, root) if present else ()
        if not names:
            return False
        play.round.asked = [*play.round.asked, *names]
        self.record.ask(number, names)
        self.stragglers.update(dict.fromkeys(names, play))
        if not self.always_on:
            self.presences.follow(play, names)
        opening = await self._request(play, names)
        play.download = opening.download.ref if self.lab.up.get(self.run.label) else NOTHING
        self._send(play, opening, names)
        return True

    async def _ask(self, play: Play, name: str, parcel: Parcel) -> None:
        asking = self.exchange.ask(play, name, parcel)
        try:
            await (asking if self.rules.timeout is None else self.world.within(self.rules.timeout, asking))
        except Late:
            pass
        if name not in play.waiting:
            await self._free(name)
        self.freed.set()

    async def _free(self, name: str) -> None:
        play = self.stragglers.pop(name, None)
        if play and name in play.watches:
            await self._end_all([play.watches[name]])

    async def _take_in(self, play: Play) -> None:
        """Takes in the replies that have arrived, once all replies of this instant are there."""
        while not self.world.still():
            await self.world.sleep(0.0)
        taken = self.exchange.take_in()
        for arrival in play.replies:  # acknowledged now, as the buffer will be combined
            self.counted[arrival.device] = arrival.asked.round.number
        for arrival in taken:
            await self._free(arrival.device)

    async def _something(self, play: Play) -> None:
        """Waits until a reply arrives, a device is lost, or one comes back that could be asked.  Closes the version if
        nothing of this will happen."""
        places = self.rules.ask > len(self.stragglers)
        back = self._next_back(self.stragglers.keys() | play.asks.keys()) if places else math.inf
        if back == math.inf and not self.stragglers:
            play.round.exhaust()
        else:
            await self._someone(back)

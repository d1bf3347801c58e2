"""The world as the conversation sees it: a clock, tasks, real computation, and channels.

Code written against this interface runs unchanged in virtual time and over real sockets.  It awaits nothing
else: an `asyncio` primitive would stop the virtual clock.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

from emulator.messages.forms import UploadForm
from emulator.messages.store import Ref, Store
from network.wire import envelope

Work = Coroutine[Any, Any, Any]
Cancelled = CancelledError  # in virtual time too, so that one `except` serves both worlds


# Our exceptions take one string: SimPy builds them anew from `.args` when it passes them on.
class Late(Exception):  # noqa: N818  what happened, not what went wrong
    """The time that `within` allowed is over."""


class Lost(Exception):  # noqa: N818
    """One of the two ends has gone offline, and what was in flight is lost."""


class Unread(Exception):  # noqa: N818
    """The links have let a reply through, but the connection has ended before it was read."""


class Message(Protocol):
    """Encoded tensors (messages.store.Stored, conversation.peer.Arrived)."""

    @property
    def ref(self) -> Ref:
        """The Ref of the tensors' bytes."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes per kind and "frame"; together the length of `data`."""

    def check(self, form: UploadForm) -> None:
        """Raises Refused unless it is of this form, and holds finite values."""


class Parcel(NamedTuple):
    """One message on a channel: a small header and the encoded tensors."""

    header: envelope.Header  # round, and counted (down) or examples (up)
    message: Message
    sizes: Mapping[str, int]  # bytes per kind and "frame"; together the length of what is sent

    @classmethod
    def of(cls, header: envelope.Header, message: Message) -> Parcel:
        """A parcel with its sizes; the header's bytes are charged to the frame."""
        sizes = message.sizes
        return cls(header, message, {**sizes, "frame": sizes["frame"] + envelope.envelope_bytes(header)})


class Ticket(NamedTuple):
    """A real computation that has been handed in."""

    future: Future[Any]

    def cancel(self) -> None:
        """Drops the computation; its result is not used."""
        self.future.cancel()


class Signal(Protocol):
    """Something that happens once."""

    def set(self, value: Any = None) -> None:
        """Says that it has happened; a second call changes nothing."""

    def fail(self, reason: Exception) -> None:
        """Says that it will not happen: `wait` raises `reason`."""

    async def wait(self) -> Any:
        """Returns the value once it has happened."""


class Task(Protocol):
    """Work that runs beside its starter.  If it raises, the world's run ends with that error."""

    @property
    def ended(self) -> bool:
        """True once it has returned, failed, or been cancelled to its end."""

    async def cancel(self) -> None:
        """Stops it with `Cancelled` where it waits; returns when its clean-up has ended."""


class World(Protocol):
    """A clock with tasks, signals and real computation."""

    def now(self) -> float:
        """Seconds since the run began."""

    async def sleep(self, seconds: float) -> None:
        """Returns `seconds` later."""

    async def together(self, works: Iterable[Work]) -> list[Any]:
        """Runs all of them; their results in the order given.  If one raises, the others are cancelled."""

    async def within(self, seconds: float, work: Work) -> Any:
        """The result of `work`; raises Late, after the work's clean-up, if it takes longer."""

    def start(self, work: Work, soon: bool = True) -> Task:
        """Runs `work` beside the caller; unless it is to be `soon`, after all else that is due now."""

    def signal(self) -> Signal:
        """A new signal."""

    def call_at(self, time: float, action: Callable[[], None]) -> None:
        """Calls `action` at `time`, or at once, after what is already due, if that has passed."""

    @property
    def store(self) -> Store:
        """The store of messages."""

    def still(self) -> bool:
        """Returns True if nothing else is known to be due at this instant."""

    def submit(self, job: Callable[..., Any], *args: Any) -> Ticket:
        """Hands in a real computation, which starts now."""

    async def work(self, seconds: float, ticket: Ticket) -> Any:
        """Lets the modelled time pass, then collects the result."""

    async def uncharged(self, ticket: Ticket) -> Any:
        """Collects the result of something that costs no time, such as an evaluation: the clock stands meanwhile."""


class ServerEnd(Protocol):
    """The server's end of the way to one device."""

    async def send(self, parcel: Parcel) -> None:
        """Returns when the last byte has arrived; raises Lost if the device goes off before."""

    async def receive(self) -> Parcel:
        """The next parcel from the device; raises Lost if the device goes off before."""

    async def stop(self) -> None:
        """Tells the device to drop what it is doing; returns when it has."""

    async def rest(self) -> None:
        """Returns when the device has nothing more to do."""

    def settle(self) -> None:
        """Receives what has reached the server by now, before the device goes offline at this instant."""

    def lose(self, for_good: bool = True) -> None:
        """The device goes offline at this instant: what is in flight is lost, and both ends learn of it.

        If it is not `for_good` and the scenario says so, the device's work goes on when it is back.
        """

    def back(self) -> None:
        """The device is back: the work and the transfer that its absence interrupted go on."""


class DeviceEnd(Protocol):
    """The device's end."""

    async def send(self, parcel: Parcel) -> None:
        """Returns when the last byte has arrived; raises Lost if this device goes off before."""


class TellingEnd(DeviceEnd, Protocol):
    """One that tells the device what has arrived (conversation/device.py)."""

    def rests(self) -> None:
        """The device says that it has nothing more to do."""


class AskedEnd(DeviceEnd, Protocol):
    """One that must be asked."""

    async def receive(self, resting: bool) -> Parcel | None:
        """The next parcel; None tells the device to stop its work.  `resting`: it has no work now.

        Raises Lost if this device goes offline.
        """

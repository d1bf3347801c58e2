"""The interface of worlds for the conversation: a clock, tasks, real computation, and channels.

Code written against this interface runs unchanged in virtual time and over real sockets.  It awaits nothing else: an
`asyncio` primitive would stop the virtual clock.
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
Cancelled = CancelledError  # in virtual time, too, so that one `except` serves both worlds


# Exceptions take one string, because SimPy rebuilds them from `.args` when it passes them on.
class Late(Exception):  # noqa: N818  what happened, not what went wrong
    """The time that `within` allowed is over."""


class Lost(Exception):  # noqa: N818
    """One end has gone offline, and its transfer is lost."""


class Unread(Exception):  # noqa: N818
    """The links delivered a reply, but the connection ended before the server read it."""


class Message(Protocol):
    """Encoded tensors (messages.store.Stored, conversation.peer.Arrived)."""

    @property
    def ref(self) -> Ref:
        """The Ref of the tensors' bytes."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes per kind and "frame"; their sum is the length of `data`."""

    def check(self, form: UploadForm) -> None:
        """Raises RefusedMessage unless the message has this form and finite values."""


class Parcel(NamedTuple):
    """One message on a channel: a small header and the encoded tensors."""

    header: envelope.Header  # round, and counted (download) or examples (upload)
    message: Message
    sizes: Mapping[str, int]  # bytes per kind and "frame"; their sum is the length of the transfer

    @classmethod
    def of(cls, header: envelope.Header, message: Message) -> Parcel:
        """A parcel with its sizes; the header's bytes are charged to the frame."""
        sizes = message.sizes
        return cls(header, message, {**sizes, "frame": sizes["frame"] + envelope.envelope_bytes(header)})


class Ticket(NamedTuple):
    """A submitted real computation."""

    future: Future[Any]

    def cancel(self) -> None:
        """Drops the computation and its result."""
        self.future.cancel()


class Signal(Protocol):
    """An event that happens once."""

    def set(self, value: Any = None) -> None:
        """Marks the event as happened; a second call changes nothing."""

    def fail(self, reason: Exception) -> None:
        """Marks the event as impossible: `wait` raises `reason`."""

    async def wait(self) -> Any:
        """The event's value, once it has happened."""


class Task(Protocol):
    """Work that runs concurrently with its starter.  If it raises, the world's run ends with that error."""

    @property
    def ended(self) -> bool:
        """True once the work has returned, failed, or been cancelled to its end."""

    async def cancel(self) -> None:
        """Stops the work with `Cancelled` where it waits; returns after its clean-up."""


class World(Protocol):
    """A clock with tasks, signals and real computation."""

    def now(self) -> float:
        """Seconds since the run began."""

    async def sleep(self, seconds: float) -> None:
        """Returns after `seconds`."""

    async def together(self, works: Iterable[Work]) -> list[Any]:
        """Runs all works; returns their results in the order given.  If one raises, the others are cancelled."""

    async def within(self, seconds: float, work: Work) -> Any:
        """The result of `work`; raises Late, after the work's clean-up, if it takes longer."""

    def start(self, work: Work, soon: bool = True) -> Task:
        """Starts `work` concurrently; with `soon` False, after everything else that is due now."""

    def signal(self) -> Signal:
        """A new signal."""

    def call_at(self, time: float, action: Callable[[], None]) -> None:
        """Calls `action` at `time`, or if that has passed now, after everything that is already due."""

    @property
    def store(self) -> Store:
        """The store of messages."""

    def still(self) -> bool:
        """True if no other event is known to be due at this instant."""

    def submit(self, job: Callable[..., Any], *args: Any) -> Ticket:
        """Submits a real computation, which starts now."""

    async def work(self, seconds: float, ticket: Ticket) -> Any:
        """Lets the modelled time pass, then returns the result."""

    async def uncharged(self, ticket: Ticket) -> Any:
        """The result of a computation that costs no time, such as an evaluation; the clock stands meanwhile."""


class ServerEnd(Protocol):
    """The server's end of the line to one device."""

    async def send(self, parcel: Parcel) -> None:
        """Returns when the last byte has arrived; raises Lost if the device goes off before."""

    async def receive(self) -> Parcel:
        """The next parcel from the device; raises Lost if the device goes off before."""

    async def stop(self) -> None:
        """Tells the device to drop its work; returns when it has."""

    async def rest(self) -> None:
        """Returns when the device has nothing more to do."""

    def settle(self) -> None:
        """Receives everything that has reached the server by now, before the device goes offline at this instant."""

    def lose(self, for_good: bool = True) -> None:
        """Takes the device offline at this instant: its transfer is lost, and both ends learn of it.

        If it is not `for_good`, and the scenario says so, the device's work continues when it is back.
        """

    def back(self) -> None:
        """Brings the device back: the work and the transfer that its absence interrupted continue."""


class DeviceEnd(Protocol):
    """The device's end of the line."""

    async def send(self, parcel: Parcel) -> None:
        """Returns when the last byte has arrived; raises Lost if this device goes off before."""


class CallingEnd(DeviceEnd, Protocol):
    """An end that tells the device of arrivals (conversation/device.py)."""

    def rests(self) -> None:
        """The device calls it when it has nothing more to do."""


class WaitingEnd(DeviceEnd, Protocol):
    """An end that the device asks for its next parcel."""

    async def receive(self, resting: bool) -> Parcel | None:
        """The next parcel; None tells the device to stop its work.  `resting`: it has no work now.

        Raises Lost if this device goes offline.
        """

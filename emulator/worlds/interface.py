"""The interface of worlds, in which server and devices run: a clock, tasks, real computation, and channels.

Code written against this interface runs unchanged in virtual time and over real sockets.  Such code must await nothing
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
Cancelled = CancelledError  # in virtual time, too, so that one `except` serves both worlds


# Exceptions take one string, because SimPy rebuilds them from `.args` when it passes them on.
class Late(Exception):  # noqa: N818  what happened, not what went wrong
    """The work given to `World.within` took longer than allowed."""


class Lost(Exception):  # noqa: N818
    """One end of a line has gone offline, so its transfer is lost."""


class Unread(Exception):  # noqa: N818
    """The links delivered a reply, but the connection ended before the server read it."""


class Message(Protocol):
    """Encoded tensors.  Implemented by Stored (messages/store.py) and Arrived (conversation/peer.py)."""

    @property
    def ref(self) -> Ref:
        """The reference by which the store of messages finds the encoded bytes."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of the encoded message: of each kind of tensors, and of the framing under "frame"."""

    def check(self, form: UploadForm) -> None:
        """Raises RefusedMessage unless the tensors have this form (shapes and constants) and finite values."""


class Parcel(NamedTuple):
    """One message on a channel: a small header and the encoded tensors."""

    header: envelope.Header  # round, and counted (download) or examples (upload)
    message: Message
    sizes: Mapping[str, int]  # bytes per kind and "frame"; their sum is the length of the transfer

    @classmethod
    def of(cls, header: envelope.Header, message: Message) -> Parcel:
        """Returns a parcel with its sizes, in which the header's bytes are added to those of the frame."""
        sizes = message.sizes
        return cls(header, message, {**sizes, "frame": sizes["frame"] + envelope.envelope_bytes(header)})


class Ticket(NamedTuple):
    """A computation that was submitted; `future` will hold its result."""

    future: Future[Any]

    def cancel(self) -> None:
        """Cancels the computation if it has not started; its result is not wanted any more."""
        self.future.cancel()


class Signal(Protocol):
    """An event that happens once."""

    def set(self, value: Any = None) -> None:
        """Marks the event as happened, with a value for those who wait; a second call changes nothing."""

    def fail(self, reason: Exception) -> None:
        """Marks the event as impossible, so that `wait` raises `reason`."""

    async def wait(self) -> Any:
        """Waits until the event has happened, and returns its value."""


class Task(Protocol):
    """Work that runs concurrently with the code that started it.  If the work raises an error, the run in this world
    ends with it."""

    @property
    def ended(self) -> bool:
        """True once the work has returned, failed, or been cancelled and done its clean-up."""

    async def cancel(self) -> None:
        """Raises Cancelled in the work at the point where it waits, and returns after its clean-up."""


class World(Protocol):
    """A clock with tasks, signals and real computation."""

    def now(self) -> float:
        """Returns the seconds since the run began, on the clock of this world."""

    async def sleep(self, seconds: float) -> None:
        """Waits for the given seconds of modelled time."""

    async def together(self, works: Iterable[Work]) -> list[Any]:
        """Runs all works at the same time, and returns their results in the order given.  If one raises, the others
        are cancelled."""

    async def within(self, seconds: float, work: Work) -> Any:
        """Returns the result of `work`.  If it takes longer than `seconds`, cancels it and, after its clean-up,
        raises Late."""

    def start(self, work: Work, soon: bool = True) -> Task:
        """Starts `work` as a concurrent task, and returns the task.

        With `soon` False, the work begins after everything else that is due at this instant.
        """

    def signal(self) -> Signal:
        """Returns a new signal."""

    def call_at(self, time: float, action: Callable[[], None]) -> None:
        """Calls `action` at `time`, or now if that time has passed; in both cases after everything that is already
        due then."""

    @property
    def store(self) -> Store:
        """The store of messages, from which a Ref gets the encoded bytes."""

    def still(self) -> bool:
        """Returns true if no other event is known to be due at this instant."""

    async def settled(self) -> None:
        """Waits until everything that is due at this instant has happened; on a real clock, a moment."""

    def submit(self, job: Callable[..., Any], *args: Any) -> Ticket:
        """Submits a real computation, which starts now, and returns its ticket."""

    async def work(self, seconds: float, ticket: Ticket) -> Any:
        """Waits for the given seconds of modelled time, then returns the result of the computation."""

    async def uncharged(self, ticket: Ticket) -> Any:
        """Returns the result of a computation that costs no modelled time, such as an evaluation; meanwhile the
        clock stands."""


class ServerEnd(Protocol):
    """The server's end of the line to one device, through which the server sends requests and receives replies."""

    async def send(self, parcel: Parcel) -> None:
        """Sends a parcel to the device, and returns when its last byte has arrived.  Raises Lost if the device goes
        offline before."""

    async def receive(self) -> Parcel:
        """Returns the next parcel from the device.  Raises Lost if the device goes offline before."""

    async def stop(self) -> None:
        """Tells the device to drop its work, and returns when the device has done so."""

    async def rest(self) -> None:
        """Waits until the device has nothing more to do."""

    def settle(self) -> None:
        """Takes every byte that has reached the server by now.  Called just before the device goes offline at this
        instant."""

    def lose(self, for_good: bool = True) -> None:
        """Takes the device offline at this instant: its transfer is lost, and both ends of the line learn of it.

        If the absence is not `for_good` and the scenario allows it, work and transfer are only interrupted; `back`
        continues them.
        """

    def back(self) -> None:
        """Notes that the device is online again, and continues the work and the transfer that its absence
        interrupted."""


class DeviceEnd(Protocol):
    """A device's end of its line to the server."""

    async def send(self, parcel: Parcel) -> None:
        """Sends a parcel to the server, and returns when its last byte has arrived.  Raises Lost if this device goes
        offline before."""


class CallingEnd(DeviceEnd, Protocol):
    """A device's end of a line that calls the device (`Attendant.hear`) when a request or an order to stop arrives."""

    def rests(self) -> None:
        """Notes that the device has nothing more to do.  Called by the device."""


class WaitingEnd(DeviceEnd, Protocol):
    """A device's end of a line on which the device itself waits for its next parcel (`Attendant.attend`)."""

    async def receive(self, resting: bool) -> Parcel | None:
        """Waits for the next parcel and returns it, or None if the device is to stop its work.

        `resting`: True if the device has no work now.  Raises Lost if this device goes offline.
        """

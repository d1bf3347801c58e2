"""Links as a scenario says them: rates or recordings of them, what shares them, and how bytes travel."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from scenarios.schema.draws import DrawnAmount, DrawnRate
from scenarios.schema.keys import BelowOne, Count, Name, NotNegative, Part, Positive, Rate, says

Model = Literal["ideal", "tcp", "lv08"]


def _kind(value: Any) -> str:
    return "<list>" if isinstance(value, (list, tuple)) else "<name>"


Path = Annotated[str, Field(min_length=1, max_length=4096)]
Paths = Annotated[tuple[Path, ...], Field(min_length=1, max_length=10_000)]
Stations = Annotated[tuple[Name, ...], Field(min_length=1, max_length=10_000)]
# One or several.  Told apart by looks, so that an error speaks of what was meant.
Files = Annotated[Annotated[Path, Tag("<name>")] | Annotated[Paths, Tag("<list>")], Discriminator(_kind)]
Via = Annotated[Annotated[Name, Tag("<name>")] | Annotated[Stations, Tag("<list>")], Discriminator(_kind)]


def listed(said: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """All of them."""
    return () if said is None else (said,) if isinstance(said, str) else said


class Transport(Part):
    """How bytes travel on links: by TCP, or by plain arithmetic."""

    model: Model = says(
        "tcp: round trips, slow start, windows, losses and headers. ideal: latency, then size over rate. lv08: "
        "SimGrid's default model.",
        "ideal",
        default="tcp",
    )
    congestion: Literal["cubic", "reno", "bbr"] = says("Congestion control of all senders.", "bbr", default="cubic")
    tls: Literal[0, 1, 2] = says("Round trips of TLS: 1.3 takes 1, 1.2 takes 2, none or resumed 0.", 2, default=1)
    initial_window: Count = says("Segments of the first round trip of slow start.", 10, default=10)
    window_mb: Annotated[float, Field(ge=0.001, le=10_000)] = says(
        "What a receiver lets be in flight; a Linux of 2025 or later: 4.", 4, default=3 * 2**20 / 1e6
    )
    keep_alive: bool = says("A device's connection stays open between its messages.", False, default=True)
    idle_reset: bool = says("A sender that was silent for longer starts slowly anew.", False, default=True)
    ethernet: bool = says("Rates count the 14 bytes of Ethernet's headers too.", True, default=False)


class Recorded(Part):
    """Recorded rates that are replayed, again and again, in each seed from another place on."""

    down: Files = says(
        "Files or folders; formats are told from content: own CSV, Mahimahi, Pensieve, HSDPA, FCC, Oboe, UCC 5G ...",
        ["traces/walk.csv"],
    )
    up: Files | None = says("Recorded uplinks; else one of the two below.", ["traces/walk.up"], default=None)
    up_ratio: Positive | None = says("Uplinks are such a part of the downlink, an assumption.", 0.2, default=None)
    up_source: Annotated[str, Field(min_length=1, max_length=200)] | None = says(
        "Where up_ratio is from, told with it.", "Ookla, LTE: 34 of 167 Mbit/s", default=None
    )
    symmetric: bool = says("Uplinks are as the downlink, an assumption.", True, default=False)
    format: str | None = says("The files' format, where content leaves it open.", "sigcomm21", default=None)

    @model_validator(mode="after")
    def _one_uplink(self) -> Self:
        given = [self.up is not None, self.up_ratio is not None, self.symmetric]
        if sum(given) > 1:
            raise ValueError("uplinks are one of up, up_ratio and symmetric; two are given")
        if self.up_source is not None and self.up_ratio is None:
            raise ValueError("up_source says where up_ratio is from; give up_ratio, or leave it out")
        return self


class Traces(Recorded):
    """Recordings that devices replay: each has one file of the list, and in each seed its place in it."""

    capacity: Literal["device", "cell"] = says(
        "device: what one phone got. cell: what its whole cell could carry, so that each device has as much, from a "
        "place of its own; only then may it be behind a shared link. Who share a recorded cell are behind a link of "
        "`topology:` that has the trace.",
        "cell",
        default="device",
    )


RADIO = "Generated rates, a sequence of its own for each {}: `fedlapse trace synth` lists the kinds."
BUFFER = (
    "What may wait for it, each way. Flows of cubic and reno share by their round trips, to which this queue, while it "
    "is full, adds its time. Default: nothing waits."
)


class Link(Part):
    """The server's link: numbers, recordings, or a kind of radio."""

    up_mbit_s: Rate | None = says("Upload rate; 1 MB at 8 Mbit/s takes a second.", 100, default=None)
    down_mbit_s: Rate | None = says("Download rate.", 100, default=None)
    latency_ms: NotNegative = says("One way.", 5, default=0.0)
    trace: Recorded | None = says(
        "Recorded capacities instead of numbers.", {"down": ["backhaul.csv"], "up_ratio": 0.2}, default=None
    )
    radio: str | None = says(RADIO.format("server"), "satellite-leo", default=None)
    buffer_kb: Positive | None = says(BUFFER, 250, default=None)

    @model_validator(mode="after")
    def _rates_come_from_somewhere(self) -> Self:
        check_source(self)
        return self


class Links(Part):
    """The links of a group of devices: numbers, what they are drawn from, recordings, or a kind of radio."""

    up_mbit_s: DrawnRate | None = says("Upload rate; 1 MB at 8 Mbit/s takes a second.", 2, default=None)
    down_mbit_s: DrawnRate | None = says(
        "Download rate.", 10, {"lognormal": {"median": 10, "sigma": 0.5}}, default=None
    )
    latency_ms: DrawnAmount | None = says("One way.", 40, {"uniform": {"low": 20, "high": 80}}, default=None)
    loss: BelowOne = says("Probability that a segment is lost; bounds what TCP carries.", 0.001, default=0.0)
    trace: Traces | None = says(
        "Recorded rates instead of numbers.", {"down": ["traces"], "up_ratio": 0.2}, default=None
    )
    radio: str | None = says(RADIO.format("device"), "lte-driving", default=None)
    via: Via | None = says(
        "Behind which access point or cell of `topology:`; several are dealt in turn.", "home-wifi", default=None
    )
    model: Model | None = says("Instead of that of `network:`.", "ideal", default=None)

    @model_validator(mode="after")
    def _rates_come_from_somewhere(self) -> Self:
        check_source(self)
        return self


def check_source(said: Link | Links | Shared) -> None:
    """Raises ValueError unless each way has its rate from one source, numbers or a recording or a radio."""
    trace, numbers = said.trace, (said.up_mbit_s, said.down_mbit_s)
    if trace and said.radio:
        raise ValueError("a link has trace or radio, not both")
    if said.radio and numbers != (None, None):
        raise ValueError("a radio has its own rates; leave up_mbit_s and down_mbit_s out")
    if trace and said.down_mbit_s is not None:
        raise ValueError("trace.down gives the downlink; leave down_mbit_s out")
    if trace and said.up_mbit_s is not None and (trace.up or trace.up_ratio or trace.symmetric):
        raise ValueError("the uplink is up_mbit_s or one of trace.up, trace.up_ratio and trace.symmetric; not two")
    if not (trace or said.radio) and None in numbers:
        more = ", or airtime: true" if isinstance(said, Shared) else ""
        raise ValueError(f"a link needs up_mbit_s and down_mbit_s, or trace, or radio, as {{radio: lte-driving}}{more}")


class Shared(Part):
    """An access point, a cell or a backhaul, which all devices behind it share."""

    up_mbit_s: Rate | None = says("What all uploads share.", 50, default=None)
    down_mbit_s: Rate | None = says("What all downloads share.", 150, default=None)
    trace: Recorded | None = says(
        "What a whole cell or backhaul was recorded to carry, shared by all behind it.",
        {"down": ["cell.csv"], "up_ratio": 0.2},
        default=None,
    )
    radio: str | None = says(RADIO.format("link"), "lte-driving", default=None)
    airtime: bool = says(
        "Wi-Fi: devices share its time instead, both ways together; each sends at the rate of its own link meanwhile.",
        True,
        default=False,
    )
    behind: Name | None = says("The next one towards the server. Default: the server's link.", "backhaul", default=None)
    buffer_kb: Positive | None = says(BUFFER, 250, default=None)

    @model_validator(mode="after")
    def _rates_or_airtime(self) -> Self:
        if not self.airtime:
            check_source(self)
        elif self.trace or self.radio:
            raise ValueError("of airtime there is one second a second; leave trace and radio out")
        elif self.up_mbit_s is not None or self.down_mbit_s is not None:
            raise ValueError("of airtime there is one second a second; leave up_mbit_s and down_mbit_s out")
        elif self.buffer_kb is not None:
            raise ValueError("airtime goes by turns and not by round-trip times; leave buffer_kb out")
        return self

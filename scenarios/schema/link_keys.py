"""Schema of links: rates or recordings of them, shared links, and the transport of bytes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from network.links.tcp import Congestion, Tcp
from scenarios.schema.draws import DrawnAmount, DrawnRate
from scenarios.schema.keys import BelowOne, Count, Name, NotNegative, Part, Positive, Rate, says

Model = Literal["ideal", "tcp", "lv08"]
NetworkModel = Literal["auto", "windows", "tcp", "ideal", "lv08"]
Kind = Literal["dsl", "cable", "lte", "wifi"]


def _kind(value: Any) -> str:
    return "<list>" if isinstance(value, (list, tuple)) else "<name>"


Path = Annotated[str, Field(min_length=1, max_length=4096)]
Paths = Annotated[tuple[Path, ...], Field(min_length=1, max_length=10_000)]
Stations = Annotated[tuple[Name, ...], Field(min_length=1, max_length=10_000)]
# One name or several. Distinguished by type, so that an error describes the intended form.
Files = Annotated[Annotated[Path, Tag("<name>")] | Annotated[Paths, Tag("<list>")], Discriminator(_kind)]
Via = Annotated[Annotated[Name, Tag("<name>")] | Annotated[Stations, Tag("<list>")], Discriminator(_kind)]


def listed(said: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Returns the names as a tuple; `said` is a name, several names or None."""
    return () if said is None else (said,) if isinstance(said, str) else said


class Transport(Part):
    """Transport of bytes on all links: TCP, or a simpler model."""

    model: NetworkModel = says(
        "Network model. windows: TCP's round trips, congestion windows, queues, drops and headers. tcp: the same but "
        "for queues and drops, with links that are full shared fairly at once. ideal: latency, then size divided by "
        "rate. lv08: SimGrid's default model. auto: windows, or tcp where devices share airtime or where links have "
        "another model of their own.",
        "ideal",
        default="auto",
    )
    congestion: Congestion = says("Congestion control of all TCP senders.", "bbr", default=Tcp.congestion)
    tls: Literal[0, 1, 2] = says(
        "Round trips of a TLS handshake: 1 for TLS 1.3, 2 for TLS 1.2, 0 for no TLS or a resumed session.",
        2,
        default=Tcp.tls,
    )
    initial_window: Count = says(
        "Segments that a TCP sender sends in the first round trip of slow start.", 10, default=Tcp.initial_window
    )
    window_mb: Annotated[float, Field(ge=0.001, le=10_000)] = says(
        "Receive window in MB: how much data may be in flight. Linux since 2025 allows 4.", 4, default=Tcp.window / 1e6
    )
    keep_alive: bool = says("Keep a device's connection open between its messages.", False, default=Tcp.keep_alive)
    idle_reset: bool = says(
        "Let a TCP sender that was silent for longer than its timeout go back to slow start.",
        False,
        default=Tcp.idle_reset,
    )
    ethernet: bool = says("Count the 14 bytes of each Ethernet header in the rates.", True, default=Tcp.ethernet)


class Recorded(Part):
    """Recorded rates that are replayed in a loop; each seed starts at another place in the recording."""

    down: Files = says(
        "Files or folders with recorded downlinks. The format is recognised from the content: fedlapse's CSV, "
        "Mahimahi, Pensieve, HSDPA, FCC, Oboe, UCC 5G and others.",
        ["traces/walk.csv"],
    )
    up: Files | None = says(
        "Files or folders with recorded uplinks; alternatives are `up_ratio` and `symmetric`.",
        ["traces/walk.up"],
        default=None,
    )
    up_ratio: Positive | None = says(
        "Uplink rate as a fraction of the recorded downlink, an assumption.", 0.2, default=None
    )
    up_source: Annotated[str, Field(min_length=1, max_length=200)] | None = says(
        "Source of `up_ratio`, which results quote.", "Ookla, LTE: 34 of 167 Mbit/s", default=None
    )
    symmetric: bool = says("Give the uplink the rates of the recorded downlink, an assumption.", True, default=False)
    format: str | None = says("Format of the files, if the content does not decide it.", "sigcomm21", default=None)

    @model_validator(mode="after")
    def _one_uplink(self) -> Self:
        given = [self.up is not None, self.up_ratio is not None, self.symmetric]
        if sum(given) > 1:
            raise ValueError("uplinks are one of up, up_ratio and symmetric; two are given")
        if self.up_source is not None and self.up_ratio is None:
            raise ValueError("up_source says where up_ratio is from; give up_ratio, or leave it out")
        return self


class Traces(Recorded):
    """Recordings that devices replay: each device takes one file of the list and, in each seed, a place in it to
    start."""

    capacity: Literal["device", "cell"] = says(
        "Subject of the recording. device: the rate of one phone. cell: the capacity of a whole cell; each device gets "
        "all of it, at a place of its own in the recording, and may be behind a shared link. For devices that "
        "share one recorded cell, put the trace into a link of `topology:` and the devices behind it.",
        "cell",
        default="device",
    )


RADIO = "Kind of radio whose generated rates {}; `fedlapse trace synth` lists them."
BUFFER = (
    "Size in kB of the queue in front of the link, in each direction: what waits in it delays, and what finds it full "
    "is dropped. By default that of the link's `kind`, or else what the link carries in 100 ms, at least 64. With "
    "`model: tcp` it only adds its delay to the round trips by which flows of cubic and reno share the link, by "
    "default none."
)
KIND = "Kind of link, which decides how large its queue is where `buffer_kb` is not given, with windows: {}."
# kB. Netalyzr (Kreibich et al., IMC 2010) found uplinks with queues of 64 to 256 kB, on DSL and on cable. For LTE,
# Huang et al. (SIGCOMM 2013) report hundreds of kB for each phone, without a typical size: 500 is an assumption. A
# Wi-Fi driver of Linux without fair queues holds 1,000 packets (Hoiland-Jorgensen et al., USENIX ATC 2017).
BUFFERS_KB = {"dsl": 128.0, "cable": 256.0, "lte": 500.0, "wifi": 1500.0}
KINDS = ", ".join(f"{kind} {size:,.0f} kB" for kind, size in BUFFERS_KB.items())


class Link(Part):
    """The server's link, given as constant rates, as recordings, or as a kind of radio."""

    up_mbit_s: Rate | None = says("Upload rate in Mbit/s; at 8 Mbit/s 1 MB takes a second.", 100, default=None)
    down_mbit_s: Rate | None = says("Download rate in Mbit/s; at 8 Mbit/s 1 MB takes a second.", 100, default=None)
    latency_ms: NotNegative = says("Latency in one direction, in ms.", 5, default=0.0)
    trace: Recorded | None = says(
        "Recorded rates in place of constant ones.", {"down": ["backhaul.csv"], "up_ratio": 0.2}, default=None
    )
    radio: str | None = says(RADIO.format("the server's link has"), "satellite-leo", default=None)
    buffer_kb: Positive | None = says(BUFFER, 250, default=None)
    kind: Kind | None = says(KIND.format(KINDS), "cable", default=None)

    @model_validator(mode="after")
    def _rates_come_from_somewhere(self) -> Self:
        check_source(self)
        return self


class Links(Part):
    """The links of a group of devices, given as rates or distributions of rates, as recordings, or as a kind of
    radio."""

    up_mbit_s: DrawnRate | None = says("Upload rate in Mbit/s; at 8 Mbit/s 1 MB takes a second.", 2, default=None)
    down_mbit_s: DrawnRate | None = says(
        "Download rate in Mbit/s; at 8 Mbit/s 1 MB takes a second.",
        10,
        {"lognormal": {"median": 10, "sigma": 0.5}},
        default=None,
    )
    latency_ms: DrawnAmount | None = says(
        "Latency in one direction, in ms.", 40, {"uniform": {"low": 20, "high": 80}}, default=None
    )
    loss: BelowOne = says("Probability that a segment is lost, which limits the throughput of TCP.", 0.001, default=0.0)
    trace: Traces | None = says(
        "Recorded rates in place of constant ones.", {"down": ["traces"], "up_ratio": 0.2}, default=None
    )
    radio: str | None = says(RADIO.format("each device has, in a sequence of its own"), "lte-driving", default=None)
    via: Via | None = says(
        "Access point or cell of `topology:` that the devices are behind. If there are several, devices are assigned "
        "to them in turn.",
        "home-wifi",
        default=None,
    )
    model: Model | None = says("Network model of these links, in place of that of `network:`.", "ideal", default=None)

    @model_validator(mode="after")
    def _rates_come_from_somewhere(self) -> Self:
        check_source(self)
        return self


def check_source(said: Link | Links | Shared) -> None:
    """Raises ValueError unless each direction has one source of rates: numbers, a recording or a radio."""
    numbers = said.up_mbit_s, said.down_mbit_s
    if said.trace and said.radio:
        raise ValueError("a link has trace or radio, not both")
    if said.trace:
        if said.down_mbit_s is not None:
            raise ValueError("trace.down gives the downlink; leave down_mbit_s out")
        if said.up_mbit_s is not None and (said.trace.up or said.trace.up_ratio or said.trace.symmetric):
            raise ValueError("the uplink is up_mbit_s or one of trace.up, trace.up_ratio and trace.symmetric; not two")
    elif said.radio:
        if numbers != (None, None):
            raise ValueError("a radio has its own rates; leave up_mbit_s and down_mbit_s out")
    elif None in numbers:
        more = ", or airtime: true" if isinstance(said, Shared) else ""
        example = f"for example {{radio: lte-driving}}{more}"
        raise ValueError(f"a link needs up_mbit_s and down_mbit_s, or trace, or radio, {example}")


class Shared(Part):
    """An access point, a cell or a backhaul that all devices behind it share."""

    up_mbit_s: Rate | None = says("Rate in Mbit/s that all uploads share.", 50, default=None)
    down_mbit_s: Rate | None = says("Rate in Mbit/s that all downloads share.", 150, default=None)
    trace: Recorded | None = says(
        "Recorded capacity of a whole cell or backhaul, shared by all devices behind it.",
        {"down": ["cell.csv"], "up_ratio": 0.2},
        default=None,
    )
    radio: str | None = says(RADIO.format("this link has, in a sequence of its own"), "lte-driving", default=None)
    airtime: bool = says(
        "Let devices share airtime instead of a rate, as on Wi-Fi, with both directions together. Each device sends at "
        "the rate of its own link while it has the channel.",
        True,
        default=False,
    )
    behind: Name | None = says(
        "Next shared link on the way to the server. By default the server's own link.", "backhaul", default=None
    )
    buffer_kb: Positive | None = says(BUFFER, 250, default=None)
    kind: Kind | None = says(KIND.format(KINDS), "dsl", default=None)

    @model_validator(mode="after")
    def _rates_or_airtime(self) -> Self:
        if not self.airtime:
            check_source(self)
        elif self.trace or self.radio:
            raise ValueError("a link with `airtime: true` has no rate of its own; remove trace and radio")
        elif self.up_mbit_s is not None or self.down_mbit_s is not None:
            raise ValueError("a link with `airtime: true` has no rate of its own; remove up_mbit_s and down_mbit_s")
        elif self.buffer_kb is not None or self.kind is not None:
            raise ValueError("a link with `airtime: true` has no queue of its own; remove buffer_kb and kind")
        return self


AnyLink = Links | Shared | Link

"""The fleet as a scenario says it: devices, their links, the server, and when they are on line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from scenarios.schema.draws import DrawnAmount, DrawnRate
from scenarios.schema.keys import LONG, Count, Name, NotNegative, Part, Positive, Rate, Share, says
from scenarios.schema.links import Link, Links, Path


class Server(Part):
    """The computer that combines, and its link, which all transfers share."""

    profile: str = says("A name that `fedlapse devices` lists.", "workstation", default="workstation")
    link: Link = says(
        "Its own link; `down` is what devices upload into.",
        {"up_mbit_s": 100, "down_mbit_s": 100, "latency_ms": 5},
        default=Link(up_mbit_s=100, down_mbit_s=100, latency_ms=5),
    )


Rates = Annotated[tuple[Annotated[float, Field(ge=0, le=1000)], ...], Field(min_length=24, max_length=24)]
Need = Literal["charging", "locked", "wifi"]


class Renewal(Part):
    """Sessions on and off line that follow each other, each lognormal."""

    mean_on_s: Annotated[float, Field(ge=1, le=LONG)] = says("Mean length of a session on line.", 1800)
    mean_off_s: Annotated[float, Field(ge=1, le=LONG)] = says("Mean length of an absence.", 3600)
    cv_on: Annotated[float, Field(ge=0, le=10)] = says("Coefficient of variation; 0: all alike.", 1.5, default=1.0)
    cv_off: Annotated[float, Field(ge=0, le=10)] = says("The same of absences.", 1.5, default=1.0)


class Diurnal(Part):
    """Comings and goings at rates that depend on the hour of the device's day."""

    arrive: Rates = says("In each of 24 hours: changes per hour of one who is off line.", [0.5] * 24)
    leave: Rates = says("And of one who is on line.", [0.5] * 24)

    @model_validator(mode="after")
    def _something_changes(self) -> Diurnal:
        if not sum(self.arrive) or not sum(self.leave):
            raise ValueError("arrive and leave each need a rate above 0; else nothing ever changes")
        return self


class Presence(Part):
    """When devices are on line; of several that are given, while all of them allow it."""

    off: tuple[tuple[Annotated[float, Field(ge=0, le=LONG)], Annotated[float, Field(gt=0)]], ...] = says(
        "Stretches [from, to] in seconds since the run began; .inf for never back.", [[60, 90], [300, 330]], default=()
    )

    trace: Path | None = says(
        "A log of others' phones, FedScale's behaviour trace or FLASH's states: each device is one of them, from a "
        "place of its own on; logs repeat.",
        "client_behave_trace",
        default=None,
    )
    needs: Annotated[tuple[Need, ...], Field(max_length=3)] = says(
        "FLASH's states: a phone is eligible while it is all of these.",
        ["charging", "wifi"],
        default=("charging", "locked", "wifi"),
    )
    renewal: Renewal | None = says(
        "Sessions that are drawn.", {"mean_on_s": 1800, "mean_off_s": 3600, "cv_on": 1.5}, default=None
    )
    night: bool = says(
        "Mostly on line from 22 to 7 o'clock, as who charges and has wifi then; assumed rates.", True, default=False
    )
    diurnal: Diurnal | None = says(
        "The same with rates of your own.",
        {"arrive": [1] * 7 + [0.1] * 17, "leave": [0.1] * 7 + [1] * 17},
        default=None,
    )
    hour: Annotated[float, Field(ge=0, lt=24)] | None = says(
        "The hour of the devices' day at which the run begins. Default: each has its own, which is drawn.",
        22,
        default=None,
    )

    @field_validator("off")
    @classmethod
    def _in_our_time(cls, off: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        for start, end in off:
            if end > LONG and end != float("inf"):
                raise ValueError(f"an absence ends at {end:g} s; it must end by {LONG:g}, or .inf for never")
            if not start < end:
                raise ValueError(f"an absence from {start:g} to {end:g} s; it must end after it began")
        return off


Ratio = Annotated[float, Field(ge=0, le=2)]


class Board(Part):
    """What a kind of hardware achieves in training, as `fedlapse calibrate` measures it; what is left out acts not."""

    speed_gflop_s: Rate = says("Effective in training.", 4)
    speed_conv_gflop_s: Rate | None = says("The same of convolutions alone.", 5, default=None)
    speed_dense_gflop_s: Rate | None = says("Of other matrix products.", 3, default=None)
    speed_recurrent_gflop_s: Rate | None = says("Of matrix products in recurrent layers.", 3, default=None)
    memory_bandwidth_gb_s: Rate = says("Of its memory.", 3)
    overhead_ms: NotNegative = says("Fixed time of each training step.", 2)
    overhead_operator_ms: NotNegative | None = says(
        "More, for each operator that a step starts beyond the first ten.", 0.02, default=None
    )
    overhead_conv_ms: NotNegative | None = says("More, for each convolution that it starts.", 0.3, default=None)
    memory_mb: Rate = says("What fits into it.", 4000)
    power_idle_w: NotNegative | None = says("What it draws while it idles.", 2.7, default=None)
    power_compute_w: NotNegative | None = says("While it computes.", 6, default=None)
    power_radio_w: NotNegative | None = says("While it sends or receives.", 3.2, default=None)
    wakeup_s: NotNegative | None = says("Of a radio that was idle for 10 s (`wakeup: true`).", 0.1, default=None)
    sustained: Share | None = says("Of the full speed, under endless load (`throttling: true`).", 0.7, default=None)
    heating_s: Positive | None = says("How soon it comes to that: the time constant.", 300, default=None)
    jitter: Ratio | None = says("Coefficient of variation of a batch's seconds (`jitter: true`).", 0.02, default=None)
    source: Annotated[str, Field(max_length=20_000)] = says(
        "Who measured it.", "measured: fedlapse calibrate on a Cortex-A72", default="the scenario's"
    )


def _file_or_not(value: Any) -> str:
    return "<file>" if isinstance(value, str) else "<profiles>"


Boards = Annotated[
    Annotated[Path, Tag("<file>")] | Annotated[dict[Name, Board], Tag("<profiles>")], Discriminator(_file_or_not)
]


def _flag_or_number(value: Any) -> str:
    return "<flag>" if isinstance(value, bool) else "<number>"


Jitter = Annotated[
    Annotated[bool, Tag("<flag>")] | Annotated[float, Field(gt=0, le=2), Tag("<number>")],
    Discriminator(_flag_or_number),
]


class Group(Part):
    """So many devices of a kind.  What is drawn differs from device to device."""

    name: Name | None = says("Their names are this and a number. Default: the profile.", "field-phones", default=None)
    profile: str = says("A name that `fedlapse devices` lists, or that `profiles:` has.", "phone-mid")
    count: Count = says("How many.", 30, default=1)
    link: Links = says("How they are connected.", {"up_mbit_s": 2, "down_mbit_s": 10, "latency_ms": 40})
    presence: Presence = says("When they are off line.", {"off": [[60, 90]]}, default=Presence())
    speed_gflop_s: DrawnRate | None = says(
        "Effective speed in training, instead of the profile's.",
        {"lognormal": {"median": 2, "sigma": 0.5}},
        default=None,
    )
    memory_bandwidth_gb_s: DrawnRate | None = says("Instead of the profile's.", 6, default=None)
    overhead_ms: DrawnAmount | None = says(
        "Fixed time of each training step, instead of the profile's.", 3, default=None
    )
    memory_mb: DrawnRate | None = says("Instead of the profile's.", 4000, default=None)
    jitter: Jitter | None = says(
        "No two batches take the same seconds: true, as the profile says, or their coefficient of variation. Measured "
        "phones: 0.01-0.06, at worst 0.18. Default: none.",
        True,
        0.06,
        default=None,
    )
    throttling: bool = says(
        "A device that computes for minutes slows down, as its profile says, and recovers while it rests.",
        True,
        default=False,
    )
    wakeup: bool = says(
        "A radio that was idle for 10 s takes the profile's wake-up time before a transfer.", True, default=False
    )

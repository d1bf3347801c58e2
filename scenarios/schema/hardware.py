"""Schema of the fleet: devices, hardware profiles, the server, and the devices' presence."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, create_model, field_validator, model_validator

from devices import generated_presence
from devices.profiles import QUANTITIES, Quantity
from scenarios.schema.draws import DrawnAmount, DrawnRate
from scenarios.schema.keys import LONG, Count, Name, Part, says
from scenarios.schema.link_keys import Link, Links, Path


class Server(Part):
    """The computer that combines the devices' models, and its link, which all transfers share."""

    profile: str = says(
        "Hardware of the server: a profile that `fedlapse devices` lists, or one under `profiles:`.",
        "workstation",
        default="workstation",
    )
    link: Link = says(
        "Link of the server. Devices upload into its `down` rate and download from its `up` rate.",
        {"up_mbit_s": 100, "down_mbit_s": 100, "latency_ms": 5},
        default=Link(up_mbit_s=100, down_mbit_s=100, latency_ms=5),
    )


Rates = Annotated[tuple[Annotated[float, Field(ge=0, le=1000)], ...], Field(min_length=24, max_length=24)]
Need = Literal["charging", "locked", "wifi"]


class Renewal(Part):
    """Alternating online and offline sessions whose lengths are drawn from lognormal distributions."""

    mean_on_s: Annotated[float, Field(ge=1, le=LONG)] = says("Mean length of an online session, in seconds.", 1800)
    mean_off_s: Annotated[float, Field(ge=1, le=LONG)] = says("Mean length of an absence, in seconds.", 3600)
    cv_on: Annotated[float, Field(ge=0, le=10)] = says(
        "Coefficient of variation of online sessions; with 0 all have the same length.",
        1.5,
        default=generated_presence.RenewalSessions.cv_on,
    )
    cv_off: Annotated[float, Field(ge=0, le=10)] = says(
        "Coefficient of variation of absences; with 0 all have the same length.",
        1.5,
        default=generated_presence.RenewalSessions.cv_off,
    )


Hour = Annotated[float, Field(ge=0, le=24)]
SHORTEST = 1 / 60  # hours


class Diurnal(Part):
    """Devices come and go by the hour of their day: they are online in `hours`, or change at rates."""

    hours: tuple[Hour, Hour] | None = says(
        "Hours between which devices are online every day, as [from, to]; [22, 7] continues past midnight.",
        [6, 21],
        default=None,
    )
    arrive: Rates | None = says(
        "Rates at which an offline device comes online, per hour, one for each of the 24 hours.",
        [0.5] * 24,
        default=None,
    )
    leave: Rates | None = says(
        "Rates at which an online device goes offline, per hour, one for each of the 24 hours.",
        [0.5] * 24,
        default=None,
    )

    @model_validator(mode="after")
    def _one_way(self) -> Diurnal:
        if self.hours and (self.arrive or self.leave):
            raise ValueError("it has hours, and rates of coming and going; one of them is enough")
        if self.hours:
            start, end = self.hours
            if (end - start) % 24 < SHORTEST and self.hours != (0, 24):
                raise ValueError(f"hours are from {start:g} to {end:g}; they must lie a minute apart at least")
            return self
        if not (self.arrive and self.leave):
            raise ValueError("it needs hours: [from, to], or both of arrive and leave")
        if not sum(self.arrive) or not sum(self.leave):
            raise ValueError("arrive and leave each need a rate above 0; else nothing ever changes")
        return self


class Presence(Part):
    """Times at which devices are online. If several rules are given, a device is online while all of them allow it."""

    off: tuple[tuple[Annotated[float, Field(ge=0, le=LONG)], Annotated[float, Field(gt=0)]], ...] = says(
        "Absences as [from, to] in seconds since the start of the run; .inf as the end means that the device "
        "never comes back.",
        [[60, 90], [300, 330]],
        default=(),
    )

    trace: Path | None = says(
        "File with a log of real phones: FedScale's behaviour trace or FLASH's states. Each device follows one "
        "phone from a random place in its log; logs repeat.",
        "client_behave_trace",
        default=None,
    )
    needs: Annotated[tuple[Need, ...], Field(max_length=3)] = says(
        "States that a phone of a FLASH trace must all have to be online.",
        ["charging", "wifi"],
        default=("charging", "locked", "wifi"),
    )
    renewal: Renewal | None = says(
        "Online sessions and absences of random length.",
        {"mean_on_s": 1800, "mean_off_s": 3600, "cv_on": 1.5},
        default=None,
    )
    night: bool = says(
        "Mostly online between 22 and 7 o'clock, when phones charge and have Wi-Fi; the rates are assumed, not "
        "measured. For devices that are off at night, see `diurnal`.",
        True,
        default=False,
    )
    diurnal: Diurnal | None = says(
        "Hours of each day in which devices are online, or rates of coming and going for each hour.",
        {"hours": [6, 21]},
        {"arrive": [1] * 7 + [0.1] * 17, "leave": [0.1] * 7 + [1] * 17},
        default=None,
    )
    hour: Annotated[float, Field(ge=0, lt=24)] | None = says(
        "Hour of the devices' day at which the run begins. By default each device draws its own, as if they lived all "
        "over the world.",
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


def _key_of(quantity: Quantity) -> tuple[Any, Any]:
    """Returns, for a quantity of a hardware profile, the type of its key in a scenario and the key's description."""
    bounded = Annotated[float, Field(ge=1e-6 if quantity.positive else 0, le=quantity.most, allow_inf_nan=False)]
    if quantity.optional:
        return bounded | None, says(quantity.text, quantity.example, default=None)
    return bounded, says(quantity.text, quantity.example)


KEYS: dict[str, Any] = {quantity.key: _key_of(quantity) for quantity in QUANTITIES}
KEYS["source"] = (
    Annotated[str, Field(max_length=20_000)],
    says("Source of these numbers.", "measured: fedlapse calibrate on a Cortex-A72", default="the scenario's"),
)
Board = create_model("Board", __base__=Part, __module__=__name__, **KEYS)
Board.__doc__ = """Performance of a kind of hardware in training, as `fedlapse calibrate` measures it; a key that is
left out disables that effect."""


Boards = Annotated[
    Annotated[Path, Tag("<file>")] | Annotated[dict[Name, Board], Tag("<profiles>")],  # type: ignore[valid-type]
    Discriminator(lambda value: "<file>" if isinstance(value, str) else "<profiles>"),
]


Jitter = Annotated[
    Annotated[bool, Tag("<flag>")] | Annotated[float, Field(gt=0, le=2), Tag("<number>")],
    Discriminator(lambda value: "<flag>" if isinstance(value, bool) else "<number>"),
]


class Group(Part):
    """A number of devices of one kind. A value given as a distribution is drawn for each device."""

    name: Name | None = says(
        "Prefix of the devices' names, to which a number is added. By default the profile's name.",
        "field-phones",
        default=None,
    )
    profile: str = says(
        "Hardware of the devices: a profile that `fedlapse devices` lists, or one under `profiles:`.", "phone-mid"
    )
    count: Count = says("Number of devices in this group.", 30, default=1)
    link: Links = says(
        "Links that connect the devices of this group.", {"up_mbit_s": 2, "down_mbit_s": 10, "latency_ms": 40}
    )
    presence: Presence = says(
        "Times at which devices of this group are online; by default always.", {"off": [[60, 90]]}, default=Presence()
    )
    speed_gflop_s: DrawnRate | None = says(
        "Effective speed in training, in GFLOP/s, in place of the profile's.",
        {"lognormal": {"median": 2, "sigma": 0.5}},
        default=None,
    )
    memory_bandwidth_gb_s: DrawnRate | None = says(
        "Bandwidth of the memory, in GB/s, in place of the profile's.", 6, default=None
    )
    overhead_ms: DrawnAmount | None = says(
        "Fixed time of each training step, in ms, in place of the profile's.", 3, default=None
    )
    memory_mb: DrawnRate | None = says(
        "Memory available for training, in MB, in place of the profile's.", 4000, default=None
    )
    jitter: Jitter | None = says(
        "Random variation of the time of each batch: true for the profile's, or its coefficient of variation. "
        "Phones measured 0.01 to 0.06, at worst 0.18. By default there is none.",
        True,
        0.06,
        default=None,
    )
    throttling: bool = says(
        "Slow a device down when it computes for minutes, as its profile says; it recovers while it rests.",
        True,
        default=False,
    )
    wakeup: bool = says(
        "Charge the profile's `wakeup_s` before a transfer by a radio that was silent for 10 s.",
        True,
        default=False,
    )

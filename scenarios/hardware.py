"""The fleet as a scenario says it: devices, their links, the server, and when they are on line."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from scenarios.keys import LONG, Count, Name, NotNegative, Part, Rate, says


class Lognormal(Part):
    """A distribution of positive values with a long upper tail."""

    median: Rate = says("Half of the devices have less.", 2.0)
    sigma: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] = says(
        "Standard deviation of the logarithm; 0.5: two thirds lie within a factor of 1.65 of the median.", 0.5
    )


class Uniform(Part):
    """All values from `low` to `high` are equally likely."""

    low: NotNegative = says("The least value.", 1.0)
    high: NotNegative = says("The largest value.", 4.0)

    @model_validator(mode="after")
    def _in_order(self) -> Uniform:
        if self.low > self.high:
            raise ValueError(f"low is {self.low:g}, above high = {self.high:g}")
        return self


class Draw(Part):
    """One value for each device of a group, drawn once for all seeds (see `fleet_seed`)."""

    lognormal: Lognormal | None = says("A lognormal distribution.", {"median": 2, "sigma": 0.5}, default=None)
    uniform: Uniform | None = says("A uniform distribution.", {"low": 1, "high": 4}, default=None)
    choice: Annotated[tuple[NotNegative, ...], Field(min_length=1)] | None = says(
        "One of these values, each equally likely; repeat a value to make it likelier.", [1, 2, 2, 8], default=None
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Draw:
        if sum(kind is not None for kind in (self.lognormal, self.uniform, self.choice)) != 1:
            raise ValueError("a draw is one of lognormal, uniform and choice, as {lognormal: {median: 2, sigma: 0.5}}")
        return self


def _kind(value: Any) -> str:
    return "<draw>" if isinstance(value, (dict, Draw)) else "<number>"


# A number, or what it is drawn from.  Told apart by looks, so that an error speaks of the one that was meant.
DrawnRate = Annotated[Annotated[Rate, Tag("<number>")] | Annotated[Draw, Tag("<draw>")], Discriminator(_kind)]
DrawnAmount = Annotated[Annotated[NotNegative, Tag("<number>")] | Annotated[Draw, Tag("<draw>")], Discriminator(_kind)]


class Link(Part):
    """What carries bytes to and from the server."""

    up_mbit_s: Rate = says("Upload rate; 1 MB at 8 Mbit/s takes a second.", 100)
    down_mbit_s: Rate = says("Download rate.", 100)
    latency_ms: NotNegative = says("One way.", 5, default=0.0)


class Links(Part):
    """The links of a group of devices: numbers, or what they are drawn from."""

    up_mbit_s: DrawnRate = says("Upload rate; 1 MB at 8 Mbit/s takes a second.", 2)
    down_mbit_s: DrawnRate = says("Download rate.", 10, {"lognormal": {"median": 10, "sigma": 0.5}})
    latency_ms: DrawnAmount = says("One way.", 40, {"uniform": {"low": 20, "high": 80}}, default=0.0)


class Server(Part):
    """The computer that combines, and its link, which all transfers share."""

    profile: str = says("A name that `fedlapse devices` lists.", "workstation", default="workstation")
    link: Link = says(
        "Its own link; `down` is what devices upload into.",
        {"up_mbit_s": 100, "down_mbit_s": 100, "latency_ms": 5},
        default=Link(up_mbit_s=100, down_mbit_s=100, latency_ms=5),
    )


class Presence(Part):
    """When devices are off line."""

    off: tuple[tuple[Annotated[float, Field(ge=0, le=LONG)], Annotated[float, Field(gt=0)]], ...] = says(
        "Stretches [from, to] in seconds since the run began; .inf for never back.", [[60, 90], [300, 330]], default=()
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


class Group(Part):
    """So many devices of a kind.  What is drawn differs from device to device."""

    name: Name | None = says("Their names are this and a number. Default: the profile.", "field-phones", default=None)
    profile: str = says("A name that `fedlapse devices` lists.", "phone-mid")
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

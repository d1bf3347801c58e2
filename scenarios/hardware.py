"""The fleet as a scenario says it: devices, their links, the server, and when they are on line."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from scenarios.draws import DrawnAmount, DrawnRate
from scenarios.keys import LONG, Count, Name, Part, says
from scenarios.links import Link, Links


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

"""A device, its hardware profile, and its computing time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, Protocol

from devices.energy import Power
from devices.presence import Availability, StatedPresence
from devices.profiles import NAMED, QUANTITIES, Said, read_table, shipped, sources_of
from devices.thermal import Throttle

SPEEDS = tuple(f"{kind}_flops_per_s" for kind in ("conv", "dense", "recurrent", "grouped", "pointwise"))
RADIO_SLEEPS = 10.0  # s of idleness (docs/design/devices.md §3)
UNKNOWN, NEVER = Power(), Throttle()
# A position of a recurrent layer that computes them in sequence, in units of a step's overhead: it fetches no batch and
# runs no optimiser. Measured: char-gru-small, 80 positions; benchmarks/compute.py, 2026-11-21.
POSITION = 0.6


@dataclass(frozen=True)
class Profile:
    """The performance of a kind of hardware in training, with the source of the numbers.

    A class of operators whose speed is None has the speed `flops_per_s`; grouped and 1 x 1 convolutions have the speed
    of convolutions.  If `conv_bytes_per_s` is None, convolutions have `memory_bytes_per_s`.  The defaults of all other
    optional fields disable their effect.  Raises ValueError for a rate or memory that is not positive, a negative
    overhead, and for values that Power, Throttle and jitter.factor reject.
    """

    name: str
    flops_per_s: float  # effective, in training: not the peak of a data sheet
    memory_bytes_per_s: float
    overhead_s: float  # fixed, of every training step: the whole step of a tiny network
    memory_bytes: int
    source: str  # "assumed" for every number that was not measured
    conv_flops_per_s: float | None = None  # speed in convolutions
    dense_flops_per_s: float | None = None  # speed in other matrix products
    recurrent_flops_per_s: float | None = None  # speed in matrix products of recurrent layers
    operator_s: float = 0.0  # for each operator that a step starts in addition to that network's, except convolutions
    convolution_s: float = 0.0  # for each convolution that a step starts
    grouped_flops_per_s: float | None = None  # speed in grouped convolutions, as depthwise ones
    pointwise_flops_per_s: float | None = None  # speed in 1 x 1 convolutions; their gradients are dense products
    conv_bytes_per_s: float | None = None  # bandwidth in convolutions, which rearrange what they read
    power: Power = UNKNOWN
    wakeup_s: float = 0.0  # before the radio sends, after it was idle for RADIO_SLEEPS
    throttle: Throttle = NEVER
    jitter: float = 0.0  # coefficient of variation of one batch's seconds

    def __post_init__(self) -> None:
        for what in ("flops_per_s", "memory_bytes_per_s", "memory_bytes", "conv_bytes_per_s", *SPEEDS):
            value = getattr(self, what)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{what} of {self.name} is {value}; it must be positive and finite")
        for what in ("overhead_s", "operator_s", "convolution_s", "wakeup_s", "jitter"):
            value = getattr(self, what)
            if not 0 <= value < math.inf:
                raise ValueError(f"{what} of {self.name} is {value}; it must be 0 or more")

    def computing(
        self, flops: float, conv: float = 0.0, recurrent: float = 0.0, grouped: float = 0.0, pointwise: float = 0.0
    ) -> float:
        """Returns the seconds that `flops` FLOPs take: `conv` of them are in convolutions, `recurrent` in recurrent
        layers, and all others are dense.  `grouped` and `pointwise` are the parts of `conv` in grouped and in 1 x 1
        convolutions."""
        speeds = [getattr(self, what) for what in SPEEDS]
        if speeds == [None] * len(SPEEDS):  # with one speed, whatever the classes sum to in floats
            return flops / self.flops_per_s
        grouped = grouped if self.grouped_flops_per_s else 0.0
        pointwise = pointwise if self.pointwise_flops_per_s else 0.0
        parts = conv - grouped - pointwise, max(0.0, flops - conv - recurrent), recurrent, grouped, pointwise
        return sum(part / (speed or self.flops_per_s) for part, speed in zip(parts, speeds, strict=True))

    def moving(self, floats: float, conv_floats: float = 0.0) -> float:
        """Returns the seconds that it takes to move `floats` numbers of 4 bytes from or to memory, `conv_floats` of
        them in convolutions."""
        apart = conv_floats if self.conv_bytes_per_s else 0.0
        return 4 * (floats - apart) / self.memory_bytes_per_s + 4 * apart / (self.conv_bytes_per_s or 1.0)

    @cached_property
    def fastest(self) -> float:
        """The highest of the speeds for the classes of operators, FLOP/s."""
        return max(getattr(self, what) or self.flops_per_s for what in SPEEDS)

    def waking(self, idle: float) -> float:
        """Returns the seconds that the radio needs before it sends or receives, after `idle` seconds of silence."""
        return self.wakeup_s if idle > RADIO_SLEEPS else 0.0

    def slower(self, times: float) -> Profile:
        """Returns a copy, with a name of its own, on which any work takes `times` times as long; the radio stays."""
        names = [each.name for each in fields(self) if each.name.endswith("_s") and each.name != "wakeup_s"]
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        changed = {name: value / times if name.endswith("_per_s") else value * times for name, value in values.items()}
        return replace(self, name=f"{self.name}, {times:.3g} times as slow", **changed)

    @property
    def one_speed(self) -> Profile:
        """A copy of this profile in which every class of operators has the speed `flops_per_s`."""
        none: dict[str, Any] = dict.fromkeys(SPEEDS)
        return replace(self, **none)


class StepLike(Protocol):
    """The counts of a training step that Device.seconds reads."""

    @property
    def flops(self) -> float:
        """FLOPs of the step, of all classes of operators."""

    @property
    def floats(self) -> float:
        """Numbers of 4 bytes that the step reads from memory or writes to it."""

    @property
    def conv(self) -> float:
        """FLOPs of the step in convolutions."""

    @property
    def recurrent(self) -> float:
        """FLOPs of the step in recurrent layers; FLOPs that are neither in these nor in convolutions are dense."""

    @property
    def positions(self) -> float:
        """Positions of recurrent layers that are computed one after another; each costs POSITION of an overhead."""

    @property
    def operators(self) -> float:
        """Operators that the step starts, except convolutions and those of recurrent layers."""

    @property
    def convolutions(self) -> float:
        """Convolutions that the step starts."""

    @property
    def grouped(self) -> float:
        """FLOPs of the step in grouped convolutions: a part of `conv`."""

    @property
    def pointwise(self) -> float:
        """FLOPs of the step in 1 x 1 convolutions that are not grouped: a part of `conv`."""

    @property
    def conv_floats(self) -> float:
        """Numbers that convolutions read or write: a part of `floats`."""


COUNTS = tuple(name for name in vars(StepLike) if not name.startswith("_"))


@dataclass(frozen=True)
class Device:
    """One computer of the fleet: its profile and its presence."""

    name: str
    profile: Profile
    presence: Availability = field(default_factory=StatedPresence)

    def seconds(self, step: StepLike, steps: int) -> float:
        """Returns the time of `steps` training steps, in seconds.

        A step's operations run one after another, some bound by computing (matrix products) and some by memory
        (optimiser, penalties), so the two times add up, plus the profile's overhead.  The greater of the two, as in a
        roofline model, would make a penalty of the size of the model free wherever computing takes longer; measured
        steps contradict that (benchmarks/compute.py).  Raises ValueError for a count that is negative or not finite.
        """
        for what, value in {"steps": steps, **{what: getattr(step, what) for what in COUNTS}}.items():
            if not 0 <= value < math.inf:
                raise ValueError(f"{what} is {value}; a step's cost must be 0 or more, and finite")
        parts, profile = step.conv + step.recurrent, self.profile
        if parts > step.flops * (1 + 1e-9):
            raise ValueError(f"conv and recurrent are {parts} of {step.flops} FLOPs; they must be parts of them")
        if step.grouped + step.pointwise > step.conv * (1 + 1e-9) or step.conv_floats > step.floats * (1 + 1e-9):
            raise ValueError(f"{step} has more in convolutions of a kind than in all of them")
        computing = profile.computing(step.flops, step.conv, step.recurrent, step.grouped, step.pointwise)
        moving = profile.moving(step.floats, step.conv_floats)
        starting = step.operators * profile.operator_s + step.convolutions * profile.convolution_s
        return steps * (computing + moving + (1 + POSITION * step.positions) * profile.overhead_s + starting)


@cache
def profiles() -> dict[str, Profile]:
    """Returns the profiles of devices/profiles.csv, by name."""
    return {name: _of_table(name, said) for name, said in shipped().items()}


def read_profiles(lines: Iterable[str]) -> dict[str, Profile]:
    """Returns the profiles of a CSV file, by name, from its lines.  Raises ValueError as read_table does, and for
    numbers that Profile refuses."""
    return {name: _of_table(name, said) for name, said in read_table(lines).items()}


def _of_table(name: str, said: Mapping[str, Said]) -> Profile:
    return profile_of(name, {quantity: one.value for quantity, one in said.items()}, sources_of(said))


def profile_of(name: str, numbers: Mapping[str, float], source: str) -> Profile:
    """Returns a profile made from numbers by name of their quantity, in the units of a profiles file
    (profiles.QUANTITIES).

    Raises ValueError as Profile does.
    """
    values = {NAMED[quantity].field: number * NAMED[quantity].scale for quantity, number in numbers.items()}
    power, throttle = Power(**_inside(values, "power.")), Throttle(**_inside(values, "throttle."))
    own = {field: value for field, value in values.items() if "." not in field}
    memory = round(own.pop("memory_bytes"))
    return Profile(name=name, source=source, memory_bytes=memory, power=power, throttle=throttle, **own)


def _inside(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {field.removeprefix(prefix): value for field, value in values.items() if field.startswith(prefix)}


def numbers_of(profile: Profile) -> dict[str, float]:
    """Returns the numbers of a profile by name of their quantity, in the units of a profiles file; optional quantities
    without effect are left out."""
    bare = Profile(profile.name, 1.0, 1.0, 0.0, 1, profile.source)
    values = ((quantity, attrgetter(quantity.field)) for quantity in QUANTITIES)
    return {
        quantity.name: value(profile) / quantity.scale
        for quantity, value in values
        if not quantity.optional or value(profile) != value(bare)
    }

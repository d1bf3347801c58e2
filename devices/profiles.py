"""The quantities that make up a hardware profile, and the CSV files that hold them."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

COLUMNS = ("name", "quantity", "value", "unit", "source", "date")
ENDINGS = {"GFLOP/s": "_gflop_s", "GB/s": "_gb_s", "ms": "_ms", "MB": "_mb", "W": "_w", "s": "_s"}  # of keys


@dataclass(frozen=True)
class Quantity:
    """One quantity of a profile: its names, unit, bounds and text."""

    name: str  # in a profiles file
    field: str  # name of the field in devices.device.Profile; `power.idle` is the field `idle` of its field `power`
    unit: str  # in a profiles file and in a scenario
    scale: float  # one such unit in SI units, which Profile has
    text: str  # description, for editors
    example: float
    optional: bool = True  # a profile may leave it out
    positive: bool = False  # must not be 0
    most: float = 1e6

    @property
    def key(self) -> str:
        """The key in a scenario: the name with its unit, as `speed_gflop_s`."""
        return f"{self.name}{ENDINGS.get(self.unit, '')}"


def _speed(name: str, field: str, what: str, example: float) -> Quantity:
    text = f"Speed of {what}, in GFLOP/s. By default `speed_gflop_s`."
    return Quantity(name, field, "GFLOP/s", 1e9, text, example, positive=True)


QUANTITIES = (
    Quantity(
        "speed",
        "flops_per_s",
        "GFLOP/s",
        1e9,
        "Effective speed in training, in GFLOP/s.",
        4,
        optional=False,
        positive=True,
    ),
    _speed("speed_conv", "conv_flops_per_s", "convolutions", 5),
    _speed("speed_dense", "dense_flops_per_s", "dense matrix products", 3),
    _speed("speed_recurrent", "recurrent_flops_per_s", "matrix products in recurrent layers", 3),
    Quantity(
        "speed_grouped",
        "grouped_flops_per_s",
        "GFLOP/s",
        1e9,
        "Speed of grouped and depthwise convolutions, in GFLOP/s. By default that of convolutions.",
        0.5,
        positive=True,
    ),
    Quantity(
        "speed_pointwise",
        "pointwise_flops_per_s",
        "GFLOP/s",
        1e9,
        "Speed of 1 x 1 convolutions, in GFLOP/s; their gradients have `speed_dense`. By default that of convolutions.",
        8,
        positive=True,
    ),
    Quantity(
        "memory_bandwidth",
        "memory_bytes_per_s",
        "GB/s",
        1e9,
        "Bandwidth of the memory, in GB/s.",
        3,
        optional=False,
        positive=True,
    ),
    Quantity(
        "bandwidth_conv",
        "conv_bytes_per_s",
        "GB/s",
        1e9,
        "Bandwidth of what convolutions read, rearrange and write, in GB/s. By default that of the memory.",
        0.2,
        positive=True,
    ),
    Quantity("overhead", "overhead_s", "ms", 1e-3, "Fixed time of each training step, in ms.", 2, optional=False),
    Quantity(
        "overhead_operator",
        "operator_s",
        "ms",
        1e-3,
        "Extra time for each operator that a step starts beyond the first ten, in ms.",
        0.02,
    ),
    Quantity(
        "overhead_conv", "convolution_s", "ms", 1e-3, "Extra time for each convolution that a step starts, in ms.", 0.3
    ),
    Quantity(
        "memory",
        "memory_bytes",
        "MB",
        1e6,
        "Memory available for training, in MB.",
        4000,
        optional=False,
        positive=True,
    ),
    Quantity("power_idle", "power.idle", "W", 1, "Power draw while idle, in W.", 2.7),
    Quantity("power_compute", "power.compute", "W", 1, "Power draw while computing, in W.", 6),
    Quantity("power_radio", "power.radio", "W", 1, "Power draw while sending or receiving, in W.", 3.2),
    Quantity(
        "wakeup",
        "wakeup_s",
        "s",
        1,
        "Seconds that a radio needs to wake up after 10 s of silence; a group uses it with `wakeup: true`.",
        0.1,
    ),
    Quantity(
        "sustained",
        "throttle.sustained",
        "of full speed",
        1,
        "Share of the full speed that remains under endless load; a group uses it with `throttling: true`.",
        0.7,
        positive=True,
        most=1,
    ),
    Quantity(
        "heating",
        "throttle.heating",
        "s",
        1,
        "Time constant of heating up under load, in seconds; a group uses it with `throttling: true`.",
        300,
        positive=True,
    ),
    Quantity(
        "jitter",
        "jitter",
        "cv",
        1,
        "Coefficient of variation of the time of a batch; a group uses it with `jitter: true`.",
        0.02,
        most=2,
    ),
)
NAMED = {quantity.name: quantity for quantity in QUANTITIES}


@dataclass(frozen=True)
class Said:
    """One number of a profiles file, in the file's unit, with its source: `measured: ...` or `assumed`."""

    value: float
    unit: str
    source: str
    date: str

    @property
    def measured(self) -> bool:
        return self.source.startswith("measured")


Table = dict[str, dict[str, Said]]  # profile -> name of a quantity -> its number


def shipped() -> Table:
    """Returns the numbers of devices/profiles.csv, by profile and name of their quantity."""
    text = resources.files("devices").joinpath("profiles.csv").read_text(encoding="utf-8")
    return read_table(text.splitlines())


def read_table(lines: Iterable[str]) -> Table:
    """Returns the numbers of CSV lines `name,quantity,value,unit,source,date`, by profile and name of their quantity.

    Lines that begin with # are comments; they come after the header. Raises ValueError for lines of another form, an
    unknown quantity or unit, a value that is no number or out of range, for a quantity that is given twice, and for a
    profile that lacks a quantity that is not optional.
    """
    table: Table = {}
    blank = ("" if line.startswith("#") else line for line in lines)  # the reader skips blank lines, but counts them
    reader = csv.DictReader(blank, strict=True)
    try:
        for row in reader:
            _add(table, row)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None
    if not table:
        raise ValueError(f"it holds no profiles; its lines are {','.join(COLUMNS)}")
    needed = [quantity.name for quantity in QUANTITIES if not quantity.optional]
    for name, said in table.items():
        if missing := sorted(set(needed) - said.keys()):
            raise ValueError(f"{name}: {', '.join(missing)} missing; a profile has {', '.join(needed)}")
    return table


def sources_of(said: Mapping[str, Said]) -> str:
    """Returns the sources and dates of all numbers of a profile, as one text."""
    return "; ".join(f"{quantity}: {one.source} ({one.date})" for quantity, one in said.items())


def _add(table: Table, row: dict[str, str]) -> None:
    if set(row) != set(COLUMNS) or None in row.values():
        raise ValueError(f"it does not have the columns {','.join(COLUMNS)}")
    name, quantity = row["name"], NAMED.get(row["quantity"])
    if quantity is None or row["unit"] != quantity.unit:
        known = ", ".join(f"{each.name} in {each.unit}" for each in QUANTITIES)
        raise ValueError(f"{name}: {row['quantity']} in {row['unit']}; a profile gives {known}")
    if quantity.name in table.setdefault(name, {}):
        raise ValueError(f"{name}: {quantity.name} is given twice; one value is right")
    value = _number(f"{name}: {quantity.name}", row["value"], quantity)
    table[name][quantity.name] = Said(value, row["unit"], row["source"], row["date"])


def _number(what: str, text: str, quantity: Quantity) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{what} is {text!r}; it must be a finite number")
    if value < 0 or (value == 0 and quantity.positive):
        right = "positive" if quantity.positive else "0 or more"
        raise ValueError(f"{what} is {text} {quantity.unit}; it must be {right}")
    return value

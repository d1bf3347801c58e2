"""The real traces that the presets of network/links/synth.py stand for, and their figures."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from network.links.synth import Preset
from network.links.trace import Trace
from network.traces.read import read

Floats = npt.NDArray[np.float64]

LAGS = (1, 5, 20)  # s
QUANTILES = (0.1, 0.5, 0.9)
OUT = 10e3 / 8  # bytes/s: below it a second counts as an outage
WIRE = 1500 / 1448  # a goodput with its headers
PING = (-1, 5)  # s around a ping in which its download ends and the next begins: rates fall to a tenth


@dataclass(frozen=True)
class Sample:
    """The real traces that a preset stands for, and what they do not say."""

    preset: str
    files: Sequence[str]
    stands_for: str
    up: tuple[float, str]
    latency: tuple[float, str]  # ms, one way
    levelled: bool = False  # every file is another line of its own speed: all are brought to one mean
    pair: str = ""  # a recording of both directions at once, for how alike they are
    other: str = ""  # what to say if that was another radio


OOKLA = "medians of the Ookla runs in sigcomm21_5g"
UMTS, VERIZON = "mahimahi/TMobile-UMTS-driving", "mahimahi/Verizon-LTE-short"
ASSUMED = "assumed"
SAMPLES = (
    Sample(
        "3g",
        ["hsdpa_norway_3g/norway_*"],
        "HSDPA on bus, car, ferry, metro and train (Norway; Riiser et al. 2013)",
        (0.943 / 2.020, f"means of the pair {UMTS}"),
        (62.5, "half the median ping on HSPA+ in ucc_5g, 125 ms"),
        pair=UMTS,
    ),
    Sample(
        "3g-driving",
        ["mahimahi/TMobile-UMTS-driving.down"],
        "UMTS in a driving car (T-Mobile USA; Winstein et al. 2013)",
        (0.943 / 2.020, f"means of the pair {UMTS}"),
        (62.5, "half the median ping on HSPA+ in ucc_5g, 125 ms"),
        pair=UMTS,
    ),
    Sample(
        "lte-walking",
        ["sigcomm21_5g/4g_trace_walking_*"],
        "4G on foot (USA; Narayanan et al. 2021)",
        (34.4 / 167.3, f"{OOKLA}: 4G-LTE Verizon, 34.4 over 167.3 Mbit/s"),
        (37.2, f"half of 74.5 ms, {OOKLA}"),
        pair=VERIZON,
    ),
    Sample(
        "lte-driving",
        ["sigcomm21_5g/4g_trace_driving_*"],
        "4G in a driving car (USA; Narayanan et al. 2021)",
        (34.4 / 167.3, f"{OOKLA}: 4G-LTE Verizon, 34.4 over 167.3 Mbit/s"),
        (37.2, f"half of 74.5 ms, {OOKLA}"),
        pair=VERIZON,
    ),
    Sample(
        "5g-low-band",
        [
            "ucc_5g/Download_Static_B_2019.12.16_13.40.04.csv",
            "ucc_5g/Download_Static_B_2020.02.14_13.21.26.csv",
            "ucc_5g/Download_Driving_B_2020.01.16_12.10.03.csv",
        ],
        "5G below 6 GHz, standing and driving (Ireland; Raca et al. 2020; the logs do not name the band)",
        (87.2 / 192.4, f"{OOKLA}: 5G-NSA-Low-Band T-Mobile, 87.2 over 192.4 Mbit/s"),
        (37.5, "half the median ping on 5G in ucc_5g, 75 ms"),
        pair=VERIZON,
        other=", an LTE: assumed for 5G",
    ),
    Sample(
        "5g-mmwave-walking",
        ["sigcomm21_5g/5g_trace_*_walking"],
        "mmWave 5G on foot (USA; Narayanan et al. 2021)",
        (168.9 / 2759.5, f"{OOKLA}: 5G-NSA-mmWave Verizon, 168.9 over 2759.5 Mbit/s"),
        (31.5, f"half of 63 ms, {OOKLA}"),
        pair=VERIZON,
        other=", an LTE: assumed for 5G",
    ),
    Sample(
        "5g-mmwave-driving",
        ["sigcomm21_5g/5g_trace_*_driving"],
        "mmWave 5G in a driving car (USA; Narayanan et al. 2021)",
        (168.9 / 2759.5, f"{OOKLA}: 5G-NSA-mmWave Verizon, 168.9 over 2759.5 Mbit/s"),
        (31.5, f"half of 63 ms, {OOKLA}"),
        pair=VERIZON,
        other=", an LTE: assumed for 5G",
    ),
    Sample(
        "broadband",
        ["fcc_broadband/trace_*"],
        "a slow fixed line, DSL or cable (USA; FCC 2016)",
        (0.2, ASSUMED),
        (10.0, ASSUMED),
        levelled=True,
    ),
)
FLASH = "flash/speed_distri.json"
# Without a sample of its course in time, or without any: (value, source), in the order of the table.
OTHERS: dict[str, dict[str, tuple[str, str]]] = {
    "satellite-leo": {
        "stands_for": ("a terminal under low satellites that hands over every quarter of a minute", ASSUMED),
        "rates_mbit_s": ("50 100 180", ASSUMED),
        "shares": ("0.3 0.5 0.2", ASSUMED),
        "dwell_s": ("15", ASSUMED),
        "sigma": ("0.25", ASSUMED),
        "noise_s": ("2", ASSUMED),
        "outage_s": ("1", ASSUMED),
        "outage_every_s": ("120", ASSUMED),
        "up_ratio": ("0.1", ASSUMED),
        "together": ("0.5", ASSUMED),
        "latency_ms": ("25", ASSUMED),
    },
    "satellite-geo": {
        "stands_for": ("a terminal under a geostationary satellite, with rain", ASSUMED),
        "rates_mbit_s": ("8 20", ASSUMED),
        "shares": ("0.15 0.85", ASSUMED),
        "dwell_s": ("300", ASSUMED),
        "sigma": ("0.15", ASSUMED),
        "noise_s": ("5", ASSUMED),
        "outage_s": ("20", ASSUMED),
        "outage_every_s": ("3600", ASSUMED),
        "up_ratio": ("0.15", ASSUMED),
        "together": ("0.9", ASSUMED),
        "latency_ms": ("270", "239 ms of light, up and down 35,786 km; the rest assumed"),
    },
}


# --- statistics of samples


@dataclass(frozen=True)
class Figures:
    """Figures of rates in bytes/s, one for each second."""

    mean: float
    cv: float
    acf: tuple[float, ...]  # at LAGS
    out: float
    quantiles: tuple[float, ...]  # at QUANTILES

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.mean, self.cv, *self.acf, self.out, *self.quantiles)


def binned(trace: Trace) -> Floats:
    """The mean rate of each whole second, with headers."""
    whole = np.arange(int(trace.period) + 1)
    prefix = np.concatenate([[0.0], np.cumsum(np.diff(trace.edges) * trace.rates)])
    factor = WIRE if trace.kind == "achieved" else 1.0
    rates: Floats = np.diff(np.interp(whole, trace.edges, prefix)) * factor
    return rates


def figures(parts: Sequence[Floats]) -> Figures:
    """Around the mean of all parts, which are taken for pieces of one process; nan stands for an unknown second."""
    every = np.concatenate(parts)
    every = every[~np.isnan(every)]
    mean, variance = every.mean(), every.var()
    acf = [
        float(np.nanmean(np.concatenate([(part[:-lag] - mean) * (part[lag:] - mean) for part in parts]))) / variance
        for lag in LAGS
    ]
    quantiles = np.quantile(every, QUANTILES)
    return Figures(
        float(mean),
        float(np.sqrt(variance) / mean),
        tuple(acf),
        float((every < OUT).mean()),
        tuple(map(float, quantiles)),
    )


def outages(parts: Sequence[Floats]) -> tuple[float, float]:
    """Mean length and mean time between, s: the chain of 1-s steps with the same share and mean run, in its own time.

    (0, 0) if there is none.
    """
    runs = [len(list(run)) for part in parts for below, run in groupby(part < OUT) if below]
    if not runs:
        return 0.0, 0.0
    share = sum(runs) / sum(int((~np.isnan(part)).sum()) for part in parts)
    leaving = min(len(runs) / sum(runs), 0.95 * (1 - share))  # r; above, the chain would alternate
    pace = -np.log(1 - leaving / (1 - share))  # 1/length + 1/between
    return 1 / (pace * (1 - share)), 1 / (pace * share)


def together(pair: tuple[Floats, Floats], preset: Preset) -> float:
    """Correlation of both directions, such that a preset without outages has the pair's correlation."""
    n = min(map(len, pair))
    wanted = float(np.corrcoef(pair[0][:n], pair[1][:n])[0, 1])
    weights, rates = np.array(preset.weights), np.array(preset.rates)
    square, mean = float(weights @ rates**2), float(weights @ rates)

    def correlation(c: float) -> float:
        mixed = (c * square + (1 - c) * mean**2) * np.exp(c * preset.sigma**2)
        return float((mixed - mean**2) / (square * np.exp(preset.sigma**2) - mean**2))

    return float(brentq(lambda c: correlation(c) - wanted, 0, 1))


def parts_of(sample: Sample, root: Path) -> list[Floats]:
    """The seconds of each file."""
    files = [path for pattern in sample.files for path in sorted(root.glob(pattern))]
    if not files:
        raise SystemExit(f"{root} has no {sample.files[0]}")
    parts = [without_pings(path, binned(trace)) for path in files for trace in read(path, direction="down")]
    return level(parts) if sample.levelled else parts


def without_pings(path: Path, part: Floats) -> Floats:
    """A UCC log without the seconds around its pings: about every 14 s the app ends its download, pings, and begins
    anew (Download_Static_*: 14, 28 or 42 s from one zero to the next), and that is not the link."""
    if path.suffix != ".csv":
        return part
    with path.open(encoding="utf-8") as file:
        loading = [row for row in csv.DictReader(file) if row["State"] == "D"]
    pings = np.array([row["PINGAVG"] != "-" for row in loading])
    at = (np.flatnonzero(pings) * (len(part) / len(pings))).astype(int)
    kept = part.copy()
    for second in at:
        kept[max(0, second + PING[0]) : second + PING[1]] = np.nan
    return kept


def level(parts: Sequence[Floats]) -> list[Floats]:
    """Each brought to the mean of all files, which count alike."""
    mean = float(np.mean([part.mean() for part in parts]))
    return [part * (mean / part.mean()) for part in parts]


def pair_of(sample: Sample, root: Path) -> tuple[Floats, Floats]:
    down, up = read(root / sample.pair)
    return binned(down), binned(up)

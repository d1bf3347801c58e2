"""Compares synthetic links with real ones: `python -m benchmarks.synth`.

Writes docs/traces.md: mean, coefficient of variation, autocorrelation, outages and quantiles of the sample traces and
of as many synthetic seconds.  `--fit` first fits the presets to the samples and writes network/presets.csv.  The
samples are in $FEDLAPSE_DATA/traces, or in ../shared/data/traces.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq, least_squares
from scipy.special import ndtr

from benchmarks.synth_samples import (
    ASSUMED,
    FLASH,
    LAGS,
    OTHERS,
    QUANTILES,
    SAMPLES,
    WIRE,
    Figures,
    Floats,
    Sample,
    binned,
    figures,
    level,
    outages,
    pair_of,
    parts_of,
    together,
)
from network.links.synth import MBIT, Preset, read_presets, synth
from network.traces import flash

ROOT = Path(__file__).parents[1]
PAGE, TABLE = ROOT / "docs/traces.md", ROOT / "network/presets.csv"
SEEDS = 200
LONGEST_DWELL = 300.0  # s: samples of some minutes cannot tell more
Rows = Mapping[str, tuple[str, str]]  # parameter -> value, source


# --- what a preset promises


def expected(preset: Preset, lengths: Sequence[int]) -> Figures:
    """The expected `figures` for parts of such lengths: moments less the variance of the common mean."""
    total = sum(lengths)
    horizon = preset.autocovariances(np.arange(max(lengths)))
    of_mean = 0.0
    for length in lengths:
        lags = np.arange(1, length)
        of_mean += (length * horizon[0] + 2 * float((length - lags) @ horizon[1:length])) / total**2
    variance = horizon[0] - of_mean
    acf = tuple((float(horizon[lag]) - of_mean) / variance for lag in LAGS)
    quantiles = tuple(quantile(preset, q) for q in QUANTILES)
    return Figures(preset.mean, float(np.sqrt(variance) / preset.mean), acf, preset.out, quantiles)


def quantile(preset: Preset, q: float) -> float:
    """A quantile of the mixture of lognormals and outages."""
    if q <= preset.out:
        return 0.0
    means, weights = np.array(preset.rates), np.array(preset.weights)

    def below(log: float) -> float:
        z = (log - np.log(means)) / preset.sigma + preset.sigma / 2
        return preset.out + (1 - preset.out) * float(weights @ ndtr(z)) - q

    return float(np.exp(brentq(below, np.log(means.min()) - 20, np.log(means.max()) + 20)))


# --- fits


def fitted(name: str, real: Figures, lengths: Sequence[int], outage: tuple[float, float]) -> Preset:
    """The preset whose expected figures are nearest; from several starts, the best."""

    def made(x: Floats) -> Preset:
        shares = np.exp([x[3], x[4], 0.0])
        return Preset(
            name,
            rates=tuple(np.exp(x[:3]) * real.mean),
            weights=tuple(shares / shares.sum()),
            dwell=float(np.exp(x[5])),
            noise=float(np.exp(x[6])),
            sigma=float(np.exp(x[7])),
            outage=outage[0],
            every=outage[1] or np.inf,
        )

    def residuals(x: Floats) -> list[float]:
        got = expected(made(x), lengths)
        ratios = [np.log(got.mean / real.mean) * 10, np.log(got.cv / real.cv) * 5]
        shapes = [2 * np.log((a + 0.01 * real.mean) / (b + 0.01 * real.mean)) for a, b in _pairs(got, real)]
        # Far from the samples any set of states would do: the least noise decides.
        return [*ratios, *(5 * (a - b) for a, b in zip(got.acf, real.acf, strict=True)), *shapes, 0.02 * x[7]]

    low = [-7.0, -7.0, -7.0, -3.0, -3.0, np.log(1.0), np.log(0.05), np.log(0.05)]
    high = [2.5, 2.5, 2.5, 3.0, 3.0, np.log(LONGEST_DWELL), np.log(60.0), np.log(1.2)]
    best: Any = None
    for dwell in (5.0, 20.0, 80.0):
        for sigma in (0.15, 0.5):
            start = [-1.0, 0.0, 0.7, 0.0, 0.0, np.log(dwell), np.log(2.0), np.log(sigma)]
            found = least_squares(residuals, start, bounds=(low, high), max_nfev=200)
            best = found if best is None or found.cost < best.cost else best
    return merged(made(best.x))


def merged(preset: Preset) -> Preset:
    """States in order, and those that are one as one."""
    states: list[tuple[float, float]] = []
    for rate, weight in sorted(zip(preset.rates, preset.weights, strict=True)):
        if states and rate < 1.02 * states[-1][0]:
            before, share = states.pop()
            rate, weight = (before * share + rate * weight) / (share + weight), share + weight
        states.append((rate, weight))
    return replace(preset, rates=tuple(rate for rate, _ in states), weights=tuple(weight for _, weight in states))


def _pairs(got: Figures, real: Figures) -> Iterator[tuple[float, float]]:
    return zip(got.quantiles, real.quantiles, strict=True)


def rows_of(sample: Sample, preset: Preset, alike: tuple[float, str]) -> Rows:
    """A fitted preset as presets.csv has it."""
    fit = f"fitted to {' '.join(sample.files)}"
    found = {
        "stands_for": (sample.stands_for, "; ".join(sample.files)),
        "rates_mbit_s": (" ".join(f"{rate / MBIT:.4g}" for rate in preset.rates), fit),
        "shares": (_shares(preset.weights), fit),
        "dwell_s": (f"{preset.dwell:.3g}", fit),
        "sigma": (f"{preset.sigma:.3g}", fit),
        "noise_s": (f"{preset.noise:.3g}", fit),
    }
    if preset.outage:
        measured = "seconds below 10 kbit/s in the same"
        found["outage_s"] = (f"{preset.outage:.3g}", measured)
        found["outage_every_s"] = (f"{preset.every:.3g}", measured)
    return found | {
        "up_ratio": (f"{sample.up[0]:.3g}", sample.up[1]),
        "together": (f"{alike[0]:.2g}", alike[1]),
        "latency_ms": (f"{sample.latency[0]:g}", sample.latency[1]),
    }


def _shares(weights: Sequence[float]) -> str:
    """The shares with three digits and a sum of exactly 1."""
    firsts = [round(weight, 3) for weight in weights[:-1]]
    return " ".join(f"{share:g}" for share in [*firsts, round(1 - sum(firsts), 3)])


def fit(sample: Sample, root: Path) -> Rows:
    parts = parts_of(sample, root)
    preset = fitted(sample.preset, figures(parts), [len(part) for part in parts], outages(parts))
    alike = (0.5, ASSUMED)
    if sample.pair:
        alike = (together(pair_of(sample, root), preset), f"correlation of both ways in {sample.pair}{sample.other}")
    return rows_of(sample, preset, alike)


def table_text(presets: Mapping[str, Rows]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "parameter", "value", "source"])
    writer.writerows([name, what, *said] for name, rows in presets.items() for what, said in rows.items())
    return text.getvalue()


# --- Wi-Fi: no course in time


def wifi_figures(root: Path) -> Figures:
    """Figures of FLASH's median user, whose transfers are normally distributed."""
    users = _users(root)
    mean = statistics.median(user.down for user in users) * WIRE
    cv = statistics.median(user.down_sigma / user.down for user in users)
    normal = [mean * max(0.0, 1 + z * cv) for z in (-1.2816, 0.0, 1.2816)]
    return Figures(mean, cv, (np.nan,) * len(LAGS), 0.0, tuple(normal))


def wifi_rows(root: Path) -> Rows:
    """FLASH knows mean and deviation of each user's transfers, and nothing of their course in time."""
    known = wifi_figures(root)
    ratio = statistics.median(user.up / user.down for user in _users(root))
    return {
        "stands_for": ("Wi-Fi at home, the median of 19 phones", FLASH),
        "rates_mbit_s": (f"{known.mean / MBIT:.4g}", f"median user of {FLASH}, with headers"),
        "shares": ("1", "one state"),
        "dwell_s": ("60", "one state: without effect"),
        "sigma": (
            f"{np.sqrt(np.log1p(known.cv**2)):.3g}",
            f"from {known.cv:.3f}, median deviation over mean in {FLASH}",
        ),
        "noise_s": ("20", ASSUMED),
        "up_ratio": (f"{ratio:.3g}", f"median user of {FLASH}"),
        "together": ("0.5", ASSUMED),
        "latency_ms": ("5", ASSUMED),
    }


def _users(root: Path) -> Sequence[flash.Speeds]:
    return flash.read(FLASH, (root / FLASH).read_bytes())


# --- the page


def synthetic(preset: Preset, lengths: Sequence[int], levelled: bool) -> list[Figures]:
    """Figures of synthetic traces, one for each file, with SEEDS times as many seconds as the real ones."""
    found = []
    for seed in range(SEEDS):
        parts = [binned(synth(preset, length, (seed, number))) for number, length in enumerate(lengths)]
        found.append(figures(level(parts) if levelled else parts))
    return found


def lines_of(name: str, real: Figures | None, made: Sequence[Figures]) -> list[list[str]]:
    """The real row, and the synthetic one with the range of 90 % of seeds."""
    columns = np.array([each.numbers for each in made])
    middle = columns.mean(axis=0).tolist()
    low, high = (np.quantile(columns, q, axis=0).tolist() for q in (0.05, 0.95))
    rows = [[name, "real", *_cells(real.numbers)]] if real else [[name, "real", *["–"] * len(middle)]]
    spans = [f"{a} ({b}, {c})" for a, b, c in zip(_cells(middle), _cells(low), _cells(high), strict=True)]
    return [*rows, ["", "synthetic", *spans]]


def _cells(numbers: Sequence[float]) -> list[str]:
    mean, cv, *acf, out, p10, p50, p90 = numbers
    rates = [f"{rate / MBIT:.{3 if rate < 1000 * MBIT else 4}g}" for rate in (mean, p10, p50, p90)]
    shares = ["–" if np.isnan(value) else f"{value:.2f}".replace("-0.00", "0.00") for value in (cv, *acf)]
    return [rates[0], *shares, f"{100 * out:.1f}", *rates[1:]]


def compared(presets: Mapping[str, Preset], root: Path) -> str:
    heads = ["preset", "", "mean", "cv", *(f"acf {lag} s" for lag in LAGS), "out %"]
    heads += [f"p{100 * q:.0f}" for q in QUANTILES]
    rows: list[list[str]] = []
    for sample in SAMPLES:
        parts = parts_of(sample, root)
        made = synthetic(presets[sample.preset], [len(part) for part in parts], sample.levelled)
        rows += lines_of(sample.preset, figures(parts), made)
    rows += lines_of("wifi", wifi_figures(root), synthetic(presets["wifi"], [3600], False))
    for name in OTHERS:
        rows += lines_of(name, None, synthetic(presets[name], [3600], False))
    return grid(heads, rows)


def parameters(presets: Mapping[str, Preset]) -> str:
    heads = ["preset", "states, Mbit/s (share)", "dwell s", "sigma", "noise s", "outages", "up", "together", "ms"]
    rows = []
    for preset in presets.values():
        states = zip(preset.rates, preset.weights, strict=True)
        rows.append(
            [
                preset.name,
                ", ".join(f"{rate / MBIT:.4g} ({share:.2g})" for rate, share in states),
                f"{preset.dwell:.3g}",
                f"{preset.sigma:.3g}",
                f"{preset.noise:.3g}",
                f"{preset.outage:.3g} s every {preset.every:.3g} s" if preset.outage else "–",
                *(f"{value:.3g}" for value in (preset.up, preset.together, 1e3 * preset.latency)),
            ]
        )
    return grid(heads, rows)


def sources(presets: Mapping[str, Preset]) -> str:
    lines = []
    for preset in presets.values():
        said = preset.sources
        rest = "; ".join(f"{what}: {said[what]}" for what in ("up_ratio", "together", "latency_ms"))
        lines.append(f"* `{preset.name}`: {preset.stands_for}. Rates: {said['rates_mbit_s']}. {rest}.")
    return "\n".join(lines)


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", "---", *["--:"] * (len(heads) - 2)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(presets: Mapping[str, Preset], root: Path) -> str:
    text = Path(__file__).with_name("synth.txt").read_text(encoding="utf-8")
    values = {
        "today": str(date.today()),
        "seeds": str(SEEDS),
        "compared": compared(presets, root),
        "parameters": parameters(presets),
        "sources": sources(presets),
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="fit the presets anew and write network/presets.csv")
    parser.add_argument("--out", type=Path, default=PAGE)
    said = parser.parse_args()
    root = Path(os.environ.get("FEDLAPSE_DATA") or ROOT / "../shared/data").resolve() / "traces"
    if not root.is_dir():
        print(f"there is no {root}; set FEDLAPSE_DATA to a folder that has traces/", file=sys.stderr)
        return 2
    if said.fit:
        rows = {sample.preset: fit(sample, root) for sample in SAMPLES}
        TABLE.write_text(table_text({**rows, "wifi": wifi_rows(root), **OTHERS}), encoding="utf-8")
    presets = read_presets(TABLE.read_text(encoding="utf-8").splitlines())
    said.out.write_text(page(presets, root), encoding="utf-8")
    print(f"wrote {said.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

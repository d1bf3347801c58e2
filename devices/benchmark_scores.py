"""Speeds of phones from published AI-Benchmark scores.

Files are read from the user's disk: FLASH's tables (repository PKU-Chengxu/FLASH, Yang et al. 2021) are not part of
fedlapse.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

# AI-Benchmark's CPU-F score of the phones that FLASH measured in training, and the effective FLOP/s of their profiles.
# FLASH measured its slowest phone as "Nexus 6", but uses the score of "Google Nexus S" for it, whose CPU is far slower.
# The Nexus 6 has no score; Motorola's X Play is the closest phone by year.
ANCHORS: dict[str, tuple[float, str]] = {
    "nexus-6": (482.0, "assumed: the Motorola Moto X Play's score"),
    "redmi-note-7": (1426.0, "Xiaomi Redmi Note 7"),
    "pixel-4": (3212.0, "Google Pixel 4"),
}


def scores(path: Path, column: str = "CPU_F_AI_Score") -> dict[str, float]:
    """Returns phone -> score, from FLASH's `raw_ai_benchmark_list.json` (the values of its `column`) or
    `benchmark2score.json`.

    A phone listed several times has its last score.  `benchmark2score.json` holds scores of NPUs, which do not train:
    prefer the other file.  Raises ValueError for a file that is neither, or a score that is not a positive number.
    """
    table = _json(path)
    if isinstance(table, list) and all(isinstance(row, dict) and {"Model", column} <= row.keys() for row in table):
        pairs = [(row["Model"], row[column]) for row in table]
    elif isinstance(table, dict):
        pairs = list(table.items())
    else:
        raise ValueError(f"{path} has no scores; it must be a list of phones with Model and {column}, or a table")
    return {str(phone): _positive(path, str(phone), said) for phone, said in pairs}


def speed_of(score: float, anchors: Mapping[float, float]) -> float:
    """Returns the FLOP/s of a phone with this score: interpolated by a power law between neighbouring anchors (score ->
    FLOP/s).

    Beyond the outermost anchors speed is proportional to the score.  Raises ValueError for numbers that are not
    positive, and for no anchors.
    """
    known = sorted(anchors.items())
    if not known or not all(0 < value < math.inf for value in (score, *anchors, *anchors.values())):
        raise ValueError(
            f"the score is {score} and the anchors are {known}; they must be positive, one anchor at least"
        )
    place = bisect_left([anchor for anchor, _ in known], score)
    if place in (0, len(known)):
        anchor, speed = known[min(place, len(known) - 1)]
        return speed * (score / anchor)
    (low, slow), (high, fast) = list(pairwise(known))[place - 1]
    part = math.log(score / low) / math.log(high / low)
    return slow * math.exp(part * math.log(fast / slow))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None


def _positive(path: Path, phone: str, said: object) -> float:
    try:
        value = float(str(said))
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"{path}: the score of {phone} is {said!r}; it must be a positive number")
    return value

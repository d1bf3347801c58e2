"""Settings of shared links that are drawn by lot: some of each kind, each about 1 to 7 s long."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from benchmarks.testbed.crowd import MBIT, Setting, setting_of

OFTEN = 6  # settings of each kind
KINDS = (
    *("deep queues", "queues of 0.3 BDP", "mixed round trips", "up and down at once", "cubic beside bbr", "bursts"),
    *("loss of 1 %", "traces", "two links in a row"),
)
TRACES = {"Verizon-LTE-short.down": 5.0, "TMobile-UMTS-driving.down": 1.5}  # Mbit/s, a low guess of their means


def drawn(seed: int) -> list[Setting]:
    """OFTEN settings of each of KINDS; other seeds have others."""
    chance = random.Random(seed)
    return [setting_of(kind, _row(kind, chance)) for kind in KINDS for _ in range(OFTEN)]


def _row(kind: str, chance: random.Random) -> Mapping[str, Any]:
    """A setting as in shared_links.yaml: flows of about equal sizes, all begun at one instant, but what its kind
    says."""
    rate, seconds = chance.choice([6, 10, 16, 25, 40]), chance.uniform(1, 5)
    count = chance.randint(10, 24) if kind == "bursts" else chance.choice([2, 3, 4, 6, 8])
    row: dict[str, Any] = {
        "mbit_s": rate,
        "rtt_ms": chance.choice([40, 50, 80, 100, 120]),
        "queue_bdp": chance.choice([0.7, 1, 1.5, 2, 3]),
        "congestion": chance.choice(["cubic", "cubic", "cubic", "reno", "bbr"]),
        "flows": count,
    }
    if kind == "deep queues":
        row |= {"queue_bdp": chance.choice([3, 4, 6])}
    elif kind == "queues of 0.3 BDP":
        row |= {"queue_bdp": 0.3, "mbit_s": (rate := max(rate, 16))}
    elif kind == "mixed round trips":
        row |= {"rtt_ms": [chance.choice([20, 40, 55, 80, 120, 160, 200]) for _ in range(count)]}
    elif kind == "up and down at once":
        ups = [number % 2 == 1 for number in range(count)]
        row |= {
            "up": ups,
            "up_mbit_s": max(2, rate / chance.choice([1, 2, 4, 10])),
            "queue_bdp": chance.choice([2, 3, 4]),
        }
        row |= {"start_s": [chance.choice([0, 0, 0.3, 0.8]) for _ in range(count)]}
    elif kind == "cubic beside bbr":
        row |= {"congestion": "cubic/bbr"}
    elif kind == "bursts":
        row |= {"start_s": [round(chance.uniform(0, 0.3), 2) for _ in range(count)]}
    elif kind == "loss of 1 %":
        row |= {"loss": 0.01, "flows": chance.choice([1, 2, 4])}
        rate = min(rate, 2 * row["flows"])  # Mbit/s, a guess of what losses let through
    elif kind == "traces":
        trace, rate = chance.choice(list(TRACES.items()))
        row |= {"trace": trace, "offset_s": chance.randrange(100, 400, 20), "queue_kb": chance.choice([100, 250, 500])}
    else:
        row |= {"behind_mbit_s": [round(rate * share, 1) for share in chance.sample([0.5, 0.6, 0.8, 1.2], 2)]}
    return row | {"kb": _sizes(row, rate, seconds, chance)}


def _sizes(row: Mapping[str, Any], rate: float, seconds: float, chance: random.Random) -> list[int]:
    """The kB of each flow, so that each direction carries its share for so long."""
    ups = row.get("up", [False] * row["flows"])
    rates = {False: rate, True: row.get("up_mbit_s", rate)}
    each = {up: seconds * rates[up] * MBIT / 1e3 / max(1, ups.count(up)) for up in rates}
    return [max(20, round(each[up] * chance.choice([0.6, 1, 1, 1, 1.4]))) for up in ups]

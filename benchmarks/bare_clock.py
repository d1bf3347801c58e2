"""A bare simulation of rounds in SimPy, as one would write it by hand: what a device-round costs without fedlapse.

Each device waits three times and writes a line before and after each.  Links are not shared, nothing is priced or
kept, and nobody is offline.  Replays are measured in its seconds, as machines differ, and one machine from hour to
hour.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import simpy

FLEET = 1_000
DEVICE_ROUNDS = 2_000
MEANS = {"download": 1.0, "train": 5.0, "upload": 4.0}  # s
SPREAD = 0.1  # of the logarithm


def seconds(cohort: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one device-round in rounds of so many devices, by this clock."""
    rounds = DEVICE_ROUNDS // cohort
    with tempfile.TemporaryDirectory(prefix="fedlapse-bench-") as folder:
        began = clock()
        with (Path(folder) / "events.jsonl").open("w", encoding="utf-8") as file:
            play(file, cohort, rounds)
        return (clock() - began) / (cohort * rounds)


def play(file: TextIO, cohort: int, rounds: int) -> None:
    """Plays the rounds, and writes their lines."""
    rng, env, names = random.Random(1), simpy.Environment(), [f"device-{k:05}" for k in range(FLEET)]

    def note(**event: Any) -> None:
        file.write(json.dumps({"t": env.now, **event}, sort_keys=True) + "\n")

    def device(name: str, round: int) -> Iterator[simpy.Event]:
        for what, mean in MEANS.items():
            note(event=f"{what}.start", device=name, round=round)
            yield env.timeout(mean * rng.lognormvariate(0, SPREAD))
            note(event=f"{what}.end", device=name, round=round)

    def server() -> Iterator[simpy.Event]:
        for round in range(rounds):
            asked = sorted(rng.sample(names, cohort))
            note(event="open", round=round, asked=asked)
            yield env.all_of([env.process(device(name, round)) for name in asked])  # type: ignore[arg-type]
            note(event="close", round=round)

    env.run(env.process(server()))  # type: ignore[arg-type]

"""A search for settings that takes seconds, and data whose test examples can be changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from devices.data.dataset import Dataset
from devices.data.digits import digits
from emulator.__main__ import app
from tests.conftest import FAST, merged

TINY: dict[str, Any] = {
    "name": "tiny",
    "model": "tests.runs.network:small",
    "data": {"split": {"kind": "iid"}, "validation": 0.2},
    "training": {"epochs": 1, "batch": 64, "lr": 0.3},
    "rounds": {"max": 4},
    "network": {"model": "ideal"},  # so that times can be worked out by hand
    "server": {"profile": "workstation", "link": {"up_mbit_s": 1000, "down_mbit_s": 1000, "latency_ms": 0}},
    "fleet": [{"profile": "pi-4", "count": 3, "link": FAST}],
    "seeds": [1],
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.1}, "name": "prox"}],
    "tune": {
        "seeds": [11, 12],
        "budget": 6,
        "rungs": 2,
        "grid": {"training.lr": [0.01, 0.1, 1.0], "prox.mu": [0.01, 1]},
        "target": {"value": 0.6, "hold": 1},
        "links": {"slow-uplink": {"up_mbit_s": 0.05}},
    },
}
DECIDED = ("tune.json", "tuned.yaml")


def other_tests(flawed: bool = False) -> Dataset:
    """digits; if `flawed`, with test images of noise and test labels in another order."""
    made, rng = digits(), np.random.default_rng(0)
    if not flawed:
        return made
    noise = rng.random(made.x_test.shape).astype(made.x_test.dtype)
    return replace(made, x_test=noise, y_test=rng.permutation(made.y_test))


def written(folder: Path, changes: Mapping[str, Any] | None = None) -> Path:
    """TINY with changes, as a file; what is said of `tune` takes the place of TINY's, key by key."""
    said = changes or {}
    path = folder / "tiny.yaml"
    path.write_text(json.dumps({**merged(TINY, said), "tune": {**TINY["tune"], **said.get("tune", {})}}))
    return path


class Tuned(NamedTuple):
    """The results and the output of a search."""

    out: Path
    said: str

    @property
    def found(self) -> dict[str, Any]:
        return dict(json.loads((self.out / "tune.json").read_text()))

    @property
    def decided(self) -> dict[str, bytes]:
        return {name: (self.out / name).read_bytes() for name in DECIDED}


def tuned(folder: Path, changes: Mapping[str, Any] | None = None, *words: object, name: str = "out") -> Tuned:
    """TINY with changes, tuned in this process without a ledger unless `words` name one; its page is a word."""
    arguments = ["tune", written(folder, changes), "--out", folder / name, "--workers", 0, "--quiet", *words]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emulator.report.tuned.page", lambda scenario, founds: "a page")
        patch.setattr("sys.path", [*sys.path, str(folder)])
        done = CliRunner().invoke(app, [str(word) for word in arguments], prog_name="fedlapse")
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return Tuned(folder / name, done.stdout)


def better_halves(scores: Mapping[str, Mapping[str, Mapping[str, float]]]) -> set[int]:
    """Who goes on by any clock, from the scores of a rung in tune.json: the better half, and what ties with it."""
    kept: set[int] = set()
    for clock in next(iter(scores.values())):
        ranked = sorted((of[clock]["time"], of[clock]["error"], int(number)) for number, of in scores.items())
        last = ranked[max(1, len(ranked) // 2) - 1][:2]
        kept |= {number for *score, number in ranked if tuple(score) <= last}
    return kept


def rungs(found: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Each rung of an algorithm with the next of the same halving."""
    every = found["rungs"]
    for number, rung in enumerate(every):
        later = every[number + 1] if number + 1 < len(every) else None
        yield rung, later if later and later["rounds"] > rung["rounds"] else None

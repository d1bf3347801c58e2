"""The memory that a run of a large model takes, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

PARAMETERS = 64 * 5000 + 5000 + 5000 * 5000 + 5000 + 5000 * 10 + 10  # of `large`
PROGRAM = """
import re, sys, threading, time
from contextlib import suppress
from pathlib import Path

from emulator.__main__ import app

def anonymous():
    return 1024 * int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def watch():
    while True:
        most[0] = max(most[0], anonymous())
        time.sleep(0.001)

def play(model):
    given = f"{sys.argv[1]} model=tests.runs.test_large_models:{model} --workers 0 --no-ledger -q --out {sys.argv[2]}"
    with suppress(SystemExit):
        app(["compare", *given.split(), "--force"])

play("small")  # so that everything is imported
before = anonymous()
most = [before]
threading.Thread(target=watch, daemon=True).start()
play("large")
print("bytes:", most[0] - before, flush=True)
"""
SCENARIO = """
name: large
seeds: [1]
data: {set: digits, split: {kind: iid}}
training: {batch: 8, steps: 1, lr: 0.01, optimizer: OPTIMIZER}
evaluate: {personalise_every: never}
rounds: {max: 2, fraction: 1, targets: [{value: 0.9}]}
fleet: [{name: d, profile: pi-4, count: 2, link: {up_mbit_s: 100, down_mbit_s: 100, latency_ms: 5}}]
algorithms: [ALGORITHM]
"""


def small() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def large() -> nn.Module:
    """Nearly all of its weights are in one tensor, the worst case for what is computed tensor by tensor."""
    body = nn.Linear(64, 5000), nn.ReLU(), nn.Linear(5000, 5000), nn.ReLU(), nn.Linear(5000, 10)
    return nn.Sequential(nn.Flatten(), *body)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc/self/status, which has RssAnon")
@pytest.mark.parametrize(
    ("algorithm", "optimizer", "copies"), [("fedavg", "sgd", 4), ("fedprox", "sgd", 4), ("fedavg", "adam", 6)]
)
def test_memory_holds_few_copies_of_the_weights(tmp_path: Path, algorithm: str, optimizer: str, copies: int) -> None:
    scenario = tmp_path / "large.yaml"
    scenario.write_text(SCENARIO.replace("OPTIMIZER", optimizer).replace("ALGORITHM", algorithm))
    command = [sys.executable, "-c", PROGRAM, str(scenario), str(tmp_path / "out")]
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=here, capture_output=True, text=True, check=True)
    taken = int(done.stdout.rsplit("bytes:", 1)[1])
    assert 4 * PARAMETERS < taken <= copies * 4 * PARAMETERS

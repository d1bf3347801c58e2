"""`fedlapse study`: whole studies on a tiny fleet, whose times can be worked out by hand."""

from __future__ import annotations

import csv
import signal
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.__main__ import app
from emulator.analysis.cells import at_point
from emulator.record.lines import read_lines
from emulator.record.targets import Target
from emulator.replay.batch import Batch, Order, Source
from emulator.results.results import read
from scenarios.load import build, dump
from tests.all_of import all_of
from tests.emulator.commands.processes import Command
from tests.runs.nets import DENSE

pytestmark = pytest.mark.slow

LINK = {"up_mbit_s": 0.01, "down_mbit_s": 0.05, "latency_ms": 10}
BARE = {"speed_gflop_s": 1, "memory_bandwidth_gb_s": 100000, "overhead_ms": 0, "memory_mb": 4000}
STUDY: dict[str, Any] = {
    "name": "tiny",
    "seeds": [1, 2, 3, 4, 5, 6, 7, 8],  # decide who is first in a cell of the map
    "data": {"split": {"kind": "iid"}, "proxy": {"fraction": 0.05, "overlap": False}},
    "model": DENSE,
    "training": {"epochs": 1, "batch": 40, "lr": 0.2},
    "rounds": {"max": 40, "fraction": 1.0, "targets": [{"value": 0.6}]},
    "network": {"model": "ideal"},  # so that times can be worked out by hand
    "server": {"profile": "workstation", "link": {"up_mbit_s": 10000, "down_mbit_s": 10000, "latency_ms": 0}},
    "profiles": {"bare": BARE},  # seconds are FLOPs over speed
    "fleet": [{"profile": "bare", "count": 3, "link": LINK}],
    "algorithms": [
        "fedavg",
        {"fedcl": {"strength": 1.0, "importance": "sq", "interval": 2}},
        {"fedcurv": {"strength": 0.01, "training": {"lr": 0.6}}},
        {"fedcurv": {"strength": 0.01, "placebo": "shuffled", "training": {"lr": 0.6}}, "name": "shuffled"},
        {"fedcl": {"strength": 0.0, "interval": 2}, "name": "zero"},
    ],
    "tune": {
        "seeds": [101],
        "grid": {"fedcl.strength": [0.1, 1.0]},
        "budget": 2,
        "rungs": 2,
        "rounds": 8,
        "target": {"value": 0.5, "hold": 1},
        "fixed": ["fedcurv", "shuffled"],
    },
    "study": {
        "placebos": {"shuffled": "fedcurv"},
        "nulls": ["zero"],
        "pairs": [["fedcl", "fedcurv"]],
        "shares": [0.6, 0.7],
        "hold": 1,
        "horizon_s": 100,
        "links": {"fast": {"up_mbit_s": 10}},
        "map": {"up_mbit_s": [0.001, 0.1, 100], "down_over_up": [5], "round_trip_ms": [20], "speed_gflop_s": [0.01, 1]},
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, followed by two workers; test_what_was_killed follows it in one process."""
    folder = tmp_path_factory.mktemp("study")
    file = folder / "tiny.yaml"
    file.write_text(dump(build(STUDY)), encoding="utf-8")
    followed(folder, file, "out", "--workers", "2")
    return folder


def followed(folder: Path, file: Path, out: str, *more: str, code: int = 0) -> str:
    words = ["study", str(file), "--out", str(folder / out), "--ledger", str(folder / "ledger"), "--quiet", *more]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emulator.report.studied.pictures", lambda _: ())  # they take seconds, and have their own tests
        result = CliRunner().invoke(app, words)
    assert result.exit_code == code, result.output
    return str(result.output)


def rows(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_records_carry_the_digest_of_the_protocol(made: Path) -> None:
    page = (made / "out" / "study.md").read_text(encoding="utf-8")
    trials = [f"tuning/trials/{path.name}" for path in (made / "out" / "tuning" / "trials").iterdir()]
    for name in ("reporting", "tops", *trials):
        text = (made / "out" / name / "scenario.yaml").read_text(encoding="utf-8")
        digest = next(line for line in text.splitlines() if line.startswith("protocol: ")).split()[1]
        assert len(digest) == 64
        assert digest in page


def test_its_folders_obey_the_laws_of_the_record(made: Path) -> None:
    for name in ("reporting", "tuning/trials/01-4-rounds"):
        result = CliRunner().invoke(app, ["audit", str(made / "out" / name)])
        assert result.exit_code == 0, result.output


def test_a_report_over_another_protocol_must_be_called_exploratory(made: Path) -> None:
    other = made / "other.yaml"
    other.write_text(dump(build({**STUDY, "study": {**STUDY["study"], "shares": [0.5]}})), encoding="utf-8")
    copytree(made / "out", made / "again")
    said = followed(made, other, "again", "--workers", "0", code=2)
    assert "--exploratory" in said
    said = followed(made, other, "again", "--workers", "0", "--exploratory")
    assert said.startswith("Exploratory")
    assert "xploratory" in (made / "again" / "study.md").read_text(encoding="utf-8")


def test_its_runs_can_be_reported_by_themselves(made: Path) -> None:
    text = (made / "out" / "reporting" / "scenario.yaml").read_text(encoding="utf-8")
    assert "by the study, for its own links" in text
    assert len(read(made / "out" / "reporting").scenario.rounds.targets) == 2
    with pytest.raises(ValueError, match="holds a study; the runs that it reports are in .*reporting"):
        read(made / "out")


def test_without_its_penalty_an_algorithm_learns_as_the_baseline_does(made: Path) -> None:
    found = rows(made / "out", "nulls")
    assert {(row["algorithm"], row["same"]) for row in found} == {("zero", "yes")}
    runs = made / "out" / "reporting"
    for seed in STUDY["seeds"]:
        own, base = (list(read_lines(runs / f"{label}-s{seed}" / "rounds.jsonl")) for label in ("zero", "fedavg"))
        both = min(len(own), len(base))
        assert [row["accuracy"] for row in own[:both]] == [row["accuracy"] for row in base[:both]]


def test_the_leverage_of_each_recorded_round_is_in_a_table(made: Path) -> None:
    """Of penalties, and not of the null; rounds count from 1."""
    found = rows(made / "out", "leverage")
    assert {row["algorithm"] for row in found} == {"fedcl", "fedcurv", "shuffled"}
    known = {(row["algorithm"], row["seed"], row["round"]): row["leverage, 99th percentile"] for row in found}
    recorded = {
        (label, str(seed), str(row["round"] + 1)): repr(row["leverage"]["p99"])
        for label in ("fedcl", "fedcurv", "shuffled")
        for seed in STUDY["seeds"]
        for row in read_lines(made / "out" / "reporting" / f"{label}-s{seed}" / "rounds.jsonl")
        if "p99" in row["leverage"]
    }
    assert known == recorded
    assert len(known) == len(found) > 8


def test_a_regime_is_a_study_of_its_own(made: Path) -> None:
    """One that changes nothing has the plain study's tables; one with another server's link other seconds."""
    regimes = {"as-it-is": {}, "slow-server": {"server.link.up_mbit_s": 0.02}}
    file = made / "regimes.yaml"
    file.write_text(dump(build({**STUDY, "study": {**STUDY["study"], "regimes": regimes}})), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emulator.report.regimes.picture", lambda *_: {})
        said = followed(made, file, "regimes", "--workers", "0")
    out = made / "regimes"
    for each in sorted((made / "out" / "tables").iterdir()):
        assert (out / "regimes" / "as-it-is" / "tables" / each.name).read_bytes() == each.read_bytes(), each.name
    cells = rows(out, "pays")
    assert {(row["question"], row["regime"]) for row in cells} == {
        (question, regime) for question in ("all ranked", "fedcl or fedcurv") for regime in regimes
    }
    plain, slow = (
        {row["algorithm"]: float(row["mean s"]) for row in rows(out, "regimes") if row["regime"] == name}
        for name in regimes
    )
    assert all_of(slow[label] > plain[label] for label in plain)
    assert said.startswith("fedcl compared with fedcurv, at 12 points of the map: ")


KILLED = (  # what is there when the command is killed
    "tuning/trials/*/*/rounds.jsonl",
    "reporting/*-s3/rounds.jsonl",
)
WRITTEN = ("study.md",)  # it kills itself once it has written this file
KILLS_ITSELF = """
import os, signal, sys
from emulator.sessions import studying
from emulator.record.writing import replace_file

last = sys.argv.pop(1)

def replaced(path, *words):
    replace_file(path, *words)
    if path.name == last:
        os.kill(os.getpid(), signal.SIGKILL)

studying.replace_file = replaced
from emulator.__main__ import main
main()
"""


def test_what_was_killed_goes_on_to_the_same_tables(made: Path) -> None:
    """In each of its parts, and while it writes; each time the same command goes on, in one process."""
    out = made / "killed"
    words = ["study", made / "tiny.yaml", "--ledger", made / "other-ledger", "--workers", "0", "--quiet"]
    for instant in KILLED:
        command = Command(out, *words)
        command.until(lambda instant=instant: any(out.glob(instant)))
        command.killed()
    for file in WRITTEN:
        code, text = Command(out, file, *words, program=KILLS_ITSELF).ended(300)
        assert code == -signal.SIGKILL, text
    code, text = Command(out, *words).ended(300)
    assert code == 0, text
    for each in sorted((made / "out" / "tables").iterdir()):
        assert (out / "tables" / each.name).read_bytes() == each.read_bytes(), each.name
    assert (out / "figures" / "times.png").read_bytes().startswith(b"\x89PNG")


def test_replays_that_end_when_the_target_is_reached_are_as_long_as_they_must_be(made: Path) -> None:
    """The rounds after it are left out, and those before it end when they would have."""
    place = {"up_mbit_s": 0.3, "down_over_up": 2, "round_trip_ms": 40, "speed_gflop_s": 0.5}
    target, condition = Target("accuracy", 0.5, 1), at_point(place)
    whole, short = (Batch(Source(made / "out" / "reporting", targets=(), until=each)) for each in (None, target))
    assert len(whole.scripts) == len(short.scripts)
    left = 0
    for number, script in enumerate(whole.scripts):
        rows = [each.row for each in script.rounds]
        there = next((row["round"] + 1 for row in rows if row["accuracy"] >= target.value), len(rows))
        full, cut = (batch.play(Order(number, condition)).stamps for batch in (whole, short))
        assert cut == full[:there]
        left += len(full) - there
    assert left > 0


def analytic(folder: Path, label: str, up: float, speed: float, target: float) -> float:
    """Mean seconds to the target over the seeds, by hand: devices are alike and alone on their links, the network is
    `ideal`, so a round takes a latency and the bytes each way, the device's FLOPs, and the server's seconds."""
    total = 0.0
    for seed in STUDY["seeds"]:
        for row in read_lines(folder / f"{label}-s{seed}" / "rounds.jsonl"):
            devices = row["asked"]
            down, sent = (sum(row["bytes"][way].values()) / devices for way in ("down", "up"))
            server = sum(row["critical"]["server_s"].values())
            flops = max(device_flops(folder / f"{label}-s{seed}", row["round"]))
            total += 2 * 0.010 + down * 8 / (5 * up * 1e6) + sent * 8 / (up * 1e6) + flops / (speed * 1e9) + server
            if row["accuracy"] >= target:
                break
        else:
            raise AssertionError(f"{label}, seed {seed}, does not reach {target}")
    return total / len(STUDY["seeds"])


def device_flops(run: Path, round: int) -> list[float]:
    lines = [line for line in read_lines(run / "events.jsonl") if line["round"] == round]
    return [sum(line["phases"].values()) for line in lines if line["event"] == "compute.start"]


def test_the_frontier_of_the_map_is_the_analytic_one_within_1_percent(made: Path) -> None:
    """FedAvg sends less and takes more rounds; FedCurv, with another learning rate, sends more and takes fewer."""
    found = rows(made / "out", "borders")
    assert found
    _, target = sorted({float(row["target"].split()[1]) for row in rows(made / "out", "times")})  # the verdict's
    for row in found:
        up, speed = float(row["up_mbit_s"]), float(row["speed_gflop_s"])
        one, other = (
            analytic(made / "out" / "reporting", row[who], up, speed, target) for who in ("first below", "first above")
        )
        low, high = (
            analytic(made / "out" / "reporting", row["first below"], at, speed, target)
            / analytic(made / "out" / "reporting", row["first above"], at, speed, target)
            for at in (up / 1.01, up * 1.01)
        )
        assert low < 1 < high or high < 1 < low, (one, other)

"""The data sent to experiment trackers, read back with the readers of each library."""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from emulator.record.run import Run
from emulator.trackers.destination import destination
from emulator.trackers.tracker import TrackedTotals, hyperparams
from emulator.trackers.tracking import Tracking
from scenarios.load import build
from scenarios.text.faults import BadScenario
from tests.all_of import all_of

RUN = Run("prox", 7)
SCENARIO = build(
    {
        "name": "tracked",
        "seeds": [7],
        "training": {"lr": 0.3},
        "fleet": [{"profile": "pi-4", "count": 2, "link": {"up_mbit_s": 1, "down_mbit_s": 1}}],
        "algorithms": [{"fedprox": {"mu": 0.5, "training": {"epochs": 2}}, "name": "prox"}],
    }
)


def row(number: int, accuracy: float | None, spent: float | None = 3.0) -> dict[str, Any]:
    return {
        "round": number,
        "time_s": 10.0 * (number + 1),
        "accuracy": accuracy,
        "validation": None,
        "initial": None,
        "personalised": None,
        "loss": None if accuracy is None else 1 - accuracy,
        "bytes": {"down": {"weights": 2_000_000}, "up": {"weights": 1_000_000, "frame": 500_000}},
        "joules": {"pi-4-1": spent, "pi-4-2": 1.0},
    }


ROWS = [row(0, 0.25), row(1, None), row(2, 0.75)]
# By hand: 1.5 MB up and 2 MB down in each round, 4 J; the second round is not evaluated, and only adds to the sums.
EXPECTED = {
    0: {"accuracy": 0.25, "loss": 0.75, "mb_up": 1.5, "mb_down": 2.0, "joules": 4.0, "virtual_seconds": 10.0},
    2: {"accuracy": 0.75, "loss": 0.25, "mb_up": 4.5, "mb_down": 6.0, "joules": 12.0, "virtual_seconds": 30.0},
}


def tracked(said: str, out: Path, status: str = "finished") -> list[str]:
    """Tells a run to a tracker; what it has warned of."""
    warned: list[str] = []
    with Tracking([destination(said)], SCENARIO, out, warned.append) as tracking:
        tracking.begin(RUN)
        for each in ROWS:
            tracking.tell(RUN, each)
        tracking.end(RUN, status)  # type: ignore[arg-type]
    return warned


def test_metrics_are_sums_since_the_beginning_and_those_of_evaluated_rounds() -> None:
    meter = TrackedTotals()
    found = {each["round"]: meter.metrics(each) for each in ROWS}
    assert found == {**EXPECTED, 1: {}}
    assert "joules" not in TrackedTotals().metrics(row(0, 0.5, spent=None))


def test_settings_have_the_names_that_changes_on_the_command_line_have() -> None:
    said = hyperparams(SCENARIO, RUN)
    assert (said["algorithm.key"], said["algorithm.mu"], said["seed"]) == ("fedprox", 0.5, 7)
    assert (said["training.lr"], said["training.epochs"]) == (0.3, 2)
    assert json.loads(said["fleet"])[0]["profile"] == "pi-4"
    assert all_of(isinstance(value, str | int | float | bool) for value in said.values())


def test_csv(tmp_path: Path) -> None:
    assert tracked(f"csv:{tmp_path / 't'}", tmp_path / "out", "interrupted") == []
    home = tmp_path / "t" / "out" / "prox-s7"
    with (home / "metrics.csv").open() as file:
        read = {int(line.pop("step")): {k: float(v) for k, v in line.items() if v} for line in csv.DictReader(file)}
    assert read == EXPECTED
    assert json.loads((home / "hyperparams.json").read_text()) == hyperparams(SCENARIO, RUN)
    assert (home / "status.txt").read_text() == "interrupted\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the library itself
def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="NO TENSORBOARD: --track tensorboard is not tested")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert tracked(f"tensorboard:{tmp_path / 't'}", tmp_path / "out") == []
    read = EventAccumulator(str(tmp_path / "t" / "out" / "prox-s7"))
    read.Reload()
    found: dict[int, dict[str, float]] = {}
    for name in read.Tags()["scalars"]:
        for each in read.Scalars(name):
            found.setdefault(each.step, {})[name] = each.value
    assert found == {step: pytest.approx(of) for step, of in EXPECTED.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_and_a_second_sitting_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="NO MLFLOW: --track mlflow is not tested")
    assert tracked(f"mlflow:{tmp_path / 't'}", tmp_path / "out", "interrupted") == []
    assert tracked(f"mlflow:{tmp_path / 't'}", tmp_path / "out") == []
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "t").as_uri())
    experiment = client.get_experiment_by_name("tracked")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("prox-s7", "FINISHED")
    assert run.data.params["algorithm.mu"] == "0.5"
    for name in EXPECTED[0]:
        history = client.get_metric_history(run.info.run_id, name)
        assert {each.step: each.value for each in history} == {step: of[name] for step, of in EXPECTED.items()}
        assert len(history) == 2  # what was told twice stands there once


def records(data: bytes) -> Iterator[bytes]:
    """The records of a .wandb file, in LevelDB's log format: a header of 7 bytes, then blocks of 32 KiB with pieces of
    records.  Before each piece are a checksum (4 bytes), its length (2), and whether it is whole, first, middle or last
    (1)."""
    place, whole = 7, b""
    while place + 7 <= len(data):
        room = 32768 - place % 32768
        if room < 7:
            place += room
            continue
        length, piece = struct.unpack_from("<HB", data, place + 4)
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if piece in (1, 4):
            yield whole
            whole = b""


def uploaded(folder: Path) -> tuple[str, dict[int, dict[str, float]]]:
    """The id of the one offline run in a folder, and what was logged, by step, as `wandb sync` would upload it."""
    from wandb.proto import wandb_internal_pb2

    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    found, name = {}, ""
    for data in records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.HasField("history"):
            values = {(each.key or ".".join(each.nested_key)): each.value_json for each in record.history.item}
            step = int(values.pop("_step"))
            found[step] = {name: float(value) for name, value in values.items() if not name.startswith("_")}
        if record.HasField("run"):
            assert (record.run.display_name, record.run.run_group) == ("prox-s7", "tracked")
            name = record.run.run_id
    return name, found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_offline_and_a_second_sitting_has_the_same_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders differ, as those of wandb are called after the second in which they are begun."""
    pytest.importorskip("wandb", reason="NO WANDB: --track wandb is not tested")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tracked(f"wandb:{tmp_path / 'first'}", tmp_path / "out", "interrupted") == []
    assert tracked(f"wandb:{tmp_path / 'second'}", tmp_path / "out") == []
    assert tracked(f"wandb:{tmp_path / 'other'}", tmp_path / "elsewhere") == []
    import wandb

    wandb.teardown()  # its process writes the rest
    (one, _), (same, found), (other, _) = (uploaded(tmp_path / name) for name in ("first", "second", "other"))
    assert found == {step: pytest.approx(of) for step, of in EXPECTED.items()}
    assert one == same != other


class Broken:
    """A tracker whose disk is full."""

    def __init__(self, tracked: Any) -> None:
        self.calls = 0

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        raise OSError(28, "No space left on device", "metrics")

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        raise AssertionError("it is told no more")

    finalize = log_hyperparams


def test_a_tracker_that_fails_is_told_no_more_and_the_other_goes_on(tmp_path: Path) -> None:
    warned: list[str] = []
    own = destination(f"{__name__}:Broken:{tmp_path / 'own'}")
    with Tracking([own, destination(f"csv:{tmp_path / 't'}")], SCENARIO, tmp_path / "out", warned.append) as tracking:
        tracking.begin(RUN)
        tracking.tell(RUN, ROWS[0])
        tracking.end(RUN, "finished")
    (said,) = warned
    assert "no space left on the disk" in said
    assert "the runs go on" in said
    assert (tmp_path / "t" / "out" / "prox-s7" / "metrics.csv").read_text().count("\n") == 2


def test_runs_that_break_down_are_failed_and_those_that_were_stopped_interrupted(tmp_path: Path) -> None:
    for kind, status in ((RuntimeError, "failed"), (KeyboardInterrupt, "interrupted")):
        out = tmp_path / status
        tracking = Tracking([destination(f"csv:{tmp_path / 't'}")], SCENARIO, out, print)
        tracking.begin(RUN)
        tracking.__exit__(kind, kind(), None)
        assert (tmp_path / "t" / status / "prox-s7" / "status.txt").read_text() == f"{status}\n"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("comet:x", "it must be csv:DIR, tensorboard:DIR, mlflow:DIR, wandb:DIR, or package.module:Class:DIR"),
        ("csv", "it must be csv:DIR"),
        ("no_such_module:Tracker:x", "no_such_module"),
        ("json:dumps_not_there:x", "dumps_not_there"),
    ],
)
def test_what_is_no_tracker_is_said_in_a_line(said: str, words: str) -> None:
    with pytest.raises(BadScenario) as caught:
        destination(said)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.trackers.destination.find_spec", lambda name: None)
    with pytest.raises(BadScenario, match=r"MLflow is not installed; pip install 'fedlapse\[mlflow\]'"):
        destination("mlflow:x")

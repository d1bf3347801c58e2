"""Devices that cannot take part, and replies that are not sound: refused by name, while the others go on."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from json import dumps, loads
from pathlib import Path
from typing import Any

import pytest

from emulator.record.record import FILES
from emulator.record.run import RUN
from emulator.replay.replayer import Replayer
from emulator.replay.script import read_script
from scenarios.load import recorded
from tests.all_of import all_of

pytestmark = pytest.mark.slow

FAST = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}
SIZE = 4 * 53_002  # bytes of the model
# FedAvg holds weights, gradients and what came down: 3 x 0.212 MB, before any activation.
TOO_LITTLE = 0.5
UGA = {"uga": {}}
EXAMPLES, BATCH, EPOCHS = 45, 16, 3
NAN = '''
from dataclasses import dataclass, replace

from algorithms.fedavg import FedAvg


@dataclass(frozen=True)
class Broken(FedAvg):
    """FedAvg, but for one device: its weights overflow."""

    def train(self, download, device):
        reply = super().train(download, device)
        if device.name != "pi-4-1":
            return reply
        weights = {name: value / 0 * 0 for name, value in reply.upload["weights"].items()}
        return replace(reply, upload={"weights": weights})
'''


def fleet(**megabytes: float) -> list[dict[str, Any]]:
    """Two phones and two Pis; `pi=0.5` gives the Pis half a megabyte of memory."""
    groups = [{"profile": "phone-mid", "count": 2, "link": FAST}, {"profile": "pi-4", "count": 2, "link": FAST}]
    return [
        {**group, **({"memory_mb": megabytes[name]} if name in megabytes else {})}
        for name, group in zip(("phone", "pi"), groups, strict=True)
    ]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_broken.py").write_text(NAN)
    sys.path.append(str(folder))
    yield
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def run(play: Any, own: None) -> Callable[..., Any]:
    """Plays each run once."""
    quick = {
        "data": {"split": {"kind": "draw", "each": 50}},  # a tenth is held out
        "training": {"epochs": EPOCHS, "batch": BATCH, "lr": 0.1},
        "rounds": {"max": 3},
        "evaluate": {"every": 0},
    }

    @cache
    def once(algorithm: str, changes: str) -> Any:
        return play(loads(algorithm), **{**quick, **loads(changes)})

    return lambda algorithm="fedavg", **changes: once(dumps(algorithm), dumps(changes))


def needed(run: Any, algorithm: Any) -> float:
    """Bytes that it says that it needs, in round 0."""
    line = run(algorithm, fleet=fleet(pi=TOO_LITTLE)).of("refused", round=0)[0]
    found = re.search(r"needs ([\d.]+) MB", line["why"])
    assert found
    return 1e6 * float(found[1])


# ---- memory


def test_a_device_that_is_too_small_refuses_by_name_and_with_both_numbers(run: Any) -> None:
    lines = run(fleet=fleet(pi=TOO_LITTLE)).of("refused")
    assert len(lines) == 2 * 3
    assert {line["device"] for line in lines} == {"pi-4-0", "pi-4-1"}
    for line in lines:
        assert line["kind"] == "device"
        assert re.fullmatch(r"fedavg needs [\d.]+ MB for 45 examples, it has 0.5 MB", line["why"]), line["why"]


def test_the_others_go_on(run: Any) -> None:
    played = run(fleet=fleet(pi=TOO_LITTLE))
    for row in played.rounds:
        shares = {key: row[key] for key in ("asked", "counted", "late", "lost", "refused", "failed")}
        assert shares == {"asked": 4, "counted": 2, "late": 0, "lost": 0, "refused": 2, "failed": False}
    assert all_of(sorted(line["counted"]) == ["phone-mid-0", "phone-mid-1"] for line in played.of("close"))
    assert len({line["model"] for line in played.of("open")}) == 3
    assert played.outcome.failure is None


def test_a_refusal_computes_nothing_and_sends_no_tensor(run: Any) -> None:
    played = run(fleet=fleet(pi=TOO_LITTLE))
    assert {line["device"] for line in played.of("compute.start")} == {"phone-mid-0", "phone-mid-1"}
    sent = [line["bytes"] for line in played.of("up.start") if line["device"].startswith("pi-4")]
    assert len(sent) == 2 * 3
    assert all_of(sizes.keys() == {"frame"} for sizes in sent)
    assert all_of(row["wasted_bytes"] > 2 * SIZE for row in played.rounds)  # what had gone down to them


def test_enough_memory_changes_nothing(run: Any) -> None:
    assert run(fleet=fleet(pi=1000.0)).model == run(fleet=fleet()).model


def test_the_model_is_that_of_those_who_can(run: Any) -> None:
    """The phones alone: as if the Pis had been cut from the mean, and nothing else."""
    small, whole = run(fleet=fleet(pi=TOO_LITTLE)), run(fleet=fleet())
    updates = {(line["device"], line["update"]) for line in small.of("compute.end", round=0)}
    assert updates < {(line["device"], line["update"]) for line in whole.of("compute.end", round=0)}
    assert small.model != whole.model


def test_a_fleet_that_refuses_ends_with_exit_code_1_and_one_line(fedlapse: Any, tmp_path: Path) -> None:
    link = {"up_mbit_s": 8, "down_mbit_s": 8}
    scenario = {
        "name": "tiny",
        "fleet": [{"profile": "pi-4", "count": 4, "link": link, "memory_mb": TOO_LITTLE}],
        "training": {"epochs": 1, "batch": 16},
    }
    (tmp_path / "tiny.yaml").write_text(json.dumps(scenario))
    done = fedlapse("compare", "tiny.yaml", "--workers", "0", "--quiet", "--out", "out")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "refuse" in line]
    assert re.search(r"fedavg, seed 1: 3 rounds in a row .* pi-4-\d refuses: fedavg needs [\d.]+ MB", line)
    assert "it has 0.5 MB" in line
    assert "lower lr" not in line  # which would not help
    assert "Traceback" not in done.stderr


# ---- UGA: the weights along the way


STEPS = (EPOCHS - 1) * -(-EXAMPLES // BATCH)  # keep-trace steps T


def test_uga_needs_the_weights_of_every_step_beside(run: Any) -> None:
    """Kept: T |θ|, and two more on the way back; the gradient goes up beside the weights; and what a
    batch leaves behind is more where a gradient is differentiated again, but at most twice as much."""
    plain = needed(run, "fedavg")
    more, activations = needed(run, UGA) - plain, plain - 3 * SIZE
    held = (STEPS + 2 + 1) * SIZE
    assert 0.99 * held < more < 1.01 * held + activations


def test_with_checkpoints_it_needs_fewer(run: Any) -> None:
    """T/c + c of them, c = √T: here 3 + 2 or so, but never more than T."""
    assert needed(run, {"uga": {"budget_mb": 0.0}}) < needed(run, UGA)
    assert needed(run, {"uga": {"first_order": True}}) < needed(run, UGA)


def test_where_fedavg_fits_uga_may_not(run: Any) -> None:
    between = (needed(run, "fedavg") + needed(run, UGA)) / 2e6
    both = [run(algorithm, fleet=fleet(pi=between)) for algorithm in ("fedavg", UGA)]
    assert [[row["refused"] for row in played.rounds] for played in both] == [[0] * 3, [2] * 3]
    assert {line["device"] for line in both[1].of("refused")} == {"pi-4-0", "pi-4-1"}


@pytest.mark.parametrize("algorithm", ["fedcurv", "scaffold", "agentimportance", {"fedcl": {}}])
def test_what_comes_down_and_is_kept_needs_memory_too(run: Any, algorithm: Any) -> None:
    """Devices that can download the plain model of round 0, but not the parts that are added to it later, refuse from
    then on."""
    name = algorithm if isinstance(algorithm, str) else "fedcl"
    assert needed(run, algorithm) >= needed(run, "fedavg") + (SIZE if name != "scaffold" else 0) * 0.99


# ---- replies that are not finite


def test_a_reply_that_is_not_finite_is_refused_counted_and_named(run: Any) -> None:
    played = run({"algorithm": "own_broken:Broken"})
    assert [row["refused"] for row in played.rounds] == [1] * 3
    assert [row["counted"] for row in played.rounds] == [3] * 3
    assert {(line["device"], line["kind"]) for line in played.of("refused")} == {("pi-4-1", "values")}
    assert all_of("not finite" in line["why"] and "'weights'" in line["why"] for line in played.of("refused"))
    assert played.outcome.failure is None


def test_and_a_replay_refuses_it_again(run: Any, tmp_path: Path) -> None:
    played = run({"algorithm": "own_broken:Broken"})
    replayer = Replayer(recorded(played.folder.parent))
    replayer.replay(read_script(played.folder), replayer.own, tmp_path)
    for name in (RUN, *FILES):
        assert (tmp_path / name).read_bytes() == (played.folder / name).read_bytes(), name


def test_and_its_training_and_its_bytes_are_charged(run: Any) -> None:
    played, plain = run({"algorithm": "own_broken:Broken"}), run()
    assert [row["bytes"] for row in played.rounds] == [row["bytes"] for row in plain.rounds]
    assert played.rounds[0]["flops"] == pytest.approx(plain.rounds[0]["flops"])
    assert all_of(row["wasted_bytes"] > 2 * SIZE for row in played.rounds)

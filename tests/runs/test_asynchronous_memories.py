"""What server and devices remember of one another in asynchronous rounds: FedCurv's sums, and FedCL's importance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms.algorithm import Message, Party, Reply, Request, Tensors
from algorithms.course import Course
from algorithms.fedcl import FedCL
from algorithms.fedcurv import FedCurv
from algorithms.fedcurv_penalty import SUMS, rounded, summed, term
from algorithms.importance.importance import importance
from algorithms.staleness import newest
from tests.conftest import Played
from tests.emulator.conversation.test_versions import played

pytestmark = pytest.mark.slow

PARTS: dict[bytes, Message] = {}  # by the model that a device uploads: its part of the sums
IN: dict[bytes, dict[str, Message]] = {}  # by U as it is sent: the parts that are in it, by device
AHEAD: list[str] = []  # devices that trained on a model which lacked their last reply that counted
ROUND: dict[bytes, int] = {}  # by an importance, and by a model: the round of the importance
HELD: list[tuple[bool, bool]] = []  # a training: in a round with a fresh importance, with one in its download

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 5}
FLEET = [
    {"name": "fast", "profile": "pi-4", "count": 2, "link": LINK},
    {"name": "slow", "profile": "pi-4", "count": 2, "link": {**LINK, "up_mbit_s": 1.5}},
    {"name": "away", "profile": "pi-4", "count": 1, "link": LINK, "presence": {"off": [[2.0, 2.6], [3.5, 4.1]]}},
]
ROUNDS = {"max": 5, "mode": "async", "buffer": 2, "in_flight": 4, "max_staleness": 1}


def mark(tensors: Tensors) -> bytes:
    return b"".join(value.detach().numpy().tobytes() for _, value in sorted(tensors.items()))


def near(found: Tensors, parts: Iterable[Message], kind: str) -> None:
    """Asserts that these sums are those of the parts, up to the rounding of messages."""
    total = summed({}, parts)
    for name, value in found.items():
        wanted = total[kind][name] if total else torch.zeros_like(value)
        scale = max(float(wanted.abs().max()), 1e-30)
        assert float((value.double() - wanted).abs().max()) <= 1e-5 * scale, (kind, name)


@dataclass(frozen=True)
class Curved(FedCurv):
    """FedCurv that compares its sums with those of the last replies that are in the model, added up anew."""

    def course(self, download: Message, device: Party) -> Course[Reply]:
        if "fisher" in download:
            others = [part for name, part in IN[mark(download["fisher"])].items() if name != device.name]
            penalty = self.penalty(download, device)
            assert penalty
            near(penalty.importance, others, "fisher")
            near(penalty.target, others, "fisher_theta")
        if device.combined is not None:
            AHEAD.append(device.name)
        reply = yield from super().course(download, device)
        trained = reply.upload["weights"]
        device.model.load_state_dict(trained)
        fisher = importance(device.model, device.loss, device.x, device.y, "sq", seed=0, batch=self.training.batch)
        PARTS[mark(trained)] = term(fisher, trained, None)
        return reply

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        new = super().combine(state, replies, server)
        before = IN[mark(rounded(state["fisher"], state["weights"]))] if "fisher" in state else {}
        last = {name: PARTS[mark(dict(reply.upload["weights"]))] for name, reply in newest(replies).items()}
        parts = {**before, **last}
        for kind in SUMS:
            near(new[kind], parts.values(), kind)
        IN[mark(rounded(new["fisher"], new["weights"]))] = parts
        return new


def curved(**options: Any) -> dict[str, Any]:
    return {"tests.runs.test_asynchronous_memories:Curved": options, "name": "curved"}


def stale(run: Played) -> int:
    return sum(count for row in run.rounds for age, count in row.get("staleness", {}).items() if age != "0")


@pytest.mark.parametrize(("upload", "stack"), [("paper", 1), ("lean", 1), ("paper", 3)])
def test_fedcurv_s_running_sums_are_those_from_scratch(tmp_path: Path, upload: str, stack: int) -> None:
    """Also after replies that were lost or too stale, and for devices asked again before their last one is combined."""
    AHEAD.clear()
    run = played(tmp_path, curved(upload=upload), fleet=FLEET, rounds=ROUNDS, training={"stack": stack})
    assert run.outcome.failure is None
    assert sum(row["lost"] for row in run.rounds)
    assert sum(row["stale"] for row in run.rounds)
    assert stale(run)
    assert AHEAD
    assert any("@" in str(line) or line["round"] >= 10**9 for line in run.of("ask"))


def test_they_are_in_synchronous_rounds_in_which_late_replies_count(tmp_path: Path) -> None:
    rounds = {"max": 8, "fraction": 0.4, "ask": 4, "stragglers": "count"}
    AHEAD.clear()
    run = played(tmp_path, curved(), fleet=FLEET, rounds=rounds)
    assert run.outcome.failure is None
    assert stale(run)
    assert AHEAD  # its late reply came with the round that asked it again


@dataclass(frozen=True)
class Caught(FedCL):
    """FedCL that notes of which round the importance is that a device has, beside that of the newest."""

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:
        ROUND[mark(state["importance"])] = ROUND[mark(state["weights"])] = int(state["importance_round"]["round"])
        return super().request(state, names, server)

    def course(self, download: Message, device: Party) -> Course[Reply]:
        held = (device.memory | download)["importance"]
        assert ROUND[mark(held)] == ROUND[mark(download["weights"])]
        HELD.append((device.round % self.interval == 0, "importance" in download))
        return (yield from super().course(download, device))


def test_with_catch_up_each_device_has_an_importance_of_the_newest_round(tmp_path: Path) -> None:
    """A request in a round with a fresh importance carries it, and another one only to those that lack it."""
    HELD.clear()
    entry = {"tests.runs.test_asynchronous_memories:Caught": {"interval": 3, "fallback": "catch_up"}, "name": "caught"}
    rounds = {**ROUNDS, "max": 7, "buffer": 2, "in_flight": 3}
    run = played(tmp_path, entry, fleet=FLEET, rounds=rounds)
    assert run.outcome.failure is None
    assert stale(run)
    assert set(HELD) == {(True, True), (False, True), (False, False)}


@pytest.mark.parametrize("algorithm", ["fadas", "ca2fl"])
def test_runs_of_changes_are_sound(tmp_path: Path, algorithm: str) -> None:
    run = played(tmp_path, algorithm, fleet=FLEET, rounds=ROUNDS)
    assert run.outcome.failure is None
    assert stale(run)

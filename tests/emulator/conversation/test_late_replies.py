"""Replies that come after the close of their round and count in the round in which they arrive."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from algorithms.algorithm import Message, Party, Reply
from algorithms.fedavg import FedAvg
from emulator.audit.audit import audit
from emulator.conversation.rounds import Round, RoundRules
from emulator.record.call import Call
from emulator.record.lines import encode
from tests.all_of import all_of

RULES = RoundRules(max=10, needed=2, ask=2, max_staleness=3)
LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}
SEEN: list[dict[str, tuple[int, int]]] = []  # by combine: device -> (round, staleness)


@dataclass(frozen=True)
class Noting(FedAvg):
    """FedAvg that notes the staleness of replies."""

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        SEEN.append({name: (server.round, reply.staleness) for name, reply in replies.items()})
        return super().combine(state, replies, server)


@pytest.mark.parametrize(("asked", "admitted"), [(5, True), (4, True), (2, True), (1, False)])
def test_a_reply_counts_up_to_the_largest_staleness(asked: int, admitted: bool) -> None:
    assert RULES.admit(5, asked) is admitted
    assert replace(RULES, max_staleness=0).admit(5, asked) is (asked == 5)


def test_a_late_reply_counts_beside_the_round_s_own_and_does_not_close_it() -> None:
    round = Round(5, ("a", "b"), RULES, 0.0)
    assert round.count("c", asked=4)
    assert round.count("a")
    assert round.reason is None
    round.count("b")
    assert (round.reason, round.counted, round.own) == ("all", [Call("c", 4), "a", "b"], ["a", "b"])
    assert round.calls == [("c", 4), ("a", 5), ("b", 5)]
    assert round.late() == set()


@pytest.mark.slow
def test_a_reply_at_the_very_instant_of_the_close_is_late_and_obeys_the_laws(play: Any) -> None:
    """Four equal devices, two replies close a round: the other two, of the same instant, count in the next one.  `play`
    audits the record."""
    fleet = [{"profile": "pi-4", "count": 4, "link": LINK, "name": "d"}]
    run = play("fedavg", fleet=fleet, rounds={"max": 3, "fraction": 0.5, "ask": 4, "stragglers": "count"})
    first, second = run.of("close")[:2]
    assert {line["t"] for line in run.of("up.end", round=0)} == {first["t"]}
    assert [each for each in second["counted"] if isinstance(each, list)] == [["d-2", 0], ["d-3", 0]]


@pytest.mark.slow
def test_a_late_reply_counts_once_in_the_round_in_which_it_arrives(play: Any) -> None:
    """Two fast devices close each round; the third has a link a hundred times slower, and ends some rounds later."""
    fast = {"profile": "pi-4", "count": 2, "link": LINK, "name": "fast"}
    slow = {"profile": "pi-4", "count": 1, "link": {**LINK, "up_mbit_s": 0.5}, "name": "slow"}
    rounds = {"max": 8, "fraction": 0.67, "ask": 3, "stragglers": "count"}
    SEEN.clear()
    run = play(
        {"tests.emulator.conversation.test_late_replies:Noting": {}, "name": "noting"},
        fleet=[fast, slow],
        rounds=rounds,
    )
    ends = {line["round"]: line["t"] for line in run.of("up.end", device="slow-0")}
    closes = run.of("close")
    assert ends
    for asked, t in ends.items():
        arrived = next(line["round"] for line in closes if line["t"] >= t)
        assert arrived > asked
        assert [line["round"] for line in closes if ["slow-0", asked] in line["counted"]] == [arrived]
        assert SEEN[arrived]["slow-0"] == (arrived, arrived - asked)
        assert run.rounds[arrived]["staleness"] == {"0": 2, str(arrived - asked): 1}
        assert run.rounds[asked]["seconds"]["devices"]["slow-0"][1] == 0  # none of its work is wasted
        later = [line["reply_to"] for line in run.of("down.start", device="slow-0") if line["round"] > arrived]
        assert later[:1] in ([], [asked])  # the device hears which of its replies counted last
    assert all_of(
        "staleness" not in row
        for row in run.rounds
        if row["round"]
        not in {line["round"] for line in closes if any(isinstance(each, list) for each in line["counted"])}
    )


def faults(folder: Path, lines: Sequence[Mapping[str, Any]]) -> list[str]:
    (folder / "events.jsonl").write_bytes(b"".join(map(encode, lines)))
    return audit(folder).faults


@pytest.mark.slow
def test_the_audit_finds_a_late_reply_that_counts_twice_or_was_never_asked_for(play: Any, tmp_path: Path) -> None:
    fast = {"profile": "pi-4", "count": 2, "link": LINK, "name": "fast"}
    slow = {"profile": "pi-4", "count": 1, "link": {**LINK, "up_mbit_s": 0.5}, "name": "slow"}
    run = play(fleet=[fast, slow], rounds={"max": 8, "fraction": 0.67, "ask": 3, "stragglers": "count"})
    folder = tmp_path / "all" / run.folder.name
    shutil.copytree(run.folder, folder)
    (folder / "seal.json").unlink()
    closes = [number for number, line in enumerate(run.events) if line["event"] == "close"]
    late = next(number for number in closes if ["slow-0", 0] in run.events[number]["counted"])

    def changed(number: int, counted: list[Any]) -> list[Any]:
        return [{**line, "counted": counted} if n == number else line for n, line in enumerate(run.events)]

    assert faults(folder, run.events) == []
    said, after = run.events[late]["counted"], closes[closes.index(late) + 1]
    twice = faults(folder, changed(after, [*run.events[after]["counted"], ["slow-0", 0]]))
    assert any("I1" in fault and "aggregated before" in fault for fault in twice)
    assert any("staleness is" in fault for fault in twice)
    unasked = faults(folder, changed(late, [["fast-0", 99] if each == ["slow-0", 0] else each for each in said]))
    assert any("I1" in fault and "which no earlier round selected" in fault for fault in unasked)
    early = faults(folder, changed(closes[0], [*run.events[closes[0]]["counted"], ["slow-0", 0]]))
    assert any("I1" in fault for fault in early)

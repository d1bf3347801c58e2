"""The rounds of a run, one after the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from algorithms.algorithm import Message, Party, Reply, Training
from algorithms.fedavg import FedAvg
from emulator.conversation.rounds import RoundRules
from emulator.conversation.server import Server

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}


@dataclass(frozen=True)
class Sick(FedAvg):
    """FedAvg whose devices answer nothing of use in some rounds."""

    sick: str = ""

    def train(self, download: Message, device: Party) -> Reply:
        reply = super().train(download, device)
        if str(device.round) not in self.sick:
            return reply
        weights = {name: value * float("nan") for name, value in reply.upload["weights"].items()}
        return replace(reply, upload={"weights": weights})


@pytest.mark.slow
@pytest.mark.parametrize(("sick", "rounds"), [("01345", 6), ("0134", 5), ("1234", 4)])
def test_a_run_ends_after_three_failed_rounds_in_a_row_and_not_after_more_that_are_not(
    play: Any, sick: str, rounds: int
) -> None:
    algorithm = {"tests.emulator.conversation.test_server:Sick": {"sick": sick}, "name": "sick"}
    run = play(
        algorithm, fleet=[{"profile": "pi-4", "count": 1, "link": LINK}], rounds={"max": 5 if rounds == 5 else 8}
    )
    assert [row["failed"] for row in run.rounds] == [str(number) in sick for number in range(rounds)]
    assert ("3 rounds in a row" in (run.outcome.failure or "")) is (rounds != 5)


@pytest.mark.slow
def test_a_reply_that_arrived_in_a_failed_round_is_not_acknowledged(play: Any) -> None:
    """Two of two must be heard.  In round 0 one is cut off, so what the other one sent is not in the model."""
    here, away = ({"profile": "pi-4", "count": 1, "link": LINK, "name": name} for name in ("here", "away"))
    fleet = [here, {**away, "presence": {"off": [[0.125, 0.25]]}}]
    run = play(fleet=fleet, rounds={"max": 3, "min_replies": 2})
    assert [(row["failed"], row["counted"]) for row in run.rounds] == [(True, 1), (False, 2), (False, 2)]
    for name in ("here-0", "away-0"):
        assert [line["reply_to"] for line in run.of("down.start", device=name)] == [None, None, 1]


@pytest.mark.parametrize(("number", "now", "waited"), [(0, 7.0, []), (1, 7.0, []), (2, 7.0, [43.0]), (2, 60.0, [0.0])])
def test_the_first_round_of_a_time_slice_waits_until_its_data_are_there(
    number: int, now: float, waited: list[float]
) -> None:
    """Two rounds a slice, of 50 s each: the data of the second slice come at second 50."""
    world = Mock(sleep=AsyncMock())
    world.now.return_value = now
    rules = RoundRules(max=4, needed=1, ask=1, cycle_seconds=50.0)
    server = Mock(world=world, rules=rules, lab=Mock(cycle=lambda _, number: Training(per_cycle=2).cycle(number)))
    asyncio.run(Server._next_cycle(server, number))
    assert [call.args[0] for call in world.sleep.await_args_list] == waited

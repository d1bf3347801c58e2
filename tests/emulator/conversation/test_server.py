"""The rounds of a run, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from algorithms.algorithm import Message, Party, Reply
from algorithms.fedavg import FedAvg

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

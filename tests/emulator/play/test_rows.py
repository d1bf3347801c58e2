"""The rows of rounds.jsonl, from runs of one or two devices at a byte a microsecond."""

from __future__ import annotations

from typing import Any

import pytest

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}


def device(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "profile": "pi-4", "count": 1, "link": LINK, **keys}


@pytest.mark.slow
@pytest.mark.parametrize(("min_replies", "failed"), [(1, False), (2, True)])
def test_what_a_device_did_in_a_failed_round_is_wasted(play: Any, min_replies: int, failed: bool) -> None:
    """One device answers, the other goes before it has its request: enough where one reply is, else for nothing."""
    fleet = [device("here"), device("gone", presence={"off": [[0.01, 1e6]]})]
    run = play(fleet=fleet, rounds={"max": 1, "min_replies": min_replies})
    [row] = run.rounds
    assert (row["failed"], row["counted"], row["lost"]) == (failed, 1, 1)
    useful, wasted, _ = row["seconds"]["devices"]["here-0"]
    sent = {way: sum(run.of(f"{way}.start", device="here-0")[0]["bytes"].values()) for way in ("down", "up")}
    worked = sum(run.of("compute.start", device="here-0")[0]["seconds"].values()) + sum(sent.values()) / 1e6
    assert (useful, wasted) == pytest.approx((0, worked) if failed else (worked, 0))
    assert row["wasted_bytes"] == 10_000 + (sum(sent.values()) if failed else 0)

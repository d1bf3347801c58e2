"""Changes of presence while a round closes: over sockets the server needs milliseconds to stop devices, and to hear."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.compute.executors import Inline
from emulator.conversation.channel import Line
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.record.run import Run
from emulator.worlds.interface import Lost, Parcel
from scenarios.load import build
from tests.conftest import SMALL, Played, audit_run, merged

pytestmark = pytest.mark.slow

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}
STOPS = 0.005  # s
HEARD = {"max": 1, "fraction": 0.3, "ask": 3}  # one of three: the phone


def fleet(off: float, back: float) -> list[dict[str, Any]]:
    """A phone that closes the round, a computer that is away then, and one that is at work then."""
    slow = {"profile": "pi-zero-2", "count": 1, "link": LINK}
    return [
        {"profile": "phone-high", "count": 1, "link": LINK},
        {**slow, "name": "away", "presence": {"off": [[off, back]]}},
        {**slow, "name": "busy"},
    ]


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device takes as long to stop as over a socket, and the server to hear that one is lost."""
    at_once, heard_at_once = Line.stop, Line.receive

    async def stop(line: Line) -> None:
        await at_once(line)
        await line.world.sleep(STOPS)

    async def receive(line: Line) -> Parcel:
        try:
            return await heard_at_once(line)
        except Lost:
            await line.world.sleep(STOPS)
            raise

    monkeypatch.setattr(Line, "stop", stop)
    monkeypatch.setattr(Line, "receive", receive)


@pytest.fixture
def played(slowly: None, tmp_path: Path) -> Callable[..., Played]:
    """The record, which is audited: a line `on` after which nothing goes on would break a law."""

    def play(off: float, back: float, **rounds: Any) -> Played:
        scenario = build(merged(SMALL, {"fleet": fleet(off, back), "rounds": HEARD | rounds}))
        lab, folder = lab_of(scenario), tmp_path / "fedavg-s1"
        outcome = asyncio.run(run_virtual(lab, Run("fedavg", 1), Conduct.of(scenario), Inline(lab), folder))
        assert audit_run(folder) == []
        return Played(folder, outcome)

    return play


RULES = pytest.mark.parametrize(
    ("rounds", "off"),
    [({"transfers": "resume"}, 0.125), ({"when_off": "pause"}, 0.5)],
    ids=["in a download", "at work"],
)


@RULES
@pytest.mark.parametrize("stragglers", ["stop", "finish"])
def test_who_comes_back_while_a_round_or_the_run_ends_has_no_line(
    played: Callable[..., Played], rounds: dict[str, Any], off: float, stragglers: str
) -> None:
    ends = played(off, 60.0, **rounds, stragglers=stragglers).of("compute.cut", device="busy-0")[0]["t"]
    assert ends > off
    run = played(off, ends + STOPS / 2, **rounds, stragglers=stragglers)
    assert run.of("compute.cut", device="busy-0")[0]["t"] == ends
    assert run.of("on") == []


@RULES
def test_who_comes_back_just_before_goes_on_and_is_stopped(
    played: Callable[..., Played], rounds: dict[str, Any], off: float
) -> None:
    ends = played(off, 60.0, **rounds).of("compute.cut", device="busy-0")[0]["t"]
    back = ends - 1e-4
    run = played(off, back, **rounds)
    assert [line["t"] for line in run.of("on")] == [back]
    [cut] = [line for line in run.events if line.get("why") == "closed" and line["device"] == "away-0"]
    assert cut["t"] == ends


def test_who_went_just_before_the_deadline_is_lost_though_the_server_heard_of_it_later(
    played: Callable[..., Played],
) -> None:
    run = played(0.5, 60.0, deadline_s=0.5 + STOPS / 2, fraction=1.0, min_replies=1)
    row, [close] = run.rounds[0], run.of("close")
    assert [line["t"] for line in run.of("compute.cut", why="off")] == [0.5]
    assert 0.5 < close["t"] < 0.5 + 2 * STOPS
    assert row["lost"] == 1


def test_a_straggler_that_is_lost_has_no_line_after_that(played: Callable[..., Played]) -> None:
    """The device leaves when its round has closed, and is back before the server has heard of it."""
    ends = played(60.0, 61.0, stragglers="finish").of("close")[0]["t"]
    gone = ends + 0.01
    run = played(gone, gone + STOPS / 2, stragglers="finish", max=2)
    [cut] = [line for line in run.events if line.get("why") == "off"]
    assert cut["t"] == pytest.approx(gone)
    assert run.of("on", round=0) == []

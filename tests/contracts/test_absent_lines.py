"""A device that goes off for a while between two things: what it has been told it does when it is back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.lines import DOWN, UP, Stage, Way, down, outcome

AWAY = 5.0  # s


def goes_with(event: str, way: Way, hops: int, for_good: bool = False) -> None:
    """The device goes offline in the instant of `event`, `hops` events later, and comes back unless it left for
    good."""

    def act(left: int) -> Callable[[], None]:
        return gone if left == 0 else lambda: way.world.call_at(way.world.now(), act(left - 1))

    def gone() -> None:
        with way.record.instant():
            if not for_good:
                way.world.call_at(way.record.now() + AWAY, way.line.back)
            way.line.lose(for_good)

    way.then(event, 0.0, act(hops))


def told_as_it_goes(way: Way, when_off: str, hops: int) -> None:
    """The device goes offline in the instant in which its download has arrived, `hops` events later, and comes back."""
    way.line.attendant.bench.when_off = when_off
    goes_with("down.end", way, hops)


@pytest.fixture(params=["memory", "web"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


@pytest.mark.parametrize("hops", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("when_off", ["pause", "restart"])
def test_who_goes_as_its_download_lands_computes_when_it_is_back(play: Stage, when_off: str, hops: int) -> None:
    async def main(way: Way) -> tuple[Any, list[dict[str, Any]]]:
        way.device_works()
        way.open(0)
        told_as_it_goes(way, when_off, hops)
        await way.line.send(down(0))
        reply = await way.line.receive()
        return reply.header["round"], way.lines()

    answered, lines = play(main)
    assert answered == 0
    starts = [line["t"] for line in lines if line["event"] == "compute.start"]
    if play.kind == "memory":
        assert starts[-1] == pytest.approx(DOWN + AWAY, abs=1e-9)
        assert lines[-1]["t"] == pytest.approx(DOWN + AWAY + 4.0 + UP, abs=1e-9)
    else:
        assert starts[-1] >= DOWN + AWAY - 0.01


def test_by_default_its_request_is_lost(play: Stage) -> None:
    async def main(way: Way) -> Any:
        way.device_works()
        way.open(0)
        told_as_it_goes(way, "lose", 0)

        async def ask() -> Any:
            await way.line.send(down(0))
            return await way.line.receive()

        return await outcome(ask())

    assert play(main) == "lost"


def test_who_is_away_at_the_close_does_not_compute_and_can_be_asked_again(play: Stage) -> None:
    async def main(way: Way) -> tuple[Any, list[str]]:
        way.device_works()
        way.open(0)
        way.line.attendant.bench.when_off = "pause"
        way.then("down.end", 0.0, lambda: way.line.lose(for_good=False))
        await way.line.send(down(0))
        await way.world.sleep(AWAY)
        await way.line.stop()
        before = way.events()
        way.open(1)
        await way.line.send(down(1))
        reply = await way.line.receive()
        return reply.header["round"], before

    answered, before = play(main)
    assert answered == 1
    assert "compute.end" not in before
    assert play.kind == "web" or before == ["open", "down.start", "down.end"]


def test_who_declines_does_so_when_it_is_back(tmp_path: Path) -> None:
    async def main(way: Way) -> list[dict[str, Any]]:
        way.line.attendant.costs.refusal = lambda *_: "too small"
        way.device_works()
        way.open(0)
        told_as_it_goes(way, "pause", 0)
        await way.line.send(down(0))
        await way.line.receive()
        return way.lines()

    [start] = [line["t"] for line in Stage("memory", tmp_path)(main) if line["event"] == "up.start"]
    assert start == pytest.approx(DOWN + AWAY, abs=1e-9)


@pytest.mark.parametrize("hops", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    ("when_off", "for_good"), [("lose", True), ("lose", False), ("resume", False), ("restart", False)]
)
def test_who_goes_as_its_upload_has_landed_has_answered(play: Stage, when_off: str, for_good: bool, hops: int) -> None:
    """A message whose last byte is with the server needs its device no more; and the device can be asked again."""

    async def main(way: Way) -> tuple[Any, Any]:
        way.device_works()
        way.open(0)
        way.line.traffic.when_off = when_off
        goes_with("up.end", way, hops, for_good)

        async def ask(round: int) -> Any:
            await way.line.send(down(round))
            return (await way.line.receive()).header["round"]

        first = await outcome(ask(0))
        await way.line.rest()
        await way.world.sleep(2 * AWAY)
        way.open(1)
        return first, await outcome(ask(1))

    assert play(main) == (0, 1)

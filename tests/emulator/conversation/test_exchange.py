"""The request and the reply of one device in one round; line and device are fakes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from emulator.conversation.exchange import Exchange, ReplyJudge
from emulator.conversation.rounds import Round, RoundRules
from emulator.conversation.underway import Play
from emulator.messages.store import EMPTY
from emulator.record.run import Run
from emulator.worlds.interface import Parcel

HELD = 5  # examples of the device


def reply(round: int = 0, examples: int | None = 1, **more: Any) -> Parcel:
    return Parcel.of({"round": round, "examples": examples, **more}, EMPTY)


def opened(names: Sequence[str] = ("a", "b")) -> Play:
    state: Any = None
    return Play(Round(0, names, RoundRules(1, len(names), len(names)), 0.0), 0.0, Mock(), Mock(), state, {})


def asked(play: Play, line: Any, judge: Any = None) -> None:
    exchange = Exchange(lambda name: line, Mock(), judge or Mock(**{"refusal.return_value": None}))
    exchange.open = play
    asyncio.run(exchange.ask(play, "a", Parcel.of({"round": 0, "counted": None}, EMPTY)))


def line_that(*replies: Parcel) -> Any:
    return Mock(send=AsyncMock(), rest=AsyncMock(), receive=AsyncMock(side_effect=replies))


@pytest.mark.parametrize(
    ("examples", "sound"), [(0, False), (-1, False), (None, False), (6, False), (1, True), (5, True)]
)
def test_a_sound_reply_rests_on_examples_that_the_device_holds(examples: int | None, sound: bool) -> None:
    lab, play = (
        Mock(**{"held.return_value": range(HELD), "loss_power.return_value": 0, "tells_steps.return_value": False}),
        opened(),
    )
    refusal = ReplyJudge(lab, Run("fedavg", 1)).refusal(play, "a", reply(examples=examples))
    assert (refusal is None) is sound
    if refusal:
        assert (refusal.kind, refusal.text) == ("examples", f"says it used {examples} examples; it holds {HELD}")


@pytest.mark.parametrize(
    ("loss", "sound"), [(0.5, True), (math.nan, False), (math.inf, False), (None, False), (1, False), ("1", False)]
)
def test_a_loss_that_the_choice_of_devices_asks_for_must_be_finite(loss: Any, sound: bool) -> None:
    lab = Mock(**{"held.return_value": range(HELD), "loss_power.return_value": 2, "tells_steps.return_value": False})
    refusal = ReplyJudge(lab, Run("fedavg", 1)).refusal(opened(), "a", reply(examples=1, loss=loss))
    assert (refusal is None) is sound
    if refusal:
        assert (refusal.kind, refusal.text) == ("values", f"says its loss is {loss}; it must be a finite number")


@pytest.mark.parametrize(
    ("steps", "sound"), [(None, False), (0, False), (1_000_001, False), ("9", False), (1, True), (1_000_000, True)]
)
def test_a_reply_that_tells_its_steps_tells_a_possible_number(steps: Any, sound: bool) -> None:
    lab = Mock(**{"held.return_value": range(HELD), "loss_power.return_value": 0, "tells_steps.return_value": True})
    told = Parcel.of({"round": 0, "examples": 3, **({} if steps is None else {"steps": steps})}, EMPTY)
    told = told._replace(message=Mock())
    refusal = ReplyJudge(lab, Run("fedavg", 1)).refusal(opened(), "a", told)
    assert (refusal is None) is sound
    if refusal:
        assert refusal.text == f"says it took {steps} steps; it may take 1 to 1000000"


def test_who_is_off_when_it_would_be_asked_is_lost_and_nothing_is_sent() -> None:
    play, line = opened(), line_that()
    play.away.add("a")
    asked(play, line)
    assert (play.round.lost, play.round.late()) == ({"a"}, {"b"})
    line.send.assert_not_awaited()


def test_a_reply_after_the_close_is_not_kept_for_the_new_model() -> None:
    play = opened()
    play.round.expire()
    asked(play, line_that(reply()))
    assert play.replies == []
    assert not play.waiting  # so that nothing holds its message
    assert play.round.late() == {"a", "b"}


def test_a_reply_to_an_older_request_is_passed_over() -> None:
    play = opened()
    asked(play, line_that(reply(round=-1, examples=2), reply(examples=3)))
    assert [(each.device, each.examples, each.upload) for each in play.replies] == [("a", 3, EMPTY.ref)]

"""Which replies count, and what kind of fault the others have; what a run that fails is advised."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from emulator.conversation.exchange import Exchange, Refusal, Soundness
from emulator.conversation.rounds import Round, RoundRules
from emulator.conversation.server import Server
from emulator.study.jobs import Run
from emulator.worlds.interface import Parcel
from network.wire import payload

SHAPES = payload.manifest({"weights": {"w": np.zeros(2, np.float32)}})


def reply(*values: float, examples: int = 3, **header: str) -> Parcel:
    body = payload.encode({"weights": {"w": np.array(values, np.float32)}})
    return Parcel.of({"round": 0, "examples": examples, **header}, body)


def asked(parcel: Parcel) -> tuple[Any, Exchange]:
    """The round of a device with 5 examples, after its reply."""
    study: Any = SimpleNamespace(held=lambda *_: range(5), cycle=lambda *_: 0)
    rules = RoundRules(max=1, needed=1, ask=1)
    play: Any = SimpleNamespace(round=Round(0, ["a"], rules, 0.0), away=(), replies={}, closing=Mock(), shapes=SHAPES)

    class Line:
        async def send(self, _: Parcel) -> None:
            """It has arrived."""

        async def receive(self) -> Parcel:
            return parcel

    line: Any = Line()
    exchange = Exchange(lambda _: line, Mock(), Soundness(study, Run("fedavg", 1)))
    asyncio.run(exchange.ask(play, "a", parcel))
    return play, exchange


def test_a_sound_reply_counts() -> None:
    play, exchange = asked(reply(1.0, 2.0))
    assert (play.round.counted, play.replies["a"][1], exchange.last) == (["a"], 3, None)


@pytest.mark.parametrize(
    ("parcel", "kind", "text"),
    [
        (reply(1.0, 2.0, refusal="too small for 12 MB"), "device", "a refuses: too small for 12 MB"),
        (reply(1.0, 2.0, examples=0), "examples", "says it used 0 examples; it holds 5"),
        (reply(1.0, 2.0, examples=6), "examples", "says it used 6 examples; it holds 5"),
        (reply(1.0), "form", "'weights' 'w' is float32 (1,); it must be float32 (2,)"),
        (reply(1.0, np.inf), "values", "'weights' 'w' holds a value that is not finite"),
    ],
)
def test_a_reply_that_is_not_sound_is_refused_with_the_kind_of_its_fault(parcel: Parcel, kind: Any, text: str) -> None:
    play, exchange = asked(parcel)
    assert exchange.last == Refusal(kind, text)
    assert (play.round.counted, play.round.refused, play.replies) == ([], {"a"}, {})


@pytest.mark.parametrize(
    ("refusal", "advised"),
    [
        (Refusal("values", "a value in it is not finite"), True),
        (Refusal("values", "a value of 3 MB is not finite"), True),
        (Refusal("device", "a refuses: needs 12 MB"), False),
        (Refusal("form", "lacks 'w'"), False),
    ],
)
def test_a_smaller_lr_is_advised_only_where_values_were_not_finite(refusal: Refusal, advised: bool) -> None:
    """The kind decides, not the words."""
    server: Any = SimpleNamespace(exchange=SimpleNamespace(last=refusal), rules=RoundRules(max=9, needed=1, ask=1))
    last = Round(2, ["a"], server.rules, 0.0, refused={"a"})
    said = Server._too_few(server, last)
    assert refusal.text in said
    assert ("lower lr" in said) is advised

"""The devices that are gone in a round."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from emulator.conversation.presences import Presences
from emulator.record.call import Call
from emulator.record.tally import Transfer, Trip

STARTED = Mock(spec=Transfer)


@pytest.mark.parametrize(
    ("trip", "away", "gone"),
    [
        (Trip(), set(), False),
        (Trip(), {"a"}, True),  # it left before anything was sent, so nothing was cut
        (Trip(down=STARTED), {"a"}, False),  # its line decides whether that goes on
        (Trip(down=STARTED, gone=True), set(), True),
    ],
)
def test_a_device_is_gone_if_its_work_is_lost_or_it_left_before_it_began(
    trip: Trip, away: set[str], gone: bool
) -> None:
    record = Mock(trips={Call("a", 3): trip})
    play: Any = Mock(away=away)
    play.round.number = 3
    assert Presences(Mock(), {}, record, Mock(), {}, patient=True).gone(play, "a") is gone

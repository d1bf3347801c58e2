"""What is known of a stored message without reading it."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.lab.forms import UploadForm
from emulator.lab.store import stored
from emulator.ledger.stores import Memory
from network.wire import payload
from network.wire.form import NotFinite, Refused

GOOD = {"weights": {"w": np.array([1.0, 2.0], np.float32)}}
SHAPES = payload.manifest(GOOD)


def test_a_message_that_was_not_compared_has_no_fault() -> None:
    found = stored(Memory(), payload.encoded(GOOD))
    found.check(UploadForm(lambda: SHAPES))
    assert found.sizes == payload.sizes(GOOD)


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ({"weights": {"w": np.array([1.0, np.nan], np.float32)}}, NotFinite),
        ({"weights": {"w": np.array([1.0], np.float32)}}, Refused),
        ({}, Refused),
    ],
    ids=["not finite", "another shape", "nothing"],
)
def test_what_its_maker_found_wrong_is_raised_wherever_it_is_checked(
    message: payload.Message, fault: type[Refused]
) -> None:
    found = stored(Memory(), payload.encoded(message), SHAPES)
    with pytest.raises(fault):
        found.check(UploadForm(dict))

"""An event loop that signals do not meet half made or half closed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from emulator.compute.signals import event_loop


class CameError(Exception):
    """A signal took effect."""


@pytest.fixture
def heard() -> Iterator[None]:
    def handler(number: int, frame: FrameType | None) -> None:
        raise CameError

    before = signal.signal(signal.SIGTERM, handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("method", ["get_loop", "close"])
def test_a_signal_takes_effect_when_the_loop_is_made_or_closed_and_not_in_between(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, done = getattr(asyncio.Runner, method), []

    def interrupted(self: asyncio.Runner) -> object:
        signal.raise_signal(signal.SIGTERM)
        try:
            return real(self)
        finally:
            done.append(method)

    monkeypatch.setattr(asyncio.Runner, method, interrupted)
    with pytest.raises(CameError), event_loop() as loop:
        loop.run(asyncio.sleep(0))
    assert done

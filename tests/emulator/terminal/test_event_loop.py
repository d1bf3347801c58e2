"""An event loop that signals do not meet half made or half closed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from emulator.terminal.stopping import loop_of_its_own


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
@pytest.mark.parametrize("method", ["new_event_loop", "close"])
def test_a_signal_takes_effect_when_the_loop_is_made_or_closed_and_not_in_between(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner: Any = asyncio if method == "new_event_loop" else asyncio.SelectorEventLoop
    real, done = getattr(owner, method), []

    def interrupted(*args: Any) -> object:
        signal.raise_signal(signal.SIGTERM)
        try:
            return real(*args)
        finally:
            done.append(method)

    monkeypatch.setattr(owner, method, interrupted)
    with pytest.raises(CameError), loop_of_its_own():
        pass
    assert done

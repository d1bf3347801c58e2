"""The compiled code is loaded before the first test, so that none has to wait for it."""

from __future__ import annotations

import pytest

from tests.network.windows.links import one


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    one(10_000, 1e6, 0.05, queue=1e5)

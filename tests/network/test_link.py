"""Facts about a device's link."""

from __future__ import annotations

import math

import pytest

from network.link import Link


def test_eight_megabits_a_second_are_a_million_bytes_a_second() -> None:
    assert Link.of(up_mbit_s=8, down_mbit_s=16, latency_ms=20) == Link(up=1e6, down=2e6, latency=0.02)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_a_rate_must_be_positive_and_finite(rate: float) -> None:
    with pytest.raises(ValueError, match=f"^up is {rate} bytes/s"):
        Link(up=rate, down=1.0, latency=0.0)
    with pytest.raises(ValueError, match=f"^down is {rate} bytes/s"):
        Link(up=1.0, down=rate, latency=0.0)


@pytest.mark.parametrize("latency", [-0.001, math.inf, math.nan])
def test_a_latency_must_be_finite_and_not_negative(latency: float) -> None:
    with pytest.raises(ValueError, match=f"^latency is {latency} s"):
        Link(up=1.0, down=1.0, latency=latency)


def test_no_latency_is_a_latency() -> None:
    assert Link(up=1.0, down=1.0, latency=0.0).latency == 0.0

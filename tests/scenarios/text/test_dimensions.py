"""Numbers with units on the command line."""

import pytest

from scenarios.text.dimensions import RATE, SECONDS, SIZE, SPEED


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        (RATE, "100Mbit/s", 12.5e6),
        (RATE, "1 MB/s", 1e6),
        (RATE, "1MiB/s", 1048576.0),
        (RATE, "8kbit/s", 1e3),
        (SIZE, "6.65MB", 6.65e6),
        (SECONDS, "10s", 10.0),
        (SECONDS, "5ms", 0.005),
        (SECONDS, "0ms", 0.0),
        (SPEED, "0.1GFLOP/s", 1e8),
    ],
)
def test_a_dimension_is_read_in_our_units(dimension, text, value):
    assert dimension.value(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("text", ["", "100", "Mbit/s", "-1Mbit/s", "1mbit/s", "nanMbit/s", "1e999Mbit/s", "0Mbit/s"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ValueError, match="rate"):
        RATE.value(text)


@pytest.mark.parametrize(
    ("dimension", "text", "ends"),
    [
        (RATE, "0.1..100Mbit/s", (12500.0, 12.5e6)),
        (RATE, "100kbit/s..1Mbit/s", (12500.0, 125e3)),
        (SECONDS, "5..500ms", (0.005, 0.5)),
        (RATE, "8Mbit/s", (1e6, 1e6)),
    ],
)
def test_a_range_takes_its_unit_from_its_end(dimension, text, ends):
    assert dimension.span(text) == pytest.approx(ends)


@pytest.mark.parametrize("text", ["9..1Mbit/s", "..1Mbit/s", "1..", "1..2..3Mbit/s", "1s..2Mbit/s"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(ValueError, match="rate"):
        RATE.span(text)


def test_a_range_without_a_unit_is_told_by_its_end():
    with pytest.raises(ValueError, match=r"'500' is not a time; write it as 10s \(s, ms, min, h\)"):
        SECONDS.span("5..500")


@pytest.mark.parametrize(
    ("text", "right"),
    [("1-10Mbit/s", "1..10Mbit/s"), ("100kbit/s - 1Mbit/s", "100kbit/s..1Mbit/s"), ("0.5-1.5Mbit/s", "0.5..1.5Mbit/s")],
)
def test_a_range_with_a_hyphen_is_answered_with_one_that_is_right(text, right):
    with pytest.raises(ValueError, match=f"is not a range; write it as {right}$"):
        RATE.span(text)


def test_a_negative_exponent_is_no_range():
    assert RATE.span("1e-1Mbit/s") == pytest.approx((12500, 12500))

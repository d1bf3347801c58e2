"""Units of columns and sentences: one for all that is compared, unless it differs a hundredfold."""

from __future__ import annotations

import pytest

from emulator.results.units import column, duration, durations, of_bytes, of_time


def always(value: float) -> dict[str, float | None]:
    return {"low": value, "mean": value, "high": value}


NEVER = {"low": None, "mean": None, "high": None}


def test_a_column_has_one_unit_of_its_largest_value() -> None:
    assert column([always(60.0), always(1200.0)], of_time) == ("min", ["1.00", "20.0"])


def test_rows_that_differ_a_hundredfold_have_each_its_own_unit() -> None:
    assert column([always(12.0), always(1199.0)], of_time) == ("min", ["0.20", "20.0"])
    assert column([always(12.0), always(1200.0)], of_time) == ("", ["12.0 s", "20.0 min"])
    assert column([always(2e3), always(5e9)], of_bytes) == ("", ["2.00 kB", "5.00 GB"])


def test_rows_without_a_value_have_no_unit_and_change_none() -> None:
    assert column([always(12.0), NEVER, None], of_time) == ("s", ["12.0", "not reached", "–"])
    assert column([always(12.0), NEVER, None, always(1200.0)], of_time)[1] == ["12.0 s", "not reached", "–", "20.0 min"]
    assert column([always(0.0), always(1200.0)], of_time) == ("min", ["0.00", "20.0"])


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0.00"), (1.234, "1.23"), (9.994, "9.99"), (9.996, "10.0"), (45.67, "45.7"), (99.96, "100"), (314.2, "314")],
)
def test_a_value_has_three_significant_digits_and_at_most_two_after_the_point(seconds: float, shown: str) -> None:
    assert of_time([seconds, 500.0]).name == "s"
    assert of_time([seconds, 500.0]).show(seconds) == shown


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ([259.0, 327.0, 738.0], ["4.3 min", "5.5 min", "12.3 min"]),
        ([41.2, 131.0], ["41.2 s", "131 s"]),
        ([6.0, 600.0], ["6.0 s", "10.0 min"]),
        ([], []),
    ],
)
def test_times_in_one_sentence_have_one_unit_unless_they_differ_a_hundredfold(
    times: list[float], shown: list[str]
) -> None:
    assert list(map(durations(times), times)) == shown


def test_a_time_by_itself_has_the_unit_of_its_size() -> None:
    assert [duration(time) for time in (259.0, 738.0)] == ["259 s", "12.3 min"]

"""The charts of staleness and of each device's share, and the numbers below them."""

from __future__ import annotations

import pytest

from emulator.record.events import Asked, Closed, Opened
from emulator.report import staleness
from emulator.results.summary import fates
from emulator.results.summary import staleness as summed
from tests.all_of import all_of

EVENTS = [
    Opened(0.0, 0, [], "m"),
    Asked(0.0, 0, ["a", "b", "c"]),
    Closed(1.0, 0, "first", ["a", "b"]),
    Opened(1.0, 1, [], "m"),
    Asked(1.0, 1, ["a"]),
    Closed(2.0, 1, "first", ["a", ["b", 0]]),
    Opened(2.0, 2, [], "m"),
    Closed(3.0, 2, "too_few", ["c"]),
]


def row(asked: int, counted: int, ages: dict[str, int] | None, failed: bool = False, **more: int) -> dict[str, object]:
    fate = {"asked": asked, "counted": counted, "late": asked - counted, "lost": 0, "refused": 0}
    return {**fate, "failed": failed, "time_s": 1.0, **({"staleness": ages} if ages is not None else {}), **more}


def test_late_replies_count_once_they_are_in_a_model() -> None:
    rows = [row(3, 1, {"0": 1}), row(1, 1, {"0": 1, "1": 1}), row(1, 0, {"2": 2})]
    assert fates(rows) == {"asked": 5, "counted": 5, "late": 0, "lost": 0, "refused": 0}


def test_the_mean_weighs_each_reply_once() -> None:
    found = summed({1: [row(3, 1, {"0": 1, "4": 2}, stale=5), row(3, 0, {"1": 1}), row(2, 1, {"0": 1}, failed=True)]})
    assert found is not None
    assert (found["mean"], found["largest"], found["rejected"]) == ((0 + 4 + 4 + 1) / 4, 4, 5)
    assert found["counts"] == {"0": 1, "1": 1, "4": 2}


def test_a_round_of_late_replies_without_any_has_fresh_ones() -> None:
    """A synchronous row names staleness only where some reply is stale."""
    found = summed({1: [row(3, 2, None), row(3, 1, {"0": 1, "1": 1})]})
    assert found is not None
    assert found["counts"] == {"0": 3, "1": 1}
    assert summed({1: [row(3, 2, None)]}) is None


@pytest.mark.parametrize(("counts", "index"), [([2, 2, 2], 1.0), ([6, 0, 0], 1 / 3), ([1, 2, 3], 36 / 42)])
def test_jain_s_index(counts: list[int], index: float) -> None:
    assert staleness.jain(counts) == pytest.approx(index)


def test_each_device_has_its_share_of_the_replies_in_models() -> None:
    summary = {"labels": {"fedbuff": {"staleness": {}}}}
    figure = staleness.shares({"fedbuff": {1: []}}, summary, lambda _label, _seed: EVENTS)
    assert figure is not None
    assert figure.rows == [("fedbuff", "3", "1", "2", "0.67")]  # a: 2, b: 2, c: 0, so 16 / (3 * 8)
    assert staleness.shares({"fedbuff": {1: []}}, {"labels": {"fedbuff": {}}}, lambda _label, _seed: EVENTS) is None


def test_the_chart_has_a_point_for_each_staleness_and_falls_to_0_where_there_is_none() -> None:
    of = {"mean": 1.0, "largest": 3, "counts": {"0": 3, "3": 1}, "rejected": 0, "at_work": 9.96}
    figure = staleness.figure({"labels": {"fedavg": {}, "fedbuff": {"staleness": of}}})
    assert figure is not None
    assert figure.rows == [("fedbuff", "1.00", "3", "4", "0", "10.0")]
    assert all_of(point in str(figure.spec()) for point in ("0,0,75", "0,1,0", "0,2,0", "0,3,25", "0,4,0"))
    assert staleness.figure({"labels": {"fedavg": {}}}) is None

"""The audit on what devices do after the close of their round: a record written by hand, and forged ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import audit_run
from tests.emulator.audit.straggling import A, B, Body, events, line, rows, spent, training, transfer, write

Lines = list[Body]
Judge = Callable[..., list[str]]


@pytest.fixture
def verdict(tmp_path: Path) -> Judge:
    return lambda lines, told=(): audit_run(write(tmp_path, lines, list(told)))


def of_b(lines: Lines, event: str, number: int = -1) -> Body:
    """The lines of `b-0` for round 0; if not said otherwise, the last."""
    return [body for body in lines if (body["event"], body["round"], body.get("device")) == (event, 0, B)][number]


def without(lines: Lines, first: Body) -> Lines:
    """The record without this line and the later lines of `b-0` for round 0."""
    place = lines.index(first)
    gone = [body for body in lines[place:] if body["round"] == 0 and body.get("device") == B]
    return [body for body in lines if not any(body is each for each in gone)]


def test_a_straggler_that_was_away_at_the_close_may_end_what_it_began(verdict: Judge) -> None:
    assert verdict(events(), rows()) == []


def test_such_a_record_may_end_after_any_line(verdict: Judge) -> None:
    for length in range(len(events())):
        assert verdict(events()[:length]) == []


def idle_when_back() -> Lines:
    lines = events()
    back = of_b(lines, "on", 0)
    kept = without(lines, back)
    return sorted([*kept, back], key=lambda body: body["t"])


def back_too_soon() -> Lines:
    lines = events()
    of_b(lines, "on", 0)["t"] = 3.75
    return lines


def at_work_too_late() -> Lines:
    """The device rests for a quarter of a second before it goes on with the delayed work."""
    lines = events()
    for event in ("compute.start", "compute.end", "up.start", "up.end"):
        of_b(lines, event)["t"] += 0.25
    return sorted(lines, key=lambda body: body["t"])


def more_than_was_left() -> Lines:
    lines = events()
    of_b(lines, "down.start").pop("from")
    return lines


def asked_while_it_is_away() -> Lines:
    """The device delays its work, and begins another round."""
    kept = without(events(), of_b(events(), "on"))
    third = next(body for body in kept if body["event"] == "open" and body["round"] == 3)
    assert third["asked"] == [B]
    return kept


def asked_before_it_is_done() -> Lines:
    """Its second round begins in the instant in which it ends the first, and half a second before the others'."""
    lines = events()
    opened = next(body for body in lines if body["event"] == "open" and body["round"] == 2)
    opened["asked"] = [A, B]
    place = lines.index(of_b(lines, "up.end")) + 1
    return [*lines[:place], transfer(7.5, "down", 2, B, None)]


def dropped_in_the_middle_of_the_run() -> Lines:
    lines = events()
    cut = of_b(lines, "compute.cut")
    cut.update(why="closed")
    cut.pop("then")
    lines.remove(of_b(lines, "off"))
    return without(lines, of_b(lines, "on"))


FORGED: dict[str, tuple[str, Callable[[], Lines]]] = {
    "it is back and does nothing": ("I7", idle_when_back),
    "it is back and rests": ("I7", back_too_soon),
    "its work is put off longer than it was away": ("I7", at_work_too_late),
    "it sends from the beginning": ("I5", more_than_was_left),
    "it is asked again before it has gone on": ("I7", asked_while_it_is_away),
    "it is asked again before it is done": ("I7", asked_before_it_is_done),
    "it is stopped as if the run ended": ("I7", dropped_in_the_middle_of_the_run),
}


@pytest.mark.parametrize(("law", "forged"), FORGED.values(), ids=FORGED)
def test_what_a_straggler_may_not_do_is_found(verdict: Judge, law: str, forged: Callable[[], Lines]) -> None:
    assert any(fault.startswith(f"{law}: ") for fault in verdict(forged()))


def stopping() -> Lines:
    """The close stops `b-0`; `c-0` is away, and what it did is put off for good."""
    lines = events()
    kept = [body for body in lines if body["round"] == 0 and body["t"] <= 3.5 and body.get("device") != B]
    kept[0]["asked"] = [A, B, "c-0"]
    close = kept.index(next(body for body in kept if body["event"] == "close"))
    kept[close:close] = [line(3.5, "compute.cut", 0, B, seconds=1.5, why="closed")]
    begun = [line(2.0, "down.end", 0, B), training(2.0, 0, B)]
    away = [line(3.0, "off", 0, "c-0"), line(3.0, "down.cut", 0, "c-0", bytes=75, why="off", then="resume")]
    started = [transfer(0.0, "down", 0, name, None) for name in (B, "c-0")]
    return sorted([*kept, *started, *begun, *away], key=lambda body: body["t"])


def test_where_a_close_stops_all_nobody_comes_back_after_it(verdict: Judge) -> None:
    assert verdict(stopping()) == []
    faults = verdict([*stopping(), line(4.0, "on", 0, "c-0")])
    assert [fault for fault in faults if fault.startswith("I7: ") and "stragglers stop" in fault]


def test_what_is_done_after_the_close_is_counted_once(verdict: Judge) -> None:
    """In the row of its own round, all of it, and in no other."""
    for useful, wasted, idle in ((0, 0.5, 3.0), (0, 3.5, 3.5), (3.5, 0, 4.0), (0, 3.5, 7.5), (0, 7.0, 4.0)):
        told = rows()
        told[0]["seconds"] = spent({A: [3.5, 0.0, 0.0], B: [useful, wasted, idle]})
        assert any(fault.startswith("I5: ") for fault in verdict(events(), told))
    for size in (0, 50, 100, 200, 300):
        told = rows()
        told[0]["wasted_bytes"] = size
        assert any(fault.startswith("I5: ") for fault in verdict(events(), told))

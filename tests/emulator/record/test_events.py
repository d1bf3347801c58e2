"""Each class writes a line as it read it, in all forms that records have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulator.audit.format import BILL, COMMON, EVENTS, FRAMED, MAY_HAVE
from emulator.record.events import CLASSES, event_of
from emulator.record.lines import read_lines

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("*.jsonl"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_line_that_is_read_is_written_as_it_was(path: Path) -> None:
    digests = {"model": "m", "update": "u"}  # which golden files leave out
    for line in read_lines(path):
        whole = {**line, **{key: digest for key, digest in digests.items() if key in EVENTS[line["event"]]}}
        assert event_of(whole).plain == whole


SELDOM = [
    {"t": 1.5, "event": "compute.end", "round": 0, "device": "a", "update": "u", "overrun": 0.25},
    {"t": 1.5, "event": "server.end", "round": 0, "what": "request", "model": "m", "overrun": 0.25},
    {"t": 1.5, "event": "refused", "round": 0, "device": "a", "kind": "values", "why": "not finite"},
    {"t": 1.5, "event": "compute.cut", "round": 0, "device": "a", "seconds": 1.0, "why": "off", "done": 0.0},
]


@pytest.mark.parametrize("line", SELDOM, ids=lambda line: line["event"])
def test_what_stands_in_few_lines_is_kept_too(line: dict[str, object]) -> None:
    assert event_of(line).plain == line


def test_each_event_that_the_audit_knows_has_a_class() -> None:
    assert CLASSES.keys() == EVENTS.keys()


@pytest.mark.parametrize("event", CLASSES)
def test_what_is_written_has_the_keys_that_the_audit_knows(event: str) -> None:
    """Both name them, so that the audit does not take them from what it judges."""
    always, perhaps = COMMON | EVENTS[event], MAY_HAVE.get(event, {})
    line: dict[str, Any] = {key: {"x": 2.0} if kind in (FRAMED, BILL) else 2 for key, kind in always.items()}
    line["event"] = event

    assert event_of(line).plain.keys() == always.keys()
    for key in perhaps:
        assert event_of({**line, key: {"x": 2.0} if key == "jitter" else 2}).plain.keys() == {*always, key}


@pytest.mark.parametrize("line", [{}, {"event": "close", "round": 0, "t": 1.0}, {"event": "party"}, {"event": None}])
def test_what_no_run_writes_is_refused(line: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is not as `fedlapse run` writes it"):
        event_of(line)

"""The audit on what goes on after an absence: a record written by hand, and the same with one thing wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.audit import audit_run

Body = dict[str, Any]
DOWN = {"weights": 90, "frame": 10}  # all links carry 100 bytes/s
UP = {"weights": 45, "frame": 5}


def line(t: float, event: str, **details: Any) -> Body:
    return {"t": t, "event": event, "round": 0, **details}


def transfer(t: float, way: str, device: str, **details: Any) -> Body:
    reply = {"down": None, "up": 0}[way]
    return line(t, f"{way}.start", device=device, bytes=dict(DOWN if way == "down" else UP), reply_to=reply, **details)


def training(t: float, device: str, share: float = 1.0, heat: float = 1.0) -> Body:
    """2 s on a device of 1000 FLOP/s, or a part of that."""
    more = {"throttled": heat} if heat != 1 else {}
    seconds = {"fit": 2 * share * heat}
    return line(t, "compute.start", device=device, phases={"fit": 2000 * share}, seconds=seconds, rate=1000.0, **more)


def events() -> list[Body]:
    """`a` is away at 0.25 and 2.5 and keeps what it did; `b` likewise and begins again; `c` is away at the close."""
    return [
        line(0.0, "open", asked=["a", "b", "c"], model="m0"),
        *(transfer(0.0, "down", device) for device in "abc"),
        line(0.25, "off", device="a"),
        line(0.25, "down.cut", device="a", bytes=25, why="off", then="resume"),
        line(0.75, "off", device="b"),
        line(0.75, "down.cut", device="b", bytes=75, why="off", then="restart"),
        line(0.75, "on", device="a"),
        transfer(0.75, "down", "a", **{"from": 25}),
        line(1.0, "on", device="b"),
        transfer(1.0, "down", "b"),
        line(1.0, "down.end", device="c"),
        training(1.0, "c"),
        line(1.5, "down.end", device="a"),
        training(1.5, "a", heat=2.0),
        line(2.0, "down.end", device="b"),
        training(2.0, "b"),
        line(2.5, "off", device="a"),
        line(2.5, "compute.cut", device="a", seconds=1.0, why="off", then="pause"),
        line(2.5, "off", device="c"),
        line(2.5, "compute.cut", device="c", seconds=1.5, why="off", then="pause"),
        line(3.0, "on", device="a"),
        training(3.0, "a", share=0.75),
        line(3.0, "off", device="b"),
        line(3.0, "compute.cut", device="b", seconds=1.0, why="off", then="restart"),
        line(3.5, "on", device="b"),
        training(3.5, "b"),
        line(4.5, "compute.end", device="a", update="a0"),
        transfer(4.5, "up", "a"),
        line(5.0, "up.end", device="a"),
        line(5.5, "compute.end", device="b", update="b0"),
        transfer(5.5, "up", "b"),
        line(6.0, "up.end", device="b"),
        line(6.0, "close", reason="first", counted=["a", "b"]),
        line(6.0, "server.start", what="combine", phases={}, seconds={}, rate=1.0, flops=0.0),
        line(6.0, "server.end", what="combine", model="m1"),
    ]


def row() -> Body:
    path: Body = {"device": "b", "setup_s": 0.0, "server_s": {}, "wait_s": 6.0 - 1.75 - 3.0 - 0.5}
    path |= {"down_s": {"weights": 0.9 * 1.75, "frame": 0.1 * 1.75}, "compute_s": {"fit": 3.0}}
    path |= {"up_s": {"weights": 0.45, "frame": 0.05}}
    return {
        "round": 0,
        "time_s": 6.0,
        "bytes": {"down": {"weights": 270, "frame": 30, "cut": 75}, "up": {"weights": 90, "frame": 10}},
        "flops": (500 + 1500) + (1000 + 2000) + 1500.0,
        "asked": 3,
        "counted": 2,
        "late": 1,
        "lost": 0,
        "refused": 0,
        "failed": False,
        "wasted_bytes": 75 + 100,  # of `b` what it sent once more, of `c` all
        "seconds": {
            "useful": (1.0 + 2.5 + 0.5) + (1.0 + 2.0 + 0.5),
            "wasted": (0.75 + 1.0) + (1.0 + 1.5),
            "idle": (6 - 4.0) + (6 - 5.25) + (6 - 2.5),
        },
        "joules": {"a": 1.0, "b": 1.0, "c": None},
        "critical": path,
    }


@pytest.fixture
def verdict(tmp_path: Path) -> Callable[..., list[str]]:
    def judge(events: list[Body], *rows: Body) -> list[str]:
        for name, lines in (("events", events), ("rounds", rows)):
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(body) + "\n" for body in lines))
        return audit_run(tmp_path)

    return judge


Judge = Callable[..., list[str]]


def test_what_goes_on_and_what_begins_again_has_no_fault(verdict: Judge) -> None:
    assert verdict(events(), row()) == []


@pytest.mark.parametrize("length", range(len(events())))
def test_such_a_record_may_end_after_any_line_too(verdict: Judge, length: int) -> None:
    assert verdict(events()[:length]) == []


def find(lines: list[Body], event: str, device: str, number: int = 0) -> Body:
    return [body for body in lines if (body["event"], body.get("device")) == (event, device)][number]


PLANTED: dict[str, tuple[str, Callable[[list[Body]], object]]] = {
    "it resumes from another byte": ("I5", lambda e: find(e, "down.start", "a", 1).update({"from": 24})),
    "it resumes from the beginning": ("I5", lambda e: find(e, "down.start", "a", 1).pop("from")),
    "what begins again begins further on": ("I5", lambda e: find(e, "down.start", "b", 1).update({"from": 75})),
    "the first piece begins further on": ("I5", lambda e: find(e, "down.start", "c").update({"from": 1})),
    "it resumes another message": ("I5", lambda e: find(e, "down.start", "a", 1).update(bytes={"frame": 100})),
    "more went through than was left": ("I5", lambda e: find(e, "down.cut", "a").update(bytes=101)),
    "it goes on with less work": ("I6", lambda e: find(e, "compute.start", "a", 1).update(seconds={"fit": 1.4})),
    "it goes on with fewer FLOPs": ("I6", lambda e: find(e, "compute.start", "a", 1).update(phases={"fit": 1400.0})),
    "it goes on with other phases": (
        "I6",
        lambda e: find(e, "compute.start", "a", 1).update(phases={"x": 1500.0}, seconds={"x": 1.5}),
    ),
    "it goes on with jitter": ("I6", lambda e: find(e, "compute.start", "a", 1).update(jitter={"fit": 0.9})),
    "heat makes it quicker": ("I6", lambda e: find(e, "compute.start", "a", 1).update(throttled=0.9)),
    "what begins again is shorter": ("I6", lambda e: find(e, "compute.start", "b", 1).update(seconds={"fit": 1.0})),
    "it goes on while it is off": ("I6", lambda e: e.remove(find(e, "on", "a"))),
    "what was lost goes on": ("I7", lambda e: find(e, "down.cut", "a").pop("then")),
    "a close says that more follows": (
        "I7",
        lambda e: find(e, "compute.cut", "c").update(why="closed"),
    ),
    "it goes on with something else": ("I7", lambda e: find(e, "down.start", "a", 1).update(event="up.start")),
    "a download goes on as work": ("form", lambda e: find(e, "down.cut", "a").update(then="pause")),
}


@pytest.mark.parametrize(("law", "edit"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_of_what_goes_on_is_found(
    verdict: Judge, law: str, edit: Callable[[list[Body]], object]
) -> None:
    lines = events()
    edit(lines)
    assert any(fault.startswith(f"{law}: ") for fault in verdict(lines, row()))


@pytest.mark.parametrize("what", ["useful", "wasted", "idle"])
def test_seconds_that_nobody_spent_are_found(verdict: Judge, what: str) -> None:
    told = row()
    told["seconds"][what] += 0.001
    assert any(fault.startswith("I5") and what in fault for fault in verdict(events(), told))


def test_joules_are_told_of_those_that_were_asked(verdict: Judge) -> None:
    assert verdict(events(), row() | {"joules": {"a": 1.0}})

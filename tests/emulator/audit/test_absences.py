"""The audit on what goes on after an absence: a record written by hand, and the same with one thing wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import audit_run
from tests.emulator.audit.learnt import NOT_EVALUATED

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


def keeping(done: float = 0.25, heat: float = 1.0) -> list[Body]:
    """`a` is away at 0.25, 2.5 and 4.75, and keeps what it did; `c` is away at the close.

    `a` is at half its speed before 2.5: of 4 s it has done a quarter, or, as it was heating up, a bit more.
    """
    more = {} if done == 0.25 else {"done": done}
    return [
        line(0.0, "open", asked=["a", "c"], model="m0"),
        *(transfer(0.0, "down", device) for device in "ac"),
        line(0.25, "off", device="a"),
        line(0.25, "down.cut", device="a", bytes=25, why="off", then="resume"),
        line(0.75, "on", device="a"),
        transfer(0.75, "down", "a", **{"from": 25}),
        line(1.0, "down.end", device="c"),
        training(1.0, "c"),
        line(1.5, "down.end", device="a"),
        training(1.5, "a", heat=2.0),
        line(2.5, "off", device="a"),
        line(2.5, "compute.cut", device="a", seconds=1.0, why="off", then="pause", **more),
        line(2.5, "off", device="c"),
        line(2.5, "compute.cut", device="c", seconds=1.5, why="off", then="pause"),
        line(3.0, "on", device="a"),
        training(3.0, "a", share=1 - done, heat=heat),
        line(4.5, "compute.end", device="a", update="a0"),
        transfer(4.5, "up", "a"),
        line(4.75, "off", device="a"),
        line(4.75, "up.cut", device="a", bytes=25, why="off", then="resume"),
        line(5.0, "on", device="a"),
        transfer(5.0, "up", "a", **{"from": 25}),
        line(5.25, "up.end", device="a"),
        *closed(5.25, "a"),
    ]


def again() -> list[Body]:
    """`b` is away at 0.75 and 3, and begins again; `c` is away at the close."""
    return [
        line(0.0, "open", asked=["b", "c"], model="m0"),
        *(transfer(0.0, "down", device) for device in "bc"),
        line(0.75, "off", device="b"),
        line(0.75, "down.cut", device="b", bytes=75, why="off", then="restart"),
        line(1.0, "on", device="b"),
        transfer(1.0, "down", "b"),
        line(1.0, "down.end", device="c"),
        training(1.0, "c"),
        line(2.0, "down.end", device="b"),
        training(2.0, "b"),
        line(2.5, "off", device="c"),
        line(2.5, "compute.cut", device="c", seconds=1.5, why="off", then="restart"),
        line(3.0, "off", device="b"),
        line(3.0, "compute.cut", device="b", seconds=1.0, why="off", then="restart"),
        line(3.5, "on", device="b"),
        training(3.5, "b"),
        line(5.5, "compute.end", device="b", update="b0"),
        transfer(5.5, "up", "b"),
        line(6.0, "up.end", device="b"),
        *closed(6.0, "b"),
    ]


def closed(t: float, counted: str) -> list[Body]:
    return [
        line(t, "close", reason="first", counted=[counted]),
        line(t, "server.start", what="combine", phases={}, seconds={}, rate=1.0, flops=0.0),
        line(t, "server.end", what="combine", model="m1"),
    ]


def row(t: float, down: float, compute: float, wait: float, **values: Any) -> Body:
    """One device was counted, whose download and computing took so long, and one is late."""
    path: Body = {"setup_s": 0.0, "server_s": {}, "wait_s": wait, "compute_s": {"fit": compute}}
    path |= {"down_s": {"weights": 0.9 * down, "frame": 0.1 * down}, "up_s": {"weights": 0.45, "frame": 0.05}}
    fates = {"asked": 2, "counted": 1, "late": 1, "lost": 0, "refused": 0, "failed": False}
    return {"round": 0, "time_s": t, **fates, "critical": path | {"device": "a"}, **NOT_EVALUATED, **values}


def row_keeping() -> Body:
    return row(
        5.25,
        1.0,
        2.5,
        1.25,
        bytes={"down": {"weights": 180, "frame": 20}, "up": {"weights": 45, "frame": 5}},
        flops=(500 + 1500) + 1500.0,
        wasted_bytes=100,
        seconds={
            "useful": 1.0 + 2.5 + 0.5,
            "wasted": 1.0 + 1.5,
            "idle": 1.25 + 2.75,
            "devices": {"a": [4.0, 0.0, 0.5 + 0.5 + 0.25], "c": [0.0, 2.5, 2.75]},
        },
        joules={"a": 1.25 * 1 + 2.5 * 4 + 1.5 * 2, "c": None},
        watts={"a": [1.0, 4.0, 2.0], "c": None},
    )


def row_again() -> Body:
    told = row(
        6.0,
        1.75,
        3.0,
        6.0 - 1.75 - 3.0 - 0.5,
        bytes={"down": {"weights": 180, "frame": 20, "cut": 75}, "up": {"weights": 45, "frame": 5}},
        flops=(1000 + 2000) + 1500.0,
        wasted_bytes=75 + 100,  # of `b` what it sent once more, of `c` all
        seconds={
            "useful": 1.0 + 2.0 + 0.5,
            "wasted": (0.75 + 1.0) + (1.0 + 1.5),
            "idle": 0.75 + 3.5,
            "devices": {"b": [3.5, 1.75, 0.25 + 0.5], "c": [0.0, 2.5, 3.5]},
        },
        joules={"b": None, "c": None},
        watts={"b": None, "c": None},
    )
    told["critical"]["device"] = "b"
    return told


@pytest.fixture
def verdict(tmp_path: Path) -> Callable[..., list[str]]:
    def judge(events: list[Body], *rows: Body) -> list[str]:
        for name, lines in (("events", events), ("rounds", rows)):
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(body) + "\n" for body in lines))
        return audit_run(tmp_path)

    return judge


Judge = Callable[..., list[str]]
Edit = Callable[[list[Body]], object]


def test_what_goes_on_and_what_begins_again_has_no_fault(verdict: Judge) -> None:
    assert verdict(keeping(), row_keeping()) == []
    assert verdict(again(), row_again()) == []


@pytest.mark.parametrize("events", [keeping, again])
def test_such_records_may_end_after_any_line_too(verdict: Judge, events: Callable[[], list[Body]]) -> None:
    for length in range(len(events())):
        assert verdict(events()[:length]) == []


def test_under_heat_more_may_be_done_than_the_seconds_say(verdict: Judge) -> None:
    """0.4 of 2000 FLOPs in a quarter of the seconds; the 1.2 s that are left take 1.5 s on a warm machine."""
    assert verdict(keeping(done=0.4, heat=1.25), row_keeping()) == []


def find(lines: list[Body], event: str, device: str, number: int = 0) -> Body:
    return [body for body in lines if (body["event"], body.get("device")) == (event, device)][number]


def insert(lines: list[Body], *new: Body) -> list[Body]:
    """After all that happens until then."""
    place = sum(body["t"] <= new[0]["t"] for body in lines)
    lines[place:place] = new
    return lines


PLANTED: dict[str, tuple[str, Callable[[], list[Body]], Edit]] = {
    "it resumes from another byte": ("I5", keeping, lambda e: find(e, "down.start", "a", 1).update({"from": 24})),
    "it resumes from the beginning": ("I5", keeping, lambda e: find(e, "down.start", "a", 1).pop("from")),
    "what begins again begins further on": ("I5", again, lambda e: find(e, "down.start", "b", 1).update({"from": 75})),
    "the first piece begins further on": ("I5", keeping, lambda e: find(e, "down.start", "c").update({"from": 1})),
    "it resumes another message": ("I5", keeping, lambda e: find(e, "down.start", "a", 1).update(bytes={"frame": 100})),
    "more went through than was left": ("I5", keeping, lambda e: find(e, "down.cut", "a").update(bytes=101)),
    "it goes on with less work": (
        "I6",
        keeping,
        lambda e: find(e, "compute.start", "a", 1).update(seconds={"fit": 1.4}),
    ),
    "it goes on with fewer FLOPs": (
        "I6",
        keeping,
        lambda e: find(e, "compute.start", "a", 1).update(phases={"fit": 1400.0}),
    ),
    "it goes on with other phases": (
        "I6",
        keeping,
        lambda e: find(e, "compute.start", "a", 1).update(phases={"x": 1500.0}, seconds={"x": 1.5}),
    ),
    "it goes on with jitter": ("I6", keeping, lambda e: find(e, "compute.start", "a", 1).update(jitter={"fit": 0.9})),
    "heat makes it quicker": ("I6", keeping, lambda e: find(e, "compute.start", "a", 1).update(throttled=0.9)),
    "what begins again is shorter": (
        "I6",
        again,
        lambda e: find(e, "compute.start", "b", 1).update(seconds={"fit": 1.0}),
    ),
    "it goes on while it is off": ("I6", keeping, lambda e: e.remove(find(e, "on", "a"))),
    "of what was done under heat it does some once more": (
        "I6",
        lambda: keeping(done=0.4, heat=1.25),
        lambda e: find(e, "compute.cut", "a").pop("done"),
    ),
    "more is done than a cold machine would do": (
        "I6",
        lambda: keeping(done=0.6, heat=1.5 / 0.8),
        lambda _: None,
    ),
    "the first seconds do less than the others": (
        "I6",
        keeping,
        lambda e: find(e, "compute.cut", "c").update(done=0.5),
    ),
    "more is done in the cold than its seconds": (
        "I6",
        keeping,
        lambda e: find(e, "compute.cut", "c").update(done=0.8),
    ),
    "what was lost goes on": ("I7", keeping, lambda e: find(e, "down.cut", "a").pop("then")),
    "a close says that more follows": ("I7", keeping, lambda e: find(e, "compute.cut", "c").update(why="closed")),
    "it goes on with something else": ("I7", keeping, lambda e: find(e, "down.start", "a", 1).update(event="up.start")),
    "a download goes on as work": ("form", keeping, lambda e: find(e, "down.cut", "a").update(then="pause")),
    "it is back and does nothing": ("I7", keeping, lambda e: insert(e, line(4.0, "on", device="c"))),
    "it is back and does nothing until later": (
        "I7",
        keeping,
        lambda e: insert(e, line(4.0, "on", device="c"), training(4.1, "c", share=0.25)),
    ),
    "one piece of work pauses and another begins again": (
        "I7",
        keeping,
        lambda e: find(e, "compute.cut", "c").update(then="restart"),
    ),
    "one transfer resumes and another begins again": (
        "I7",
        keeping,
        lambda e: (find(e, "up.cut", "a").update(then="restart"), find(e, "up.start", "a", 1).pop("from")),
    ),
    "one piece of work begins again and another is lost": (
        "I7",
        again,
        lambda e: (find(e, "compute.cut", "c").pop("then"), insert(e, line(4.0, "on", device="c"))),
    ),
}


@pytest.mark.parametrize(("law", "events", "edit"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_of_what_goes_on_is_found(
    verdict: Judge, law: str, events: Callable[[], list[Body]], edit: Edit
) -> None:
    lines = events()
    edit(lines)
    assert any(fault.startswith(f"{law}: ") for fault in verdict(lines))


def test_who_comes_back_as_the_round_closes_need_not_go_on(verdict: Judge) -> None:
    lines = keeping()
    lines.insert(lines.index(find(lines, "up.end", "a")), line(5.25, "on", device="c"))
    assert verdict(lines, row_keeping()) == []


def test_who_never_comes_back_loses_what_others_keep(verdict: Judge) -> None:
    lines = keeping()
    del find(lines, "compute.cut", "c")["then"]
    told = row_keeping() | {"late": 0, "lost": 1}
    assert names("I7", verdict(lines, told)) == []


def names(law: str, faults: list[str]) -> list[str]:
    return [fault for fault in faults if fault.startswith(f"{law}: ")]


@pytest.mark.parametrize("what", ["useful", "wasted", "idle"])
def test_seconds_that_nobody_spent_are_found(verdict: Judge, what: str) -> None:
    told = row_again()
    told["seconds"][what] += 0.001
    assert any(what in fault for fault in names("I5", verdict(again(), told)))


@pytest.mark.parametrize("what", ["joules", "watts"])
def test_energy_is_told_of_those_that_were_asked(verdict: Judge, what: str) -> None:
    assert names("I5", verdict(again(), row_again() | {what: {"b": None}}))

"""The audit is judged by records written by hand: right ones, and the same with one thing wrong."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.audit.format import EVENTS
from tests.conftest import audit_run
from tests.emulator.audit.learnt import NOT_EVALUATED

Body = dict[str, Any]
Lines = list[Body]
Edit = Callable[[Lines, Lines], object]

DOWN = {"weights": 90, "frame": 10}  # all links carry 100 bytes/s
UP = {"weights": 45, "frame": 5}


def line(t: float, event: str, round: int, **details: Any) -> Body:
    return {"t": t, "event": event, "round": round, **details}


def training(t: float, round: int, device: str, seconds: float) -> Body:
    """2000 FLOPs on a device that is bound by computing."""
    rate = 2000 / seconds
    return line(t, "compute.start", round, device=device, phases={"fit": 2000.0}, seconds={"fit": seconds}, rate=rate)


def serving(t: float, round: int, what: str, flops: float) -> Body:
    """On a server of 1000 FLOP/s."""
    bill: Body = {"phases": {"sum": flops}, "seconds": {"sum": flops / 1000}, "rate": 1000.0, "flops": flops}
    return line(t, "server.start", round, what=what, **bill)


def downloads(t: float, round: int, acknowledged: dict[str, int | None]) -> Lines:
    return [
        line(t, "down.start", round, device=device, bytes=dict(DOWN), reply_to=reply)
        for device, reply in acknowledged.items()
    ]


def upload(t: float, round: int, device: str) -> Lines:
    """An upload that begins when the training ends."""
    return [
        line(t, "compute.end", round, device=device, update=f"{device}{round}"),
        line(t, "up.start", round, device=device, bytes=dict(UP), reply_to=round),
    ]


def first_round() -> Lines:
    """`a` is counted, `b` is stopped as it computes, `c` goes off as it downloads and comes back."""
    return [
        line(0.0, "open", 0, asked=["a", "b", "c"], model="m0"),
        serving(0.0, 0, "request", 500.0),
        line(0.5, "server.end", 0, what="request", model="m0"),
        *downloads(0.5, 0, {"a": None, "b": None, "c": None}),
        line(0.75, "off", 0, device="c"),
        line(0.75, "down.cut", 0, device="c", bytes=25, why="off"),
        line(1.5, "down.end", 0, device="a"),
        line(1.5, "down.end", 0, device="b"),
        training(1.5, 0, "a", 2.0),
        training(1.5, 0, "b", 4.0),
        line(1.75, "on", 0, device="c"),
        *upload(3.5, 0, "a"),
        line(4.0, "up.end", 0, device="a"),
        line(4.0, "compute.cut", 0, device="b", seconds=2.5, why="closed"),
        line(4.0, "close", 0, reason="first", counted=["a"]),
        serving(4.0, 0, "combine", 250.0),
        line(4.25, "server.end", 0, what="combine", model="m1"),
    ]


def second_round() -> Lines:
    """`a` is counted, `c` is refused, `b` goes off as it uploads."""
    return [
        line(5.0, "open", 1, asked=["a", "b", "c"], model="m1"),
        *downloads(5.0, 1, {"a": 0, "b": None, "c": None}),
        *(line(6.0, "down.end", 1, device=device) for device in "abc"),
        training(6.0, 1, "a", 2.0),
        training(6.0, 1, "b", 4.0),
        training(6.0, 1, "c", 2.0),
        *upload(8.0, 1, "a"),
        *upload(8.0, 1, "c"),
        line(8.5, "up.end", 1, device="a"),
        line(8.5, "up.end", 1, device="c"),
        line(8.5, "refused", 1, device="c", kind="values", why="weights are not finite"),
        *upload(10.0, 1, "b"),
        line(10.25, "off", 1, device="b"),
        line(10.25, "up.cut", 1, device="b", bytes=25, why="off"),
        line(10.25, "close", 1, reason="all", counted=["a"]),
        serving(10.25, 1, "combine", 250.0),
        line(10.5, "server.end", 1, what="combine", model="m2"),
    ]


WATTS = {"a": [1.0, 4.0, 2.0], "b": [2.0, 8.0, 1.0], "c": None}  # idle, computing, radio; nobody knows those of c


def spent(joules: dict[str, float | None], **devices: list[float]) -> Body:
    """Useful, wasted and idle seconds of each device."""
    sums = {use: sum(each[n] for each in devices.values()) for n, use in enumerate(("useful", "wasted", "idle"))}
    watts = {name: WATTS[name] for name in devices}
    return {"seconds": {**sums, "devices": devices}, "joules": joules, "watts": copy.deepcopy(watts)}


def row(round: int, time: float, path: Body, **values: Any) -> Body:
    critical = {"device": "a", "setup_s": 0.0, "compute_s": {"fit": 2.0}, **path}
    critical |= {"down_s": {"weights": 0.9, "frame": 0.1}, "up_s": {"weights": 0.45, "frame": 0.05}}
    fixed: Body = {"asked": 3, "counted": 1, "failed": False, "critical": critical, **NOT_EVALUATED}
    return {"round": round, "time_s": time, **fixed, **values}


def rows() -> Lines:
    return [
        row(
            0,
            4.25,
            {"server_s": {"sum": 0.75}, "wait_s": 0.0},
            bytes={"down": {"cut": 25, "frame": 20, "weights": 180}, "up": {"frame": 5, "weights": 45}},
            flops=500 + 2000 + 2000 * 2.5 / 4 + 250.0,
            late=1,
            lost=1,
            refused=0,
            wasted_bytes=100 + 25,
            **spent(
                {"a": 0.5 * 1 + 2 * 4 + 1.5 * 2, "b": 0.5 * 2 + 2.5 * 8 + 1 * 1, "c": None},
                a=[1 + 2 + 0.5, 0.0, 0.5],
                b=[0.0, 1 + 2.5, 0.5],
                c=[0.0, 0.25, 3.75],
            ),
        ),
        row(
            1,
            10.5,
            {"server_s": {"sum": 0.25}, "wait_s": 0.75 + 1.75},  # before it opened, and after `a` was done
            bytes={"down": {"frame": 30, "weights": 270}, "up": {"cut": 25, "frame": 10, "weights": 90}},
            flops=3 * 2000 + 250.0,
            late=0,
            lost=1,
            refused=1,
            wasted_bytes=(100 + 25) + (100 + 50),
            **spent(
                {"a": 1.75 * 1 + 2 * 4 + 1.5 * 2, "b": 4 * 8 + 1.25 * 1, "c": None},
                a=[3.5, 0.0, 1.75],
                b=[0.0, 1 + 4 + 0.25, 0.0],
                c=[0.0, 3.5, 1.75],
            ),
        ),
    ]


def events() -> Lines:
    return first_round() + second_round()


def text(lines: Lines) -> str:
    return "".join(json.dumps(body, sort_keys=True) + "\n" for body in lines)


@pytest.fixture
def verdict(tmp_path: Path) -> Callable[..., list[str]]:
    """The audit's sentences on a record."""

    def judge(events: Lines, rows: Lines = ()) -> list[str]:  # type: ignore[assignment]
        (tmp_path / "events.jsonl").write_text(text(events))
        (tmp_path / "rounds.jsonl").write_text(text(list(rows)))
        return audit_run(tmp_path)

    return judge


Judge = Callable[..., list[str]]


def find(lines: Lines, event: str, round: int, **details: Any) -> Body:
    """The line of a valid record that has these."""
    found = [body for body in lines if {"event": event, "round": round, **details}.items() <= body.items()]
    assert len(found) == 1
    return found[0]


def name_of(body: Body) -> str:
    if "event" not in body:
        return f"row {body['round']}"
    who = body.get("device") or body.get("what") or ""
    return f"{body['round']} {body['event']} {who}".strip()


EVENTS_AND_ROWS = [(0, place) for place in range(len(events()))] + [(1, place) for place in range(len(rows()))]


def label(value: tuple[int, int]) -> str:
    return name_of((events(), rows())[value[0]][value[1]])


# --- records that are right


def test_a_record_that_obeys_has_no_fault(verdict: Judge) -> None:
    assert verdict(events(), rows()) == []


@pytest.mark.parametrize("length", range(len(events()) + 1))
def test_a_record_may_end_after_any_line(verdict: Judge, length: int) -> None:
    whole = [row for row, ends in zip(rows(), (len(first_round()), len(events())), strict=True) if ends <= length]

    assert verdict(events()[:length], whole) == []
    assert verdict(events()[:length], whole[:-1]) == []  # stopped before the row was written


def test_a_torn_last_line_is_no_line(verdict: Judge, tmp_path: Path) -> None:
    verdict(events(), rows())
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"t": 11.0, "eve')

    assert audit_run(tmp_path) == []


def too_few() -> tuple[Lines, Lines]:
    """Two rounds that close with nobody: in one the device is too slow, in the other it is off when it is asked."""
    lines = [
        line(0.0, "open", 0, asked=["a"], model="m0"),
        *downloads(0.0, 0, {"a": None}),
        line(0.5, "down.cut", 0, device="a", bytes=50, why="closed"),
        line(0.5, "close", 0, reason="too_few", counted=[]),
        line(0.5, "open", 1, asked=["a"], model="m0"),
        serving(0.5, 1, "request", 500.0),
        line(0.75, "off", 1, device="a"),
        line(1.0, "server.end", 1, what="request", model="m0"),
        line(1.0, "close", 1, reason="too_few", counted=[]),
    ]
    nothing: Body = {"device": None, "setup_s": 0.0, "down_s": {}, "compute_s": {}, "up_s": {}, "server_s": {}}
    failed: Body = {"asked": 1, "counted": 0, "refused": 0, "failed": True, **NOT_EVALUATED}
    slow: Body = {"bytes": {"down": {"cut": 50}, "up": {}}, "late": 1, "lost": 0, "flops": 0.0, "wasted_bytes": 50}
    away: Body = {"bytes": {"down": {}, "up": {}}, "late": 0, "lost": 1, "flops": 500.0, "wasted_bytes": 0}
    slow |= spent({"a": 0.5 * 2}, a=[0.0, 0.5, 0.0])
    away |= spent({"a": 0.5 * 1}, a=[0.0, 0.0, 0.5])
    paths = {"wait_s": 0.5}, {"wait_s": 0.0, "server_s": {"sum": 0.5}}
    return lines, [
        {"round": 0, "time_s": 0.5, "critical": nothing | paths[0]} | failed | slow,
        {"round": 1, "time_s": 1.0, "critical": nothing | paths[1]} | failed | away,
    ]


def test_a_failed_round_leaves_the_model(verdict: Judge) -> None:
    assert verdict(*too_few()) == []


def test_a_failed_round_must_not_change_the_model(verdict: Judge) -> None:
    lines, _ = too_few()
    find(lines, "open", 1)["model"] = "m1"

    assert names("I8", verdict(lines))


def test_of_a_failed_round_nothing_is_of_use(verdict: Judge) -> None:
    """`a` was heard, but two had to be."""
    lines = first_round()[:-2]
    find(lines, "close", 0)["reason"] = "too_few"
    told = rows()[0]
    told |= {"time_s": 4.0, "failed": True, "flops": told["flops"] - 250, "wasted_bytes": (100 + 50) + 100 + 25}
    told["critical"] |= {"server_s": {"sum": 0.5}}
    as_useful = copy.deepcopy(told)
    told |= spent(told["joules"], a=[0.0, 3.5, 0.5], b=[0.0, 3.5, 0.5], c=[0.0, 0.25, 3.75])

    assert verdict(lines, [told]) == []
    assert names("I5", verdict(lines, [as_useful]))
    assert names("I5", verdict(lines, [told | {"wasted_bytes": 125}]))


def finishing() -> tuple[Lines, Lines]:
    """Stragglers may end: `b` of round 0 uploads in round 1; `c` of round 1 is cut as the run ends."""
    first = [body for body in first_round() if body.get("device") != "c"]
    first.remove(find(first, "compute.cut", 0))
    find(first, "open", 0)["asked"] = ["a", "b"]
    lines = [
        *first,
        line(5.0, "open", 1, asked=["a", "c"], model="m1"),
        *downloads(5.0, 1, {"a": 0, "c": None}),
        *upload(5.5, 0, "b"),
        line(6.0, "up.end", 0, device="b"),
        line(6.0, "down.end", 1, device="a"),
        line(6.0, "down.end", 1, device="c"),
        training(6.0, 1, "a", 2.0),
        training(6.0, 1, "c", 4.0),
        *upload(8.0, 1, "a"),
        line(8.5, "up.end", 1, device="a"),
        line(8.5, "close", 1, reason="first", counted=["a"]),
        serving(8.5, 1, "combine", 250.0),
        line(8.75, "server.end", 1, what="combine", model="m2"),
        line(8.75, "compute.cut", 1, device="c", seconds=2.75, why="closed"),
    ]
    sizes = {"down": {"frame": 20, "weights": 180}, "up": {"frame": 10, "weights": 90}}
    late = {"asked": 2, "late": 1, "lost": 0, "bytes": sizes, "flops": 4750.0, "wasted_bytes": 150}
    late |= spent({"a": 11.5, "b": 0.5 * 2 + 4 * 8 + 1.5 * 1}, a=[3.5, 0.0, 0.5], b=[0.0, 1 + 4 + 0.5, 0.5])
    return lines, [rows()[0] | late]


def test_stragglers_may_go_on_after_the_close(verdict: Judge) -> None:
    assert verdict(*finishing()) == []


def test_a_straggler_may_be_at_it_where_the_record_ends_but_then_its_round_has_no_row(verdict: Judge) -> None:
    lines, written = finishing()
    stopped = lines[: lines.index(find(lines, "up.end", 0, device="b"))]

    assert verdict(stopped) == []
    assert names("I5", verdict(stopped, written))


def test_stragglers_do_not_stop_in_one_round_and_go_on_in_another(verdict: Judge) -> None:
    lines, _ = finishing()
    late = find(lines, "up.end", 0, device="b")
    cut = find(lines, "compute.cut", 1, device="c")
    lines.remove(cut)
    lines.insert(lines.index(find(lines, "close", 1)), cut | {"t": 8.5, "seconds": 2.5})

    faults = verdict(lines)

    assert names("I7", faults)
    assert f"line {lines.index(late) + 1}" in " ".join(faults)


def test_a_device_is_not_asked_again_while_it_finishes(verdict: Judge) -> None:
    lines, _ = finishing()
    lines[lines.index(find(lines, "open", 1))]["asked"] = ["a", "c", "b"]
    again = lines.index(find(lines, "down.start", 1, device="c"))
    lines.insert(again + 1, *downloads(5.0, 1, {"b": None}))

    assert any("'b'" in fault for fault in names("I6", verdict(lines)))


def test_over_sockets_work_may_last_longer_by_the_overrun_that_is_recorded(verdict: Judge) -> None:
    lines = events()
    end = next(k for k, body in enumerate(lines) if body["event"] == "server.end" and body["round"] == 1)
    lines[end]["t"] += 0.25

    assert names("I6", verdict(lines))
    lines[end]["overrun"] = 0.25
    assert not names("I6", verdict(lines))


def test_a_machine_does_not_change_its_rate(verdict: Judge) -> None:
    lines = events()
    find(lines, "server.start", 1)["rate"] *= 2
    find(lines, "server.start", 1)["phases"] = {}
    assert names("I6", verdict(lines))


def test_a_device_that_goes_off_as_it_begins_to_compute_did_nothing_while_off(verdict: Judge) -> None:
    lines = events()
    place = lines.index(find(lines, "compute.start", 1, device="b")) + 1
    lines[place - 1 : place - 1] = [line(6.0, "off", 1, device="b")]
    lines[place + 1 : place + 1] = [line(6.0, "compute.cut", 1, device="b", seconds=0.0, why="off")]
    gone = [body for body in lines[place + 2 :] if body.get("device") == "b"]

    assert verdict([body for body in lines if body not in gone]) == []


# --- one thing wrong


def names(law: str, faults: list[str]) -> list[str]:
    return [fault for fault in faults if fault.startswith(f"{law}: ")]


HARMLESS_WITHOUT = {
    "0 on c": "it may have come back between the rounds as well",
    "row 1": "the last line of its file: the run was stopped before it was written",
}


@pytest.mark.parametrize("where", EVENTS_AND_ROWS, ids=label)
def test_no_line_can_be_left_out(verdict: Judge, where: tuple[int, int]) -> None:
    record = (events(), rows())
    gone = record[where[0]].pop(where[1])

    assert bool(verdict(*record)) == (name_of(gone) not in HARMLESS_WITHOUT)


@pytest.mark.parametrize("where", EVENTS_AND_ROWS, ids=label)
def test_no_line_can_stand_twice(verdict: Judge, where: tuple[int, int]) -> None:
    file, place = where
    record = (events(), rows())
    record[file].insert(place, copy.deepcopy(record[file][place]))

    assert verdict(*record)


Place = tuple[str | int, ...]


def numbers(value: object, path: Place = ()) -> Iterator[Place]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(inner, (*path, key))
    elif type(value) in (int, float):
        yield path


def changed(whole_body: Body, path: Place, change: str) -> None:
    *way, last = path
    body: Any = whole_body
    for key in way:
        body = body[key]
    whole = isinstance(body[last], int)
    steps = {"less": -1, "more": 1} if whole else {"less": -1 / 64, "more": 1 / 64}
    body[last] = 3 * body[last] + 1 if change == "much more" else body[last] + steps[change]


CHANGES = ("less", "more", "much more")
FREE = {  # what no law fixes: (line, field) -> changes, and why
    ("1 refused c", "t"): ("more",),  # the server may look at a reply later
    ("0 down.start c", "bytes"): ("less", "more", "much more"),  # it was cut: any announcement of as many bytes fits
    ("1 up.start b", "bytes"): ("less", "more", "much more"),  # the same
    # c computes but once, and work that is bound by memory takes longer than FLOPs / rate
    ("1 compute.start c", "rate"): ("more", "much more"),
    ("0 on c", "t"): ("less", "more"),  # it may come back at any time while it is not needed
    ("row *", "accuracy"): ("less", "more", "much more"),  # the audit does not train
}


def is_free(body: Body, path: Place, change: str) -> bool:
    kind = "row *" if "event" not in body else ""
    return any(change in FREE.get((name, str(path[0])), ()) for name in (name_of(body), kind))


@pytest.mark.parametrize("where", EVENTS_AND_ROWS, ids=label)
def test_no_number_can_be_changed(verdict: Judge, where: tuple[int, int]) -> None:
    file, place = where
    for path, change in product(numbers((events(), rows())[file][place]), CHANGES):
        record = (events(), rows())
        body = record[file][place]
        free = is_free(body, path, change)
        changed(body, path, change)
        assert bool(verdict(*record)) != free, f"{path}: {change}"


@pytest.mark.parametrize("place", range(len(events()) - 1))
def test_no_two_times_can_be_swapped(verdict: Judge, place: int) -> None:
    lines = events()
    here, there = lines[place], lines[place + 1]
    same = here["t"] == there["t"]
    here["t"], there["t"] = there["t"], here["t"]

    assert bool(names("I7", verdict(lines, rows()))) != same


DIGESTS = ["0 server.end request", "0 server.end combine", "1 open"]


@pytest.mark.parametrize("place", [i for i, body in enumerate(events()) if name_of(body) in DIGESTS])
def test_a_changed_digest_breaks_the_chain(verdict: Judge, place: int) -> None:
    lines = events()
    lines[place]["model"] = "mX"

    assert names("I8", verdict(lines, rows()))


PLANTED: dict[str, tuple[str, Edit]] = {
    "an update is counted twice": ("I1", lambda e, _: find(e, "close", 0)["counted"].append("a")),
    "a device is asked twice": ("I1", lambda e, _: find(e, "open", 0)["asked"].append("a")),
    "a device that was not asked is counted": ("I1", lambda e, _: find(e, "close", 0)["counted"].append("z")),
    "a device whose work was cut is counted": ("I2", lambda e, _: find(e, "close", 0)["counted"].append("b")),
    "a device that was off is counted": ("I2", lambda e, _: find(e, "close", 0)["counted"].append("c")),
    "a device that refuses has computed": ("I2", lambda e, _: find(e, "refused", 1).update(kind="device")),
    "a refused reply is counted": ("I2", lambda e, _: find(e, "close", 1)["counted"].append("c")),
    "an upload that was cut is counted": ("I2", lambda e, _: find(e, "close", 1)["counted"].append("b")),
    "an upload that ends after the close is counted": (
        "I2",
        lambda e, _: swap(e, find(e, "up.end", 0, device="a"), find(e, "close", 0)),
    ),
    "a reply is refused after the close": (
        "I2",
        lambda e, _: swap(e, find(e, "refused", 1), find(e, "close", 1)),
    ),
    "an upload answers another round": (
        "I3",
        lambda e, _: find(e, "up.start", 1, device="a").update(reply_to=0),
    ),
    "a reply that was not counted is acknowledged": (
        "I4",
        lambda e, _: find(e, "down.start", 1, device="b").update(reply_to=0),
    ),
    "a reply that was counted is not acknowledged": (
        "I4",
        lambda e, _: find(e, "down.start", 1, device="a").update(reply_to=None),
    ),
    "more bytes are cut than were announced": ("I5", lambda e, _: find(e, "up.cut", 1).update(bytes=51)),
    "a row has other bytes of a kind": ("I5", lambda _, r: r[0]["bytes"]["down"].update(weights=181)),
    "a row has one kind too many": ("I5", lambda _, r: r[0]["bytes"]["up"].update(fisher=1)),
    "a row lacks a direction": ("I5", lambda _, r: r[0]["bytes"].pop("up")),
    "a row wastes less": ("I5", lambda _, r: r[0].update(wasted_bytes=124)),
    "a row calls the late device lost": ("I5", lambda _, r: r[0].update(late=0, lost=2)),
    "a row loses a device": ("I5", lambda _, r: r[0].update(late=0)),
    "computing is shorter than its price": (
        "I6",
        lambda e, _: find(e, "compute.start", 0, device="a").update(seconds={"fit": 2.00001}),
    ),
    "computing is faster than the machine": (
        "I6",
        lambda e, _: find(e, "compute.start", 0, device="b").update(seconds={"fit": 3.9999999}),
    ),
    "a cut says it came later": ("I6", lambda e, _: find(e, "compute.cut", 0).update(seconds=2.50001)),
    "a device works on while it is off": (
        "I6",
        lambda e, _: e.insert(e.index(find(e, "on", 0)), line(1.75, "off", 0, device="a")),
    ),
    "a device that is off is asked": (
        "I6",
        lambda e, _: e.insert(e.index(find(e, "open", 1)) + 1, line(5.0, "off", 1, device="a")),
    ),
    "the server does two things at once": (
        "I6",
        lambda e, _: swap(e, find(e, "server.end", 0, what="request"), find(e, "server.start", 0, what="combine")),
    ),
    "the server is paid for more than it did": (
        "I6",
        lambda e, _: find(e, "server.start", 0, what="combine").update(flops=251.0),
    ),
    "the server combines before the close": (
        "I7",
        lambda e, _: swap(e, find(e, "close", 0), find(e, "server.start", 0, what="combine")),
    ),
    "a device is asked before the request is ready": (
        "I7",
        lambda e, _: swap(e, find(e, "server.end", 0, what="request"), find(e, "down.start", 0, device="a")),
    ),
    "computing starts before the download has ended": (
        "I7",
        lambda e, _: swap(e, find(e, "down.end", 0, device="a"), find(e, "compute.start", 0, device="a")),
    ),
    "an upload starts before the computing has ended": (
        "I7",
        lambda e, _: swap(e, find(e, "compute.end", 0, device="a"), find(e, "up.start", 0, device="a")),
    ),
    "a download starts after the close": (
        "I7",
        lambda e, _: e.insert(e.index(find(e, "close", 0)) + 1, *downloads(4.0, 0, {"c": None})),
    ),
    "a device that was not asked has a line": (
        "I7",
        lambda e, _: e.insert(e.index(find(e, "close", 0)), line(4.0, "off", 0, device="z")),
    ),
    "a device goes off after a close that left it nothing to do": (
        "I7",
        lambda e, _: e.insert(e.index(find(e, "close", 0)) + 1, line(4.0, "off", 0, device="a")),
    ),
    "a close cuts a device before the reply that closes it": (
        "I7",
        lambda e, _: swap(e, find(e, "up.end", 0, device="a"), find(e, "compute.cut", 0)),
    ),
    "time goes back from row to row": ("I7", lambda _, r: r[1].update(time_s=4.0)),
    "a failed round is combined": ("I8", lambda e, _: find(e, "close", 0).update(reason="too_few")),
    "a round closes for the wrong reason": ("rounds", lambda e, _: find(e, "close", 0).update(reason="all")),
    "a round closes as if somebody were missing": (
        "rounds",
        lambda e, _: find(e, "close", 1).update(reason="deadline"),
    ),
    "a round counts nobody and has not failed": ("rounds", lambda e, _: find(e, "close", 0).update(counted=[])),
    "a round is left out": ("rounds", lambda e, _: [body.update(round=2) for body in e if body["round"] == 1]),
    "a row is of another round": ("rows", lambda _, r: r.reverse()),
    "a row has failed, the round has not": ("I5", lambda _, r: r[0].update(failed=True)),
    "a row is stamped late": ("rows", lambda _, r: r[0].update(time_s=4.250001)),
    "a row has no round": ("rows", lambda _, r: r.append(r[1] | {"round": 2})),
    "the path is that of another device": ("rows", lambda _, r: r[0]["critical"].update(device="b")),
    "the path has seconds that were not spent": (
        "rows",
        lambda _, r: r[1]["critical"].update(compute_s={"fit": 2.5}, wait_s=2.0),
    ),
    "a device idles less than it did, and another as much more": (
        "I5",
        lambda _, r: change(r[0], a=[0, 0, -0.25], b=[0, 0, 0.25]),
    ),
    "what one device wasted is said of another": (
        "I5",
        lambda _, r: change(r[0], b=[0, -0.25, 0], c=[0, 0.25, 0]),
    ),
    "a device was useful while it idled": (
        "I5",
        lambda _, r: change(r[0], a=[0.25, 0, -0.25]),
    ),
    "seconds of a device are left out": ("I5", lambda _, r: r[0]["seconds"]["devices"].pop("c")),
    "a device draws more than its watts": ("I5", lambda _, r: r[0]["joules"].update(a=11.6)),
    "a device draws as if it computed all the time": ("I5", lambda _, r: r[0]["joules"].update(a=4.0 * 4)),
    "joules are told of a device whose watts nobody knows": ("I5", lambda _, r: r[0]["joules"].update(c=1.0)),
    "joules of a device with known watts are not told": ("I5", lambda _, r: r[0]["joules"].update(a=None)),
    "a device changes its watts": (
        "I6",
        lambda _, r: (r[1]["watts"].update(a=[2.0, 8.0, 4.0]), r[1]["joules"].update(a=2 * 12.75)),
    ),
    "the path waits less than nothing": ("rows", lambda _, r: r[1]["critical"].update(setup_s=3.0, wait_s=-0.5)),
    "the path is too long": ("rows", lambda _, r: r[1]["critical"].update(wait_s=2.6)),
    "the path is too long by a few microseconds": ("rows", lambda _, r: r[1]["critical"].update(wait_s=2.500005)),
    "the path computes a microsecond longer and waits less": (
        "rows",
        lambda _, r: r[1]["critical"].update(compute_s={"fit": 2.000001}, wait_s=2.499999),
    ),
}


def change(row: Body, **more: list[float]) -> None:
    """Other useful, wasted and idle seconds of devices; the sums over all follow."""
    held = row["seconds"]["devices"]
    held |= {name: [a + b for a, b in zip(held[name], each, strict=True)] for name, each in more.items()}
    row["seconds"] |= {
        use: sum(each[n] for each in held.values()) for n, use in enumerate(("useful", "wasted", "idle"))
    }


def swap(lines: Lines, one: Body, other: Body) -> None:
    """Puts each where the other was, at the other's time."""
    i, j = lines.index(one), lines.index(other)
    lines[i], lines[j] = other | {"t": one["t"]}, one | {"t": other["t"]}


@pytest.mark.parametrize(("law", "edit"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_found_and_named(verdict: Judge, law: str, edit: Edit) -> None:
    record = (events(), rows())
    edit(*record)

    assert names(law, verdict(*record))


def test_a_fault_says_where_and_what(verdict: Judge) -> None:
    lines = events()
    find(lines, "up.cut", 1)["bytes"] = 51
    number = lines.index(find(lines, "up.cut", 1)) + 1

    fault = verdict(lines)[0]

    assert fault == f"I5: line {number}, round 1, device 'b': 51 bytes went through of 50 announced"


# --- lines of the wrong form

WRONG: list[object] = [True, -1, 1e300, "x", [1], {"x": -1}]
ANY_WORDS = {("compute.end", "update"), ("refused", "why"), ("server.end", "model")}  # digests: see the chain above
PLACES = pytest.mark.parametrize("place", range(len(events())), ids=[name_of(body) for body in events()])


@PLACES
def test_a_line_without_a_key_is_a_fault_of_form(verdict: Judge, place: int) -> None:
    for key in events()[place]:
        lines = events()
        del lines[place][key]
        assert any(f"line {place + 1}:" in fault for fault in names("form", verdict(lines, rows()))), key


@PLACES
def test_a_value_of_another_kind_is_a_fault(verdict: Judge, place: int) -> None:
    for key, wrong in product(events()[place], WRONG):
        if wrong == "x" and (name_of(events()[place]).split()[1], key) in ANY_WORDS:
            continue
        lines = events()
        lines[place][key] = wrong
        assert verdict(lines, rows()), f"{key} = {wrong!r}"


@pytest.mark.parametrize("key", [*rows()[0]])
def test_a_row_without_a_key_is_a_fault_of_form(verdict: Judge, key: str) -> None:
    lines = rows()
    del lines[1][key]

    faults = verdict(events(), lines)

    assert names("form", faults)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_only_finite_numbers_are_numbers(verdict: Judge, tmp_path: Path, number: str) -> None:
    verdict(events(), rows())
    for file, old in (("events.jsonl", '"seconds": 2.5'), ("rounds.jsonl", '"time_s": 10.5')):
        path = tmp_path / file
        whole = path.read_text()
        assert old in whole
        path.write_text(whole.replace(old, f"{old.split(':')[0]}: {number}"))
        assert names("form", audit_run(tmp_path))
        path.write_text(whole)


def test_an_unknown_event_and_an_unknown_key_are_faults(verdict: Judge) -> None:
    assert names("form", verdict([*events(), line(11.0, "reset", 1)], rows()))
    assert names("form", verdict([*events()[:-1], events()[-1] | {"mood": 1}]))


def test_a_missing_file_is_a_fault(tmp_path: Path) -> None:
    assert re.search(r"events\.jsonl is missing", audit_run(tmp_path)[0])
    (tmp_path / "events.jsonl").touch()
    assert re.search(r"rounds\.jsonl is missing", audit_run(tmp_path)[0])


# --- garbage never raises

ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
NESTED = ANY | st.lists(ANY, max_size=2) | st.dictionaries(st.sampled_from(["fit", "frame"]), ANY, max_size=2)
KEY_NAMES = sorted({key for keys in EVENTS.values() for key in keys})
NOISE = st.fixed_dictionaries(
    {"event": st.sampled_from(sorted(EVENTS)), "t": st.floats(0, 9) | ANY, "round": st.integers(0, 2) | ANY},
    optional=dict.fromkeys(KEY_NAMES, NESTED),
)
QUICK = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.slow
@QUICK
@given(noise=st.lists(NOISE, max_size=3), place=st.integers(0, len(events())))
def test_random_objects_between_good_lines_are_faults(verdict: Judge, noise: Lines, place: int) -> None:
    lines = events()
    lines[place:place] = noise

    assert bool(verdict(lines, rows())) == bool(noise)


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_random_values_anywhere_never_raise(verdict: Judge, data: st.DataObject) -> None:
    record = (events(), rows())
    for _ in range(3):
        body = data.draw(st.sampled_from(record[0] + record[1]))
        body[data.draw(st.sampled_from(sorted(body)))] = data.draw(NESTED)

    assert isinstance(verdict(*record), list)


@pytest.mark.slow
@QUICK
@given(noise=st.binary(min_size=1, max_size=60))
def test_random_bytes_are_a_fault_of_the_file_that_holds_them(verdict: Judge, tmp_path: Path, noise: bytes) -> None:
    verdict(events(), rows())
    (tmp_path / "events.jsonl").write_bytes(noise + b"\n")

    (fault,) = audit_run(tmp_path)
    assert re.match(r"form: .*events\.jsonl:\d+ (is not|must hold a)", fault)


def test_deep_nesting_and_long_numbers_are_no_traceback(verdict: Judge, tmp_path: Path) -> None:
    verdict(events(), rows())
    for hostile in ("[" * 100_000, '{"t": ' + "9" * 5000 + "}"):
        (tmp_path / "events.jsonl").write_text(hostile + "\n")
        assert re.match(r"form: .*events\.jsonl:1 is not JSON", audit_run(tmp_path)[0])
    (tmp_path / "events.jsonl").write_text('{"t": ' + "9" * 400 + "}\n" + '{"a":' * 300 + "1" + "}" * 300 + "\n")
    assert len(names("form", audit_run(tmp_path))) == 2

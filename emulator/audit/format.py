"""Checks the form of a record: the keys of each line and row, and the types of their values.  Pure."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Fits = Callable[[object], bool]
LARGEST = 1e100  # a larger number is nonsense, and sums of it may overflow


@dataclass(frozen=True)
class ValueKind:
    """A kind of value in a record: a test for valid values, and their description for messages."""

    fits: Fits
    words: str

    def __or__(self, other: ValueKind) -> ValueKind:
        return ValueKind(lambda value: self.fits(value) or other.fits(value), f"{self.words} or {other.words}")


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -LARGEST < value < LARGEST  # type: ignore[operator]  # nan fails as well


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _one_of(*words: str) -> ValueKind:
    return ValueKind(lambda value: isinstance(value, str) and value in words, " | ".join(words))


def _each(kind: ValueKind) -> ValueKind:
    def fits(value: object) -> bool:
        return isinstance(value, dict) and all(map(kind.fits, value.values()))

    return ValueKind(fits, f"an object whose values are each {kind.words}")


ANYTHING = ValueKind(lambda _: True, "anything")
NULL = ValueKind(lambda value: value is None, "null")
NUMBER = ValueKind(_is_number, "a finite number")
AMOUNT = ValueKind(lambda value: _is_number(value) and value >= 0, "a finite number of at least 0")  # type: ignore[operator]
RATE = ValueKind(lambda value: _is_number(value) and value > 0, "a finite number above 0")  # type: ignore[operator]
COUNT = ValueKind(lambda value: type(value) is int and 0 <= value < LARGEST, "a whole number of at least 0")
TRUTH = ValueKind(lambda value: isinstance(value, bool), "true or false")
TEXT = ValueKind(_is_text, "a string")
NAMES = ValueKind(lambda value: isinstance(value, list) and all(map(_is_text, value)), "a list of strings")
WHY, WHAT = _one_of("off", "closed", "broken"), _one_of("request", "combine")
SIZES, BILL = _each(COUNT), _each(AMOUNT)
THREE = ValueKind(
    lambda value: isinstance(value, list) and len(value) == 3 and all(map(AMOUNT.fits, value)),
    f"a list of three, each {AMOUNT.words}",
)
USES = ("useful", "wasted", "idle")


def _is_used(value: object) -> bool:
    if not isinstance(value, dict) or value.keys() != {*USES, "devices"}:
        return False
    return all(AMOUNT.fits(value[use]) for use in USES) and _each(THREE).fits(value["devices"])


USED = ValueKind(_is_used, "an object of useful, wasted and idle seconds, and of the same for each of the devices")
FRAMED = ValueKind(lambda value: SIZES.fits(value) and "frame" in value, f"{SIZES.words}, one of them `frame`")  # type: ignore[operator]


def _is_reply(value: object) -> bool:
    """Returns true for a device's name, and for [name, round]: a reply to an earlier round."""
    if isinstance(value, list):
        return len(value) == 2 and TEXT.fits(value[0]) and COUNT.fits(value[1])
    return TEXT.fits(value)


REPLIES = ValueKind(
    lambda value: isinstance(value, list) and all(map(_is_reply, value)),
    f"{NAMES.words}, or of [name, round] for replies to earlier rounds",
)

Keys = dict[str, ValueKind]
COMMON: Keys = {"t": AMOUNT, "event": TEXT, "round": COUNT}
START: Keys = {"device": TEXT, "bytes": FRAMED, "reply_to": COUNT | NULL}
END: Keys = {"device": TEXT}
STOP: Keys = {"device": TEXT, "bytes": COUNT, "why": WHY}
CHARGE: Keys = {"phases": BILL, "seconds": BILL, "rate": RATE}
EVENTS: dict[str, Keys] = {
    "open": {"asked": NAMES, "model": TEXT},
    "ask": {"asked": NAMES},
    "close": {"reason": _one_of("all", "first", "deadline", "too_few"), "counted": REPLIES},
    **{f"{way}.start": START for way in ("down", "up")},
    **{f"{way}.end": END for way in ("down", "up")},
    **{f"{way}.cut": STOP for way in ("down", "up")},
    "compute.start": {"device": TEXT, **CHARGE},
    "compute.end": {"device": TEXT, "update": TEXT},
    "compute.cut": {"device": TEXT, "seconds": AMOUNT, "why": WHY},
    "server.start": {"what": WHAT, "flops": AMOUNT, **CHARGE},
    "server.end": {"what": WHAT, "model": TEXT},
    "off": END,
    "on": END,
    "refused": {"device": TEXT, "kind": _one_of("device", "examples", "form", "values"), "why": TEXT},
}
MAY_HAVE: dict[str, Keys] = {
    "open": {"idle": TEXT},
    "ask": {"idle": TEXT},
    "compute.start": {"jitter": _each(RATE), "throttled": RATE},
    "compute.cut": {"then": _one_of("pause", "restart"), "done": AMOUNT},
    **{f"{way}.cut": {"then": _one_of("resume", "restart")} for way in ("down", "up")},
    "compute.end": {"overrun": AMOUNT, "loss": NUMBER},
    "server.end": {"overrun": AMOUNT},
    **{f"{way}.start": {"setup": AMOUNT, "wire": COUNT, "from": COUNT} for way in ("down", "up")},
}
SHARE = ValueKind(lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1")  # type: ignore[operator]
ROW: Keys = {
    "round": COUNT,
    "time_s": AMOUNT,
    "bytes": _each(SIZES),
    "flops": AMOUNT,
    "failed": TRUTH,
    **dict.fromkeys(("asked", "counted", "late", "lost", "refused", "wasted_bytes"), COUNT),
    "seconds": USED,
    "joules": _each(AMOUNT | NULL),
    "watts": _each(THREE | NULL),
}
LEARNT: Keys = {  # metrics of models, which the audit cannot recompute
    "accuracy": SHARE | NULL,
    **dict.fromkeys(("loss", "validation", "initial", "personalised", "personalised_participants"), NUMBER | NULL),
    "leverage": _each(NUMBER),
    "numbers": _each(NUMBER | NULL),
}
STALE: Keys = {"staleness": _each(COUNT), "weights": _each(AMOUNT), "stale": COUNT}  # of asynchronous rounds, or late
PARTS = ("down_s", "compute_s", "up_s", "server_s")
CRITICAL: Keys = {
    "device": TEXT | NULL,
    **dict.fromkeys(("setup_s", "wait_s"), NUMBER),
    **dict.fromkeys(PARTS, _each(NUMBER)),
}


def malformed(body: Row) -> Iterator[str]:
    """Yields a sentence for each fault in the form of a line of events.jsonl."""
    event = body.get("event")
    if not isinstance(event, str) or event not in EVENTS:
        yield f"the event is {reprlib.repr(event)}; it must be one of {', '.join(EVENTS)}"
        return
    keys = COMMON | EVENTS[event] | {key: kind for key, kind in MAY_HAVE.get(event, {}).items() if key in body}
    yield from _misfits(body, keys, event)
    for key in sorted(body.keys() - keys.keys()):
        yield f"{event} has the unknown key {key!r}"


def _misfits(body: Row, keys: Keys, what: str) -> Iterator[str]:
    for key, kind in keys.items():
        if key not in body:
            yield f"{what} has no {key!r}; it must be {kind.words}"
        elif not kind.fits(body[key]):
            yield f"{key!r} of {what} is {reprlib.repr(body[key])}; it must be {kind.words}"


def misformed(row: Row) -> Iterator[str]:
    """Yields a sentence for each fault in the form of a row of rounds.jsonl."""
    known = ROW | LEARNT | {"critical": _each(ANYTHING)} | {key: kind for key, kind in STALE.items() if key in row}
    yield from _misfits(row, known, "a row")
    yield from (f"a row has the unknown key {key!r}" for key in sorted(row.keys() - known.keys()))
    if isinstance(critical := row.get("critical"), dict):
        yield from _misfits(critical, CRITICAL, "critical")
        yield from (f"critical has the unknown key {key!r}" for key in sorted(critical.keys() - CRITICAL.keys()))
    todo: list[object] = [row]  # no recursion: a hostile row may be nested deeply
    while todo:
        value = todo.pop()
        if isinstance(value, dict | list):
            todo += value.values() if isinstance(value, dict) else value
        elif isinstance(value, float) and not NUMBER.fits(value):
            yield f"it holds {value}, which is not a finite number"

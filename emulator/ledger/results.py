"""Converts results of jobs to the plain values that facts hold, and back.  Messages stay in the store; a fact has only
their digests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from emulator.lab.jobs import Opening, State, combine, evaluate, request, start
from emulator.lab.scoring import Score, Scores
from emulator.lab.training import Learnt, Trained, personalise_stack, train, train_stack
from emulator.messages.store import Ref, Stored
from network.wire.form import NotFinite, RefusedMessage

Plain = Any  # lists, strings, numbers and bytes, which msgpack encodes
FAULTS = {"refused": RefusedMessage, "not finite": NotFinite}
# An array is kept in the first of these forms that loses no bit; nearly always that is a quarter of the last form.
COUNTS, LOSSES, ROWS = ("<u1", "<u2", "<i8"), ("<f4", "<f8"), ("<u1", "<u2", "<f4", "<f8")


def refs(value: object) -> Iterator[Ref]:
    """Yields the Refs (digest and size) of all messages in a job's result or arguments.  For a row of a stack, it is
    the Ref of the whole stack."""
    match value:
        case Ref():
            yield value.whole
        case Stored():
            yield value.ref.whole
        case State():
            yield from (value.message, value.weights)
        case Opening():
            yield from refs([value.download, *value.extra.values()])
        case Trained():
            yield from refs([value.upload, value.kept, value.kept_if_counted])
        case Mapping():
            yield from refs(list(value.values()))
        case list() | tuple():
            for part in value:
                yield from refs(part)


def plain_ref(ref: Ref) -> Plain:
    """Returns the digest and size in bytes of a message; for a message that is a row of a stack, followed by the
    stack's digest and size and the row's number."""
    return [ref.digest, ref.nbytes, *([ref.stack.digest, ref.stack.nbytes, ref.row] if ref.stack else [])]


def read_ref(plain: Plain) -> Ref:
    """Returns the Ref that `plain_ref` has converted.  It does not keep the message's bytes (see
    messages.files.Holders)."""
    digest, nbytes, *row = plain
    return Ref(digest, nbytes, Ref(*row[:2]), row[2]) if row else Ref(digest, nbytes)


def _stored(message: Stored) -> Plain:
    fault = message.fault
    kind = next((kind for kind, of in FAULTS.items() if type(fault) is of), None)
    return [plain_ref(message.ref), dict(message.sizes), kind, str(fault) if fault else ""]


def _read_stored(plain: Plain) -> Stored:
    ref, sizes, kind, text = plain
    return Stored(read_ref(ref), sizes, FAULTS[kind](text) if kind else None)


def _state(state: State) -> Plain:
    return [plain_ref(state.message), plain_ref(state.weights)]


def _read_state(plain: Plain) -> State:
    message, weights = map(read_ref, plain)
    return State(weights if message == weights else message, weights)


def _opening(opening: Opening) -> Plain:
    return [_stored(opening.download), {name: _stored(of) for name, of in opening.extra.items()}]


def _read_opening(plain: Plain) -> Opening:
    download, extra = plain
    return Opening(_read_stored(download), {name: _read_stored(of) for name, of in extra.items()})


def _each_score(scores: Sequence[Score]) -> Plain:
    return [[score.value, score.counted, score.loss] for score in scores]


def _read_each_score(plain: Plain) -> list[Score]:
    return [Score(*score) for score in plain]


def _trained(done: Trained) -> Plain:
    later, learnt = done.kept_if_counted, done.learnt
    messages = [_stored(done.upload), _stored(done.kept), _stored(later) if later else None]
    told = [dict(learnt.leverage), dict(learnt.numbers), _each_score(learnt.personalised)]
    return [done.examples, messages, told, *([] if done.loss is None else [done.loss])]


def _read_trained(plain: Plain) -> Trained:
    examples, (upload, kept, later), (leverage, numbers, scores), *loss = plain
    learnt = Learnt(leverage, numbers, _read_each_score(scores))
    counted = _read_stored(later) if later else None
    return Trained(_read_stored(upload), examples, _read_stored(kept), counted, learnt, *loss)


def _scores(scores: Scores) -> Plain:
    rows = {name: [each.shape[1], *_narrow(each, ROWS)] for name, each in scores.rows.items()}
    return [rows, _narrow(scores.counted, COUNTS), _narrow(scores.loss, LOSSES)]


def _narrow(values: ndarray, forms: Sequence[str]) -> Plain:
    for form in forms:
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = values.astype(form)
        if narrow.astype(forms[-1]).tobytes() == values.tobytes():
            return [form, narrow.tobytes()]
    raise ValueError(f"{values.dtype} is none of {', '.join(forms)}")


def _read_scores(plain: Plain) -> Scores:
    rows, counted, loss = plain
    read = {name: _wide(part, ROWS).reshape(-1, width) for name, (width, *part) in rows.items()}
    return Scores(read, _wide(counted, COUNTS), _wide(loss, LOSSES))


def _wide(plain: Plain, forms: Sequence[str]) -> ndarray:
    form, data = plain
    return np.frombuffer(data, form).astype(forms[-1])


Forms = tuple[Callable[[Any], Plain], Callable[[Plain], Any]]


def _of_each(to: Callable[[Any], Plain], back: Callable[[Plain], Any]) -> Forms:
    """Returns the conversions, to plain values and back, of the results of a stack of devices, from those of one
    device's result."""
    return (lambda results: list(map(to, results))), (lambda plain: list(map(back, plain)))


Job = Callable[..., Any]
# Job -> the conversions of its result to a plain value and back.  Other jobs are never remembered.
FORMS: dict[Job, Forms] = {
    start: (_state, _read_state),
    request: (_opening, _read_opening),
    train: (_trained, _read_trained),
    train_stack: _of_each(_trained, _read_trained),
    personalise_stack: _of_each(_each_score, _read_each_score),
    combine: (_state, _read_state),
    evaluate: (_scores, _read_scores),
}

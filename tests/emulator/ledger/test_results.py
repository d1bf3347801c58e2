"""Results of jobs as plain values, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest

from emulator.lab.jobs import Opening, State, combine, evaluate, request, start
from emulator.lab.scoring import Score, Scores
from emulator.lab.training import Learnt, Trained, personalise_stack, train, train_stack
from emulator.ledger.results import FORMS, refs
from emulator.messages.store import EMPTY, Ref, Stored
from network.wire.form import NotFinite, RefusedMessage

A, B, C = (Ref.of(data) for data in (b"a", b"b", b"c"))
ROWS = [Ref(A.digest, 1, C, 0), Ref(B.digest, 1, C, 1)]  # of a stack's message
ONE = Stored(A, {"weights": 30, "frame": 2})
TWO = Stored(B, {"fisher": 1, "frame": 2})
LEARNT = Learnt({"99": 0.1 + 0.2}, {"drift": 5e-324}, [Score(1 / 3, 2, 1 / 3), Score(None, 0, -0.0)])
RESULTS: list[tuple[Callable[..., Any], Any]] = [
    (start, State(A, A)),
    (combine, State(A, B)),
    (request, Opening(ONE, {})),
    (request, Opening(ONE, {"d1": TWO, "d2": EMPTY})),
    (train, Trained(ONE, 60, EMPTY, None, Learnt(personalised=[]))),
    (train, Trained(ONE, 60, TWO, Stored(C, {"frame": 1}), LEARNT)),
    (train_stack, [Trained(ONE, 60, EMPTY, None, LEARNT), Trained(ONE, 6, TWO, Stored(C, {"frame": 1}), LEARNT)]),
    (personalise_stack, [[Score(0.75, 4, 0.1)], []]),
]


@pytest.mark.parametrize(("job", "result"), RESULTS)
def test_a_result_comes_back_as_it_was(job: Callable[..., Any], result: Any) -> None:
    there, back = FORMS[job]
    assert back(msgpack.unpackb(msgpack.packb(there(result)))) == result


@pytest.mark.parametrize(
    "fault", [RefusedMessage("weights: a tensor too many"), NotFinite("weights: nan"), NotFinite("")]
)
def test_what_was_wrong_with_an_upload_comes_back_as_it_was(fault: RefusedMessage) -> None:
    there, back = FORMS[train]
    again = back(msgpack.unpackb(msgpack.packb(there(Trained(Stored(A, {"frame": 1}, fault), 1, EMPTY, None)))))
    assert type(again.upload.fault) is type(fault)
    assert str(again.upload.fault) == str(fault)


def test_a_row_of_a_stack_comes_back_with_the_stack_s_message() -> None:
    there, back = FORMS[train_stack]
    done = [Trained(Stored(row, {"frame": 1}), 1, EMPTY, None) for row in ROWS]
    again = [each.upload.ref for each in back(msgpack.unpackb(msgpack.packb(there(done))))]
    assert [(ref, ref.stack, ref.row) for ref in again] == [(ROWS[0], C, 0), (ROWS[1], C, 1)]


@pytest.mark.parametrize("n", [0, 3])
def test_scores_come_back_bit_for_bit(n: int) -> None:
    there, back = FORMS[evaluate]
    scores = Scores({"accuracy": np.arange(n * 1.0).reshape(n, 1)}, np.full(n, 2), np.array([0.1, np.inf, -0.0][:n]))
    again = back(msgpack.unpackb(msgpack.packb(there(scores))))
    pairs = [(getattr(scores, part), getattr(again, part)) for part in ("counted", "loss")]
    for before, after in [*pairs, (scores.rows["accuracy"], again.rows["accuracy"])]:
        assert before.dtype == after.dtype
        assert before.tobytes() == after.tobytes()


def test_a_fact_of_a_training_takes_less_than_a_kilobyte() -> None:
    assert len(msgpack.packb(FORMS[train][0](RESULTS[5][1]))) < 1000


def test_all_messages_of_a_result_are_found() -> None:
    assert set(refs(RESULTS[5][1])) == {A, B, C}
    assert set(refs(RESULTS[3][1])) == {A, B, EMPTY.ref}
    assert set(refs(State(A, B))) == {A, B}
    assert set(refs((1, "x", {"d": (C, 7)}, None))) == {C}
    assert list(refs({"d1": (ROWS[0], 7), "d2": Stored(ROWS[1], {})})) == [C, C]

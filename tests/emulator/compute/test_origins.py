"""Which jobs make a message again: each once, and none before what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from emulator.compute.origins import NoOrigin, Origins, loose, plain_args, read_args
from emulator.lab.jobs import State, combine, start
from emulator.lab.training import Trained, train
from emulator.ledger.results import Job, refs
from emulator.messages.store import EMPTY, NOTHING, Ref, Stored
from emulator.record.run import Run

RUN = Run("some", 1)


def ref(name: str) -> Ref:
    return Ref.of(name.encode())


def state(name: str) -> State:
    return State(ref(name), ref(name))


def combined(origins: Origins, round: int, before: str, after: str, *uploads: str) -> None:
    replies = {f"d{number}": (ref(name), 5) for number, name in enumerate(uploads)}
    origins.note(combine, (RUN, round, ref(before), replies, NOTHING), state(after))


def trained(origins: Origins, device: str, download: str, upload: str, memory: Ref = NOTHING) -> None:
    kept = EMPTY if memory == NOTHING else Stored(memory, {})
    result = Trained(Stored(ref(upload), {}), 5, kept, None)
    origins.note(train, (RUN, device, 0, ref(download), memory, False), result)


@pytest.fixture
def origins() -> Origins:
    made = Origins()
    made.note(start, (RUN,), state("first"))
    return made


def planned(origins: Origins, *wanted: str, here: Sequence[str] = ()) -> list[tuple[Job, tuple[Any, ...]]]:
    present = {ref(name).digest for name in here} | {NOTHING.digest}
    return [
        (each.job, each.args) for each in origins.plan([ref(name) for name in wanted], lambda r: r.digest in present)
    ]


def test_each_job_comes_once_and_after_those_that_make_what_it_needs(origins: Origins) -> None:
    trained(origins, "a", "first", "up a")
    trained(origins, "b", "first", "up b")
    combined(origins, 0, "first", "second", "up a", "up b")
    plan = planned(origins, "second")
    assert sorted(job.__name__ for job, _ in plan) == ["combine", "start", "train", "train"]
    there = {NOTHING.digest}
    makes = {"start": ["first"], "combine": ["second"]}
    for job, args in plan:
        assert {each.digest for each in refs(args)} <= there
        there |= {ref(name).digest for name in makes.get(job.__name__, [f"up {args[1]}" if len(args) > 1 else ""])}


def test_nothing_is_made_again_that_is_here(origins: Origins) -> None:
    combined(origins, 0, "first", "second")
    combined(origins, 1, "second", "third")
    assert [args[1] for _, args in planned(origins, "third", here=["second"])] == [1]
    assert planned(origins, "third", here=["third"]) == []


def test_a_model_that_comes_back_is_made_as_it_was_at_first(origins: Origins) -> None:
    """Else it would be made from the one that was made from it."""
    combined(origins, 0, "first", "second")
    combined(origins, 1, "second", "first")
    assert planned(origins, "first") == [(start, (RUN,))]


def test_a_job_does_not_make_what_it_was_given(origins: Origins) -> None:
    trained(origins, "a", "first", "up", memory=ref("memory"))
    assert [job for job, _ in planned(origins, "up", here=["memory"])] == [start, train]
    with pytest.raises(NoOrigin, match=ref("memory").digest):
        planned(origins, "memory")


@pytest.mark.parametrize(
    "args",
    [
        (RUN,),
        (RUN, 3, ref("state"), ("a", "b")),
        (RUN, "a", 3, ref("down"), NOTHING, True),
        (RUN, 3, ref("state"), {"a": (ref("up"), 5), "b": (ref("other"), 6)}, NOTHING),
        (RUN, ref("weights"), "test", 0, 1),
    ],
)
def test_arguments_come_back_from_plain_values_as_they_were(args: tuple[Any, ...]) -> None:
    assert read_args(plain_args(args)) == loose(args) == args

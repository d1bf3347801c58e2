"""The stacks of a round, and the time at which they train."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from algorithms import stack
from algorithms.fedavg import FedAvg
from emulator.conversation.trainings import Trainings
from emulator.lab.faulty import Faulty
from emulator.lab.guarded import Guarded
from emulator.lab.training import train, train_stack
from emulator.messages.store import NOTHING, Ref
from emulator.record.run import Run
from emulator.worlds.interface import Ticket
from tests.algorithms.test_stack import ROUGH, Broken, played
from tests.emulator.ledger.small import lab

RUN = Run("mine", 1)
INPUTS = {name: (Ref.of(name.encode()), NOTHING, NOTHING) for name in "abcde"}


class Jobs:
    """A world that notes what is handed in."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.futures: list[Future[Any]] = []

    def submit(self, job: Any, *args: Any) -> Ticket:
        self.done.append((job, *args))
        self.futures.append(Future())
        return Ticket(self.futures[-1])


def trainings(stack: int, over_sockets: bool = False) -> tuple[Trainings, Jobs]:
    world: Any = Jobs()
    return Trainings(world, lab(stack={"mine": stack}, over_sockets=over_sockets), RUN, lambda round: round == 3), world


def started(which: Trainings, names: str, round: int = 3) -> dict[str, Ticket]:
    return {name: which.start(name, round, INPUTS[name]) for name in names}


def test_without_stacks_each_device_trains_by_itself() -> None:
    which, world = trainings(1)
    which.plan(3, INPUTS)
    started(which, "ab")
    assert world.done == [(train, RUN, name, 3, *INPUTS[name][:2], True) for name in "ab"]


@pytest.mark.parametrize("order", ["abcde", "ecadb", "b", ""])
def test_stacks_are_those_of_the_round_and_begin_with_it_whoever_starts(order: str) -> None:
    which, world = trainings(3)
    which.plan(3, INPUTS)
    started(which, order)
    jobs = {"".join(args[3]): args for args in world.done}
    assert jobs.keys() == {"ab", "cde"}
    downloads = (INPUTS["a"][0], INPUTS["b"][0])
    assert jobs["ab"] == (train_stack, RUN, 3, ("a", "b"), downloads, (NOTHING, NOTHING), True)


def test_a_memory_that_is_not_that_of_the_model_s_last_reply_comes_with_that() -> None:
    which, world = trainings(2)
    older = Ref.of(b"older")
    inputs = INPUTS | {"b": (*INPUTS["b"][:2], older)}
    which.plan(3, {name: inputs[name] for name in "ab"})
    which.start("b", 4, inputs["b"])
    assert [args[-1] for args in world.done] == [{"b": older}] * 2


def test_each_gets_its_own_result() -> None:
    which, world = trainings(3)
    which.plan(3, INPUTS)
    tickets = started(which, "dc")
    world.futures[1].set_result(["of c", "of d", "of e"])
    assert [tickets[name].future.result() for name in "cd"] == ["of c", "of d"]
    assert which.start("e", 3, INPUTS["e"]).future.result() == "of e"


def test_a_stack_is_dropped_when_nobody_wants_it_any_more() -> None:
    which, world = trainings(2)
    which.plan(3, {name: INPUTS[name] for name in "ab"})
    tickets = started(which, "ab")
    tickets["a"].cancel()
    assert not world.futures[0].cancelled()
    tickets["b"].cancel()
    assert world.futures[0].cancelled()


def test_a_stack_of_which_no_device_starts_is_dropped() -> None:
    which, world = trainings(2)
    which.plan(3, {name: INPUTS[name] for name in "abcd"})
    which.forget("a")
    assert not world.futures[0].cancelled()
    which.forget("b")
    assert [future.cancelled() for future in world.futures] == [True, False]
    which.plan(4, {"e": INPUTS["e"]})
    assert world.futures[1].cancelled()


def test_over_sockets_a_request_that_is_late_still_finds_its_stack() -> None:
    which, world = trainings(2, over_sockets=True)
    which.plan(3, {name: INPUTS[name] for name in "ab"})
    which.plan(4, {name: INPUTS[name] for name in "cd"})
    ticket = which.start("a", 3, INPUTS["a"])
    world.futures[0].set_result(["of a", "of b"])
    assert ticket.future.result() == "of a"
    assert [args[0] for args in world.done] == [train_stack] * 2


def test_what_was_planned_goes_when_the_run_ends() -> None:
    which, world = trainings(2, over_sockets=True)
    which.plan(3, {name: INPUTS[name] for name in "abcd"})
    started(which, "a")
    which.close()
    assert [future.cancelled() for future in world.futures] == [False, True]


def test_a_device_that_is_late_trains_alone_and_leaves_the_next_round_its_stack() -> None:
    which, world = trainings(2)
    which.plan(3, {name: INPUTS[name] for name in "ab"})
    which.plan(4, {name: INPUTS[name] for name in "ab"})
    started(which, "a", round=3)
    assert world.done[-1][0] is train
    tickets = started(which, "ab", round=4)
    world.futures[1].set_result(["of a", "of b"])
    assert [ticket.future.result() for ticket in tickets.values()] == ["of a", "of b"]


def test_an_error_is_the_devices_that_raised_it() -> None:
    ((downloads, devices),) = played(FedAvg(ROUGH), rounds=1)
    with pytest.raises(Faulty, match=r"mine, round 0, device d: train\(\) raised ValueError: d has none"):
        stack.train(Guarded("mine", Broken(ROUGH)), downloads, devices)

"""Prices of a replay, from records made by hand: what is said is kept, what is not comes from what is most alike."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from devices.device import Device, Profile
from devices.jitter import factor
from emulator.lab.seeds import seed
from emulator.record.call import Call
from emulator.record.events import Refused
from emulator.record.run import AlgorithmFacts, Run
from emulator.record.tally import Bill
from emulator.record.work import Duty, Piece
from emulator.replay.prices import Prices, Unsaid
from emulator.replay.script import DeviceScript, RoundScript, Script, Served

SIZES = {"weights": 100, "frame": 10}
REFUSAL = {"frame": 30}
WAS = Profile("was", 100.0, 1e9, 0.0, 1000, "")
NOW = Profile("now", 50.0, 1e9, 0.0, 1000, "")  # half as fast
TRAIN = (Piece.of("train", 600.0, 3),)
DUTY = Duty(TRAIN, 9, 500)
FACTS = AlgorithmFacts(keeps_uncounted=False, any_cohort_will_do=True, cohort="drawn")


def fleet(profile: Profile) -> Any:
    """As a lab or a setting has it."""
    return SimpleNamespace(fleet={name: Device(name, profile) for name in "ab"}, server=Device("server", profile))


def trained(duty: Duty = DUTY, seconds: float = 6.0) -> DeviceScript:
    return DeviceScript(SIZES, Bill({"train": 600.0}, {"train": seconds}, duty.pieces), "u", up=SIZES, duty=duty)


def combined(number: int, replies: int, phase: str = "combine", **parts: DeviceScript) -> RoundScript:
    """A round; combining takes 100 FLOPs for each reply."""
    work = (Piece.of(phase, 100.0 * replies, 1),)
    bill = Bill({phase: 100.0 * replies}, {phase: float(replies)}, work)
    counted = tuple(Call(name, number) for name in "abcdef"[:replies])
    return RoundScript(number, tuple(parts), "", counted, True, {"combine": Served(bill)}, parts)


TOO_LARGE = Refused(0.0, 0, "b", "device", "x needs more")


def prices(*rounds: RoundScript, was: Profile = WAS, now: Profile = WAS) -> Prices:
    own = fleet(was)
    return Prices(own if was == now else fleet(now), Script(Run("x", 1), FACTS, rounds), own)


def test_where_nothing_changed_a_bill_is_the_recorded_one() -> None:
    """Also one that this version would have made otherwise."""
    part = trained(seconds=7.5)
    assert prices(combined(0, 1, a=part)).device("a", 0, (), ()) is part.bill


def test_on_other_hardware_it_is_the_price_of_the_recorded_work() -> None:
    made = prices(combined(0, 1, a=trained()), now=NOW)
    assert made.device("a", 0, (), ()).seconds == {"train": 12.0}  # 600 FLOPs at 50 FLOP/s
    assert made.combine(0, 1).seconds == {"combine": 2.0}
    assert not made.assumed


@pytest.mark.parametrize("now", [WAS, NOW])
def test_work_of_another_round_varies_as_this_round_does(now: Profile) -> None:
    """In round 1 the device was lost before it was asked anything."""
    was, now = replace(WAS, jitter=0.1), replace(now, jitter=0.1)
    made = prices(combined(0, 1, a=trained(seconds=6.3)), combined(1, 1, a=DeviceScript()), was=was, now=now)
    drawn = factor(0.1, 3, np.random.default_rng(seed(1, "jitter", "a", 1)))
    bill = made.device("a", 1, (), ())
    assert bill.seconds == {"train": pytest.approx(drawn * 600.0 / now.flops_per_s)}
    assert (bill.jitter, made.assumed) == ({"train": drawn}, {("work", "a", 1)})


def test_work_is_that_of_the_nearest_round_with_such_phases() -> None:
    fisher = Duty((*TRAIN, Piece.of("fisher", 300.0, 1)), 9, 500)
    rounds = [
        combined(0, 1, a=trained(fisher), b=trained(fisher)),
        combined(1, 1, a=trained(), b=trained()),
        combined(2, 1, b=trained(fisher)),
    ]
    assert prices(*rounds).device("a", 2, (), ()).flops == {"train": 600.0, "fisher": 300.0}


def test_what_a_device_never_did_nobody_knows() -> None:
    with pytest.raises(Unsaid, match="what b computes, because it took part in no round"):
        prices(combined(0, 1, a=trained())).device("b", 0, (), ())


def test_a_device_that_never_took_part_computes_what_the_one_with_most_nearly_its_examples_does() -> None:
    """c holds 19 examples: nearer to b's 20 than to a's 9."""
    longer = Duty((Piece.of("train", 1300.0, 7),), 20, 500)
    rounds = [combined(0, 1, a=trained(), b=trained(longer))]
    script = Script(Run("x", 1), FACTS, rounds, examples={"a": 9, "b": 20, "c": 19})
    machines = {name: Device(name, WAS) for name in "abc"}
    own: Any = SimpleNamespace(fleet=machines, server=Device("server", WAS))
    made = Prices(own, script, own)
    assert made.device("c", 0, (), ()).seconds == {"train": 13.0}
    assert made.assumed == {("work", "c", 0)}


def test_other_replies_are_combined_as_where_there_were_as_many() -> None:
    made = prices(combined(0, 3), combined(1, 2), combined(2, 3), combined(3, 1))
    assert made.combine(2, 3).seconds == {"combine": 3.0}
    assert not made.assumed
    assert made.combine(2, 2).seconds == {"combine": 2.0}
    assert made.combine(0, 6).seconds == {"combine": 3.0}  # the most that there were
    assert made.assumed == {("combine", "", 2), ("combine", "", 0)}


def test_and_with_the_same_work_if_there_is_such_a_round() -> None:
    made = prices(combined(0, 3), combined(1, 2, phase="meta"), combined(2, 1))
    assert made.combine(0, 2).seconds == {"combine": 3.0}
    failed = RoundScript(0, (), "", closed=True)
    assert prices(failed, combined(1, 2)).combine(0, 3).seconds == {"combine": 2.0}
    with pytest.raises(Unsaid, match="no round had enough replies"):
        prices(failed).combine(0, 1)


def test_a_device_with_less_memory_refuses_and_one_with_more_does_not() -> None:
    refusing = DeviceScript(SIZES, up=REFUSAL, refused=TOO_LARGE, duty=replace(DUTY, held=1500))
    rounds = [combined(0, 1, a=trained(), b=refusing)]
    small, large = (prices(*rounds, now=replace(NOW, memory_bytes=n)) for n in (499, 1500))
    said = "x needs 0.0005 MB for 9 examples, it has 0.000499 MB"
    assert small.refusal("a", 0, small.duty("a", 0, {}, {})) == said
    assert large.refusal("b", 0, large.duty("b", 0, {}, {})) is None
    assert large.up("b", 0) == SIZES  # not what its refusal weighed

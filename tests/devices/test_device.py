import csv
import math
from dataclasses import fields, replace
from importlib import resources

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Phase
from algorithms.counting.cost import Meter, sgd_traffic
from algorithms.counting.step_counts import StepCounts
from algorithms.models import cross_entropy
from devices.device import Device, Profile, profiles, read_profiles
from devices.presence import StatedPresence

PLAIN = Profile("plain", 1e9, 1e8, 0.5, 10**6, "made up")
HEADER = "name,quantity,value,unit,source,date"
LINES = [
    "board,speed,2,GFLOP/s,assumed,2026-11-21",
    "board,memory_bandwidth,3,GB/s,assumed,2026-11-21",
    "board,overhead,4,ms,assumed,2026-11-21",
    "board,memory,5,MB,assumed,2026-11-21",
]
FLASH = {"phone-low": 1.642, "phone-mid": 0.588, "phone-high": 0.179}  # s a batch of 10, LEAF FEMNIST CNN


def device(profile: Profile) -> Device:
    return Device("a", profile, StatedPresence())


def leaf_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3136, 2048),
        nn.ReLU(),
        nn.Linear(2048, 62),
    )


def flops_of_a_batch_of_ten() -> int:
    """By torch's own counter, forward and backward."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        leaf_cnn()(torch.empty(10, 1, 28, 28)).sum().backward()
    return counter.get_total_flops()


def test_computing_moving_and_overhead_add_up():
    # 2e9 FLOPs at 1e9 a second are 2 s; 1e7 floats are 4e7 bytes, 0.4 s at 1e8 a second; the overhead is 0.5 s
    assert device(PLAIN).seconds(StepCounts(2e9, 1e7), 1) == pytest.approx(2.9)
    assert device(PLAIN).seconds(StepCounts(2e9, 1e8), 1) == pytest.approx(6.5)


def test_time_is_proportional_to_the_steps():
    assert device(PLAIN).seconds(StepCounts(1e9), 7) == pytest.approx(7 * device(PLAIN).seconds(StepCounts(1e9), 1))
    assert device(PLAIN).seconds(StepCounts(1e9, 1e9), 0) == 0


def test_a_step_that_does_nothing_costs_its_overhead():
    assert device(PLAIN).seconds(StepCounts(), 3) == 1.5


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf])
@pytest.mark.parametrize("what", [*(field.name for field in fields(StepCounts)), "steps"])
def test_a_cost_that_is_none_is_refused(bad, what):
    step, steps = (StepCounts(), bad) if what == "steps" else (StepCounts(**{what: bad}), 1)
    with pytest.raises(ValueError, match=f"{what} is {bad}"):
        device(PLAIN).seconds(step, steps)


@pytest.mark.parametrize("field", ["flops_per_s", "memory_bytes_per_s", "memory_bytes"])
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_a_profile_without_speed_or_memory_is_refused(field, bad):
    with pytest.raises(ValueError, match=field):
        replace(PLAIN, **{field: bad})


def test_a_negative_overhead_is_refused():
    with pytest.raises(ValueError, match="overhead_s"):
        replace(PLAIN, overhead_s=-0.001)


@pytest.mark.slow  # the first use of torch's counter takes a second
@pytest.mark.parametrize("name", FLASH)
def test_a_phone_takes_the_seconds_that_flash_measured(name):
    parameters = sum(p.numel() for p in leaf_cnn().to("meta").parameters())
    step = Phase("train", "batch", examples=10, batch=10, traffic=sgd_traffic(parameters, 0))
    floats = Meter(leaf_cnn(), (1, 28, 28), cross_entropy).step(step).floats
    seconds = device(profiles()[name]).seconds(StepCounts(flops_of_a_batch_of_ten(), floats), 1)
    assert seconds == pytest.approx(FLASH[name], rel=1e-3)


def test_the_named_profiles_are_there():
    assert set(profiles()) == {
        "phone-low",
        "phone-mid",
        "phone-high",
        "pi-3",
        "pi-4",
        "pi-5",
        "jetson-nano",
        "laptop",
        "workstation",
        "gateway",
        "nexus-6",
        "redmi-note-7",
        "pixel-4",
        "pi-zero-2",
        "jetson-orin",
    }


def test_newer_phones_and_boards_are_faster():
    speed = {name: profile.flops_per_s for name, profile in profiles().items()}
    assert speed["phone-low"] < speed["phone-mid"] < speed["phone-high"]
    assert speed["pi-3"] < speed["pi-4"] < speed["pi-5"] < speed["laptop"] < speed["workstation"]


def test_every_number_says_that_it_was_measured_or_assumed():
    text = resources.files("devices").joinpath("profiles.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        assert "measured: " in row["source"] or "assumed" in row["source"], row
        assert row["date"] in ("2026-11-21", "2026-11-28"), row


def test_units_are_turned_into_ours_and_sources_are_kept():
    board = read_profiles([HEADER, *LINES])["board"]
    assert (board.flops_per_s, board.memory_bytes_per_s, board.overhead_s, board.memory_bytes) == (
        2e9,
        3e9,
        0.004,
        5_000_000,
    )
    assert "speed: assumed (2026-11-21)" in board.source


@pytest.mark.parametrize("line", range(4))
def test_a_profile_with_a_quantity_missing_is_refused(line):
    with pytest.raises(ValueError, match=r"board: .* missing"):
        read_profiles([HEADER, *(text for i, text in enumerate(LINES) if i != line)])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("board,speed,2,GFLOP/s,assumed,2026-11-21", "given twice"),
        ("board,speed,2,MFLOP/s,assumed,2026-11-21", "speed in MFLOP/s"),
        ("board,colour,2,GB/s,assumed,2026-11-21", "colour in GB/s"),
        ("other,speed", "does not have the columns name,quantity,value,unit,source,date"),
        ("other,speed,inf,GFLOP/s,assumed,d", "line 6: other: speed is 'inf'; it must be a finite number"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused(line, reason):
    with pytest.raises(ValueError, match=reason):
        read_profiles([HEADER, *LINES, line])


def test_on_a_slower_profile_any_work_takes_so_many_times_as_long() -> None:
    """Whatever bounds it: each speed and each overhead is changed; the radio wakes up as before."""
    speeds = {each.name: 1e9 for each in fields(Profile) if each.name.endswith("_flops_per_s")}
    whole = replace(PLAIN, operator_s=1e-3, convolution_s=1e-2, conv_bytes_per_s=2e8, wakeup_s=0.3, **speeds)
    step = StepCounts(1e9, 1e6, 6e8, 1e8, 5.0, 30.0, 4.0, 1e8, 2e8, 5e5)
    for profile in (PLAIN, whole):
        as_it_is, slow = device(profile).seconds(step, 3), device(profile.slower(2.5)).seconds(step, 3)
        assert slow == pytest.approx(2.5 * as_it_is)
    assert whole.slower(2.5).wakeup_s == 0.3
    assert whole.slower(2.5).name != whole.name  # profiles of one name are priced as one machine

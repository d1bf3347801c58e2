"""The output of `fedlapse calibrate`, and its arithmetic, which must find the rates that the seconds were made with."""

from __future__ import annotations

import pytest
import torch

from algorithms.counting.step_counts import StepCounts
from devices.device import read_profiles
from emulator.commands import calibrate
from emulator.commands.calibrate import csv_lines
from emulator.forecast import calibration
from emulator.forecast.calibration import Kernel, Measured, Starting, rates

STARTING = Starting(overhead=1e-4, operator=1e-6, convolution=1e-5)
FOUND = Measured(50e9, 40e9, 20e9, 10e9, 1e-4, 1e-6, 1e-5)
COSTS = [
    ("conv", 3e8, 2.9e8, 0, 1e6),
    ("conv", 8e7, 7e7, 0, 4e5),
    ("dense", 1e8, 0, 0, 2e6),
    ("recurrent", 2e8, 0, 1.5e8, 1e6),
]


def kernels():
    return [
        Kernel(kind, 1, StepCounts(flops, floats, conv, recurrent, operators=20, convolutions=4), lambda: None)
        for kind, flops, conv, recurrent, floats in COSTS
    ]


def seconds(kernel):
    step = kernel.step
    computing = step.conv / 50e9 + step.dense / 40e9 + step.recurrent / 20e9
    return computing + 4 * step.floats / 10e9 + 1e-4 + 20 * 1e-6 + 4 * 1e-5


def started(operators, convolutions=0.0):
    return Kernel("operators", 1, StepCounts(operators=operators, convolutions=convolutions), lambda: None)


def test_what_it_takes_to_start_something_is_found():
    """100 us of overhead; 48 operators take 96 us more; 10 of them and 4 convolutions 20 + 300 us."""
    found = Starting.found(1e-4, (started(48), 196e-6), (started(10, 4), 420e-6))
    assert (found.overhead, found.operator, found.convolution) == pytest.approx((1e-4, 2e-6, 75e-6))


def test_a_clock_too_coarse_to_tell_finds_nothing_rather_than_less():
    found = Starting.found(1e-4, (started(48), 0.9e-4), (started(10, 4), 0.8e-4))
    assert (found.operator, found.convolution) == (0, 0)


def test_the_speeds_that_made_the_seconds_are_found():
    found = rates(kernels(), [seconds(kernel) for kernel in kernels()], 10e9, STARTING)
    assert (found.conv, found.dense, found.recurrent) == pytest.approx((50e9, 40e9, 20e9))


def test_seconds_that_the_rest_explains_still_leave_a_finite_speed():
    found = rates(kernels(), [1e-4] * 4, 10e9, STARTING)
    # a tenth of the step is the class's own
    assert found.dense == pytest.approx(1e8 / 1e-5)


def test_one_speed_is_for_half_convolutions_and_half_dense():
    assert FOUND.speed == pytest.approx(2 / (1 / 50e9 + 1 / 40e9))


def test_its_lines_are_a_profile():
    lines = csv_lines("mine", FOUND, 8 * 10**9, "measured: here, with torch 2")
    profile = read_profiles(lines)["mine"]
    assert profile.conv_flops_per_s == pytest.approx(50e9, rel=1e-3)
    assert profile.recurrent_flops_per_s == pytest.approx(20e9, rel=1e-3)
    assert (profile.memory_bytes_per_s, profile.overhead_s, profile.memory_bytes) == (10e9, 1e-4, 8 * 10**9)
    assert (profile.operator_s, profile.convolution_s) == pytest.approx((1e-6, 1e-5))
    assert "speed_dense: measured: here, with torch 2 (20" in profile.source


def test_it_says_that_power_is_not_measured_in_a_comment_that_may_stay():
    lines = csv_lines("mine", FOUND, 8 * 10**9, "measured: here")
    assert lines[-1].startswith("# power is not measured")
    assert "power_idle, power_compute, power_radio, in W" in lines[-1]
    watts = [f"mine,{what},{value},W,a meter,2026-11-22" for what, value in (("power_idle", 2), ("power_compute", 9))]
    power = read_profiles([*lines, *watts])["mine"].power
    assert (power.idle, power.compute) == (2, 9)
    printed = "\n".join(calibrate.yaml_lines("mine", FOUND, 8 * 10**9, "measured: here"))
    assert "# power is not measured" in printed
    assert "power_idle_w, power_compute_w, power_radio_w" in printed


@pytest.mark.slow
def test_the_command_measures_this_computer(fedlapse):
    done = fedlapse("calibrate", "--name", "mine", "--seconds", "0.1")
    assert done.returncode == 0
    profile = read_profiles(done.stdout.splitlines())["mine"]
    assert 1e8 < profile.flops_per_s < 1e14
    assert 0 < profile.overhead_s < 1
    assert 0 <= profile.operator_s < 0.1
    assert 0 <= profile.convolution_s < 1
    assert "torch 2" in profile.source


def test_as_yaml_it_stands_in_a_scenario_as_it_is_printed():
    from scenarios.builders.boards import known
    from scenarios.load import parse

    printed = "\n".join(calibrate.yaml_lines("2", FOUND, 8 * 10**9, "measured: here, with torch 2: 1 thread"))
    link = "{up_mbit_s: 1, down_mbit_s: 1, latency_ms: 0}"
    scenario = parse(f"name: t\nfleet: [{{profile: '2', link: {link}}}]\n{printed}", "t.yaml")
    profile, made = known(scenario)["2"], FOUND.profile("2", "", 8 * 10**9)
    for rate in ("flops_per_s", "conv_flops_per_s", "dense_flops_per_s", "recurrent_flops_per_s"):
        assert getattr(profile, rate) == pytest.approx(getattr(made, rate), rel=1e-3)
    assert (profile.memory_bytes_per_s, profile.overhead_s, profile.memory_bytes) == (10e9, 1e-4, 8 * 10**9)
    assert (profile.operator_s, profile.convolution_s) == pytest.approx((1e-6, 1e-5))
    assert profile.source.startswith("measured: here, with torch 2: 1 thread (20")


def test_more_threads_than_cores_are_refused(fedlapse):
    """Torch has ended in a segmentation fault at thousands of them."""
    done = fedlapse("calibrate", "--threads", "100000", "--seconds", "0.1")
    assert done.returncode == 2
    assert "100000 threads" in done.stderr


@pytest.mark.parametrize("name", ["a,b", "mine\n", "a\nb", "", "my board", "-x", 'a"b', "x" * 81])
def test_a_name_that_no_scenario_could_use_is_refused(fedlapse, name):
    assert fedlapse("calibrate", f"--name={name}").returncode == 2


@pytest.mark.parametrize("strict", [0, 2])
def test_measuring_leaves_torch_as_it_was(monkeypatch, strict):
    monkeypatch.setattr(calibration, "workload", lambda: ([], []))
    monkeypatch.setattr(calibration, "evaluated", lambda kernels, seconds: FOUND)
    before, threads = torch.get_deterministic_debug_mode(), torch.get_num_threads()
    torch.set_deterministic_debug_mode(strict)
    try:
        assert calibration.measure(0.1) is FOUND
        assert (torch.get_deterministic_debug_mode(), torch.get_num_threads()) == (strict, threads)
    finally:
        torch.set_deterministic_debug_mode(before)

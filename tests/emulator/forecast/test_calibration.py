"""The output of `fedlapse calibrate`, and its arithmetic, which must find the rates that the seconds were made with."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from algorithms.counting.step_counts import StepCounts
from devices.device import read_profiles
from emulator.commands import calibrate
from emulator.commands.calibrate import csv_lines, said_of
from emulator.forecast import calibration
from emulator.forecast.calibration import EVEN, STREAM, Kernel, Measured, evaluated, starting
from emulator.forecast.fitting import RATES, predicted, rate_of, with_rates
from tests.emulator.forecast.test_fitting import step

OVERHEADS = {"overhead_s": 1e-4, "operator_s": 1e-6, "convolution_s": 1e-5}
MADE = with_rates(replace(EVEN, **OVERHEADS), [50e9, 40e9, 20e9, 1e9, 30e9, 10e9, 5e9])
FOUND = replace(MADE, name="mine", memory_bytes=8 * 10**9)


def numbers(profile, source):
    return said_of(profile, RATES, source, "", source)


def kernel(name, counts):
    return Kernel(name, 4, counts, lambda: None)


KERNELS = [
    *(kernel(f"net {number}", step()) for number in range(8)),
    kernel("operators", StepCounts(operators=48)),
    kernel("convolutions", StepCounts(operators=5, convolutions=4)),
    kernel("empty", StepCounts()),
]


def seconds(profile):
    """Returns the seconds of KERNELS and of streaming memory on a computer with this profile."""
    steps = [each.steps * predicted(each.step, profile) for each in KERNELS]
    return [*steps, 4 * 4 * STREAM / profile.memory_bytes_per_s]


def test_what_it_takes_to_start_something_is_found():
    """100 us of overhead; 48 operators take 96 us more; 10 of them and 4 convolutions 20 + 300 us."""
    operators, convolutions = StepCounts(operators=48), StepCounts(operators=10, convolutions=4)
    found = starting(1e-4, (kernel("", operators), 196e-6), (kernel("", convolutions), 420e-6))
    assert (found.overhead_s, found.operator_s, found.convolution_s) == pytest.approx((1e-4, 2e-6, 75e-6))


def test_a_clock_too_coarse_to_tell_finds_nothing_rather_than_less():
    counts = StepCounts(operators=10, convolutions=4)
    found = starting(1e-4, (kernel("", counts), 0.9e-4), (kernel("", counts), 0.8e-4))
    assert (found.operator_s, found.convolution_s) == (0, 0)


@pytest.mark.slow
def test_the_rates_that_made_the_seconds_are_found(monkeypatch):
    monkeypatch.setattr(calibration, "WEIGHT", 1e-9)
    found = evaluated(KERNELS, seconds(MADE))
    assert [rate_of(found.rates, rate) for rate in RATES] == pytest.approx([rate_of(MADE, r) for r in RATES], rel=0.01)
    assert [getattr(found.rates, what) for what in OVERHEADS] == pytest.approx(list(OVERHEADS.values()))


@pytest.mark.slow
def test_networks_that_are_left_out_are_predicted_from_the_others():
    """A computer three times as fast as EVEN in all, but one network takes twice as long: the others do not know."""
    made = with_rates(replace(EVEN, **OVERHEADS), [3 * rate_of(EVEN, rate) for rate in RATES])
    took = seconds(made)
    exact = evaluated(KERNELS, took).judged
    assert [name for name, _, _ in exact] == [f"net {number}" for number in range(8)]
    assert [told for *_, told in exact] == pytest.approx([each / 4 for each in took[:8]], rel=1e-4)
    took[5] *= 2
    assert evaluated(KERNELS, took).judged[5][1:] == pytest.approx((took[5] / 4, took[5] / 8), rel=1e-4)


@pytest.mark.slow
def test_the_kernels_have_the_work_that_their_layers_have_by_hand():
    """A multiply-add is two FLOPs, and a layer but the first has three passes. Gradients of 1 x 1 layers are dense."""
    places, channels = 8 * 32 * 32, (32, 64, 64)
    found = calibration._separable(3, channels, 32).step
    assert found.grouped == 2 * 9 * places * (2 * 32 + 3 * 64)
    assert found.pointwise == 2 * places * sum(a * b for a, b in pairwise(channels))
    assert found.conv == found.grouped + found.pointwise
    assert found.dense == 2 * found.pointwise + 3 * 2 * 8 * 64 * 10
    assert calibration._separable(5, (4, 4), 4).step.grouped == 2 * 25 * 8 * 4 * 4 * 2 * 4
    norms = calibration._norms(32, 32, batch=16).step
    assert (norms.conv, norms.flops) == (0, 3 * 2 * 16 * 32 * 16 * 16 * 10)
    assert norms.floats > 3 * 2 * 2 * 16 * 32 * 32 * 32  # each layer reads and writes its activations


def test_one_speed_is_for_half_convolutions_and_half_dense():
    assert MADE.flops_per_s == pytest.approx(2 / (1 / 50e9 + 1 / 40e9))


def test_its_lines_are_a_profile():
    lines = csv_lines("mine", numbers(FOUND, 'measured: "here", with torch 2'))
    profile = read_profiles(lines)["mine"]
    assert profile.conv_flops_per_s == pytest.approx(50e9, rel=1e-3)
    assert profile.recurrent_flops_per_s == pytest.approx(20e9, rel=1e-3)
    assert (profile.memory_bytes_per_s, profile.overhead_s, profile.memory_bytes) == (10e9, 1e-4, 8 * 10**9)
    assert (profile.operator_s, profile.convolution_s) == pytest.approx((1e-6, 1e-5))
    assert (profile.grouped_flops_per_s, profile.conv_bytes_per_s) == (1e9, 5e9)
    assert 'speed_dense: measured: "here", with torch 2 (20' in profile.source


def test_it_says_that_power_is_not_measured_in_a_comment_that_may_stay():
    lines = csv_lines("mine", numbers(FOUND, "measured: here"))
    assert lines[-1].startswith("# power is not measured")
    assert "power_idle, power_compute, power_radio, in W" in lines[-1]
    watts = [f"mine,{what},{value},W,a meter,2026-11-22" for what, value in (("power_idle", 2), ("power_compute", 9))]
    power = read_profiles([*lines, *watts])["mine"].power
    assert (power.idle, power.compute) == (2, 9)
    printed = "\n".join(calibrate.yaml_lines("mine", numbers(FOUND, "measured: here")))
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
    assert min(profile.grouped_flops_per_s, profile.pointwise_flops_per_s, profile.conv_bytes_per_s) > 0
    networks = ("CNN, 5 x 5", "depthwise, 3 x 3", "normalisation", "MLP, 512 units", "LSTM, 128 units", "GRU, 64 units")
    assert [network for network in networks if network not in done.stderr] == []
    [median, worst] = re.findall(r"a network that is left out is off by (\d+) % in the median, (\d+) %", done.stderr)[0]
    assert f"off by {median} % in the median, {worst} % at worst" in profile.source


def test_as_yaml_it_stands_in_a_scenario_as_it_is_printed():
    from scenarios.builders.boards import known
    from scenarios.load import parse

    printed = "\n".join(calibrate.yaml_lines("2", numbers(FOUND, 'measured: "here", with torch 2: 1 thread')))
    link = "{up_mbit_s: 1, down_mbit_s: 1, latency_ms: 0}"
    scenario = parse(f"name: t\nfleet: [{{profile: '2', link: {link}}}]\n{printed}", "t.yaml")
    profile = known(scenario)["2"]
    for rate in ("flops_per_s", *RATES):
        assert getattr(profile, rate) == pytest.approx(getattr(FOUND, rate), rel=1e-3)
    assert (profile.memory_bytes_per_s, profile.overhead_s, profile.memory_bytes) == (10e9, 1e-4, 8 * 10**9)
    assert (profile.operator_s, profile.convolution_s) == pytest.approx((1e-6, 1e-5))
    assert profile.source.startswith("speed, speed conv, speed dense")
    assert ': measured: "here", with torch 2: 1 thread (20' in profile.source


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
    monkeypatch.setattr(calibration, "evaluated", lambda kernels, seconds: Measured(FOUND, ()))
    before, threads = torch.get_deterministic_debug_mode(), torch.get_num_threads()
    torch.set_deterministic_debug_mode(strict)
    try:
        assert calibration.measure(0.1).rates is FOUND
        assert (torch.get_deterministic_debug_mode(), torch.get_num_threads()) == (strict, threads)
    finally:
        torch.set_deterministic_debug_mode(before)

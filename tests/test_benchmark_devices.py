"""The page on devices: what it fits, and that the profiles say what it found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from algorithms.algorithm import Phase
from algorithms.counting.step_counts import StepCounts
from benchmarks import compute, devices
from benchmarks.compute import Job
from benchmarks.devices import (
    PHONES,
    SECONDS,
    as_pi,
    by_class,
    flash_steps,
    left_out,
    one_speed,
    others_tell,
    phone_speeds,
    with_speeds,
)
from devices.device import SPEEDS, Profile, profiles
from emulator.forecast import fitting
from emulator.forecast.fitting import predicted, rate_of

BASE = profiles()["phone-mid"]
STEPS = {
    "a": StepCounts(1e9, 1e6, conv=1e9),
    "b": StepCounts(12e8, 2e6, conv=2e8),
    "c": StepCounts(1e9, 1e6, recurrent=8e8),
}


def speeds(profile: Profile) -> list[float]:
    return [rate_of(profile, speed) for speed in SPEEDS[: devices.CLASSES]]


def test_one_speed_is_found_again() -> None:
    cells = [(step, predicted(step, with_speeds(BASE, [3e9] * 3))) for step in STEPS.values()]
    assert speeds(one_speed(cells, BASE)) == pytest.approx([3e9] * 3)


def test_equal_classes_are_found_again_from_any_networks() -> None:
    cells = [(STEPS["a"], predicted(STEPS["a"], with_speeds(BASE, [3e9] * 3)))]
    assert speeds(by_class(cells, BASE)) == pytest.approx([3e9] * 3, rel=1e-4)


def test_unequal_classes_are_described_better_than_by_one_speed() -> None:
    cells = [(step, predicted(step, with_speeds(BASE, [1e9, 4e9, 2e9]))) for step in STEPS.values()]
    worst = [
        max(abs(predicted(step, fit(cells, BASE)) / took - 1) for step, took in cells) for fit in (one_speed, by_class)
    ]
    assert worst[1] < 0.1 < worst[0]


def test_rates_in_the_proportions_of_a_pi_are_found_again_from_any_networks() -> None:
    pi = replace(profiles()["pi-4"], overhead_s=BASE.overhead_s, operator_s=0.0, convolution_s=0.0)
    slow = fitting.with_rates(pi, [fitting.rate_of(pi, rate) / 3 for rate in fitting.RATES])
    found = as_pi([(STEPS["a"], predicted(STEPS["a"], slow))], BASE)
    assert [predicted(step, found) for step in STEPS.values()] == pytest.approx(
        [predicted(step, slow) for step in STEPS.values()], rel=1e-3
    )


def test_speeds_of_other_networks_of_this_computer_tell_its_steps() -> None:
    """Seconds made with one speed are told without error; of a network that is twice as slow half is told."""
    begun = {"positions": 2.0, "operators": 9.0, "convolutions": 4.0}
    jobs = [Job(name, Phase("train", "batch", 1, 1), 1, replace(of, **begun), int) for name, of in STEPS.items()]
    base = replace(BASE, operator_s=1e-3, convolution_s=2e-2)
    took = [compute.on(replace(base, flops_per_s=3e9), job) for job in jobs]
    for fit in (one_speed, by_class):
        assert others_tell(jobs, took, base, fit) == pytest.approx([0, 0, 0], abs=1e-3)
    assert others_tell(jobs, [*took[:2], 2 * took[2]], base, one_speed)[2] == pytest.approx(-0.5, abs=1e-3)


def test_a_page_that_is_not_there_yet_is_written_with_what_the_other_says_of_the_computer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(devices, "flash_text", lambda _: "the nine cells")
    monkeypatch.setattr(devices, "flash_steps", dict)
    out = tmp_path / "new.md"
    monkeypatch.setattr("sys.argv", ["devices", "--no-host", "--out", str(out)])
    assert devices.main() == 0
    host = devices.host_of(devices.PAGE.read_text(encoding="utf-8"))
    assert devices.host_of(out.read_text(encoding="utf-8")) == host
    assert "the nine cells" in capsys.readouterr().out


@pytest.mark.slow
def test_the_profiles_of_flashs_phones_are_what_the_fit_gives() -> None:
    for name, (one, own) in phone_speeds(flash_steps()).items():
        profile = profiles()[name]
        said = (profile.flops_per_s, profile.conv_flops_per_s, profile.dense_flops_per_s, profile.recurrent_flops_per_s)
        assert said == pytest.approx((one, *own), rel=2e-3)


@pytest.mark.slow
def test_the_page_is_what_the_benchmark_writes() -> None:
    """But for the date, and for what was measured on the computer that it was made on."""
    said = devices.PAGE.read_text(encoding="utf-8")
    assert devices.host_of(said).startswith("Calibrated, nothing fitted")
    made = devices.page(devices.host_of(said))
    assert [line for line in made.splitlines() if "Made by" not in line] == [
        line for line in said.splitlines() if "Made by" not in line
    ]


@pytest.mark.slow
def test_flashs_networks_are_leafs() -> None:
    """Sizes by hand: LEAF's FEMNIST CNN has 6,603,710 parameters; four 3 x 3 blocks; two LSTM layers of 256."""
    sizes = [sum(p.numel() for p in model.parameters()) for model in (devices.femnist(), devices.celeba())]
    blocks = (3 * 9 * 32 + 32) + 3 * (32 * 9 * 32 + 32) + 4 * 64
    assert sizes == [6_603_710, blocks + 32 * 36 * 2 + 2]
    steps = flash_steps()
    # of 10 texts of 10 words: 8 h^2 weights a layer, three products, none for the first state of each layer
    lstm = 3 * 2 * 10 * 10 * 2 * 8 * 256**2 - 2 * 10 * 2 * 4 * 256**2
    reddit = steps["Reddit LSTM"]
    assert (reddit.conv, reddit.dense, reddit.recurrent) == (0, 3 * 2 * 100 * 256 * 10_000, lstm)


@pytest.mark.slow
def test_a_network_that_is_left_out_does_not_tell_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("a", "b", "c")
    took = {
        name: tuple(predicted(step, with_speeds(profiles()[like], [3e9] * 3)) for like in PHONES.values())
        for name, step in STEPS.items()
    }
    monkeypatch.setattr(devices, "SECONDS", SECONDS | took)
    before = left_out(names, STEPS, one_speed)
    monkeypatch.setattr(devices, "SECONDS", SECONDS | took | {"c": tuple(2 * s for s in took["c"])})
    assert before["c"] == pytest.approx([0, 0, 0], abs=1e-6)
    assert left_out(names, STEPS, one_speed)["c"] == pytest.approx([-0.5] * 3)

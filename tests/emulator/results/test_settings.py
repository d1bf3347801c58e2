"""Beside results: the settings that are no defaults, how they were chosen, and how sure the seconds are."""

from __future__ import annotations

from typing import Any

from emulator.commands.calibrate import _error
from emulator.results.settings import MEDIANS, how_sure, median_error, settings
from scenarios.load import build


def scenario(**changes: Any) -> Any:
    fleet = [
        {"profile": name, "count": 1, "link": {"up_mbit_s": 1, "down_mbit_s": 1}}
        for name in ("phone-mid", "pi-4", "pixel-4", "laptop")
    ]
    return build({"name": "s", "fleet": fleet, **changes})


def test_settings_that_differ_are_named_with_how_they_were_chosen() -> None:
    said = scenario(
        training={"lr": 0.3},
        algorithms=["fedavg", {"fedcurv": {"strength": 0.5, "training": {"epochs": 12}}}],
        tuned={"fedcurv": "best of 6"},
    )
    assert settings(said).rows == [
        ("all", "epochs 5, batch 10, lr 0.3", ""),
        ("fedavg", "all defaults", ""),
        ("fedcurv", "strength 0.5, training.epochs 12", "best of 6"),
    ]


def test_what_was_chosen_alike_for_all_is_said_once() -> None:
    said = scenario(algorithms=["fedavg", "fedcurv"], tuned={"fedavg": "best of 6", "fedcurv": "best of 6"})
    assert [how for *_, how in settings(said).rows] == ["best of 6", "", ""]


def test_what_was_not_tuned_is_said_not_to_be() -> None:
    shown = settings(scenario(algorithms=["fedavg"]))
    assert shown.rows == [("all", "epochs 5, batch 10, lr 0.05"), ("fedavg", "all defaults")]
    assert "`fedlapse tune`" in shown.caption


def test_each_profile_is_said_to_be_measured_or_assumed() -> None:
    computing, transfers = how_sure(scenario())
    assert "phone-mid: measured on a phone; for models not measured, step times are off by 45 % (median)" in computing
    assert "pixel-4: measured on a phone by class" in computing
    assert "pi-4: fitted to 28 large models" in computing
    assert "laptop: assumed, not measured" in computing
    assert "3 to 4 % (median of single runs)" in transfers
    ideal = how_sure(scenario(network={"model": "ideal"}))[1]
    assert "an assumption" in ideal


def test_an_own_profile_has_the_error_that_calibrate_wrote_into_its_source_or_none() -> None:
    numbers = {"speed_gflop_s": 4, "memory_bandwidth_gb_s": 3, "overhead_ms": 2, "memory_mb": 4000}
    judged = [("a", 1.0, 1.12), ("b", 1.0, 0.6), ("c", 1.0, 1.0)]  # off by 12, 40 and 0 %
    own = {"measured": {**numbers, "source": f"speed: {_error(judged)} (2026-11-28)"}, "typed": numbers}
    link = {"up_mbit_s": 1, "down_mbit_s": 1}
    said = scenario(profiles=own, fleet=[{"profile": name, "count": 1, "link": link} for name in own])
    computing = how_sure(said)[0]
    assert "measured: your own; a network that is left out is off by 12 % in the median, 40 % at worst" in computing
    assert "typed: your own; its error is unknown" in computing
    assert [median_error(group, said) for group in said.fleet] == [0.12, None]


def test_the_median_errors_are_those_of_the_words() -> None:
    for words, error in MEDIANS.items():
        assert f"step times are off by {100 * error:.0f} % (median)" in words

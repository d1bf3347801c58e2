"""The page on boards: what it fits, and that the profiles say what it found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from algorithms.counting.step_counts import StepCounts
from benchmarks import boards
from benchmarks.boards import DATA, PARTS, START, Row, judged, page, profile_of, read, text
from devices.device import numbers_of, profiles
from emulator.forecast.fitting import predicted
from emulator.forecast.step_table import counted

measured = pytest.mark.skipif(not DATA.is_file(), reason=f"NO BOARDS: {DATA} is absent; the shipped fit is not tested")
TRUE = replace(
    profiles()["pi-4"], **{rate: 2 * value for rate, value in START.items() if value}
)  # all rates times one factor
FASTER = replace(
    profiles()["pi-5"],
    **{rate: times * getattr(TRUE, rate) for part, times in zip(PARTS, (1.5, 4, 2), strict=True) for rate in part},
)
STEPS = {
    "one": StepCounts(3e9, 4e8, conv=1e9),
    "two": StepCounts(5e9, 2e9, conv=4e9, pointwise=2e9, conv_floats=1e8),
    "three": StepCounts(8e9, 3e8, conv=5e8, grouped=2e8, conv_floats=2e8),
}


def rows(**slower: float) -> tuple[Row, ...]:
    """Rows of two tasks of each of STEPS as a pi-4 and a pi-5 compute them; each network is a family."""

    def row(name: str, task: str, step: StepCounts) -> Row:
        boards = {"pi-4": TRUE, "pi-5": FASTER}
        return Row(name, task, step, {board: predicted(step, of) * slower.get(name, 1) for board, of in boards.items()})

    return tuple(
        row(name, task, half)
        for name, step in STEPS.items()
        for task, half in (("train", step), ("head", replace(step, floats=step.floats / 2 + step.conv_floats / 2)))
    )


def test_families_are_told_by_name() -> None:
    names = ("mobilenetv2_050", "mobilenetv3_large_100", "deit_tiny", "vit_small", "resnet18", "resnet50")
    families = [Row(name, "train", STEPS["one"], {}).family for name in names]
    assert families == ["mobilenetv", "mobilenetv", "vit", "vit", "resnet", "resnet"]


@pytest.mark.parametrize("board", ["pi-4", "pi-5"])
def test_a_family_does_not_tell_its_own_seconds(board: str) -> None:
    """Seconds that one profile gives are told without error, and a family that is twice as slow, on both boards, is
    told half."""
    told = {(row.network, row.task): seconds / row.seconds[board] for row, seconds in judged(board, rows())}
    assert told == pytest.approx(dict.fromkeys(told, 1), abs=1e-3)
    slower = [seconds / row.seconds[board] for row, seconds in judged(board, rows(one=2)) if row.network == "one"]
    assert slower == pytest.approx([0.5, 0.5], abs=1e-3)


def test_errors_and_swapped_pairs_are_counted_for_each_task() -> None:
    """By hand: measured 1, 2, 3, predicted 2, 1.5, 3: off by 100 %, 25 % and 0 %; the first pair is swapped.  Ranks 1
    2 3 and 2 1 3: 1 - 6 * 2 / (3 * 8) = 0.5."""
    found = [
        (Row(name, "train", STEPS["one"], {"pi-4": took}), told)
        for name, took, told in (("a", 1, 2), ("b", 2, 1.5), ("c", 3, 3))
    ]
    found += [(replace(row, task="head"), row.seconds["pi-4"]) for row, _ in found]
    said = text("pi-4", found).splitlines()
    assert said[0] == "* all weights, 3 networks: off by 25% in the median, +100% at worst (a);"
    assert said[1] == "  rank correlation 0.500, 1 neighbouring pairs swapped"
    assert said[2].startswith("* head only, 3 networks: off by 0% in the median")


@measured
def test_the_profiles_are_what_the_fit_gives() -> None:
    own = read(DATA)
    for board in ("pi-4", "pi-5"):
        said, found = numbers_of(profiles()[board]), numbers_of(profile_of(board, own))
        rates = [name for name in said if name.startswith(("speed", "memory_bandwidth", "bandwidth"))]
        assert len(rates) == 7
        assert [said[rate] for rate in rates] == pytest.approx([found[rate] for rate in rates], rel=1e-3)


@measured
def test_the_page_is_what_the_benchmark_writes() -> None:
    assert page(read(DATA)) == boards.PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_kept_counts_are_those_of_timms_network() -> None:
    kept = json.loads(boards.COUNTS.read_text(encoding="utf-8"))["mobilenetv2_050"]["head"]
    assert counted("timm:mobilenetv2_050.lamb_in1k", *boards.STEP, "head") == StepCounts(**kept)

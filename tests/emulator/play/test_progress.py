"""Progress by two clocks; both are told to it, so that no test waits."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from emulator.play.progress import Progress, about, clock_face, eta, sparkline
from emulator.record.run import Run
from emulator.record.targets import Target, reached

few = settings(max_examples=25, deadline=None, derandomize=True)
TARGET = Target("accuracy", 0.85)
NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0  # of no meaning, as that of time.monotonic

    def __call__(self) -> float:
        return self.time


def row(round: int, time: float, accuracy: float | None, **more: Any) -> Mapping[str, Any]:
    return {"round": round, "time_s": time, "accuracy": accuracy, "bytes": {"down": {"weights": 2_500_000}}, **more}


def progress(
    terminal: bool,
    targets: tuple[Target, ...] = (TARGET,),
    *,
    runs: int = 1,
    quiet: bool = False,
    height: int = 30,
    width: int = 140,
) -> tuple[Progress, Clock, Callable[[], str]]:
    text, clock = io.StringIO(), Clock()
    console = Console(
        force_terminal=terminal, file=text, width=width, height=height, color_system=None, _environ={"TERM": "xterm"}
    )
    made = Progress(targets, 50, runs=runs, quiet=quiet, console=console, clock=clock, today=lambda: NOON)
    return made, clock, text.getvalue


def frame(made: Progress) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=140, color_system=None).print(made.frame())
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_runs_that_follow_others_have_a_title_and_begin_anew() -> None:
    made, clock, text = progress(terminal=False)
    made.begin("lte.csv (1 of 2)")
    clock.time += 10
    made.tell(Run("fedavg", 1), row(0, 20.0, None))
    made.begin("3g.csv (2 of 2)")
    clock.time += 5
    made.tell(Run("fedcl", 1), row(0, 20.0, None))
    first, second = text().splitlines()
    assert "lte.csv (1 of 2) · 1 of 50 rounds · 0:00:10 real" in first
    assert "3g.csv (2 of 2) · 1 of 50 rounds · 0:00:05 real" in second
    assert frame(made)[0] == "3g.csv (2 of 2)"
    assert [line.split()[0] for line in frame(made)[1:]] == ["fedcl"]


# --- pure -------------------------------------------------------------------------------------------------------


def test_a_sparkline_goes_from_the_least_to_the_greatest() -> None:
    assert sparkline([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]) == "▁▂▃▄▅▆▇█"
    assert sparkline([0.9, 0.1]) == "█▁"
    assert sparkline([]) == ""


def test_a_flat_curve_looks_flat() -> None:
    assert sparkline([0.5, 0.5, 0.5]) == "▁▁▁"
    assert sparkline([0.5, 0.501, 0.5]) == "▁▁▁"  # 0.02 of 0.05


def test_a_sparkline_is_of_the_last_ten() -> None:
    assert sparkline([0.0, *[0.5] * 9, 1.0]) == "▁" * 9 + "█"


def test_a_straight_rise_arrives_where_the_line_does() -> None:
    """0.1 in 10 s: from 0.5, 0.85 is 35 s away."""
    assert eta([(0, 0.3), (10, 0.4), (20, 0.5)], 0.85) == pytest.approx(35.0)


def test_the_slope_is_of_least_squares() -> None:
    """For (0, 0), (1, 2), (2, 1) the slope is sum((t-1)(v-1)) / sum((t-1)^2) = 1/2; from 1, 3 is 4 s away."""
    assert eta([(0, 0.0), (1, 2.0), (2, 1.0)], 3.0) == pytest.approx(4.0)


def test_only_the_last_five_make_the_slope() -> None:
    assert eta([(-100, 0.9), *[(t, 0.1 * t) for t in range(5)]], 0.8) == pytest.approx(4.0)


@pytest.mark.parametrize("seen", [[], [(0, 0.5)], [(0, 0.5), (1, 0.5)], [(0, 0.6), (1, 0.5)], [(1, 0.5), (1, 0.6)]])
def test_without_a_rise_there_is_no_time_of_arrival(seen: list[tuple[float, float]]) -> None:
    assert eta(seen, 0.85) is None


def test_a_value_that_only_waits_to_be_held_is_not_in_the_past() -> None:
    assert eta([(0, 0.7), (10, 0.8), (20, 0.9)], 0.85) == 0.0


def test_two_rounds_are_too_few_to_say_when() -> None:
    assert eta([(0, 0.1), (10, 0.8)], 0.85) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "~0 s"), (59.4, "~59 s"), (59.6, "~1 min"), (240, "~4 min"), (5369, "~89 min"), (10_000, "~3 h")],
)
def test_times_of_arrival_are_rough(seconds: float, text: str) -> None:
    assert about(seconds) == text


def test_the_face_of_a_clock() -> None:
    assert [clock_face(seconds) for seconds in (0, 19.9, 2467, 360_000)] == [
        "0:00:00",
        "0:00:19",
        "0:41:07",
        "100:00:00",
    ]


# --- elsewhere than on a terminal -------------------------------------------------------------------------------


def lines(made: Progress, clock: Clock, rounds: int, seconds: float) -> None:
    """Each of two runs ends a round every so often."""
    with made:
        for round in range(rounds):
            clock.time += seconds
            for seed in (1, 2):
                made.tell(Run("fedcl", seed), row(round, 10.0 * round, 0.5))


def test_elsewhere_a_dated_line_says_how_far_all_runs_are() -> None:
    made, clock, text = progress(terminal=False, runs=2)
    with made:
        made.tell(Run("fedcl", 2), row(0, 9.5, None))
        clock.time += 19
        made.tell(Run("fedcl", 1), row(11, 2467.0, 0.7119))
    together = "2026-11-21T12:00:00+00:00 13 of 100 rounds · 0:00:19 real"
    assert text() == f"{together} · fedcl seed 1: 12/50 rounds · 0:41:07 simulated · 130x · accuracy 0.712\n"


@pytest.mark.parametrize(("seconds", "expected"), [(0.1, 0), (1.0, 8), (5.0, 40), (7.0, 40)])
def test_elsewhere_there_is_a_line_every_five_seconds_at_most_for_all_runs_together(
    seconds: float, expected: int
) -> None:
    """40 rounds of two runs, one every 0.1, 1, 5 or 7 s: in 4 s none, in 40 s 8, and never one for each run."""
    made, clock, text = progress(terminal=False, runs=2)
    lines(made, clock, 40, seconds)
    assert len(text().splitlines()) == expected


def test_a_long_line_is_not_broken() -> None:
    made, clock, text = progress(terminal=False)
    with made:
        clock.time += 5
        made.tell(Run("a" * 200, 1), row(0, 1.0, None))
        made.say("b" * 200)
    assert len(text().splitlines()) == 2


def test_quiet_tells_no_round_but_says_what_is_to_be_said() -> None:
    for terminal in (False, True):
        made, clock, text = progress(terminal, quiet=True)
        with made:
            clock.time += 60
            made.tell(Run("a", 1), row(0, 1.0, 0.5))
            assert text() == ""
            made.say("fedlapse: stopping")
        assert text() == "fedlapse: stopping\n"


# --- on a terminal ----------------------------------------------------------------------------------------------


def test_a_terminal_shows_two_clocks_a_curve_and_what_is_ahead() -> None:
    """Accuracy rises by 0.1 every 10 s and stands at 0.71: 0.85 is 14 s away."""
    made, clock, _ = progress(terminal=True)
    for number in range(4):
        clock.time += 10
        made.tell(Run("fedcl", 1), row(number, 1300.0 * (number + 1), 0.41 + 0.1 * number))
    assert frame(made) == [
        "fedcl s1   4/50 rounds · 1:26:40 simulated · 0:00:40 real · 130x · acc 0.71 ▁▃▆█ · 0.85 in ~14 s real"
    ]


def test_the_real_clock_goes_on_between_rounds_and_the_speed_does_not_fall() -> None:
    made, clock, _ = progress(terminal=True)
    clock.time += 10
    made.tell(Run("a", 1), row(0, 100.0, None))
    clock.time += 50
    assert frame(made) == ["a s1   1/50 rounds · 0:01:40 simulated · 0:01:00 real · 10x · 0.85 in -"]


def test_one_bar_tells_how_far_all_runs_are_and_counts_down_what_is_left() -> None:
    """4 of 100 rounds; each of two runs ends one every 20 s.  Of 96 rounds half a one is done, and the other one 10 s
    later: 95.5 rounds at one every 10 s, 95 s, then 94.5."""
    made, clock, _ = progress(terminal=True, runs=2)
    assert frame(made) == ["starting the workers and the first rounds ... 0:00:00 real"]
    for number in range(4):
        clock.time += 10
        made.tell(Run("a", number % 2), row(number // 2, 1.0, 0.5))
    assert frame(made)[-1] == f"all  {'─' * 20}  4 of 100 rounds · ~16 min real left"
    assert made.left(40.0) == pytest.approx(955.0)
    assert made.left(45.0) == pytest.approx(950.0)
    made.tell(Run("a", 0), row(49, 1.0, 0.5))
    assert frame(made)[-1].startswith(f"all  {'━' * 10}{'─' * 10}  52 of 100 rounds")


def test_a_round_that_takes_longer_than_the_last_ones_is_as_long_as_it_takes() -> None:
    """Known rounds of 0.1 s, then one that takes 20 s so far: the 46 others take as long, and it is about to end."""
    made, clock, _ = progress(terminal=True)
    for number in range(3):
        clock.time += 0.1
        made.tell(Run("a", 1), row(number, 1.0, 0.5))
    assert made.left(0.3) == pytest.approx(4.7)
    assert made.left(20.3) == pytest.approx(46 * 20.0)
    clock.time += 20.0
    made.tell(Run("a", 1), row(3, 1.0, 0.5))
    assert made.left(20.3) == pytest.approx(46 * 20.0)  # the known ones say nothing about it


@pytest.mark.parametrize(("runs", "at_once", "begun", "known"), [(3, 3, 2, False), (3, 3, 3, True), (3, 2, 2, True)])
def test_the_time_left_is_not_known_before_two_rounds_of_each_run(
    runs: int, at_once: int, begun: int, known: bool
) -> None:
    made, clock, text = progress(terminal=False, runs=runs)
    made.at_once = at_once
    for round in range(2):
        for seed in range(begun):
            assert made.left(clock.time - made.began) is None
            assert " left" not in text()
            clock.time += 6
            made.tell(Run("a", seed), row(round, 1.0, None))
    assert (made.left(clock.time - made.began) is not None) == known
    assert text().splitlines()[-1].count(" left · ") == known


def test_a_time_left_that_would_be_shown_as_0_s_is_not_shown() -> None:
    made, clock, _ = progress(terminal=True, runs=1)
    for number in range(49):
        clock.time += 0.2
        made.tell(Run("a", 1), row(number, 1.0, None))
    assert made.left(clock.time - made.began) == pytest.approx(0.2)
    assert made.time_left() == ""


RECORDED = Path(__file__).with_name("recorded")


@pytest.mark.parametrize("name", ["quickstart", "quickstart-30-rounds"])
def test_the_time_left_is_right_within_a_factor_of_two_after_a_tenth_of_the_work(name: str) -> None:
    """Real rounds as they ended, `second run round`, of two plays of the quickstart with an empty ledger, on two cores
    that did other work, too.  The last round of a run takes as long as three, because all 16 devices train once more
    after the 8 of the round.  From a tenth of the rounds, once two of each run are over, to nine tenths of the time,
    the end is predicted at each round."""
    ended = [line.split() for line in (RECORDED / f"{name}.txt").read_text(encoding="utf-8").splitlines()]
    rounds = 1 + max(int(round) for *_, round in ended)
    clock, whole = Clock(), float(ended[-1][0])
    made = Progress((), rounds, runs=8, last=3.0, console=Console(file=io.StringIO()), clock=clock)
    judged = 0
    for number, (second, run, round) in enumerate(ended, 1):
        now, (label, seed) = float(second), run.rsplit("-s", 1)
        clock.time = made.began + now
        made.tell(Run(label, int(seed)), row(int(round), now, None))
        two_each = min((pace.row["round"] for pace in made.paces.values()), default=0) >= 1 and len(made.paces) == 8
        assert (made.left(now) is not None) == two_each
        if two_each and 10 * number >= len(ended) and now <= 0.9 * whole:
            left, judged = made.left(now), judged + 1
            assert left is not None
            assert (whole - now) / 2 <= left <= 2 * (whole - now), f"{left} after {now} of {whole} s"
    assert judged > 30


def test_runs_that_may_end_early_have_at_most_so_many_rounds() -> None:
    made, clock, _ = progress(terminal=True, runs=2)
    made.early = True
    for number in range(3):
        for seed in (1, 2):
            clock.time += 10
            made.tell(Run("a", seed), row(number, 1.0, None))
    assert frame(made)[-1].endswith("6 of at most 100 rounds · at most ~16 min real left")


def test_the_horizon_bounds_the_rounds_that_are_left() -> None:
    """Rounds of 100 s until 1,000 s: 10 of a run; the other, of 250 s, has 4.  One every 20 s, of 14 five are over."""
    made, clock, _ = progress(terminal=True, runs=2)
    made.early, made.until = True, 1000.0
    for number in range(3):
        clock.time += 20
        made.tell(Run("a", 1), row(number, 100.0 * (number + 1), None))
    assert frame(made)[-1].endswith("3 of at most 20 rounds")
    made.tell(Run("b", 1), row(0, 250.0, None))
    assert frame(made)[-1].endswith("4 of at most 14 rounds")
    clock.time += 20
    made.tell(Run("b", 1), row(1, 500.0, None))
    assert made.left(80.0) == pytest.approx((9 - 1) * 10)  # a's round under way takes 20 s, and is about to end
    made.tell(Run("b", 1), row(3, 1010.0, None))  # past it: the last
    assert "7 of at most 14 rounds" in frame(made)[-1]
    assert made.round_of_all() is not None


def test_the_best_value_so_far_stands_beside_one_that_is_worse() -> None:
    made, clock, _ = progress(terminal=True, targets=())
    for number, accuracy in enumerate((0.5, 0.7, 0.6)):
        clock.time += 10
        made.tell(Run("a", 1), row(number, 100.0, accuracy))
    assert "acc 0.60 (best 0.70) ▁█▅" in frame(made)[0]


def test_a_run_that_has_ended_stands_still() -> None:
    made, clock, _ = progress(terminal=True)
    clock.time += 10
    made.tell(Run("a", 1), row(49, 100.0, 0.5))
    clock.time += 50
    assert frame(made) == ["a s1  50/50 rounds · 0:01:40 simulated · 0:00:10 real · 10x · acc 0.50 ▁"]


def test_the_next_target_is_the_easiest_that_is_not_reached() -> None:
    targets = (Target("accuracy", 0.9), Target("validation", 0.6), Target("accuracy", 0.5))
    made, clock, _ = progress(True, targets)
    ahead = []
    for number, (accuracy, validation) in enumerate([(0.4, 0.4), (0.5, 0.5), (0.5, 0.6), (0.8, 0.5)]):
        clock.time += 10
        made.tell(Run("a", 1), row(number, 1.0, accuracy, validation=validation))
        ahead.append(frame(made)[0].split(" · ")[-1])
    # 0.9 from 0.5, by the slope of 0.4, 0.5, 0.5, 1 / 200 s: 80 s; then from 0.8, by that of all four, 6 / 500 s
    assert ahead == ["0.5 in -", "validation 0.6 in -", "0.9 in ~1 min real", "0.9 in ~8 s real"]


@few
@given(st.lists(st.sampled_from([None, 0.1, 0.8, 0.9]), max_size=12), st.integers(1, 3))
def test_it_knows_what_was_reached_as_the_summary_does(values: list[float | None], hold: int) -> None:
    target = Target("accuracy", 0.8, hold)
    made, _, _ = progress(False, (target,))
    rows = [row(number, 1.0, value) for number, value in enumerate(values)]
    for each in rows:
        made.tell(Run("a", 1), each)
    pending = made.paces[Run("a", 1)].targets if rows else [target]
    assert (not pending) == (reached(rows, target) is not None)


def test_many_runs_are_those_that_changed_last_and_a_count() -> None:
    made, _, _ = progress(terminal=True)
    for seed in range(15):
        made.tell(Run("a", seed), row(0, 1.0, None))
    made.tell(Run("a", 0), row(1, 2.0, None))
    shown = frame(made)
    assert [line.split("  ")[0].rstrip() for line in shown[:-1]] == ["a s0", *[f"a s{seed}" for seed in range(4, 15)]]
    assert shown[-1] == "and 3 more runs"


def test_a_low_terminal_shows_fewer() -> None:
    made, _, _ = progress(terminal=True, height=6)
    for seed in range(5):
        made.tell(Run("a", seed), row(0, 1.0, None))
    assert len(frame(made)) == 5
    assert frame(made)[-1] == "and 1 more run"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (100, "a s1   3/50 rounds · 1:05:00 simulated · 0:00:30 real · 130x · acc 0.61 ▁▅█ · 0.85 in ~24 s real"),
        (91, "a s1   3/50 rounds · 1:05:00 simulated · 0:00:30 real · acc 0.61 ▁▅█ · 0.85 in ~24 s real"),
        (85, "a s1   3/50 rounds · 1:05:00 simulated · 0:00:30 real · acc 0.61 · 0.85 in ~24 s real"),
        (70, "a s1   3/50 rounds · 1:05:00 simulated · acc 0.61 · 0.85 in ~24 s real"),
    ],
)
def test_a_narrow_terminal_leaves_out_what_matters_least(width: int, shown: str) -> None:
    made, clock, _ = progress(terminal=True, width=width)
    for number, accuracy in enumerate((0.41, 0.52, 0.61)):
        clock.time += 10
        made.tell(Run("a", 1), row(number, 1300.0 * (number + 1), accuracy))
    assert frame(made) == [shown]


def test_the_last_state_and_what_was_said_stay_on_the_terminal() -> None:
    made, _, text = progress(terminal=True)
    with made:
        made.tell(Run("fedcl", 1), row(0, 1.0, 0.5))
        made.say("fedlapse: every run ends its round")
        made.tell(Run("fedcl", 1), row(1, 2.0, 0.7))
    assert "fedlapse: every run ends its round\n" in text().replace("\r", "")
    assert text().rindex("every run ends its round") < text().rindex(" 2/50 rounds")
    assert "2026-11-21" not in text()
    assert text().endswith("\x1b[?25h")  # the cursor is back


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = io.StringIO()
    made = Progress((), 50, console=Console(force_terminal=True, file=text, width=140), clock=Clock())
    with made:
        made.tell(Run("a", 1), row(0, 1.0, 0.5))
    assert "\x1b[3" not in text.getvalue()  # colours are codes 30 to 38


def test_an_error_inside_leaves_the_terminal_in_order() -> None:
    made, _, text = progress(terminal=True)
    with pytest.raises(RuntimeError), made:
        raise RuntimeError
    assert text().endswith("\x1b[?25h")

"""The parts of benchmarks/fidelity_shared.py: its list, what it predicts and how it judges; and one real setting."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from benchmarks import fidelity_shared
from benchmarks.fidelity_shared import Finding, line, missed, summary
from benchmarks.testbed import crowd, namespaces
from benchmarks.testbed.bench import Transfer
from benchmarks.testbed.crowd import Setting, predict, predict_fairly, settings
from benchmarks.testbed.drawn import KINDS, OFTEN, drawn

WHY_NOT = namespaces.missing()
needs_root = pytest.mark.skipif(WHY_NOT is not None, reason=f"REAL TCP IS NOT MEASURED HERE: it {WHY_NOT}")
MB = 1_000_000
PAIR = Setting("x", (Transfer(MB), Transfer(MB)), (0.05, 0.05), 1e6, queue=100_000)


@pytest.fixture
def have_every_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd.cases, "trace", lambda name: crowd.LIST)


@pytest.mark.usefixtures("have_every_trace")
def test_the_list_has_80_settings_and_a_third_of_each_group_is_held_out() -> None:
    every = settings()
    assert len(every) >= 80
    assert len({each.label for each in every}) == len(every)
    for group in {each.group for each in every} - {fidelity_shared.ONE}:
        there = [each.held_out for each in every if each.group == group and each.held_out < 2]
        assert abs(sum(there) - len(there) / 3) < 1
    assert sum(each.held_out == 2 for each in every) >= 24


@pytest.mark.usefixtures("have_every_trace")
def test_the_list_has_what_the_issue_asks_for() -> None:
    every = settings()
    assert {each.congestion for each in every} == {"cubic", "bbr"}
    assert {2, 4, 7, 10, 20} <= {len(each.flows) for each in every}
    assert {(0.02, 0.15), (0.08, 0.12), (0.06, 0.08, 0.12)} <= {each.rtts for each in every}
    assert {0.001, 0.02} <= {each.loss for each in every}
    deep = {round(each.queue / each.rate / each.rtts[0], 1) for each in every if each.group == "queues"}
    assert deep == {0.5, 1, 2, 4}
    assert any(each.up for each in every)
    assert any(each.first for each in every)


@pytest.mark.usefixtures("have_every_trace")
def test_a_lot_has_some_settings_of_each_kind_and_each_seed_another() -> None:
    lots = [drawn(seed) for seed in (1, 2, 2)]
    assert lots[1] == lots[2]
    assert not {each.label for each in lots[0]} & {each.label for each in lots[1]}
    for lot in lots:
        assert Counter(each.group for each in lot) == dict.fromkeys(KINDS, OFTEN)
        assert len({each.label for each in lot}) == len(KINDS) * OFTEN


def test_a_lot_is_told_for_the_median_and_for_single_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three draws of 0.9, 1 and 1.3 s where 1 s was measured, and three of 2 s: draws and band cover one."""
    other = replace(PAIR, group="y", loss=0.01)
    spans = {PAIR.label: [0.9, 1.0, 1.3], other.label: [2.0] * 3}
    monkeypatch.setattr(fidelity_shared, "kept", lambda: {label: [[1.0, 0.5]] for label in spans})
    monkeypatch.setattr(fidelity_shared, "draws", lambda setting: [[span, 0.1] for span in spans[setting.label]])
    told = fidelity_shared.lot([PAIR, other])
    assert "| x | 1 | 0.0% | 100% | +0.0% | +0.0% | 10.0% | 67% | +30.0% | 100% | 100% |" in told
    assert "| all | 2 | 50.0% | 50% | +50.0% | +100.0% | 65.0% | 33% | +100.0% | 50% | 50% |" in told


def test_two_alike_flows_take_twice_the_bytes_after_slow_start_filled_the_link() -> None:
    # the windows of 2 x 10, 2 x 20 segments leave the link idle; two round trips come before
    wire, rtt, rate = MB + 691 * 52, 0.05, 1e6
    idle = rtt - 2 * 10 * 1500 / rate
    assert predict_fairly(PAIR) == pytest.approx([2 * rtt + idle + 2 * wire / rate] * 2, rel=1e-6)


def test_flows_of_both_directions_do_not_meet_in_the_fluid_model_and_do_with_windows() -> None:
    both = replace(PAIR, flows=(Transfer(MB), Transfer(MB, up=True)), up=1e6)
    alone = replace(PAIR, flows=(Transfer(MB),), rtts=(0.05,))
    assert predict_fairly(both)[0] == predict_fairly(alone)[0]
    assert predict(replace(both, queue_up=100_000))[0] > 1.05 * predict(alone)[0]


def test_a_prediction_is_that_of_the_median_makespan() -> None:
    spans = sorted(max(crowd._draw(PAIR, draw)) for draw in range(crowd.DRAWS))
    assert max(predict(PAIR)) == spans[7]


def test_alike_transfers_are_compared_in_order_and_others_each_with_itself() -> None:
    three = replace(PAIR, flows=(Transfer(MB), Transfer(MB), Transfer(MB, start=1.0)), rtts=(0.05,) * 3)
    assert three.finishes([3.0, 2.0, 2.5]) == [2.0, 3.0, 1.5]


def test_the_first_k_end_with_the_kth_finish() -> None:
    assert replace(PAIR, first=2).makespan([3.0, 1.0, 2.0]) == 2.0
    assert PAIR.makespan([3.0, 1.0, 2.0]) == 3.0


def test_errors_are_those_of_the_medians() -> None:
    finding = Finding(PAIR, [2.0, 2.2], [[1.0, 2.0], [2.5, 1.0], [1.0, 1.9]], [1.0, 1.0])
    assert finding.took == 2.0
    assert finding.error == pytest.approx(0.1)
    assert finding.finish_errors == pytest.approx([1.0, 0.1])
    assert "| 2.20 | 2.00 (1.90-2.50) | +10.0% |" in line(finding)
    assert "| all | 1 | 10.0% | 100% | +10.0% | +10.0% |" in summary([finding])
    assert "| 50.0%, -50.0% |" in summary([finding])


def found(error: float, **of: object) -> Finding:
    """The finding of a setting that took 1 s."""
    return Finding(replace(PAIR, **of), [1 + error] * 2, [[1.0, 1.0]], [1.0, 1.0])  # type: ignore[arg-type]


def test_bars_are_about_the_set_that_was_looked_at_last() -> None:
    good = [found(0.01, held_out=2), found(-0.01, held_out=1, first=1), found(0.0, group=fidelity_shared.ONE)]
    assert missed(good) == []
    assert missed([*good, found(0.9), found(0.9, held_out=1)]) == []
    told = missed([*good, found(-0.5, held_out=2)])
    assert "worst error: 50.0%; at most 30% is allowed" in told
    assert "settings off by more than 15 %: 50.0%; at most 10% is allowed" in told
    assert len(missed(good[1:])) == 5


def test_without_root_it_says_so_in_one_line_and_exits_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    app = fidelity_shared.typer.Typer()
    app.command()(fidelity_shared.main)
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
    assert result.output.strip().count("\n") == 0
    assert "root" in result.output


@needs_root
@pytest.mark.slow
def test_both_ways_and_two_round_trips_through_the_router() -> None:
    """A download beside an upload, each alone in its direction: no less than its bytes and round trips."""
    flows, rtts = (Transfer(300_000), Transfer(150_000, start=0.2, up=True)), (0.02, 0.1)
    setting = Setting("x", flows, rtts, 1e6, up=0.5e6, queue=200_000, queue_up=200_000)
    [[down, up]] = crowd.measure(setting, 1).ends
    assert down > 2 * 0.02 + 0.3
    assert up - 0.2 > 1.5 * 0.1 + 0.3
    assert max(down, up) < 10

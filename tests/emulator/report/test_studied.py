"""A study's figures: valid Vega-Lite, drawn only where there is something to show, and the same each time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.report.studied import figures, pace, pictures, ratios, times
from emulator.report.studied_places import WINNERS, colours, grid, traces
from tests.emulator.analysis.made import answer, run, runs_of

NAMES = ["ratios", "times", "pace", "map", "traces"]


@pytest.mark.slow
def test_every_figure_is_valid_vega_lite():
    drawn = list(figures(answer()))
    assert [each.name for each in drawn] == NAMES
    for each in drawn:
        each.chart.to_dict(validate=True)
        assert each.caption.endswith(".")


@pytest.mark.slow
def test_pictures_come_twice_and_are_the_same_each_time():
    made = answer(cells=(), traces=())
    drawn = dict(pictures(made))
    assert list(drawn) == [f"{name}.{kind}" for name in ("ratios", "times", "pace") for kind in ("svg", "png")]
    assert drawn["ratios.svg"].startswith(b"<svg")
    assert drawn["ratios.png"].startswith(b"\x89PNG")
    assert drawn == dict(pictures(made))


def test_nothing_to_show_makes_no_figure():
    few = answer(3)
    assert ratios(few) is None
    assert grid(few) is None
    assert traces(few) is None
    assert pace(answer(paces=())) is None
    never = {label: {seed: run(11, 10.0) for seed in of} for label, of in runs_of(5).items()}
    assert times(answer(runs=never)) is None


def test_an_algorithm_has_one_colour_in_both_pictures():
    """FedCurv wins a cell, FedCL a trace: each picture shows its own winners, and the baseline."""
    made = answer()
    cell, trace = made.cells[0], made.traces[0]
    won = replace(made, cells=[replace(cell, first="fedcurv")], traces=[replace(trace, first="fedcl")])
    assert colours(won, won.cells) == {"fedavg": WINNERS[0], "fedcurv": WINNERS[2]}
    assert colours(won, won.traces) == {"fedavg": WINNERS[0], "fedcl": WINNERS[1]}


def test_what_is_not_decided_is_grey():
    made = answer()
    open_ = replace(made.cells[0], contrast=None)
    assert set(colours(replace(made, cells=[open_]), [open_])) == {"fedavg", "undecided"}

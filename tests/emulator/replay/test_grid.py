import csv
import json
import math
from types import SimpleNamespace

import pytest

from emulator.replay.conditions import Condition
from emulator.replay.findings import Finding, Note, Times
from emulator.replay.grid import Axis, MapCell, cell, conditions, frontier
from emulator.report import page as report
from emulator.report import winners
from emulator.report.palette import of_labels
from emulator.results.restricted import Timed
from emulator.results.times import known_for


def at_end(time):
    """None is not known; one that never gets there is played for 1000 s."""
    return None if time is None else Timed(None, 1000.0) if time == math.inf else Timed(time, time)


def found(**seeds):
    """Times of each label, by seed from 1."""
    timed = {label: {seed: at_end(at) for seed, at in enumerate(each, 1)} for label, each in seeds.items()}
    tau = known_for(*({seed: at for seed, at in of.items() if at} for of in timed.values()))
    return Finding("here", (), {"t": {label: Times(of, tau=tau) for label, of in timed.items()}}, (), (), 0, 0)


def at(i, j, winner):
    return MapCell({"uplink": i, "latency": j}, winner, None, None, True, {}, True)


def test_an_axis_goes_from_end_to_end_by_equal_factors():
    assert Axis.over("uplink", (1.0, 1000.0), 4).values == pytest.approx((1.0, 10.0, 100.0, 1000.0))


def test_a_range_cannot_begin_at_0():
    with pytest.raises(ValueError, match="begins above 0"):
        Axis.over("latency", (0.0, 1.0), 3)


def test_every_point_has_a_condition_of_its_own():
    axes = [Axis("uplink", (1.0, 2.0)), Axis("speed", (5.0, 6.0, 7.0))]
    made = [(place, each.up, each.down, each.speed) for place, each in conditions(axes, Condition("base"), False)]
    assert len(made) == 6
    assert made[4] == ({"uplink": 1, "speed": 1}, 2.0, None, 6.0)


def test_a_symmetric_map_moves_downlinks_too():
    (one, _) = [each for _, each in conditions([Axis("uplink", (1.0, 2.0))], Condition("base"), True)]
    assert (one.up, one.down) == (1.0, 1.0)


def test_a_cell_says_who_is_first_and_by_how_much():
    made = cell({}, found(x=[2.0, 4.0], y=[6.0, 12.0]), "t")
    assert (made.winner, made.runner_up, made.ratio, made.agree) == ("x", "y", 3.0, True)


def test_seeds_that_disagree_are_marked():
    made = cell({}, found(x=[2.0, 8.0, 2.0], y=[6.0, 7.0, 6.0]), "t")
    assert (made.winner, made.agree) == ("x", False)


def test_a_seed_in_which_nobody_gets_there_disagrees_with_nobody():
    assert cell({}, found(x=[2.0, math.inf, 2.0], y=[6.0, math.inf, 6.0]), "t").agree


def test_who_alone_gets_there_wins_by_as_long_as_the_other_was_played():
    made = cell({}, found(x=[math.inf], y=[500.0]), "t")
    assert (made.winner, made.ratio, made.times) == ("y", 2.0, {"x": None, "y": 500.0})


@pytest.mark.parametrize(
    ("x", "y", "begin"),
    [
        ([2.0, 2.0], [4.0, 4.0], "2.00"),
        ([2.0, 2.0], [4.0, math.inf], "≥ "),
        ([2.0, math.inf], [900.0, 900.0], "≤ "),
        ([2.0, math.inf], [900.0, math.inf], "("),
    ],
)
def test_a_cell_whose_runs_were_cut_off_has_a_bound(x, y, begin):
    made = cell({"uplink": 0}, found(x=x, y=y), "t")
    assert made.winner == "x"
    assert isinstance(made.plain["ratio"], float)
    cells = [made, at(1, 0, "y")]
    (_, text), _ = shown(winners.figure(cells, [Axis("uplink", (125e3, 1.25e6))], ["x", "y"], "t", ""))
    assert text.startswith(begin)
    assert (begin[0] in winners.caption([made], ["x", "y"], [])) is (begin != "2.00")


def test_six_seeds_must_show_who_is_first():
    """y takes 17 % longer on average, now more and now less; or 50 % longer in each seed."""
    mine = [10.0, 11.0, 12.0, 10.0, 9.0, 11.0]
    open_ = cell({}, found(x=mine, y=[12.0, 11.0, 9.0, 14.0, 17.0, 11.0]), "t")
    assert (open_.winner, open_.first, open_.tie) == ("x", "tie", True)
    assert cell({}, found(x=mine, y=[1.5 * time for time in mine]), "t").first == "x"


def test_a_lead_below_a_hundredth_is_a_tie():
    near, clear = (cell({}, found(x=[100.0], y=[at]), "t") for at in (100.9, 101.1))
    assert (near.winner, near.first, near.plain["tie"]) == ("x", "tie", True)
    assert (clear.first, clear.tie) == ("x", False)


def test_a_cell_of_which_not_all_is_known_has_no_winner():
    made = cell({}, found(x=[None], y=[6.0]), "t")
    assert (made.winner, made.known) == (None, False)


def test_a_cell_knows_why_it_is_not_exact():
    note = Note("x", 2, "from round 3 on: a is no longer aggregated")
    beyond = Finding("here", (), {"t": {"x": Times({2: None})}}, (note,), (), 0, 0)
    assert cell({}, beyond, "t").why == "x-s2 from round 3 on: a is no longer aggregated"
    assert cell({}, found(x=[2.0], y=[6.0]), "t").why == ""


def test_a_cell_that_is_not_known_says_what_ended_it_and_one_that_is_assumed_what_differed():
    parted, ended = Note("x", 2, "from round 3 on: a is no longer aggregated"), Note("x", 2, "ends: 3 rounds in a row")
    open_, assumed = (
        Finding("here", (), {"t": {"x": times}}, (parted,), notes, 0, 0)
        for times, notes in ((Times({2: None}), (ended,)), (Times({2: Timed(5.0, 5.0)}, assumed=True), ()))
    )
    assert cell({}, open_, "t").why == str(ended)
    made = cell({}, assumed, "t")
    assert (made.known, made.assumed, made.why) == (True, True, str(parted))


def test_the_frontier_runs_between_different_winners_only():
    cells = [at(0, 0, "x"), at(1, 0, "y"), at(0, 1, "x"), at(1, 1, "x")]
    # right of (0, 0), and above (1, 0)
    assert frontier(cells, "uplink", "latency") == [(1.0, 0.0, 1.0, 1.0), (1.0, 1.0, 2.0, 1.0)]


def drawn(third=("speed", (1e9,))):
    axes = [Axis("uplink", (125e3, 1.25e6)), Axis("latency", (0.005, 0.05)), Axis(*third)]
    cells = []
    for place, _ in conditions(axes, Condition("base"), False):
        winner = "fedcl" if place["uplink"] else "fedcurv"
        agree, times = bool(place["latency"]), {"fedcl": 3.0, "fedcurv": 4.0}
        cells.append(MapCell({**place}, winner, "fedcl", 1.5, agree, times, True))
    return cells, axes, winners.figure(cells, axes, ["fedcl", "fedcurv"], "accuracy 0.9", "What it means.")


def test_the_map_is_a_chart_with_a_line_between_winners():
    _, _, figure = drawn()
    spec = figure.chart.to_dict()
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["rect", "text", "rule"]
    assert "1.50 ?" in str(spec["layer"][1])


def shown(figure):
    """The labels of a map's cells, and the text in each cell; the picture holds each text once, and numbers."""
    boxes = figure.chart.to_dict()["layer"][0]
    texts = {each["as"]: json.loads(each["calculate"].rpartition("[")[0]) for each in boxes["transform"]}
    rows = csv.DictReader(figure.chart.to_dict()["datasets"][boxes["data"]["name"]].splitlines())
    return [tuple(texts[name][int(row[name])] for name in ("winner", "ratio")) for row in rows]


def legend(chart):
    return chart.to_dict()["layer"][0]["encoding"]["color"]["scale"]["domain"]


def test_the_legend_has_only_who_is_first_somewhere_and_the_caption_names_the_others():
    """Of w, x, y and z, x and y are each first in a cell.  The colours are the report's, three parts to two of white;
    w has the first."""
    axes, labels = [Axis("uplink", (125e3, 1.25e6))], ["w", "x", "y", "z"]
    cells = [MapCell({"uplink": i}, winner, "w", 1.4, True, {}, True) for i, winner in enumerate("xy")]
    figure = winners.figure(cells, axes, labels, "t", winners.caption(cells, labels, ["as recorded"]))
    assert legend(figure.chart) == ["x", "y"]
    found = figure.chart.to_dict()["layer"][0]["encoding"]["color"]["scale"]["range"]
    for colour, light in zip(of_labels(labels)[1:3], found, strict=True):
        mixed = [0.6 * part + 0.4 * 255 for part in bytes.fromhex(colour[1:])]
        assert list(bytes.fromhex(light[1:])) == pytest.approx(mixed, abs=0.5)
    assert figure.caption.endswith("line: where the winner changes. First in no cell: w and z. As recorded.")
    one = winners.caption(cells[:1], labels[:2], [])
    assert one.endswith("how many times as long the next one takes. First in no cell: w.")


def test_seeds_that_disagree_are_explained_where_some_do():
    cells = [at(0, 0, "x"), MapCell({"uplink": 1}, "x", "y", 1.4, False, {}, True)]
    assert ["seeds disagree" in winners.caption(each, ["x"], []) for each in (cells[:1], cells)] == [False, True]


def test_a_tie_has_a_colour_of_its_own_and_is_in_the_caption():
    axes = [Axis("uplink", (125e3, 1.25e6))]
    cells = [
        MapCell({"uplink": i}, "x", "y", ratio, True, {}, True, tie=ratio < 1.01)
        for i, ratio in enumerate((1.0007, 1.4))
    ]
    figure = winners.figure(cells, axes, ["x", "y"], "t", winners.caption(cells, ["x", "y"], []))
    assert shown(figure) == [("tie", "tie"), ("x", "1.40")]
    assert legend(figure.chart) == ["x", "tie"]
    assert "tie: the first two are less than 1 % apart, or not distinguishable" in figure.caption


def test_who_ties_is_in_the_cell_and_in_the_caption():
    """x and y differ by 0.5 %, z takes twice as long; then all three by 0.5 %."""
    two = cell({"uplink": 0}, found(x=[100.0], y=[100.5], z=[200.0]), "t")
    three = cell({"uplink": 1}, found(x=[100.0], y=[100.5], z=[100.2]), "t")
    assert [sorted(each.tied) for each in (two, three)] == [["x", "y"], ["x", "y", "z"]]
    assert cell({}, found(x=[100.0], y=[150.0]), "t").tied == ()
    caption = winners.caption([two, three], ["x", "y", "z"], [])
    assert "who ties: x and y in 1 cell; x, z and y in 1 cell" in caption
    axes, cells = [Axis("uplink", (125e3, 1.25e6, 1.25e7))], [two, three, at(2, 0, "z")]
    texts = [text for _, text in shown(winners.figure(cells, axes, ["x", "y", "z"], "t", ""))]
    assert texts == ["tie:\nx\ny", "tie", ""]


def test_the_title_answers_in_how_many_cells_each_is_first():
    cells = [at(0, 0, "x"), at(1, 0, "x"), at(2, 0, "y"), MapCell({}, "x", "y", 1.0, True, {}, True, tie=True)]
    assert winners.answer(cells, "accuracy 0.9") == "First to accuracy 0.9: x in 2 of 4 cells, y in 1; a tie in 1"
    assert winners.answer(cells[3:], "t") == "No algorithm is clearly first to t: a tie in 1 of 1 cell"


def test_the_legend_has_the_colours_of_the_cells():
    """They are opaque, so that they are the same on white and on black; no channel changes that."""
    _, _, figure = drawn()
    boxes = figure.chart.to_dict()["layer"][0]
    assert boxes["mark"]["opacity"] == 1
    assert "opacity" not in boxes["encoding"]


def test_own_devices_are_marked_where_they_are_or_said_to_be_outside():
    """Uplinks of 1 and 10 Mbit/s are the middles 0.5 and 1.5 of their cells, so the geometric mean of both is at 1."""
    axes = [Axis("uplink", (125e3, 1.25e6)), Axis("latency", (0.01,))]
    assert axes[0].at(125e3) == pytest.approx(0.5)
    assert axes[0].at(1.25e6) == pytest.approx(1.5)
    assert axes[0].at(125e3 * 10**0.5) == pytest.approx(1.0)
    assert axes[0].at(125e3 / 10) is None
    own = [
        {"name": "pi-4", "uplink": 125e3 * 10**0.5, "latency": 0.3, "speed": 4e9},
        {"name": "phone", "uplink": 1.0, "latency": 0.3, "speed": 4e9},
    ]
    figure = winners.figure([at(0, 0, "x"), at(1, 0, "y")], axes, ["x", "y"], "t", "Read it so.", own)
    assert figure.caption == "Read it so. ◇: your pi-4. Outside the map: your phone."
    marks = figure.chart.to_dict()["layer"][-1]
    assert marks["mark"]["shape"] == "diamond"
    assert figure.chart.to_dict()["datasets"][marks["data"]["name"]].splitlines()[1:] == ["0,1,0.5"]


def test_cells_of_a_map_that_was_broken_off_are_drawn_as_not_played():
    cells, axes, _ = drawn()
    figure = winners.figure(cells[:3], axes, ["fedcl", "fedcurv"], "accuracy 0.9", "")
    assert [winner for winner, _ in shown(figure)].count("not played") == 1
    assert shown(figure)[-1] == ("not played", "not\nplayed")


def test_a_third_range_is_a_panel_for_each_value():
    _, _, figure = drawn(("speed", (1e9, 4e9)))
    assert [panel.title for panel in figure.chart.vconcat] == ["speed, GFLOP/s: 1", "speed, GFLOP/s: 4"]


def test_a_map_that_was_broken_off_has_the_panels_that_were_begun():
    cells, axes, _ = drawn(("speed", (1e9, 4e9)))
    begun = [each for each in cells if each.place["speed"] == 0]
    figure = winners.figure(begun, axes, ["fedcl", "fedcurv"], "accuracy 0.9", "")
    assert figure.chart.title == "speed, GFLOP/s: 1"


def test_a_map_that_was_kept_is_drawn_again(tmp_path):
    cells, axes, figure = drawn()
    said = {
        "labels": ["fedcl", "fedcurv"],
        "target": "accuracy 0.9",
        "axes": {axis.name: list(axis.values) for axis in axes},
        "notes": [],
        "cells": winners.rows(cells, axes),
    }
    assert winners.kept(tmp_path) is None
    (tmp_path / "map.json").write_text(json.dumps(said))
    again = winners.kept(tmp_path)
    assert again.chart.to_dict() == figure.chart.to_dict()
    assert winners.kept(tmp_path, "another") is None
    (tmp_path / "map.json").write_text("{}")
    with pytest.raises(ValueError, match="is not as `fedlapse map` writes it"):
        winners.kept(tmp_path)


def test_a_map_of_other_results_is_not_shown_and_that_is_said(tmp_path):
    def remarks(digest):
        one = SimpleNamespace(folder=tmp_path, summary={"digest": digest})
        return list(report._remarks(SimpleNamespace(summary={"labels": {}}, sources={"a": one})))

    assert remarks("new") == []
    (tmp_path / "map.json").write_text('{"digest": "old"}')
    assert remarks("old") == []
    assert remarks("new") == ["map.json is of other results, so it is not shown; `fedlapse map` makes it again."]


@pytest.mark.slow
def test_the_page_needs_no_network_and_the_picture_is_a_png():
    _, _, figure = drawn()
    page = winners.page(figure, "Made by a test.")
    assert "<svg" in page
    assert "<script" not in page
    assert "What it means." in page
    assert "prefers-color-scheme: dark" in page  # it looks like the report
    assert winners.png(figure)[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_picture_says_what_its_numbers_mean(monkeypatch):
    specs = []
    monkeypatch.setattr("vl_convert.vegalite_to_png", lambda spec, **_: specs.append(spec) or b"")
    _, _, figure = drawn()
    winners.png(figure)
    assert specs[0]["title"]["subtitle"] == ["What it means."]

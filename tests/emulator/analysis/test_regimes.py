"""A study in several regimes: the scenario of each, and the map of when an algorithm pays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.analysis.answer import Answer
from emulator.analysis.cells import UNDECIDED, UNKNOWN, Cell, grid
from emulator.analysis.regimes import places, scenarios
from emulator.results.restricted import Contrast
from emulator.wording.regimes_page import markdown, shown, tables, verdict
from scenarios.schema.study import Grid
from scenarios.text.faults import BadScenario
from tests.all_of import all_of
from tests.emulator.analysis.made import answer, scenario

SPLIT = {"kind": "shards", "each": 2}


def test_each_regime_is_the_scenario_with_its_changes() -> None:
    base = scenario(regimes={"two-labels": {"data.split": SPLIT}, "long": {"training.epochs": 20, "rounds.max": 7}})
    made = scenarios(base)
    assert list(made) == ["two-labels", "long"]
    assert (made["two-labels"].data.split.kind, made["two-labels"].training.epochs) == ("shards", base.training.epochs)
    assert (made["long"].training.epochs, made["long"].rounds.max, made["long"].name) == (20, 7, "tiny-long")
    assert all_of(each.study is not None and not each.study.regimes for each in made.values())


def test_without_regimes_there_are_none() -> None:
    assert scenarios(scenario()) == {}


def test_an_error_names_the_regime() -> None:
    with pytest.raises(BadScenario, match=r"in regime odd, training\.epoch=20: .*did you mean epochs"):
        scenarios(scenario(regimes={"odd": {"training.epoch": 20}}))


def test_a_regime_has_no_regimes_of_its_own() -> None:
    nested = scenario(regimes={"odd": {"study.regimes": {"inner": {"training.epochs": 2}}}})
    with pytest.raises(BadScenario, match=r"regime odd has study\.regimes of its own"):
        scenarios(nested)


def test_an_axis_without_values_leaves_links_as_they_are() -> None:
    (place, condition), *others = grid(Grid(up_mbit_s=(2.0, 8.0)))
    assert place == {"up_mbit_s": 2.0}
    assert (condition.up, condition.down, condition.latency, condition.speed) == (250_000, None, None, None)
    assert [each["up_mbit_s"] for each, _ in others] == [8.0]


def made(p: float, first: str | None = "fedcl", up: float = 1.0) -> Cell:
    contrast = Contrast(1.5, 1.1, 2.0, p, 10, 10, 10, 100.0)
    return Cell({"up_mbit_s": up}, {}, first, "fedavg", contrast if first else None, {})


def regimes() -> dict[str, Answer]:
    """Two regimes with two uplinks each: p is 0.01, 0.02, 0.04, and once nobody got there."""
    pair = ("fedcl", "fedavg")
    plain = answer(cells=(), traces=(), borders=())
    return {
        "skewed": replace(plain, duels={pair: [made(0.01), made(0.02, up=10.0)]}),
        "even": replace(plain, duels={pair: [made(0.04), made(1.0, first=None, up=10.0)]}),
    }


def test_a_question_is_adjusted_over_all_regimes_and_links() -> None:
    """Holm: 3 x 0.01, 2 x 0.02, 1 x 0.04, each at least the one before it."""
    found = places(regimes())
    assert [each.adjusted for each in found] == [pytest.approx(0.03), pytest.approx(0.04), pytest.approx(0.04), None]
    assert [each.winner for each in found] == ["fedcl", "fedcl", "fedcl", UNKNOWN]
    once = {
        name: replace(each, duels={("fedcl", "fedavg"): [made(0.03), made(0.04)]}) for name, each in regimes().items()
    }
    assert {each.winner for each in places(once)} == {UNDECIDED}  # 4 x 0.03


def test_the_page_has_the_map_first_and_a_table_for_each_regime() -> None:
    answers = regimes()
    found = places(answers)
    page = markdown(answers, found)
    line = (
        "fedcl compared with fedavg, at 4 points of the map: fedcl is faster at 3 (in skewed and even) and fedavg is "
        "faster at 0; 1 are undecided."
    )
    assert verdict(answers, found)[0] == line
    assert page.index(line) < page.index("figures/pays.png") < page.index("## skewed") < page.index("## even")
    assert (
        "| fedcl | ranked | as published | 8 of 8 | 60.0 s | 1.25 [1.25, 1.25] | 1.20 [1.20, 1.20] | 1.50 [1.50, 1.50]"
        in page
    )


def test_its_tables_have_every_cell_and_every_comparison() -> None:
    answers = regimes()
    made = tables(answers, places(answers))
    assert [row[:3] for row in made["pays.csv"].rows] == [
        ("fedcl or fedavg", regime, up) for regime in ("skewed", "even") for up in (1.0, 10.0)
    ]
    rows = [dict(zip(made["regimes.csv"].headings, row, strict=True)) for row in made["regimes.csv"].rows]
    assert [(row["regime"], row["base"], row["time"]) for row in rows if row["algorithm"] == "fedcl"] == [
        (regime, base, pytest.approx(ratio))
        for regime in answers
        for base, ratio in (("fedavg", 60 / 40), ("fedcurv", 60 / 44.5))
    ]


def test_a_cell_of_the_map_is_a_bound_where_runs_were_cut_off() -> None:
    cut = Contrast(1.3, 1.2, 1.4, 0.01, 10, 4, 10, 100.0, bound="low")
    cell = replace(made(0.01), contrast=cut)
    pair = ("fedcl", "fedavg")
    answers = {"one": replace(answer(exploratory=True), duels={pair: [cell]}, cells=())}
    (there,) = places(answers)
    assert shown(there) == "≥ 1.30"
    (row,) = (dict(zip(each.headings, each.rows[0], strict=True)) for each in [tables(answers, [there])["pays.csv"]])
    assert (row["bound"], row["horizon s"]) == ("low", 100.0)
    assert verdict(answers, [there])[-1].startswith("one: Exploratory: ")
    assert "fedavg is fastest to" in verdict(answers, [there])[-1]

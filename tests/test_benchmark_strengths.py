"""The search for strengths: what it takes of a grid, and that the scenarios have what it took."""

from pathlib import Path

import pytest

from benchmarks.strengths import GRIDS, SEEDS, Tried, chosen
from scenarios.load import load

TABLE = Path(__file__).parents[1] / "benchmarks" / "strengths.txt"


def tried(*values: tuple[float, float | None, float]) -> list[Tried]:
    """(value, seconds, validation accuracy) of one label, after the baseline's."""
    return [Tried("fedavg", "", None, 1.0, 0.99), *(Tried("x", "mu", *each) for each in values)]


def taken(*values: tuple[float, float | None, float]) -> dict[str, float | None]:
    return {label: one.value for label, one in chosen(tried(*values)).items()}


def test_the_soonest_is_taken_unless_others_are_as_soon_and_more_accurate():
    assert taken((0.1, 106.0, 0.99), (1.0, 100.0, 0.90)) == {"x": 1.0}
    assert taken((0.1, 104.0, 0.92), (1.0, 100.0, 0.90)) == {"x": 0.1}
    assert taken((0.1, 104.0, 0.90), (1.0, 100.0, 0.90)) == {"x": 1.0}


def test_what_never_gets_there_is_not_taken():
    assert taken((0.1, 104.0, 0.90), (1.0, None, 0.95)) == {"x": 0.1}
    assert taken((0.1, None, 0.8)) == {}


@pytest.mark.parametrize("name", GRIDS)
def test_the_scenario_has_the_values_that_the_search_chose(name):
    scenario = load(name)
    part = TABLE.read_text(encoding="utf-8").split(f"{name}, seeds")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in part.splitlines() if "chosen" in line]
    said = {row[0]: row[1] for row in rows}
    assert said.keys() == GRIDS[name].keys()
    for entry in scenario.algorithms:
        if entry.name in said:
            option, value = said[entry.name].split(" = ")
            assert entry.options[option] == float(value)


@pytest.mark.parametrize("name", GRIDS)
def test_no_seed_that_is_reported_was_chosen_by(name):
    assert not set(SEEDS) & set(load(name).seeds)

"""A study's tables: every cell by hand."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from math import inf

import pytest

from emulator.analysis import analysis
from emulator.analysis.answer import Null
from emulator.analysis.cells import cell
from emulator.results.comparison import OWN
from emulator.results.leverage import Leverage
from emulator.results.restricted import Timed
from emulator.wording.study_files import File, tables
from emulator.wording.study_verdict import verdict
from tests.emulator.analysis.made import TARGET, answer, run, runs_of

LEAST_P = 1 / 10_001


def cells(found: File) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(found.csv)))


def test_a_table_is_the_same_bytes_each_time():
    assert {name: each.csv for name, each in tables(answer()).items()} == {
        name: each.csv for name, each in tables(answer()).items()
    }


def test_what_was_not_asked_for_has_no_table():
    made = tables(answer(cells=(), borders=(), traces=(), nulls=()))
    assert list(made) == ["tuning.csv", "times.csv", "comparisons.csv", "reasons.csv", "rounds.csv"]


def test_cells_are_written_in_full():
    made = File("x.csv", ("a", "b", "c", "d"), [("a, b", 0.1 + 0.2, None, True), ("", 3, 2.0, False)])
    assert made.csv == 'a,b,c,d\n"a, b",0.30000000000000004,,yes\n,3,2.0,no\n'


def test_a_time_stands_beside_the_first_crossing():
    """One algorithm touches the target in round 2 and holds it from round 4 on; another never reaches it in its 10
    rounds."""
    runs = {**runs_of(8), "fedcurv": {seed: run(4, 10.0, early=2) for seed in range(1, 9)}}
    runs["fedcl"] = {**runs["fedcl"], 5: run(11, 12.0)}
    held = analysis.all_values({OWN: runs}, [TARGET.__class__("accuracy", 0.8, 2)])
    rows = {(each["algorithm"], each["seed"]): each for each in cells(tables(answer(values=held))["times.csv"])}
    both = rows["fedcurv", "1"]
    assert (both["time s"], both["first crossing s"], both["end s"]) == ("40.0", "20.0", "100.0")
    assert both["rounds"] == "4"
    never = rows["fedcl", "5"]
    assert (never["time s"], never["first crossing s"], never["end s"]) == ("", "", "120.0")
    assert never["rounds"] == ""
    assert {(each["algorithm"], each["horizon s"]) for each in rows.values()} == {
        ("fedavg", ""),
        ("fedcl", "120.0"),
        ("fedcurv", ""),
    }


def test_where_all_get_there_there_is_no_horizon():
    assert {each["horizon s"] for each in cells(tables(answer())["times.csv"])} == {""}


def test_comparisons_hold_the_ratio_and_its_adjusted_p():
    """60 s over 40 s in every seed; two links, so the least p there is counts twice."""
    row = cells(tables(answer())["comparisons.csv"])[0]
    assert (row["link"], row["algorithm"], row["base"]) == (OWN, "fedcl", "fedavg")
    assert [float(row[name]) for name in ("ratio", "low", "high")] == [1.5, 1.5, 1.5]
    assert float(row["p"]) == pytest.approx(LEAST_P)
    assert float(row["adjusted p"]) == pytest.approx(2 * LEAST_P)
    assert (row["decided"], row["reached"], row["base reached"], row["of"]) == ("yes", "8", "8", "8")


def test_below_5_seeds_ratios_are_empty():
    row = cells(tables(answer(3))["comparisons.csv"])[0]
    assert [row[name] for name in ("ratio", "p", "adjusted p", "decided", "of")] == ["", "", "", "no", "3"]


def test_reasons_split_a_ratio():
    """5 rounds of 12 s over 4 of 10 s: 1.25 x 1.2; 5 x 3 kB over 4 x 2 kB; joules go with seconds."""
    row = cells(tables(answer())["reasons.csv"])[0]
    ratios = [float(row[f"{what} ratio"]) for what in ("time", "rounds", "seconds per round", "bytes", "joules")]
    assert ratios == pytest.approx([1.5, 1.25, 1.2, 15 / 8, 1.5])


def test_a_round_is_shared_out():
    rows = {
        (each["what"], each["unit"]): float(each["amount per round"])
        for each in cells(tables(answer())["rounds.csv"])
        if each["algorithm"] == "fedcl"
    }
    assert rows["download importance", "s"] == rows["compute train", "s"] == rows["upload weights", "s"] == 3.0
    assert rows["all", "s"] == 12.0
    assert rows["down importance", "bytes"] == 1000.0
    assert rows["all devices", "J"] == 60.0


def test_places_name_means_and_configurations():
    row = cells(tables(answer())["map.csv"])[0]
    assert (row["winner"], row["first"], row["second"]) == ("fedavg", "fedavg", "fedcl")
    assert [row["fedavg s"], row["fedcl s"], row["fedcurv s"]] == ["40.0", "60.0", ""]
    assert (row["fedcl configuration"], row["fedcurv configuration"]) == ("fedcl", "")
    assert tables(answer())["borders.csv"].rows == [(5.0, 20.0, 5.0, 2.5, "fedavg", "fedcurv")]
    assert cells(tables(answer())["traces.csv"])[0]["trace"] == "walk"


def test_each_place_has_the_times_of_all_seeds():
    times = {
        "fedavg": {1: Timed(40.0, 100.0), 2: Timed(None, inf)},
        "fedcl": {1: Timed(60.0, 90.0), 2: Timed(50.0, 90.0)},
    }
    made = cell({"up_mbit_s": 0.3}, times, {"fedavg": "fedavg.02", "fedcl": "fedcl"})
    assert cells(tables(answer(cells=[made]))["map-times.csv"]) == [
        dict(zip(("up_mbit_s", "algorithm", "configuration", "seed", "time s", "end s"), row, strict=True))
        for row in (
            ("0.3", "fedavg", "fedavg.02", "1", "40.0", "100.0"),
            ("0.3", "fedavg", "fedavg.02", "2", "", ""),
            ("0.3", "fedcl", "fedcl", "1", "60.0", "90.0"),
            ("0.3", "fedcl", "fedcl", "2", "50.0", "90.0"),
        )
    ]


def test_the_search_tells_edges_of_each_clock():
    assert tables(answer())["tuning.csv"].rows == [
        ("fedavg", OWN, "lr = 0.01", 30.0, "s", 1, 1, 3, "training.lr"),
        ("fedavg", "rounds", "lr = 0.1", 4.0, "rounds", 1, 1, 3, ""),
    ]


def test_nulls_count_rounds_from_1():
    made = answer(nulls=[Null("fedcl-0", 1, 4, None), Null("fedcl-0", 2, 4, 2)])
    assert tables(made)["nulls.csv"].rows == [("fedcl-0", 1, 4, None, True), ("fedcl-0", 2, 4, 3, False)]


def test_each_round_has_its_leverage():
    made = answer(leverages=[Leverage("fedcl", 1, 1, 0.004, 0.1, False), Leverage("fedcl", 1, 2, 2.2, 3.0, True)])
    assert cells(tables(made)["leverage.csv"])[1] == {
        "algorithm": "fedcl",
        "seed": "1",
        "round": "2",
        "leverage, 99th percentile": "2.2",
        "lr x largest second derivative": "3.0",
        "identity": "yes",
    }


def test_recorded_links_without_an_uplink_are_counted():
    trace = answer().traces[0]
    found = answer(traces=[replace(trace, place={"trace": "walk", "uplink": "assumed"}), trace])
    assert "Of the 2 recorded links (1 with an assumed uplink of 0.2 times the downlink), " in "".join(verdict(found))
    assert "Of the 1 recorded links, " in "".join(verdict(answer()))

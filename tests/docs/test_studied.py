"""The figures that README, the quickstart and the study's pages take from the studies are those of the tables in
docs/studies, whose ratios follow from the seconds of the runs."""

import csv
import re
from functools import cache
from itertools import groupby
from math import inf
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks import study as made
from benchmarks.words import prose
from emulator.results.restricted import Timed, contrast
from scenarios.load import load

ROOT = Path(__file__).parents[2]
README, STUDY, REGIMES = (
    (ROOT / page).read_text("utf-8") for page in ("README.md", "docs/study.md", "docs/study-regimes.md")
)
KEPT = [(study, regime) for study in made.STUDIES for regime in made.regimes(study)]
TRIPLE = re.compile(r"(\d+(?:\.\d+)?)x? \[(\d+(?:\.\d+)?), (\d+(?:\.\d+)?|∞)\]")
MEAN = re.compile(r"(\d+\.\d) s\b")
each_regime = pytest.mark.parametrize(("study", "regime"), KEPT)


@cache
def rows(study, regime, table):
    with (made.KEPT / study / regime / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def study_of(regime):
    return "mnist" if regime.startswith("mnist") else "digits"


def by_hand(page):
    """The page without the parts that are generated."""
    return re.sub(r"<!-- (\S+) -->.*?<!-- end of \1 -->", "", page, flags=re.S)


def test_the_quickstart_has_the_settings_that_were_chosen():
    quickstart = load("quickstart")
    chosen = {row["algorithm"]: row["settings"] for row in made.rows(made.KEPT / "quickstart.csv")}
    assert [entry.name for entry in quickstart.algorithms if entry.name not in chosen] == []
    for entry in quickstart.algorithms:
        own = entry.options.get("training") or {}
        training = {key: own.get(key, getattr(quickstart.training, key)) for key in ("lr", "epochs")}
        said = dict(part.split(" = ") for part in chosen[entry.name].split(", "))
        assert {key: float(value) for key, value in said.items()} == {
            key: float({**entry.options, **training}[key]) for key in said
        }, entry.name


# --- the tables ---------------------------------------------------------------------------------------------------


PLAYED = [(*pair, *of) for of in (("times", "comparisons"), ("unseen-times", "unseen")) for pair in KEPT]
each_play = pytest.mark.parametrize(("study", "regime", "seconds", "table"), PLAYED)


@cache
def runs(study, regime, table="times"):
    """Times and ends of the runs on the study's own links, by target, algorithm and seed, with the mean's horizon."""
    found = {}
    for row in rows(study, regime, table):
        if row["link"] == "own links":
            time = Timed(float(row["time s"]) if row["time s"] else None, float(row["end s"] or inf))
            found.setdefault((row["target"], row["algorithm"]), {})[row["seed"]] = time
    return found


def known_for(*of):
    """Seconds up to which the runs were seen: the end of the first that stopped without the target; inf if none did.
    Runs that diverged never get there: if no others missed it, the latest time."""
    every = [run for each in of for run in each.values()]
    missed = [run.end for run in every if run.time is None]
    return min(missed, default=inf) if min(missed, default=0) < inf else max(run.time or 0.0 for run in every)


def restricted_mean(of, tau):
    return fmean(min(run.time or tau, tau) for run in of.values())


@each_play
def test_ratios_follow_from_the_seconds_of_the_runs(study, regime, seconds, table):
    found = runs(study, regime, seconds)
    compared = [row for row in rows(study, regime, table) if row["ratio"] and row["link"] == "own links"]
    assert len(compared) > 20
    for row in compared:
        mine, base = (found[row["target"], row[key]] for key in ("algorithm", "base"))
        tau = known_for(mine, base)
        expected = restricted_mean(mine, tau) / restricted_mean(base, tau)
        assert float(row["ratio"]) == pytest.approx(expected, rel=1e-9), row
        again = contrast(mine, base, tau)
        known = tuple(float(row[key]) for key in ("low", "high", "p"))
        assert (again.low, again.high, again.p) == pytest.approx(known, rel=1e-9), row  # logarithms differ by processor


def holm(ps):
    """Holm (1979), from its definition: the i-th smallest of m values times m - i + 1, never below the one before."""
    order = sorted(range(len(ps)), key=lambda place: ps[place])
    scaled = [min(1.0, (len(ps) - rank) * ps[place]) for rank, place in enumerate(order)]
    return {place: max(scaled[: rank + 1]) for rank, place in enumerate(order)}


@each_play
def test_comparisons_are_adjusted_pair_by_pair(study, regime, seconds, table):
    found = [row for row in rows(study, regime, table) if row["p"]]
    pair = lambda row: (row["algorithm"], row["base"])  # noqa: E731
    for _, of in groupby(sorted(found, key=pair), pair):
        here = list(of)
        adjusted = holm([float(row["p"]) for row in here])
        for place, row in enumerate(here):
            assert float(row["adjusted p"]) == pytest.approx(adjusted[place])
            assert row["decided"] == ("yes" if adjusted[place] < 0.05 else "no")


@pytest.mark.parametrize("study", sorted({study for study, _ in KEPT}))
def test_the_map_is_adjusted_over_all_regimes(study):
    found = made.rows(made.KEPT / study / "pays.csv")
    assert list(dict.fromkeys(row["regime"] for row in found)) == made.regimes(study)
    for question, of in groupby(found, lambda row: row["question"]):
        here = [row for row in of if row["p"]]
        adjusted = holm([float(row["p"]) for row in here])
        for place, row in enumerate(here):
            assert float(row["adjusted p"]) == pytest.approx(adjusted[place]), question
            assert row["winner"] == (row["first"] if adjusted[place] < 0.05 else "undecided")


@pytest.mark.parametrize("study", sorted({study for study, _ in KEPT}))
def test_tables_over_all_regimes_have_the_rows_of_each(study):
    again = "winner", "adjusted p"  # over all regimes
    for table in ("regimes", "pays"):
        each = [row for regime in made.regimes(study) for row in rows(study, regime, table)]
        left = again if table == "pays" else ()
        plain = lambda of, left=left: sorted(tuple(v for k, v in row.items() if k not in left) for row in of)  # noqa: E731
        assert plain(made.rows(made.KEPT / study / f"{table}.csv")) == plain(each)


@each_regime
def test_other_seeds_play_the_same_comparisons(study, regime):
    seen, unseen = (rows(study, regime, table) for table in ("times", "unseen-times"))
    assert {row["seed"] for row in unseen}.isdisjoint({row["seed"] for row in seen} | {"101", "102"})
    last = float(made.main_target(study, regime).split()[1])  # they stop there
    assert {row["target"] for row in unseen} == {t for row in seen if float((t := row["target"]).split()[1]) <= last}
    assert len(list(made.both(study, regime))) == len(
        {(row["algorithm"], row["base"]) for row in rows(study, regime, "unseen")}
    )


@each_regime
def test_without_their_penalty_they_learn_what_the_baseline_learns(study, regime):
    nulls = rows(study, regime, "nulls")
    assert len(nulls) >= 10
    assert {row["same"] for row in nulls} == {"yes"}
    assert made.differing(made.KEPT / study) == []


# --- the pages ----------------------------------------------------------------------------------------------------


def test_pages_are_made_of_the_tables():
    assert made.filled(STUDY, made.blocks()) == STUDY
    assert made.filled(README, made.blocks()) == README
    assert made.second_page() == REGIMES


def ratios(study, regime):
    """Every ratio of the tables, with the ends of its interval."""
    for row in rows(study, regime, "comparisons") + rows(study, regime, "pays"):
        yield tuple(float(row[key]) for key in ("ratio", "low", "high")) if row["ratio"] else (0.0, 0.0, 0.0)
    for table, parts in (
        ("regimes", ("time", "rounds", "seconds a round")),
        ("reasons", ("time ratio", "rounds ratio", "seconds per round ratio", "bytes ratio", "joules ratio")),
    ):
        for row in rows(study, regime, table):
            yield from (
                tuple(float(row[f"{part}{end}"]) for end in ("", " low", " high")) for part in parts if row[part]
            )
    yield from over_the_fastest(study, regime)


@cache
def over_the_fastest(study, regime):
    """The ratios of all algorithms with the one of the least mean, whom a verdict compares with each."""
    found = runs(study, regime)
    known = []
    for goal in {goal for goal, _ in found}:
        here = [of for (same, _), of in found.items() if same == goal]
        for base in sorted(here, key=lambda of: restricted_mean(of, known_for(of)))[:3]:
            taus = [(mine, known_for(mine, base)) for mine in here if mine is not base]
            known += [contrast(mine, base, tau) for mine, tau in taus if tau > 0]
    return [(each.ratio, each.low, each.high) for each in known if each]


def rounds_to(said, value):
    """True if a figure of a page is the value, rounded to as many digits as it shows."""
    unit = 10.0 ** -len(said.partition(".")[2])
    return abs(float(said) - value) <= 0.5 * unit * (1 + 1e-9)


def told(text, known):
    """Ratios with intervals in a text that are none of the known ones; 0 and ∞ are the open ends of bounds."""
    return [
        found[0]
        for found in TRIPLE.finditer(text)
        if not any(
            all(end in ("0", "∞") or rounds_to(end, value) for end, value in zip(found.groups(), each, strict=True))
            for each in known
        )
    ]


@each_regime
def test_each_regime_tells_ratios_and_means_of_its_tables(study, regime):
    known = set(ratios(study, regime))
    means = [restricted_mean(of, known_for(of)) for of in runs(study, regime).values()]
    for page in ("short.txt", "whole.txt"):
        text = (made.KEPT / study / regime / page).read_text(encoding="utf-8")
        assert len(TRIPLE.findall(text)) > 10
        assert told(text, known) == []
    short = (made.KEPT / study / regime / "short.txt").read_text(encoding="utf-8")
    assert [said for said in MEAN.findall(short) if not any(rounds_to(said, mean) for mean in means)] == []


@each_regime
def test_importance_helps_where_placebos_take_longer_and_more_rounds(study, regime):
    """As the tables have it: significantly longer, and an interval of rounds above 1."""
    (line,) = re.findall(r"^- (Importance .*)$", (made.KEPT / study / regime / "short.txt").read_text("utf-8"), re.M)
    told = {
        name: verb
        for verb, names in re.findall(
            r"mportance (helps|is not shown to help|has no \w+ effect on) (.*?), because", line
        )
        for name in re.split(", | and ", names)
    }
    main = made.main_target(study, regime)
    pairs = {name: (f"{name}-shuffled", name, main) for name in ("fedcl", "fedcurv", "agents")}
    slower = {
        at(row) for row in rows(study, regime, "comparisons") if row["decided"] == "yes" and float(row["low"]) > 1
    }
    more = {at(row) for row in rows(study, regime, "reasons") if float(row["rounds ratio low"] or 0) > 1}
    assert told == {
        name: "has no significant effect on"
        if pair not in slower
        else "helps"
        if pair in more
        else "is not shown to help"
        for name, pair in pairs.items()
    }


def test_what_is_counted_by_hand_is_in_the_tables():
    text = " ".join(by_hand(STUDY).split())
    won = {
        question: [row["winner"] for row in made.rows(made.KEPT / "digits" / "pays.csv") if row["question"] == question]
        for question in ("fedcl or fedavg", "fedcurv or fedavg")
    }
    of = won["fedcurv or fedavg"]
    assert f"FedAvg is faster on {of.count('fedavg')} of {len(of)} points of the map, FedCurv on none." in text
    assert of.count("fedcurv") == won["fedcl or fedavg"].count("fedcl") == 0
    assert len(KEPT) == 13
    assert "The settings that all thirteen regimes chose" in text
    lost = [
        found["decided"]
        for row in made.rows(made.KEPT / "digits" / "pays.csv")
        if (row["question"], row["winner"]) == ("fedcl or fedavg", "fedavg")
        for known, found in made.both("digits", row["regime"])
        if (known["algorithm"], known["base"]) == ("fedcl", "fedavg")
    ]
    assert f"which {lost.count('no')} of the {len(lost)} points for FedAvg on the map rest on" in text
    assert (lost.count("yes"), "the other four points are those of the CNN with all labels" in text) == (4, True)
    first = [taken(regime) for regime in made.regimes("digits") if not regime.endswith("-late")]
    assert f"takes FedAvg {min(first):.0f} to {max(first):.0f} rounds on average" in text
    late = [
        next(float(row["ratio"]) for row in rows("digits", "two-labels-late", table) if at(row) == LATE)
        for table in ("comparisons", "unseen")
    ]
    assert f"took {late[0]:.2f} times FedAvg's seconds, and takes {late[1]:.2f} times as long" in text


@each_regime
def test_no_device_trains_without_an_importance(study, regime):
    """Round 0 sends Ω to all that take part; one who was not there must be sent it later."""
    protocol = load(str(made.KEPT / study / regime / "protocol.yaml"))
    of = {entry.name: entry.options for entry in protocol.algorithms if entry.name in ("fedcl", "fedcl-n10")}
    assert {name: each.get("interval", 1) for name, each in of.items()} == {"fedcl": 1, "fedcl-n10": 10}
    assert protocol.rounds.fraction == 1 or of["fedcl-n10"]["fallback"] == "catch_up"


LATE = ("agents", "fedavg", "accuracy 0.9421 held 3")


def at(row):
    return row["algorithm"], row["base"], row["target"]


def taken(regime):
    """FedAvg's mean rounds to the main target."""
    aim = made.OWN, made.main_target("digits", regime), "fedavg"
    found = (row for row in rows("digits", regime, "times") if (row["link"], row["target"], row["algorithm"]) == aim)
    return fmean(int(row["rounds"]) for row in found)


BY_HAND = """
    fedcurv fedavg ten-labels-cnn rounds 0.53 [0.37, 0.75]
    fedcurv fedavg ten-labels-cnn pace 3.26 [3.24, 3.27]
    fedcurv-shuffled fedcurv one-label 1.26 [1.06, 1.51]
    fedcurv-shuffled fedcurv five-labels 1.21 [1.07, 1.38]
    fedcurv-shuffled fedcurv two-labels-cnn 1.24 [1.11, 1.38]
    fedcurv-shuffled fedcurv one-label rounds 0.96 [0.80, 1.15]
    fedcurv-shuffled fedcurv five-labels rounds 1.06 [0.93, 1.20]
    fedcurv-shuffled fedcurv two-labels-cnn rounds 1.00 [0.90, 1.11]
    fedcurv-int8 fedavg five-labels rounds 0.77 [0.67, 0.88]
    agents-shuffled agents three-labels 1.60 [1.35, 1.90]
    agents-shuffled agents five-labels 1.78 [1.61, 1.97]
    agents fedavg one-label rounds 0.77 [0.67, 0.89]
    agents fedavg two-labels rounds 0.69 [0.53, 0.89]
    fedshare fedavg two-labels 0.47 [0.31, 0.72]
    agents-mean fedavg two-labels-e2 1.61 [1.43, 1.82]
    agents fedavg two-labels-e2 1.11 [0.99, 1.23]
    fedcurv-int8 fedavg five-labels 0.77 [0.68, 0.88]
    agents fedavg three-labels 0.76 [0.65, 0.88]
    agents fedavg five-labels 0.69 [0.62, 0.77]
    scaffold fedavg two-labels 0.61 [0.49, 0.75]
"""  # of what each ratio is, in the order of docs/study.md and README


def test_each_ratio_that_is_written_by_hand_is_that_of_its_comparison():
    parts = {"rounds": "rounds ratio", "pace": "seconds per round ratio"}
    text = " ".join((by_hand(STUDY).partition("## A study of your own")[0] + by_hand(README)).split())
    claims = [line.split(maxsplit=3) for line in BY_HAND.strip().splitlines()]
    assert [found[0] for found in TRIPLE.finditer(text)] == [TRIPLE.search(said)[0] for *_, said in claims]
    for label, base, regime, said in claims:
        study = study_of(regime)
        aim = label, base, made.main_target(study, regime)
        (row,) = (row for row in rows(study, regime, "reasons") if at(row) == aim)
        part = parts.get(said.split()[0], "time ratio")
        known = tuple(float(row[f"{part}{end}"]) for end in ("", " low", " high"))
        assert told(said, [known]) == [], (label, regime)


OFF = [  # penalties of FedCL and FedCurv that do nothing in most rounds
    *(("fedcl", regime) for regime in ("two-labels", "ten-labels-cnn")),
    *(("fedcurv", regime) for regime in ("two-labels", "three-labels", "two-labels-e20", "one-label-late")),
    *(("fedcurv", regime) for regime in ("two-labels-late", "ten-labels-cnn", "mnist-two-labels")),
]
IDLE = re.compile(r"^- (\S+): in (\d+) of (\d+) rounds the penalty does nothing", re.M)


def test_penalties_that_tuning_switched_off_are_named():
    off = {
        (label, regime)
        for study, regime in KEPT
        for label, idle, of in IDLE.findall((made.KEPT / study / regime / "whole.txt").read_text("utf-8"))
        if label in ("fedcl", "fedcurv") and 2 * int(idle) > int(of)
    }
    assert off == set(OFF)
    said = re.search(r"\*\*Tuning often switched the penalty off\.\*\*.*?In such rounds", STUDY, re.S)[0]
    assert " ".join(said.split()).endswith(
        "FedCL's with two labels, and with the CNN and all labels; FedCurv's with two and three labels, with two "
        "labels and 20 epochs, to both later targets, with the CNN and all labels, and on MNIST. In such rounds"
    )


def test_what_is_said_of_slow_uplinks_is_on_the_map():
    text = " ".join(by_hand(STUDY).split())
    won = {
        (row["regime"], row["up_mbit_s"])
        for study in made.STUDIES
        for row in made.rows(made.KEPT / study / "pays.csv")
        if (row["question"], row["winner"]) == ("all ranked", "fedcurv-int8")
    }
    assert won == {("two-labels-e2", "0.1"), ("mnist-two-labels", "0.1"), ("mnist-two-labels", "0.3")}
    assert "0.1 Mbit/s with two epochs, 0.1 and 0.3 on MNIST, it is the fastest of all" in text
    dense = [regime for regime in made.regimes("digits") if not regime.endswith("-cnn")]
    longer = [regime for regime in dense if mean_on("0.1", regime, "scaffold") > mean_on("0.1", regime, "fedavg")]
    assert (len(longer), len(dense)) == (5, 10)
    assert "in five of the digits' ten regimes with the dense network, and on MNIST" in text
    assert mean_on("0.1", "mnist-two-labels", "scaffold") > mean_on("0.1", "mnist-two-labels", "fedavg")


def mean_on(uplink, regime, label):
    of = rows(study_of(regime), regime, "map-times")
    found = [row for row in of if (row["up_mbit_s"], row["algorithm"]) == (uplink, label)]
    assert len(found) == 10
    return fmean(float(row["time s"]) for row in found)


def test_what_is_said_of_other_seeds_is_in_their_tables():
    text = " ".join(by_hand(STUDY).split())
    found = {
        (regime, row["algorithm"], row["base"]): row
        for study, regime in KEPT
        for row in rows(study, regime, "unseen")
        if row["target"] == made.main_target(study, regime)
    }
    for said, regime, decided in (
        ("halves with three labels (1.02)", ("three-labels", "fedcl", "fedavg"), "no"),
        ("as large with E = 2 (1.06)", ("two-labels-e2", "fedcl", "fedavg"), "no"),
        ("FedCL is slower with one label too (1.08;", ("one-label", "fedcl", "fedavg"), "yes"),
        ("to the later target 1.15)", ("one-label-late", "fedcl", "fedavg"), "yes"),
        ("if six of twenty devices take part (1.18)", ("two-labels-c30", "agents", "fedavg"), "yes"),
        ("saves time under these seeds (0.69)", ("two-labels-e20", "agents", "fedavg"), "yes"),
        ("where it is significant again (1.10)", ("ten-labels-cnn", "fedcl", "fedavg"), "yes"),
        ("with the CNN and two labels (1.15)", ("two-labels-cnn", "fedcl", "fedavg"), "yes"),
        ("and on MNIST (1.10)", ("mnist-two-labels", "fedcl", "fedavg"), "yes"),
        ("1.27 and now 1.45", ("two-labels-cnn", "agents", "fedavg"), "no"),
        ("with 20 epochs too (0.67)", ("two-labels-e20", "agents-mean", "fedavg"), "yes"),
        ("and with one label (0.84)", ("one-label", "agents-mean", "fedavg"), "yes"),
        ("SCAFFOLD is slower than FedAvg (1.08)", ("ten-labels", "scaffold", "fedavg"), "yes"),
    ):
        assert said in text
        assert rounds_to(re.findall(r"\d\.\d\d", said)[-1], float(found[regime]["ratio"])), said
        assert found[regime]["decided"] == decided
    for regime, label, base in (
        ("two-labels-e2", "scaffold", "fedavg"),
        ("five-labels", "fedcurv-shuffled", "fedcurv"),
        ("two-labels-late", "agents", "fedavg"),
        ("ten-labels-cnn", "scaffold", "fedavg"),
    ):
        assert found[regime, label, base]["decided"] == "no"
    assert found["two-labels-cnn", "scaffold", "fedavg"]["reached"] == "1"


def test_the_study_has_at_most_2500_words_by_hand():
    assert 500 < prose(STUDY) <= 2500
    assert prose(README) <= 550

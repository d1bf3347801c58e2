"""What docs/study.md says in words is so in the tables of docs/studies."""

import re
from collections import Counter

import pytest

from benchmarks import study as made
from emulator.lab.build import lab_of
from emulator.lab.lab import CPU
from scenarios.load import load
from tests.docs.test_studied import IDLE, KEPT, STUDY, TRIPLE, at, by_hand, rounds_to, rows, study_of

TEXT = " ".join(by_hand(STUDY).split())
REGIMES = [regime for _, regime in KEPT]
UNEVEN = {regime for regime in REGIMES if not regime.startswith("ten-labels")}
CNN = {"two-labels-cnn", "ten-labels-cnn"}
LATER = "accuracy 0.9 held 3"  # on MNIST


def row_of(regime, table, label, base="fedavg", goal=None):
    aim = label, base, goal or made.main_target(study_of(regime), regime)
    (found,) = (row for row in rows(study_of(regime), regime, table) if at(row) == aim)
    return found


def faster(label, goal=None, of=REGIMES):
    """The regimes in which an algorithm is significantly faster than FedAvg."""
    found = {regime: row_of(regime, "comparisons", label, goal=goal) for regime in of}
    return {regime for regime, row in found.items() if row["decided"] == "yes" and float(row["ratio"]) < 1}


def rounds(label, base="fedavg"):
    """The regimes in which the interval of a ratio of rounds lies below 1, and those in which it lies above."""
    found = {regime: row_of(regime, "reasons", label, base) for regime in REGIMES}
    known = {regime: row for regime, row in found.items() if row["rounds ratio"]}
    fewer = {regime for regime, row in known.items() if float(row["rounds ratio high"]) < 1}
    return fewer, {regime for regime, row in known.items() if float(row["rounds ratio low"]) > 1}


def test_who_is_significantly_faster_than_fedavg():
    assert faster("fedcl") == faster("fedcl-n10") == faster("fedcurv") == set()
    assert faster("fedcurv-int8") == {"five-labels", "ten-labels"}
    assert rounds_to("0.99", float(row_of("ten-labels", "comparisons", "fedcurv-int8")["ratio"]))
    assert faster("agents") == faster("agents-mean") == {"three-labels", "five-labels"}
    assert faster("scaffold") == UNEVEN - CNN - {"one-label", "mnist-two-labels"}
    assert faster("scaffold", LATER, ["mnist-two-labels"])
    labels = {row["algorithm"] for row in rows("digits", "two-labels-cnn", "comparisons") if row["base"] == "fedavg"}
    assert {label: won for label in labels if (won := faster(label, of=CNN))} == {}


def test_the_first_table_has_the_comparisons_with_fedavg():
    table = re.search(r"<!-- ratios -->\n(.*?)<!-- end of ratios -->", STUDY, re.S)[1]
    head, _, *lines = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines())
    assert len(lines) == len(KEPT) + 1
    for place, *cells in lines:
        regime, later = re.match(r"\[(.*?)\]", place)[1], place.endswith(", to 0.9")
        for label, cell in zip(head[1:], cells, strict=True):
            row = row_of(regime, "comparisons", label, goal=LATER if later else None)
            assert cell.endswith("✓") == (row["decided"] == "yes")
            assert cell.startswith("≥") == (int(row["reached"]) < int(row["of"]))
            said = zip(TRIPLE.search(cell).groups(), ("ratio", "low", "high"), strict=True)
            assert [end for end, key in said if end != "∞" and not rounds_to(end, float(row[key]))] == []


def test_whose_number_of_rounds_differs():
    """Intervals, which the page says are not tested."""
    assert rounds("fedcl") == (set(), set())
    assert rounds("fedcurv") == ({"ten-labels-cnn"}, set())
    assert {"one-label", "two-labels"} <= rounds("agents")[0]
    for label in ("fedcl", "fedcurv"):
        assert rounds(f"{label}-shuffled", label)[1] == set()
    slower = [row_of(regime, "comparisons", "fedcl-shuffled", "fedcl")["decided"] for regime in REGIMES]
    assert set(slower) == {"no"}


@pytest.mark.parametrize(("label", "number"), [("fedcl-n10", "five"), ("fedcurv-int8", "seven"), ("agents", "three")])
def test_how_often_the_penalty_of_others_was_switched_off(label, number):
    texts = [(made.KEPT / study / regime / "whole.txt").read_text("utf-8") for study, regime in KEPT]
    off = [1 for text in texts for name, idle, of in IDLE.findall(text) if name == label and 2 * int(idle) > int(of)]
    assert len(off) == {"three": 3, "five": 5, "seven": 7}[number]
    named = "importance from agents in three" if label == "agents" else f"`{label}` in {number}"
    assert named in TEXT


def chosen(regime, label):
    """What the search chose for a regime's own links."""
    (row,) = (
        row
        for row in rows(study_of(regime), regime, "tuning")
        if (row["algorithm"], row["tuned for"]) == (label, "own links")
    )
    return dict(part.split(" = ") for part in row["settings"].split(", ")) | {"reached": row["reached"]}


def epochs(regime, label):
    """0 where the regime gives them."""
    return int(chosen(regime, label).get("epochs", 0))


def pace(regime, label):
    (found,) = (
        row
        for row in rows(study_of(regime), regime, "regimes")
        if (row["algorithm"], row["base"]) == (label, "fedavg") and row["seconds a round"]
    )
    return float(found["seconds a round"])


def test_how_much_longer_rounds_are():
    longer = {regime: round(100 * (pace(regime, "fedcl") - 1)) for regime in REGIMES}
    most = max(found for regime, found in longer.items() if regime not in CNN | {"mnist-two-labels"})
    assert max(longer[regime] for regime in CNN) == longer["mnist-two-labels"] == 12
    assert f"up to {most} % longer than FedAvg's, 12 % with a CNN and on MNIST." in TEXT
    alike = [regime for regime in REGIMES if epochs(regime, "fedcurv") == epochs(regime, "fedavg")]
    assert len(alike) >= 10
    *found, mnist = sorted(pace(regime, "fedcurv") for regime in alike)
    assert mnist == pace("mnist-two-labels", "fedcurv")
    assert f"makes rounds {found[0]:.1f} to {mnist:.1f} times as long" in TEXT
    assert (
        f"rounds are {found[0]:.1f} to {found[-1]:.1f} times as long as FedAvg's on digits, {mnist:.1f} times on"
        in TEXT
    )


def test_what_the_searches_chose():
    unlike = {regime for regime in REGIMES if epochs(regime, "fedcurv") != epochs(regime, "fedcurv-shuffled")}
    assert unlike == {"one-label", "five-labels", "two-labels-cnn"}
    assert {epochs(regime, "fedcurv-shuffled") for regime in unlike} == {20}
    assert {epochs(regime, "fedcurv") for regime in unlike} == {5, 10}
    assert (epochs("ten-labels-cnn", "fedcurv"), epochs("ten-labels-cnn", "fedavg")) == (40, 10)
    assert (epochs("five-labels", "agents-shuffled"), epochs("five-labels", "agents")) == (10, 20)
    lr = {label: float(chosen("mnist-two-labels", label)["lr"]) for label in ("agents", "agents-mean")}
    assert lr["agents"] < lr["agents-mean"]
    assert chosen("two-labels-e2", "agents-mean")["lr"] == "0.15"
    others = {chosen("two-labels-e2", label)["lr"] for label in ("fedavg", *made.SHOWN) if label != "agents-mean"}
    assert others == {"0.3"}
    assert chosen("two-labels-cnn", "scaffold")["reached"] == "1"
    found = [row for pair in KEPT for row in rows(*pair, "tuning") if row["tuned for"] == "own links"]
    edge = sum(bool(row["at the edge"]) for row in found)
    assert f"Of {len(found)} settings that were chosen for these links, {edge} lie at an edge" in TEXT


def test_where_importance_from_agents_pays():
    gains = {
        (row["regime"], row["up_mbit_s"]): (row["winner"], float(row["ratio"]))
        for row in made.rows(made.KEPT / "digits" / "pays.csv")
        if row["question"] == "agents or fedavg"
    }
    for regime in ("three-labels", "five-labels"):
        assert {gains[regime, uplink][0] for uplink in ("1.0", "3.0", "10.0")} == {"agents"}
        assert {gains[regime, uplink][0] for uplink in ("0.1", "0.3")} == {"undecided"}
        own = 1 / float(row_of(regime, "comparisons", "agents")["ratio"])
        assert min(gains[regime, uplink][1] for uplink in ("3.0", "10.0")) > own
    assert row_of("mnist-two-labels", "comparisons", "agents", goal=LATER)["reached"] == "3"


def test_where_scaffold_gets_lost():
    assert row_of("two-labels-cnn", "comparisons", "scaffold")["reached"] == "0"
    kept = (made.KEPT / "digits" / "two-labels-cnn" / "whole.txt").read_text(encoding="utf-8")
    assert "scaffold: in 10 of 10 seeds training diverges" in kept
    assert "accuracy fell from 0.87 back to 0.10" in kept
    assert row_of("two-labels-e2", "unseen", "scaffold")["decided"] == "no"


def test_where_importance_from_agents_loses():
    differ = {regime for regime in REGIMES if row_of(regime, "comparisons", "agents")["decided"] == "yes"}
    assert differ - faster("agents") == {*CNN, "two-labels-late", "mnist-two-labels"}


def test_where_scaffold_is_the_fastest_of_all_on_mnist():
    found = made.rows(made.KEPT / "mnist" / "pays.csv")
    won = {row["up_mbit_s"] for row in found if (row["question"], row["winner"]) == ("all ranked", "scaffold")}
    assert won == {"3.0", "10.0", "100.0"}


def test_how_many_labels_a_device_has():
    """A shard can hold two."""
    found = {}
    for regime in ("one-label", "two-labels"):
        scenario = load(str(made.KEPT / "digits" / regime / "protocol.yaml"))
        lab = lab_of(scenario, [CPU])
        counts = [of for seed in scenario.seeds for of in lab.label_counts(seed).values()]
        found[regime] = Counter(sum(map(bool, of)) for of in counts)
    assert found["one-label"].keys() == {1, 2}
    share = found["one-label"][2] / found["one-label"].total()
    assert f"in `one-label` {100 * share:.0f} % of devices have two" in TEXT
    assert found["two-labels"].keys() == {1, 2, 3, 4}
    assert found["two-labels"][2] > found["two-labels"].total() / 2

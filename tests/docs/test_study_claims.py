"""What docs/study.md says in words is so in the tables of docs/studies."""

import re
from collections import Counter

import pytest

from benchmarks import study as made
from emulator.lab.build import lab_of
from emulator.lab.lab import CPU
from scenarios.load import load
from tests.docs.test_studied import IDLE, KEPT, OFF, README, STUDY, TRIPLE, at, by_hand, rounds_to, rows, study_of
from tests.docs.test_studied_tables import text_of

TEXT = " ".join(by_hand(STUDY).split())
FRONT = " ".join(by_hand(README).split())
REGIMES = [regime for _, regime in KEPT]
UNEVEN = {regime for regime in REGIMES if not regime.startswith("ten-labels")}
CNN = {"two-labels-cnn", "ten-labels-cnn"}
LATER = "accuracy 0.9 held 3"  # on MNIST


def says(*sentences, page=TEXT):
    assert [each for each in sentences if each not in page] == []


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
    says("**FedCL is nowhere significantly faster than FedAvg.**", "**FedCurv costs more than it brings.**")
    says("**FedCL and FedCurv** cost more than they save;", page=FRONT)
    assert faster("fedcl") == faster("fedcl-n10") == faster("fedcurv") == set()
    says(
        "With one byte a number it pays with five labels a device, and on the slowest uplinks of two regimes it is the"
    )
    says("with all labels and the dense network only FedCurv with one byte a number is, by 1 %.")
    says("with five labels, and is fastest on some uplinks below 1 Mbit/s.", page=FRONT)
    assert faster("fedcurv-int8") == {"five-labels", "ten-labels"}
    assert rounds_to("0.99", float(row_of("ten-labels", "comparisons", "fedcurv-int8")["ratio"]))
    assert [label for label in made.SHOWN if "ten-labels" in faster(label)] == ["fedcurv-int8"]
    says(
        "**Importance from agents pays with three and five labels a device**, on uplinks from 1 to 10 Mbit/s. It is the"
    )
    says("which weighs models by importance, pays with three and five labels, on 1 to 10 Mbit/s:", page=FRONT)
    assert faster("agents") == faster("agents-mean") == {"three-labels", "five-labels"}
    says("It is the weighted mean that pays; its penalty adds nothing there.")
    for regime in ("three-labels", "five-labels"):
        row = row_of(regime, "comparisons", "agents", "agents-mean")
        assert row["decided"] == "no" or float(row["ratio"]) > 1
    says("wherever labels are uneven and the network is dense, with one label a device and on MNIST only to a later")
    says("pays with two to five labels, 0.61 [0.49, 0.75] with two, and to the later targets tried;", page=FRONT)
    assert faster("scaffold") == UNEVEN - CNN - {"one-label", "mnist-two-labels"}
    assert faster("scaffold", LATER, ["mnist-two-labels"])
    says("nothing is significantly faster than FedAvg with a CNN;")
    labels = {row["algorithm"] for row in rows("digits", "two-labels-cnn", "comparisons") if row["base"] == "fedavg"}
    assert {label: won for label in labels if (won := faster(label, of=CNN))} == {}


def test_importance_does_not_pay_with_a_cnn_on_mnist_and_with_all_labels():
    """But for FedCurv with one byte a number, whose rounds are FedAvg's with all labels."""
    says("**With a CNN, on MNIST, with all labels** importance does not pay to the main target.", page=FRONT)
    beside = CNN | {"mnist-two-labels", "ten-labels"}
    assert [faster(label) & beside for label in ("fedcl", "fedcl-n10", "fedcurv", "agents", "agents-mean")] == [
        set()
    ] * 5
    assert faster("fedcurv-int8") & beside == {"ten-labels"}
    says("With ten labels, where rounds are equal, it is 1 % faster than FedAvg for that reason alone.")
    assert {row_of("ten-labels", "reasons", "fedcurv-int8")[f"rounds ratio{end}"] for end in ("", " low", " high")} == {
        "1.0"
    }


def test_which_messages_are_longer():
    says("importance adds bytes, FedCL's to every download, FedCurv's both ways,")
    says("and its importance makes downloads longer.", "uploads are twice FedAvg's, its downloads nearly:")
    for regime in REGIMES:
        down, up = sent(regime, "down"), sent(regime, "up")
        assert down["fedcl"] == pytest.approx(2 * down["fedavg"], rel=0.05)
        assert up["fedcl"] == up["fedavg"]
        assert min(down["fedcurv"] / down["fedavg"], up["fedcurv"] / up["fedavg"]) > 2
        assert up["scaffold"] == pytest.approx(2 * up["fedavg"], rel=0.01)
        assert 1.6 < down["scaffold"] / down["fedavg"] < 2


def sent(regime, way):
    """Bytes of tensors in an average round, by algorithm."""
    found = Counter()
    for row in rows(study_of(regime), regime, "rounds"):
        if row["unit"] == "bytes" and row["what"].startswith(f"{way} ") and not row["what"].endswith(" frame"):
            found[row["algorithm"]] += float(row["amount per round"])
    return found


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
    says("Nothing shows that it saves rounds,", "The interval of their number includes 1 in every regime,")
    assert rounds("fedcl") == (set(), set())
    says("neither is shown to save rounds where both train equally many epochs.")
    says("Only with the CNN and all labels does the interval of their number exclude 1.")
    assert rounds("fedcurv") == ({"ten-labels-cnn"}, set())
    says("In `one-label` and `two-labels` it needs fewer rounds,", "in seconds nothing is significant there.")
    assert {"one-label", "two-labels"} <= rounds("agents")[0]
    assert {row_of(regime, "comparisons", "agents")["decided"] for regime in ("one-label", "two-labels")} == {"no"}
    says("Elsewhere neither is shown to need more rounds with shuffled importance.")
    for label in ("fedcl", "fedcurv"):
        assert rounds(f"{label}-shuffled", label)[1] == set()
    says("and its placebo, whose importance is shuffled, is significantly slower in none.")
    slower = [row_of(regime, "comparisons", "fedcl-shuffled", "fedcl")["decided"] for regime in REGIMES]
    assert set(slower) == {"no"}


def test_how_often_the_best_penalty_is_too_weak():
    number = {2: "two", 7: "seven"}
    count = Counter(label for label, _ in OFF)
    says(f"In {number[count['fedcurv']]} of thirteen regimes FedCurv's best penalty is too weak to act in most rounds,")
    says(f"FedCL's in {number[count['fedcl']]}.")
    says("FedCurv's best penalty is often too weak to act.", page=FRONT)


@pytest.mark.parametrize(
    ("label", "number", "said"),
    [
        ("fedcl-n10", 5, "`fedcl-n10` in five regimes, and under some seeds with the CNN and two labels,"),
        ("fedcurv-int8", 7, "`fedcurv-int8` in seven,"),
        ("agents", 3, "importance from agents in three."),
    ],
)
def test_how_often_the_penalty_of_others_was_switched_off(label, number, said):
    says(said)
    texts = {regime: (made.KEPT / study / regime / "whole.txt").read_text("utf-8") for study, regime in KEPT}
    off = {
        regime
        for regime, text in texts.items()
        for name, idle, of in IDLE.findall(text)
        if name == label and 2 * int(idle) > int(of)
    }
    assert len(off - {"two-labels-cnn"}) == number


def test_the_seed_decides_if_the_penalty_of_fedcl_n10_does_something_with_the_cnn():
    found = {}
    for row in rows("digits", "two-labels-cnn", "leverage"):
        if row["algorithm"] == "fedcl-n10":
            found.setdefault(row["seed"], []).append(float(row["leverage, 99th percentile"]) < 0.01)
    assert {all(each) for each in found.values()} == {any(each) for each in found.values()} == {True, False}


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
    says(
        "With one and five labels, and with the CNN and two, the placebo takes 1.26",
        "Everywhere else both have the same",
    )
    assert unlike == {"one-label", "five-labels", "two-labels-cnn"}
    alike = [row_of(regime, "comparisons", "fedcurv-shuffled", "fedcurv") for regime in set(REGIMES) - unlike]
    assert {row["decided"] for row in alike} == {"no"}
    says("its search chose 20 epochs, FedCurv's 5 or 10.")
    assert {epochs(regime, "fedcurv-shuffled") for regime in unlike} == {20}
    assert {epochs(regime, "fedcurv") for regime in unlike} == {5, 10}
    says("There its search chose 40 epochs, FedAvg's 10,")
    assert (epochs("ten-labels-cnn", "fedcurv"), epochs("ten-labels-cnn", "fedavg")) == (40, 10)
    says("(where its search chose 10 epochs a round, the original's 20)")
    assert (epochs("five-labels", "agents-shuffled"), epochs("five-labels", "agents")) == (10, 20)
    says("There its search chose a lower learning rate than for the mean alone,")
    lr = {label: float(chosen("mnist-two-labels", label)["lr"]) for label in ("agents", "agents-mean")}
    assert lr["agents"] < lr["agents-mean"]
    says("With E = 2 the search gave the weighted mean alone a learning rate of 0.15, and all other contenders 0.3;")
    assert chosen("two-labels-e2", "agents-mean")["lr"] == "0.15"
    contenders = {"fedavg", "fedprox", "fedcl-n10", *made.SHOWN} - {"agents-mean"}
    others = {chosen("two-labels-e2", label)["lr"] for label in contenders}
    assert others == {"0.3"}
    says("with the best of its twelve settings, which reached the target under one of the two seeds that chose it.")
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
    says("On uplinks of 3 and 10 Mbit/s it gains still more, at 0.1 and 0.3 nothing significant.")
    for regime in ("three-labels", "five-labels"):
        assert {gains[regime, uplink][0] for uplink in ("1.0", "3.0", "10.0")} == {"agents"}
        assert {gains[regime, uplink][0] for uplink in ("0.1", "0.3")} == {"undecided"}
        own = 1 / float(row_of(regime, "comparisons", "agents")["ratio"])
        assert min(gains[regime, uplink][1] for uplink in ("3.0", "10.0")) > own
    says("and only three of ten seeds reached accuracy 0.9.")
    assert row_of("mnist-two-labels", "comparisons", "agents", goal=LATER)["reached"] == "3"


def test_where_scaffold_gets_lost():
    says("With the CNN and two labels it diverges: eight of ten seeds reach accuracy 0.78, none the target,")
    says("with a CNN it is slower, or diverges.", page=FRONT)
    assert float(row_of("ten-labels-cnn", "comparisons", "scaffold")["low"]) > 1
    mine = [row for row in rows("digits", "two-labels-cnn", "times") if row["algorithm"] == "scaffold"]
    first, last = sorted({row["target"] for row in mine})
    assert (made.target(first).value, last) == (0.7833, made.main_target("digits", "two-labels-cnn"))
    reached = Counter(row["target"] for row in mine if row["time s"])
    assert (reached[first], reached[last]) == (8, 0)
    kept = text_of("digits", "two-labels-cnn", "whole.txt")
    assert {row["seed"] for row in mine if not row["end s"]} == {"43", "44"}
    assert "- scaffold, seeds 43 and 44: the server refuses replies whose values are not finite" in kept
    assert "- scaffold: training diverges." in kept
    says("Its gain with two epochs is not significant [under other seeds]")
    assert row_of("two-labels-e2", "unseen", "scaffold")["decided"] == "no"


def test_where_importance_from_agents_loses():
    says("It is significantly slower than FedAvg with the CNN, to the later target with two labels, and on MNIST.")
    says("With a CNN and on MNIST it loses time.")
    differ = {regime for regime in REGIMES if row_of(regime, "comparisons", "agents")["decided"] == "yes"}
    assert differ - faster("agents") == {*CNN, "two-labels-late", "mnist-two-labels"}


def test_where_scaffold_is_the_fastest_of_all_on_mnist():
    says("On MNIST it is the fastest of all from 3 Mbit/s on.")
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
    says("and in `two-labels` they have one to four, most of them two.")
    says("with mostly two kinds of handwritten digits each,", page=FRONT)
    assert found["two-labels"].keys() == {1, 2, 3, 4}
    assert found["two-labels"][2] > found["two-labels"].total() / 2


def test_what_changes_under_unseen_seeds():
    """Losses to FedAvg, and gains; the lists above have them all."""
    says("So no difference is reversed.")
    lost, new = [], []
    for study, regime in KEPT:
        for before, after in made.both(study, regime):
            name = before["algorithm"], before["base"], regime
            if before["decided"] == "yes":
                assert made.same_side(before, after)
                lost += [name] * (after["decided"] == "no")
            elif after["decided"] == "yes":
                new.append((*name, f"{float(after['ratio']):.2f}"))
    says("Besides losses of FedCL (below) and of placebos to FedAvg, these are no longer significant: SCAFFOLD's gain")
    aside = [name for name in lost if name[1] != "fedavg" or not re.match("fedcl|.*-shuffled", name[0])]
    assert sorted(aside) == [
        ("agents", "fedavg", "two-labels-cnn"),
        ("agents", "fedavg", "two-labels-late"),
        ("fedcurv-shuffled", "fedcurv", "five-labels"),
        ("scaffold", "fedavg", "ten-labels-cnn"),
        ("scaffold", "fedavg", "two-labels-e2"),
    ]
    slower = {regime: ratio for label, base, regime, ratio in new if (label, base) == ("fedcl", "fedavg")}
    assert slower == {
        "one-label": "1.08",
        "one-label-late": "1.15",
        "ten-labels": "1.02",
        "two-labels-cnn": "1.15",
        "mnist-two-labels": "1.10",
    }
    says("with all labels (1.02), with the CNN and two labels (1.15)", "FedCurv with five labels (1.23)")
    assert ("fedcurv", "fedavg", "five-labels", "1.23") in new
    says("With the CNN and two labels SCAFFOLD reaches the target under one of these ten seeds.", "seeds, 61 to 70")
    for study, regime in KEPT:
        assert {row["seed"] for row in rows(study, regime, "unseen-times")} == set(map(str, range(61, 71)))


def test_how_many_regimes_and_seeds():
    says("twelve regimes of handwritten digits, from one label a device to all ten, and one of MNIST")
    assert [len(made.regimes(study)) for study in ("digits", "mnist")] == [12, 1]
    says("means of ten seeds, with 95 % intervals")
    says("(means of ten seeds, [95 % interval])", page=FRONT)
    assert {len({row["seed"] for row in rows(*pair, "times")}) for pair in KEPT} == {10}

"""What docs/study.md says of how the study was made is so in the protocols and the searches of docs/studies."""

from functools import cache

import pytest

from algorithms import models
from benchmarks import study as made
from emulator.lab.build import lab_of
from emulator.lab.lab import CPU
from emulator.tuning.scores import MARGIN
from scenarios.load import load
from tests.docs.test_studied import KEPT, OFF, STUDY, by_hand, mean_on, rows, study_of

TEXT = " ".join(by_hand(STUDY).split())
REGIMES = [regime for _, regime in KEPT]
GIVEN = {"two-labels-e2": 2, "two-labels-e20": 20}  # epochs
ALL = "all ranked"
LATE = {"one-label-late", "two-labels-late"}


@cache
def protocol(regime):
    return load(str(made.KEPT / study_of(regime) / regime / "protocol.yaml"))


def at(row):
    return row["up_mbit_s"], row["question"]


def searched(regime, label):
    """The row of tuning.csv of what was chosen for the study's own links."""
    found = {(row["algorithm"], row["tuned for"]): row for row in rows(study_of(regime), regime, "tuning")}
    return found[label, made.OWN]


@pytest.mark.parametrize("regime", REGIMES)
def test_the_fleet(regime):
    said = "Seven mid-range phones (2 Mbit/s up), five slow phones and eight Raspberry Pis 4 (1 Mbit/s up)"
    assert said in TEXT
    found = [(group.profile, group.count, group.link.up_mbit_s) for group in protocol(regime).fleet]
    assert found == [("phone-mid", 7, 2), ("phone-low", 5, 1), ("pi-4", 8, 1)]
    assert protocol(regime).rounds.fraction == (0.3 if regime == "two-labels-c30" else 1)
    assert "six of twenty" in TEXT


@pytest.mark.parametrize("regime", REGIMES)
def test_the_search(regime):
    tune = protocol(regime).tune
    assert "the best of twelve settings, chosen by seeds 101 and 102" in TEXT
    assert (list(tune.seeds), tune.budget) == ([101, 102], 12)
    assert "slow uplink (0.2 Mbit/s)" in TEXT
    assert [link.up_mbit_s for link in tune.links.values()] == [0.2]
    assert "epochs (5, 10, 20; on MNIST 2, 5, 10;" in TEXT
    usual = [2, 5, 10] if regime.startswith("mnist") else [5, 10, 20]
    assert list(tune.grid["training.epochs"]) == ([GIVEN[regime]] if regime in GIVEN else usual)
    assert "whose searches had 60 rounds instead of 30" in TEXT
    assert tune.rounds == (60 if regime in LATE else 30)
    assert "Ten other seeds are reported." in TEXT
    assert len(set(protocol(regime).seeds) - {101, 102}) == 10


def test_how_many_settings_each_tried():
    tried = {
        (row["algorithm"], regime): int(row["tried"])
        for regime in REGIMES
        for row in rows(study_of(regime), regime, "tuning")
    }
    few = {key: count for key, count in tried.items() if count != 12}
    assert few.keys() == {(label, regime) for label in ("fedavg", "agents-mean") for regime in GIVEN}
    assert set(few.values()) == {6, 7}
    assert "nothing but the learning rate, and six or seven settings" in TEXT


def test_stronger_penalties_were_tried_where_the_best_one_does_nothing():
    """The strength that was chosen is not the largest; at the edge is also the smallest, which the grid begins with."""
    assert "Stronger penalties were tried, and not chosen" in TEXT
    assert [pair for pair in OFF if "strength" in searched(pair[1], pair[0])["at the edge"]] == []


@pytest.mark.parametrize("regime", REGIMES)
def test_the_targets(regime):
    said = protocol(regime)
    assert "Nine tenths of the best validation accuracy of any contender, held for three rounds; 0.95 of it" in TEXT
    assert (max(said.study.shares), said.study.hold) == (0.95 if regime in LATE else 0.9, 3)
    assert "A contender has 200 rounds" in TEXT
    assert said.rounds.max == 200
    assert "whose server sends 5 % of all examples" in TEXT
    assert said.data.proxy.fraction == 0.05


def test_sizes():
    assert "some 68 examples a device" in TEXT
    assert "a few thousand weights (MNIST's: 40,000, the CNN: 53,000) and 68 examples a device (MNIST's: 300)" in TEXT
    assert 2000 < weights("two-labels") < 5000
    assert round(weights("two-labels-cnn"), -3) == 53_000
    assert round(weights("mnist-two-labels"), -3) == 40_000
    split = lab_of(protocol("two-labels"), [CPU]).splits[41]
    held = [sum(map(len, of)) for part in (split.train, split.validation) for of in part.values()]
    assert round(sum(held) / 20) == 68
    assert "(a tenth are for validation)" in TEXT
    assert {protocol(regime).data.validation for regime in REGIMES} == {0.1}
    mnist = protocol("mnist-two-labels").data
    assert mnist.options["examples"] * (1 - mnist.proxy.fraction) / 20 == pytest.approx(300, abs=0.5)


def weights(regime):
    pixels = (1, 28, 28) if regime.startswith("mnist") else (1, 8, 8)
    return sum(each.numel() for each in models.build(protocol(regime).model, 0, 10, pixels).parameters())


def test_compressed_fisher_information_on_slow_uplinks_with_the_cnn():
    assert "it takes the least time on the two slowest uplinks, where FedCurv itself takes more than twice" in TEXT
    regime = "two-labels-cnn"
    entered = {row["algorithm"] for row in rows("digits", regime, "map-times")}
    for uplink in ("0.1", "0.3"):
        means = {label: mean_on(uplink, regime, label) for label in entered - {"scaffold"}}
        assert min(means, key=means.get) == "fedcurv-int8"
        assert means["fedcurv"] > 2 * means["fedavg"]
    won = [row["winner"] for row in rows("digits", regime, "pays") if at(row) in (("0.1", ALL), ("0.3", ALL))]
    assert won == ["undecided", "undecided"]


def test_mnist_has_a_dense_network_and_all_test_images():
    assert "twenty devices of 300 examples, a network of 50 hidden units, all 10,000 test images" in TEXT
    said = protocol("mnist-two-labels")
    assert said.model.name == "mlp-50"
    assert weights("mnist-two-labels") == 784 * 50 + 50 + 50 * 10 + 10
    assert "test" not in said.data.options  # MNIST's own test set has 10,000


def test_what_papers_aim_at():
    assert (
        "Accuracy 0.9 on MNIST is a target of FedCurv's authors; those of importance from agents count rounds" in TEXT
    )
    for name, value in (("fedcurv-table1-e10", 0.9), ("agentimportance-table1-mnist-mlp", 0.85)):
        stated = {(each.metric, each.value) for each in load(f"papers/{name}").published if each.rounds}
        assert ("accuracy", value) in stated


def test_penalties_that_nearly_diverge_count_as_failed():
    assert "counts a run as failed if its penalty is more than half as strong as one with which SGD diverges" in TEXT
    assert MARGIN == 1 / 2


def test_controls_are_in_one_regime():
    assert "are *controls* in one regime" in TEXT
    assert [regime for regime in REGIMES if protocol(regime).study.controls] == ["two-labels"]

"""Bytes on the links: what the papers' payload ratios become when real messages are counted."""

import pytest


def total(run):
    return sum(sum(kinds.values()) for row in run.rounds for kinds in row["bytes"].values())


TEN = {"rounds": {"max": 10}, "evaluate": {"every": 0}, "training": {"epochs": 1, "batch": 720}}


@pytest.fixture(scope="module")
def plain(play):
    return play("fedavg", **TEN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "ratio"),
    [
        ({"fedprox": {"mu": 0.1}}, 1.0),
        ({"fedcl": {"interval": 1}}, 1.5),  # 1 + 1/(2N), docs/design/algorithms.md §4
        ({"fedcl": {"interval": 10}}, 1.05),
        ({"fedcurv": {}}, 3 - 1 / 10),  # 3 - 1/T: the first download is 1x, docs/design/algorithms.md §5
    ],
)
def test_bytes_over_ten_rounds_are_in_the_ratio_of_the_paper(play, plain, algorithm, ratio):
    assert total(play(algorithm, **TEN)) / total(plain) == pytest.approx(ratio, rel=0.01)


def test_fedcurv_goes_down_once_and_up_three_times_in_the_first_round_then_three_times_both_ways(play):
    unseen = {"evaluate": {"every": 0}}
    plain, curved = play("fedavg", **unseen), play({"fedcurv": {}}, **unseen)
    ratios = [
        [sum(mine["bytes"][way].values()) / sum(theirs["bytes"][way].values()) for way in ("down", "up")]
        for mine, theirs in zip(curved.rounds, plain.rounds, strict=True)
    ]
    assert ratios[0] == pytest.approx([1, 3], rel=0.01)
    assert ratios[1] == pytest.approx([3, 3], rel=0.01)


def test_a_kind_is_the_size_of_its_tensors(play):
    """53,002 float32 parameters for each of 4 devices, each way."""
    row = play({"fedcl": {"interval": 2}}, rounds={"max": 1}, evaluate={"every": 0}).rounds[0]
    assert row["bytes"]["down"]["weights"] == row["bytes"]["down"]["importance"] == 4 * 4 * 53_002
    assert row["bytes"]["up"].keys() == {"weights", "frame"}
    assert row["wasted_bytes"] == 0

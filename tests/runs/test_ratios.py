"""Bytes on the links against FedAvg's, of every algorithm that comes with fedlapse: the papers' payload ratios.

Tensors only, frames left out.  docs/design/algorithms.md §3 to §6 say what travels; T is the number of rounds, |θ| the
size of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from json import dumps, loads
from math import ceil
from typing import Any

import pytest

from scenarios.builders import plugins

pytestmark = pytest.mark.slow

T = 10
SIZE = 53_002  # |θ| of digits-cnn, in 8 tensors
DEVICES = 4
PROXY = 72  # 5 % of the 1,437 training examples of the digits
PLAIN = {  # few examples: bytes do not depend on them
    "data": {"split": {"kind": "draw", "each": 20}},
    "rounds": {"max": T},
    "evaluate": {"every": 0},
    "training": {"epochs": 1, "batch": 20},
}
SHARED = PROXY * (64 + 8) + 4 * 17  # D_share: a byte a pixel, int64 labels, and what the 17 levels of grey stand for


# The bytes of each algorithm in T rounds in which all devices answer, in units of FedAvg's 2 |θ| a device and round.
RATIOS: dict[str, list[tuple[dict[str, Any], float]]] = {
    "fedavg": [({}, 1.0)],
    "fedprox": [({}, 1.0)],
    "fedcl": [  # 1 + 1/(2N)
        ({}, 1.5),
        *(({"importance": kind}, 1.5) for kind in ("sq", "mas", "si")),
        ({"interval": 10}, 1.05),
        *(({"interval": 5, "fallback": way}, 1.1) for way in ("keep_last", "local_estimate", "none")),
        ({"interval": 10, "fallback": "catch_up"}, 1.05),  # nobody lacks Ω where all are asked
        ({"importance": "tensor_scalar"}, 1.0),  # 8 numbers
        *(({"placebo": placebo}, 1.5) for placebo in ("shuffled", "mean")),
    ],
    "fedcurv": [  # down 1 |θ| in the first round, then 3 |θ|
        ({}, 3 - 1 / T),
        ({"centred": True}, 3 - 1 / T),
        ({"participation": "last_round"}, 3 - 1 / T),
        ({"upload": "lean"}, 2.5 - 1 / T),  # up 2 |θ|
        *(({"placebo": placebo}, 3 - 1 / T) for placebo in ("shuffled", "mean")),
    ],
    "agentimportance": [  # down 1 |θ| in the first round
        ({}, 2 - 1 / (2 * T)),
        ({"importance": "rwalk"}, 2 - 1 / (2 * T)),
        ({"weigh_by": "raw"}, 2 - 1 / (2 * T)),
        ({"ewc": False, "weighted": False}, 1.0),
    ],
    "uga": [({}, 1.0), ({"first_order": True}, 1.0)],
    "fedmeta": [({}, 1.0), ({"clients": "uga"}, 1.0)],
    "fedshare": [({}, 1.0 + SHARED / (2 * T * 4 * SIZE))],
    "scaffold": [({}, 2 - 1 / (2 * T))],  # down 1 |θ| in the first round
    "fednova": [({}, 1.0)],
    "feddyn": [({}, 1.0)],
    "ditto": [({}, 1.0)],
    "fedavgm": [({}, 1.0)],
    "fedadam": [({}, 1.0)],
    "fedyogi": [({}, 1.0)],
    "ca2fl": [({}, 1.0)],
    "fadas": [({}, 1.0)],
    "fedasync": [({}, 1.0)],
    "fedbuff": [({}, 1.0)],
    "continual": [({}, 1.0)],  # its variants need data that drift: below
}


@pytest.fixture(scope="module")
def run(play: Any) -> Callable[..., Any]:
    """Plays each run once."""

    @cache
    def once(algorithm: str, changes: str) -> Any:
        return play(loads(algorithm), **loads(changes))

    return lambda algorithm="fedavg", **changes: once(dumps(algorithm), dumps({**PLAIN, **changes}))


def tensors(rows: Iterable[dict[str, Any]], *ways: str) -> int:
    """Bytes of all kinds, without the frames."""
    kinds = [row["bytes"][way] for row in rows for way in ways or ("down", "up")]
    return sum(size for each in kinds for kind, size in each.items() if kind != "frame")


def of_kind(rows: Iterable[dict[str, Any]], way: str, kind: str) -> int:
    return sum(row["bytes"][way].get(kind, 0) for row in rows)


def test_no_algorithm_is_left_out() -> None:
    assert RATIOS.keys() == plugins.kinds().keys()


def test_fedavg_sends_the_model_down_and_up(run: Any) -> None:
    assert tensors(run().rounds) == 2 * 4 * SIZE * DEVICES * T


@pytest.mark.parametrize(
    ("key", "options", "ratio"), [(key, *case) for key, cases in RATIOS.items() for case in cases], ids=str
)
def test_bytes_are_in_the_ratio_of_the_paper(run: Any, key: str, options: dict[str, Any], ratio: float) -> None:
    assert tensors(run({key: options}).rounds) / tensors(run().rounds) == pytest.approx(ratio, rel=0.01)


def test_most_algorithms_cost_not_a_byte_more_than_fedavg(run: Any) -> None:
    for key in (
        "fedprox",
        "uga",
        "fedmeta",
        "fednova",
        "feddyn",
        "ditto",
        "fedavgm",
        "fedadam",
        "fedyogi",
        "continual",
    ):
        assert tensors(run({key: {}}).rounds) == tensors(run().rounds), key


def test_one_number_a_tensor_is_four_bytes_for_each_of_eight(run: Any) -> None:
    rows = run({"fedcl": {"importance": "tensor_scalar"}}).rounds
    assert of_kind(rows, "down", "importance") == 4 * 8 * DEVICES * T


def test_catch_up_sends_importance_once_to_each_device_in_an_interval(run: Any) -> None:
    """1.05 where all are asked, 1.5 where nobody is asked twice; half of the fleet a round lies between."""
    half = {"rounds": {"max": 2 * T, "fraction": 0.5}}
    played, plain = run({"fedcl": {"interval": T, "fallback": "catch_up"}}, **half), run(**half)
    asked = [line["asked"] for line in played.of("open")]
    had = sum(len(set().union(*asked[start : start + T])) for start in (0, T))
    assert of_kind(played.rounds, "down", "importance") == 4 * SIZE * had
    assert 1.05 < tensors(played.rounds) / tensors(plain.rounds) < 1.5
    every = run({"fedcl": {"interval": 2, "fallback": "catch_up"}}, **half)
    assert 1.25 < tensors(every.rounds) / tensors(plain.rounds) < 1.5  # more than in the 1 + 1/(2N) of the others


@pytest.mark.parametrize(
    ("key", "options", "first", "later"),
    [
        ("fedcurv", {}, (1, 3), (3, 3)),
        ("fedcurv", {"upload": "lean"}, (1, 2), (3, 2)),
        ("agentimportance", {}, (1, 2), (2, 2)),
        ("scaffold", {}, (1, 2), (2, 2)),
        ("uga", {}, (1, 1), (1, 1)),
    ],
    ids=str,
)
def test_the_first_round_goes_down_once(
    run: Any, key: str, options: dict[str, Any], first: tuple[int, int], later: tuple[int, int]
) -> None:
    rows = run({key: options}).rounds
    found = [tuple(tensors([row], way) / (4 * SIZE * DEVICES) for way in ("down", "up")) for row in rows]
    assert found == [first, *[later] * (T - 1)]


# ---- shared examples


@pytest.mark.parametrize(
    ("split", "first", "later"),
    [
        ("whole", SHARED * DEVICES, 0),  # once to each
        ("per_client", PROXY * 72 + DEVICES * 4 * 17, 0),  # a quarter to each
        ("per_round", PROXY * 72 + DEVICES * 4 * 17, PROXY * 72 + DEVICES * 4 * 17),  # and anew each round
    ],
)
def test_shared_examples_are_charged_when_they_are_sent(run: Any, split: str, first: int, later: int) -> None:
    rows = run({"fedshare": {"split": split}}).rounds
    assert [of_kind([row], "down", "share") for row in rows] == [first, *[later] * (T - 1)]
    assert of_kind(rows, "down", "weights") == of_kind(rows, "up", "weights") == 4 * SIZE * DEVICES * T


def test_a_device_gets_the_shared_examples_when_it_is_first_asked(run: Any) -> None:
    rows = run("fedshare", rounds={"max": T, "fraction": 0.5})
    asked = [set(line["asked"]) for line in rows.of("open")]
    new = [len(names - set().union(*asked[:k])) for k, names in enumerate(asked)]
    assert [of_kind([row], "down", "share") for row in rows.rounds] == [SHARED * count for count in new]


# ---- personal parameters

EMBEDDING, LSTM, SOFTMAX = 33 * 32, 8 * 32 * 32 + 8 * 32, 33 * 32 + 33  # lstm-tiny on 32 words and the unknown one
DRIFTING = {
    "data": {
        "set": "babble",
        "options": {"communities": 4, "cycles": 2, "windows": 12, "words": 32, "length": 5},
        "split": {"kind": "natural"},
    },
    "model": "lstm-tiny",
    "rounds": {"max": 6, "per_cycle": 3},
    "training": {"epochs": 1, "batch": 10, "lr": 0.5},
}
ALL, SHARE = EMBEDDING + LSTM + SOFTMAX, EMBEDDING + LSTM


@pytest.mark.parametrize(
    ("variant", "down", "up"),
    [
        ("baseline", [ALL] * 6, [ALL] * 6),
        ("alg0", [ALL] * 6, [ALL] * 6),
        ("alg1", [ALL] * 6, [ALL, ALL, SOFTMAX] * 2),  # what the server knows already stays away
        ("alg2", [ALL] * 3 + [SHARE] * 3, [ALL, ALL, 0, SHARE, SHARE, 0]),
    ],
)
def test_personal_parameters_stay_on_the_device(run: Any, variant: str, down: list[int], up: list[int]) -> None:
    rows = run({"continual": {"variant": variant}}, **DRIFTING).rounds
    assert [of_kind([row], "down", "weights") for row in rows] == [4 * size * DEVICES for size in down]
    assert [of_kind([row], "up", "weights") for row in rows] == [4 * size * DEVICES for size in up]


def test_a_round_of_algorithm_2_costs_the_share_of_the_model_that_is_shared(run: Any) -> None:
    mine, plain = (run(algorithm, **DRIFTING).rounds for algorithm in ({"continual": {"variant": "alg2"}}, "fedavg"))
    assert [tensors([mine[k]]) / tensors([plain[k]]) for k in (3, 4)] == pytest.approx([SHARE / ALL] * 2, rel=0.01)


# ---- encodings

KEPT = ceil(0.01 * SIZE)  # index and value: 8 bytes each


@pytest.mark.parametrize(
    ("encoding", "ratio"),
    [
        ("float32", 1.0),
        ("float16", 1 / 2),
        ("bfloat16", 1 / 2),
        ("int8", (SIZE + 4 * 8) / (4 * SIZE)),  # a byte each, and a scale for each of the 8 tensors
        ("int8-sqrt", (SIZE + 4 * 8) / (4 * SIZE)),
    ],
)
@pytest.mark.parametrize("way", ["down", "up"])
def test_an_encoding_shrinks_one_way(run: Any, encoding: str, ratio: float, way: str) -> None:
    rows = run({"fedavg": {"encoding": {way: {"weights": encoding}}}}, rounds={"max": 2}).rounds
    other = {"down": "up", "up": "down"}[way]
    assert tensors(rows, way) == pytest.approx(ratio * 4 * SIZE * DEVICES * 2, rel=0.01)
    assert tensors(rows, other) == 4 * SIZE * DEVICES * 2


def test_the_largest_hundredth_is_an_index_and_a_value_each(run: Any) -> None:
    """8 bytes each; less for a tensor of which more than half is kept, as it then goes whole."""
    rows = run({"fedavg": {"encoding": {"up": {"weights": "top-0.01"}}}}, rounds={"max": 2}).rounds
    assert 0.9 < tensors(rows, "up") / (8 * KEPT * DEVICES * 2) <= 1
    assert tensors(rows, "up") / tensors(rows, "down") < 0.0201


def test_each_kind_has_its_own_encoding(run: Any) -> None:
    """FedCurv: 3 |θ| of float32 up become 1/4 + 1/2 + 1/2 of a model."""
    up = {"weights": "int8", "fisher": "bfloat16", "fisher_theta": "float16"}
    for row in run({"fedcurv": {"encoding": {"up": up}}}, rounds={"max": 3}).rounds:
        found = {kind: size / (4 * SIZE * DEVICES) for kind, size in row["bytes"]["up"].items() if kind != "frame"}
        assert found == pytest.approx({"weights": 1 / 4, "fisher": 1 / 2, "fisher_theta": 1 / 2}, rel=0.01)

"""Encodings in whole runs: fewer bytes, the same run each time, and what weights lose is made good later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from emulator.compute.executors import Inline, Processes
from emulator.lab import jobs, training
from emulator.lab.build import lab_of
from emulator.lab.seeds import seed as derive
from emulator.messages.codec import ERROR, Outbox, decode, encode, unread
from emulator.messages.files import Memory
from emulator.messages.store import EMPTY, NOTHING, Store, Stored
from emulator.play.conduct import Conduct
from emulator.play.over_sockets import run_sockets
from emulator.play.run import run_virtual
from emulator.record.lines import read_lines
from emulator.record.run import Run
from scenarios.load import build
from tests.all_of import all_of
from tests.conftest import audit_run

pytestmark = pytest.mark.slow

SIZE = 53_002
DEVICES, ROUNDS = 4, 4
QUICK = {
    "rounds": {"max": ROUNDS},
    "evaluate": {"every": 0},
    "training": {"epochs": 2, "batch": 64, "lr": 0.1},
}
LOSSY = ["float16", "bfloat16", "int8", "int8-sqrt", "top-0.1"]
FILES = ("events.jsonl", "rounds.jsonl", "final.safetensors")


def sent(up: str | None = None, down: str | None = None) -> dict[str, Any]:
    ways = {"up": up, "down": down}
    return {"fedavg": {"encoding": {way: {"weights": how} for way, how in ways.items() if how}}}


@pytest.fixture(scope="module")
def run(play: Any) -> Callable[..., Any]:
    """Plays each run once."""

    @cache
    def once(algorithm: str, changes: str) -> Any:
        return play(loads(algorithm), **loads(changes))

    return lambda algorithm="fedavg", **changes: once(dumps(algorithm), dumps({**QUICK, **changes}))


def far(a: Path, b: Path) -> float:
    """The largest difference between two models' weights."""
    one, other = (load_file(folder / "final.safetensors") for folder in (a, b))
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def moved(run: Any) -> float:
    """The largest change of a weight in FedAvg's run."""
    nothing = run("fedavg", rounds={"max": 1}, training={"epochs": 1, "batch": 64, "lr": 1e-6})
    return far(run().folder, nothing.folder)


@pytest.mark.parametrize(
    ("encoding", "bytes_each"), [("float16", 2), ("bfloat16", 2), ("int8", 1), ("int8-sqrt", 1), ("top-0.1", 0.8)]
)
def test_bytes_fall_as_declared(run: Any, encoding: str, bytes_each: float) -> None:
    """top-0.1 keeps an index and a value of each tenth: 8 bytes; short tensors of which more is kept go whole."""
    for row in run(sent(up=encoding, down="bfloat16")).rounds:
        room = 0.05 if encoding == "top-0.1" else 0.01
        assert row["bytes"]["up"]["weights"] == pytest.approx(bytes_each * SIZE * DEVICES, rel=room)
        assert row["bytes"]["down"]["weights"] == 2 * SIZE * DEVICES


@pytest.mark.parametrize("encoding", LOSSY)
def test_what_arrives_is_what_the_model_is_made_of(run: Any, encoding: str) -> None:
    """Another model than FedAvg's, but one that goes the same way: nearer to it than where both began."""
    lossy = run(sent(up=encoding))
    assert lossy.model != run().model
    assert far(lossy.folder, run().folder) < moved(run)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(play: Any) -> None:
    """int8 rounds by chance: its draws come from the seed too."""
    first, again, other = (play(sent(up="int8", down="int8"), seed=seed, **QUICK) for seed in (3, 3, 4))
    assert [(first.folder / file).read_bytes() for file in FILES] == [
        (again.folder / file).read_bytes() for file in FILES
    ]
    assert first.model != other.model


def test_float32_is_no_encoding(run: Any) -> None:
    named = run(sent(up="float32", down="float32"))
    assert [(named.folder / file).read_bytes() for file in FILES] == [
        (run().folder / file).read_bytes() for file in FILES
    ]


def test_sparse_weights_lose_nothing_but_the_last_bit_of_a_difference(run: Any) -> None:
    """The weights travel as differences to the broadcast model. θ_t + (θ_k - θ_t) is θ_k up to float32's rounding, half
    a unit in the last place of the larger of the difference and the sum.  The error is sent along next time."""
    plain, sparse = run(), run(sent(up="sparse"))
    assert far(sparse.folder, plain.folder) < 1e-5  # 8 times 2^-24 of weights of 1, amplified by training
    assert far(sparse.folder, plain.folder) < 1e-4 * moved(run)


def test_sparse_downloads_lose_not_even_that(run: Any) -> None:
    assert run(sent(down="sparse")).model == run().model


# ---- where it is played


def scenario(**encoding: Any) -> Any:
    """Devices with fast links: little virtual time, which over sockets really passes."""
    link = {"up_mbit_s": 50, "down_mbit_s": 50}
    raw = {
        "name": "small",
        "training": {"epochs": 1, "batch": 64, "lr": 0.1},
        "rounds": {"max": 3, "fraction": 1.0},
        "evaluate": {"every": 0},
        "server": {"link": {"up_mbit_s": 1000, "down_mbit_s": 1000}},
        "fleet": [{"profile": "pi-4", "count": 3, "link": link}],
        "algorithms": [{"fedcurv": {"encoding": encoding}}],
    }
    return build(raw)


def test_workers_and_sockets_give_the_same_models_and_accounts(tmp_path: Path) -> None:
    """In this process, in two workers, and over sockets."""
    said = scenario(
        up={"weights": "int8", "fisher": "bfloat16", "fisher_theta": "float16"}, down={"weights": "float16"}
    )
    lab, run, conduct = lab_of(said), Run("fedcurv", 1), Conduct.of(said)
    with Processes(lab, 2) as pool:
        asyncio.run(run_virtual(lab, run, conduct, pool, tmp_path / "workers"))
        real = asyncio.run(run_sockets(lab, run, conduct, pool, tmp_path / "sockets"))
    inline = asyncio.run(run_virtual(lab, run, conduct, Inline(lab), tmp_path / "inline"))
    assert [audit_run(tmp_path / name) for name in ("workers", "sockets", "inline")] == [[]] * 3
    for file in (*FILES, "work.jsonl"):
        assert (tmp_path / "workers" / file).read_bytes() == (tmp_path / "inline" / file).read_bytes()
    assert (tmp_path / "sockets" / FILES[2]).read_bytes() == (tmp_path / "inline" / FILES[2]).read_bytes()
    assert [row["bytes"] for row in real.rows] == [row["bytes"] for row in inline.rows]
    digests = [
        sorted((line["device"], line["round"], line["update"]) for line in lines if line["event"] == "compute.end")
        for lines in (read_lines(tmp_path / name / "events.jsonl") for name in ("sockets", "inline"))
    ]
    assert digests[0] == digests[1]
    assert len(digests[0]) == 3 * 3


# ---- what was lost is sent along next time


def lone(
    encoding: str, keep: Callable[[int], bool] = lambda _: True, rounds: int = 12
) -> list[dict[str, torch.Tensor]]:
    """A device's true moves and what arrived of them, round by round; `keep` says which uploads are counted.

    Each round starts from the same weights, so a move is θ_k - θ_t of one local training, as the engine has it.
    """
    said = build(
        {
            "name": "lone",
            "training": {"epochs": 1, "batch": 64, "lr": 0.1},
            "fleet": [{"profile": "pi-4", "count": 2, "link": {"up_mbit_s": 8, "down_mbit_s": 8}}],
            "algorithms": ["fedavg", {**sent(up=encoding), "name": "lossy"}],
        }
    )
    lab = lab_of(said)
    store = Memory()
    broadcast = jobs.start(lab, store, Run("fedavg", 1)).weights
    weights, memory, found = decode(store.get(broadcast))["weights"], EMPTY, []
    for round in range(rounds):
        plain = training.train(lab, store, Run("fedavg", 1), "pi-4-0", round, broadcast, NOTHING, False)
        lossy = training.train(lab, store, Run("lossy", 1), "pi-4-0", round, broadcast, memory.ref, False)
        true = flat(held(store, plain.upload)["weights"]) - flat(weights)
        error = held(store, lossy.kept_if_counted or EMPTY).get(ERROR, {})
        before = held(store, memory).get(ERROR, {})
        if keep(round):
            memory = lossy.kept_if_counted or EMPTY
        else:
            assert held(store, lossy.kept).get(ERROR, {}).keys() == before.keys()
            memory = lossy.kept
        found.append({"true": true, "arrived": flat(held(store, lossy.upload)["weights"]), "error": flat(error)})
    return found


def held(store: Store, message: Stored) -> dict[str, dict[str, torch.Tensor]]:
    return decode(store.get(message.ref))


def flat(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensors[name].double().flatten() for name in sorted(tensors)])


@pytest.mark.parametrize("encoding", LOSSY)
def test_what_arrives_follows_what_was_sent(encoding: str) -> None:
    """Σ arrived = Σ true - the last error, whatever the encoding (Seide et al. 2014): nothing is lost for good."""
    steps = lone(encoding)
    gap = sum(step["true"] for step in steps) - sum(step["arrived"] for step in steps)
    torch.testing.assert_close(gap, steps[-1]["error"], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("encoding", LOSSY)
def test_the_error_stays_bounded(encoding: str) -> None:
    """The error does not grow with the rounds: by the contraction of the encoding, ‖error‖ <= sqrt(1 - δ) ‖move +
    error‖.

    For top-F δ >= F (Stich et al. 2018, Lemma A.1), so ‖error‖ <= ‖largest move‖ sqrt(1 - F) / (1 - sqrt(1 - F)).  The
    other encodings round each value by less than a part of the largest, and are far below this bound.
    """
    steps = lone(encoding)
    largest = max(float(step["true"].norm()) for step in steps)
    root = np.sqrt(1 - 0.1)
    for step in steps:
        assert 0 < float(step["error"].norm()) <= largest * root / (1 - root)
    if encoding != "top-0.1":
        assert float(steps[-1]["error"].norm()) < 0.5 * largest


def test_without_the_error_sent_along_a_cut_is_lost_for_good() -> None:
    """The negative control: of small differences that top-0.1 never sends, nothing would ever arrive."""
    steps = lone("top-0.1")
    total, arrived = sum(step["true"] for step in steps), sum(step["arrived"] for step in steps)
    fresh = lone("top-0.1", keep=lambda _: False)  # no upload counts, so that nothing is remembered
    forgotten = sum(step["true"] for step in fresh) - sum(step["arrived"] for step in fresh)
    assert float((total - arrived).norm()) < 0.7 * float(forgotten.norm())


@pytest.mark.parametrize("encoding", ["int8", "top-0.1"])
def test_an_upload_that_is_not_counted_leaves_the_error_as_it_was(encoding: str) -> None:
    """Every other upload is lost: the sums agree over those that were counted."""
    steps = lone(encoding, keep=lambda round: round % 2 == 0, rounds=9)
    counted = steps[::2]
    gap = sum(step["true"] for step in counted) - sum(step["arrived"] for step in counted)
    torch.testing.assert_close(gap, counted[-1]["error"], rtol=1e-3, atol=1e-6)


def test_the_outbox_forgets_nothing_and_adds_what_it_missed() -> None:
    """By hand: of (3, 1) only the larger half is sent; the 1 waits, and with the next 1 and 1 it is the larger."""
    model = {"w": torch.tensor([10.0, 10.0])}
    first = Outbox({"weights": "top-0.5"}, 0, model)
    upload = first.packed({"weights": {"w": torch.tensor([13.0, 11.0])}})
    assert unread(upload, model)["weights"]["w"].tolist() == [13.0, 10.0]
    assert first.errors[ERROR]["w"].tolist() == [0.0, 1.0]
    second = Outbox({"weights": "top-0.5"}, 1, model, dict(first.errors))
    upload = second.packed({"weights": {"w": torch.tensor([11.5, 11.0])}})
    assert unread(upload, model)["weights"]["w"].tolist() == [10.0, 12.0]
    assert second.errors[ERROR]["w"].tolist() == [1.5, 0.0]


# ---- FedCurv


@pytest.mark.parametrize("fisher", ["int8", "int8-sqrt", "bfloat16", "top-0.1"])
@pytest.mark.parametrize("upload", ["paper", "lean"])
def test_a_lossy_fisher_never_makes_the_penalty_concave(run: Any, fisher: str, upload: str) -> None:
    """u - u_own may round below 0; it is clamped there, and the report says how often."""
    up = {"weights": "float16", "fisher": fisher, **({"fisher_theta": fisher} if upload == "paper" else {})}
    played = run({"fedcurv": {"upload": upload, "encoding": {"up": up}}})
    clamped = [row["numbers"]["clamped"] for row in played.rounds[1:]]
    assert all_of(0 <= count <= SIZE for count in clamped)
    shares = [row["numbers"]["penalty_share"] for row in played.rounds[1:]]
    assert all_of(0 <= share < 1 for share in shares)  # a concave penalty would be below 0


@pytest.mark.parametrize("options", [{"upload": "lean"}, {"participation": "last_round"}], ids=str)
def test_where_whole_fisher_diagonals_are_added_up_nothing_is_clamped(run: Any, options: dict[str, str]) -> None:
    """A sum of numbers that are not negative is never below one of them, and rounding keeps that order.

    The paper's upload sends changes, whose roundings may leave a part of the sums a hair below 0: seldom.
    """
    assert [row["numbers"]["clamped"] for row in run({"fedcurv": options}).rounds[1:]] == [0.0] * (ROUNDS - 1)
    assert all_of(row["numbers"]["clamped"] < 0.01 * SIZE for row in run("fedcurv").rounds[1:])


def test_seeds_of_encodings_are_named_by_device_and_round() -> None:
    """So that no rounding depends on which worker did it, nor on who else was asked."""
    assert len({derive(1, "encode", device, round) for device in "ab" for round in (0, 1)}) == 4
    arrays = {"weights": {"w": torch.linspace(-1, 1, 101)}}
    packed = {encode(arrays, {"weights": "int8"}, derive(1, "encode", "a", round)).data for round in (0, 1)}
    assert len(packed) == 2

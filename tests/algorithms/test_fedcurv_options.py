"""FedCurv's options: what goes up, which Fisher, who is in the sums, where θ is counted from, how much is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.algorithm import Message, Tensors, Training, unharmed
from algorithms.fedavg import FedAvg
from algorithms.fedcurv import FedCurv
from algorithms.fedcurv_penalty import strongest
from algorithms.importance.importance import importance
from tests.all_of import all_of

SUMS = ("fisher", "fisher_theta")
ROUGH = Training(epochs=2, batch=4, lr=0.1, momentum=0.5)
PLAYED = st.lists(
    st.tuples(st.sets(st.sampled_from("abcde"), min_size=1), st.sets(st.sampled_from("abcde"))), min_size=1, max_size=5
)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"upload": "lean"},
    {"centred": True},
    {"participation": "last_round"},
    {"upload": "lean", "centred": True},
    {"upload": "lean", "participation": "last_round"},
    {"centred": True, "participation": "last_round"},
    {"upload": "lean", "centred": True, "participation": "last_round"},
    {"keep": 0.3},
    {"keep": 0.3, "upload": "lean"},
    {"keep": 0.3, "centred": True},
    {"upload": "lean", "max_age": 1},
]


def named(options: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items()) or "default"


every = pytest.mark.parametrize("options", OPTIONS, ids=named)


def rounds(fleet: Any, played: list[tuple[set[str], set[str]]]) -> None:
    for asked, counted in played:
        fleet.play(sorted(asked), sorted(asked & counted))


def fisher_at(fleet: Any, name: str, weights: Tensors) -> Tensors:
    device = fleet.party(name)
    device.model.load_state_dict(weights)
    return importance(device.model, device.loss, device.x, device.y, "sq")


def in_sums(fleet: Any) -> list[str]:
    """Whose part is in the sums, by the definition of the options."""
    algorithm, last = fleet.algorithm, max(fleet.since.values(), default=0)
    if algorithm.participation == "last_round":
        return sorted(name for name, round in fleet.since.items() if round == last)
    oldest = last - algorithm.max_age if algorithm.max_age else 0
    return sorted(name for name, round in fleet.since.items() if round >= oldest)


def explicit(fleet: Any, device: str, at: Tensors) -> Tensors:
    """2 λ Σ_j Î_j⊙(θ - θ̂_j) over the other devices, one after the other."""
    grads = {name: torch.zeros(value.shape).double() for name, value in at.items()}
    for other in in_sums(fleet):
        if other != device:
            theta = fleet.uploads[other]["weights"]
            parts = strongest(fisher_at(fleet, other, theta), fleet.algorithm.keep)
            for name in grads:
                away = at[name].double() - theta[name].double()
                grads[name] += 2 * fleet.algorithm.strength * parts[name].double() * away
    return grads


def felt(fleet: Any, device: str, at: Tensors) -> Tensors | None:
    penalty = fleet.algorithm.penalty(fleet.down(), fleet.party(device))
    if penalty is None:
        return None
    grads = {name: torch.zeros_like(value) for name, value in at.items()}
    for name, value in at.items():
        penalty(name, value, grads[name])
    return grads


def near(state: Message) -> Tensors:
    draw = torch.Generator().manual_seed(2)
    return {
        name: value + 0.1 * torch.randn(value.shape, generator=draw).to(value.dtype)
        for name, value in state["weights"].items()
    }


# ---- the penalty is that of the others, whoever takes part


@pytest.mark.slow
@every
@settings(max_examples=10)
@given(played=PLAYED)
def test_the_penalty_is_the_sum_over_the_others_whoever_was_asked_and_counted(
    curved: Any, options: dict[str, Any], played: list[tuple[set[str], set[str]]]
) -> None:
    fleet = curved(FedCurv(ROUGH, 0.3, **options), dtype=torch.float64)
    rounds(fleet, played)
    at = near(fleet.state)
    for device in "abcde":
        grads = felt(fleet, device, at)
        expected = explicit(fleet, device, at)
        assert (grads is None) == (not fleet.since)
        for name in at if grads is not None else ():
            torch.testing.assert_close(grads[name], expected[name], rtol=0, atol=1e-12)  # type: ignore[index]


@every
def test_a_lone_device_feels_nothing_to_the_bit(curved: Any, options: dict[str, Any]) -> None:
    lone, plain = curved(FedCurv(ROUGH, 3.0, **options)), curved(FedAvg(ROUGH))
    for _ in range(4):
        lone.play("a")
        plain.play("a")
        grads = felt(lone, "a", near(lone.state))
        assert grads is not None
        assert all_of(not grad.any() for grad in grads.values())
        assert lone.algorithm.penalty(lone.down(), lone.party("a")).clamped == 0  # by subtraction, not by the clamp
        assert all_of(torch.equal(value, plain.state["weights"][name]) for name, value in lone.state["weights"].items())


@every
def test_without_strength_every_option_is_fedavg_bit_for_bit(curved: Any, options: dict[str, Any]) -> None:
    curv, plain = curved(FedCurv(ROUGH, 0.0, **options)), curved(FedAvg(ROUGH))
    for asked in ("abc", "bde", "ace"):
        curv.play(asked)
        plain.play(asked)
    assert all_of(torch.equal(value, plain.state["weights"][name]) for name, value in curv.state["weights"].items())


@every
def test_the_order_of_arrival_leaves_no_trace(curved: Any, options: dict[str, Any]) -> None:
    fleet = curved(FedCurv(ROUGH, **options))
    fleet.play("ab")
    before = fleet.state
    replies = fleet.play("edcba")
    server = replace(fleet.party("server"), round=1)
    other = fleet.algorithm.combine(before, dict(reversed(replies.items())), server)
    assert other.keys() == fleet.state.keys()
    assert all_of(torch.equal(other[kind][name], t) for kind, part in fleet.state.items() for name, t in part.items())


@every
def test_messages_have_the_declared_form(curved: Any, options: dict[str, Any]) -> None:
    fleet = curved(FedCurv(ROUGH, **options))
    fleet.play("abc")
    (reply,) = fleet.play("a").values()
    up = fleet.algorithm.upload_form(1, fleet.party("a").model)
    down = fleet.algorithm.download_form(fleet.party("server"))
    assert up.keys() <= set(FedCurv.uploads)
    assert down.keys() <= set(FedCurv.downloads)
    for form, message in ((up, reply.upload), (down, fleet.down())):
        shape = {kind: {name: (t.dtype, t.shape) for name, t in part.items()} for kind, part in form.items()}
        assert shape == {k: {name: (t.dtype, t.shape) for name, t in part.items()} for k, part in message.items()}


@every
def test_the_penalty_s_value_has_the_penalty_s_slope(curved: Any, options: dict[str, Any]) -> None:
    fleet = curved(FedCurv(ROUGH, 0.3, **options), dtype=torch.float64)
    fleet.play("abc")
    fleet.play("bcd")
    penalty = fleet.algorithm.penalty(fleet.down(), fleet.party("a"))
    at, step = near(fleet.state), 1e-3
    grads = felt(fleet, "a", at)
    along = near({"weights": {name: torch.zeros_like(value) for name, value in at.items()}})
    there, back = ({name: value + sign * step * along[name] for name, value in at.items()} for sign in (1, -1))
    slope = (penalty.value(there) - penalty.value(back)) / (2 * step)  # exact for a quadratic
    assert grads is not None
    assert slope == pytest.approx(sum(float((grads[name] * along[name]).sum()) for name in at), rel=1e-9)
    assert penalty.value(at) > 0


def test_centred_or_not_the_penalty_is_worth_the_same(curved: Any) -> None:
    fleets = [curved(FedCurv(ROUGH, 0.3, centred=centred), dtype=torch.float64) for centred in (False, True)]
    values = []
    for fleet in fleets:
        for asked in ("abc", "ade", "bc"):
            fleet.play(asked)
        penalty = fleet.algorithm.penalty(fleet.down(), fleet.party("b"))
        values.append(penalty.value(near(fleet.state)))
    assert values[1] == pytest.approx(values[0], rel=1e-9)


# ---- lean


def numbers(message: Message) -> int:
    return sum(value.numel() for part in message.values() for value in part.values())


@pytest.mark.parametrize(("upload", "up", "both"), [("paper", 3, 3.0), ("lean", 2, 2.5)])
def test_a_round_costs_three_times_a_model_each_way_and_lean_two_and_a_half_both_ways(
    curved: Any, upload: Any, up: int, both: float
) -> None:
    fleet = curved(FedCurv(ROUGH, upload=upload))
    size = numbers({"weights": fleet.state["weights"]})
    forms = fleet.algorithm.download_form(fleet.party("server")), fleet.algorithm.upload_form(0, fleet.party("a").model)
    assert [numbers(form) / size for form in forms] == [3, up]
    assert sum(numbers(form) for form in forms) / (2 * size) == both
    assert numbers(fleet.down()) == size
    replies = fleet.play("ab")
    assert numbers(replies["a"].upload) == up * size
    assert numbers(fleet.down()) == 3 * size


def test_where_all_always_answer_lean_sums_are_plain_sums_bit_for_bit(curved: Any) -> None:
    fleets = [curved(FedCurv(ROUGH, 0.3, upload="lean", participation=who)) for who in ("counted", "last_round")]
    for fleet in fleets:
        for _ in range(3):
            fleet.play("abcde")
    counted, last = (fleet.state for fleet in fleets)
    for kind in ("weights", *SUMS):
        assert all_of(torch.equal(counted[kind][name], value) for name, value in last[kind].items())
    assert last.keys() == {"weights", *SUMS, "formed"}


def test_where_all_always_answer_changes_and_plain_sums_agree(curved: Any) -> None:
    fleets = [curved(FedCurv(ROUGH, 0.3, participation=who), dtype=torch.float64) for who in ("counted", "last_round")]
    for fleet in fleets:
        for _ in range(3):
            fleet.play("abcde")
    for kind in SUMS:
        for name, value in fleets[0].state[kind].items():
            torch.testing.assert_close(fleets[1].state[kind][name], value, rtol=1e-12, atol=1e-16)


def test_the_lean_server_keeps_two_models_a_device_and_the_device_as_much(curved: Any) -> None:
    fleet = curved(FedCurv(ROUGH, upload="lean"))
    size = numbers({"weights": fleet.state["weights"]})
    fleet.play("abc")
    fleet.play("bd")
    kept = {kind: part for kind, part in fleet.state.items() if kind not in ("weights", *SUMS)}
    assert numbers(kept) == 4 * (2 * size + 1)  # the round besides
    assert numbers(fleet.memory["a"]) == 2 * size


def test_the_server_multiplies_what_it_received(curved: Any) -> None:
    fleet = curved(FedCurv(ROUGH, upload="lean"))
    replies = fleet.play("abc")
    for name, value in fleet.state["fisher_theta"].items():
        uploads = [replies[device].upload for device in "abc"]
        products = [up["fisher"][name].double() * up["weights"][name].double() for up in uploads]
        assert torch.equal(value, products[0] + products[1] + products[2])


# ---- who is in the sums


def test_the_last_round_alone_is_not_all_that_was_counted(curved: Any) -> None:
    totals = []
    for who in ("counted", "last_round"):
        fleet = curved(FedCurv(ROUGH, 0.0, participation=who))
        for asked in ("ab", "cd"):
            fleet.play(asked)
        totals.append(sum(float(value.sum()) for value in fleet.state["fisher"].values()))
    assert totals[0] > 1.1 * totals[1]


def test_a_failed_round_keeps_the_sums_of_the_round_before_and_their_own_parts(curved: Any) -> None:
    fleet = curved(FedCurv(ROUGH, 0.3, participation="last_round"), dtype=torch.float64)
    fleet.play("ab")
    fleet.play("cd", "")
    for device in "abcd":
        grads, at = felt(fleet, device, near(fleet.state)), near(fleet.state)
        expected = explicit(fleet, device, at)
        assert grads is not None
        assert all_of(torch.allclose(grads[name], expected[name], rtol=0, atol=1e-12) for name in at)


def test_an_own_part_that_is_not_in_the_sums_must_not_be_subtracted(curved: Any) -> None:
    # a was counted in round 0 only: subtracting its part of then from the sums of round 1 leaves u < 0.
    fleet = curved(FedCurv(ROUGH, participation="last_round"))
    fleet.play("a")
    fleet.play("bc")
    right = fleet.algorithm.penalty(fleet.down(), fleet.party("a"))
    forgetful = fleet.down() | {"formed": fleet.memory["a"]["formed"]}
    wrong = fleet.algorithm.penalty(forgetful, fleet.party("a"))
    assert right.clamped == 0
    assert wrong.clamped > 0


def test_the_part_of_a_device_that_left_is_dropped_after_max_age_rounds(curved: Any) -> None:
    fleet = curved(FedCurv(ROUGH, upload="lean", max_age=2))
    fleet.play("ab")
    kept = []
    for _ in range(3):
        fleet.play("b")
        kept.append("of a" in fleet.state)
    assert kept == [True, True, False]
    only = fleet.uploads["b"]["fisher"]
    assert all_of(torch.equal(value, only[name].double()) for name, value in fleet.state["fisher"].items())


# ---- where θ is counted from


@pytest.mark.parametrize("bits", [32, 16])
def test_centred_sums_err_less(curved: Any, bits: int) -> None:
    # docs/design/algorithms.md §9, reading 14: 2.4 times less in fp32, and 60 times less in fp16, where plain ones err
    # by 28 %, before the next changes carry what the first ones lost
    still = Training(epochs=1, batch=4, lr=1e-3)
    errors = []
    for centred in (False, True):
        fleet = curved(FedCurv(still, 0.3, centred=centred), send=halved if bits == 16 else unharmed)
        for _ in range({32: 3, 16: 1}[bits]):
            fleet.play("abcde")
        at = {name: value + 1e-3 for name, value in fleet.state["weights"].items()}
        grads, expected = felt(fleet, "a", at), explicit(fleet, "a", at)
        assert grads is not None
        errors.append(max(float((grads[n] - expected[n]).abs().max() / expected[n].abs().max()) for n in at))
    assert errors[0] < {32: 1e-3, 16: 2.0}[bits]
    assert errors[1] < errors[0] / {32: 2, 16: 10}[bits]


def halved(kind: str, tensors: Tensors) -> Tensors:
    if kind == "weights":
        return tensors
    return {name: value.half().to(value.dtype) for name, value in tensors.items()}


@pytest.mark.parametrize("upload", ["paper", "lean"])
def test_auto_is_centred_where_the_encoding_loses(curved: Any, upload: Any) -> None:
    whole = {"up fisher": "float16", "down weights": "float16"}  # no centre that both sides know
    for send, lossy, centred in ((unharmed, {}, False), (halved, {"up fisher": "x"}, True), (halved, whole, False)):
        auto = curved(FedCurv(ROUGH, 0.3, upload=upload), send=send, lossy=lossy)
        plain = curved(FedCurv(ROUGH, 0.3, upload=upload, centred=centred), send=send)
        for asked in ("abc", "cd", "ae"):
            auto.play(asked)
            plain.play(asked)
        for kind in ("weights", *SUMS):
            assert all_of(torch.equal(auto.state[kind][name], value) for name, value in plain.state[kind].items())


@pytest.mark.parametrize(
    ("options", "lossy", "said"),
    [
        ({"centred": True}, {"down weights": "float16"}, "encoding.down.weights is 'float16'; centred"),
        ({}, {"down fisher": "top-0.1"}, "encoding.down.fisher is 'top-0.1'; .* before any cut"),
        ({"upload": "lean"}, {"down fisher_theta": "top-0.1"}, "encoding.down.fisher_theta is .* before any cut"),
    ],
)
def test_ways_down_that_hide_the_own_part_are_refused(curved: Any, options: Any, lossy: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        curved(FedCurv(ROUGH, 0.3, **options), lossy=lossy)

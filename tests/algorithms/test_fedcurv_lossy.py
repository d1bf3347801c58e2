"""FedCurv when messages lose on the way: docs/design/algorithms.md §11 for every encoding of network/.

Rule 6, that squared gradients are bfloat16 or int8-sqrt, is the scenario's: tests/scenarios/builders/test_plugins.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.algorithm import Message, Party, Reply, Tensors, Training
from algorithms.fedcurv import FedCurv
from algorithms.fedcurv_penalty import changed, of_others, recentred, strongest, term, whole
from algorithms.training.local import Pull
from emulator.messages.codec import ERROR, Outbox, unread
from network.wire.payload import decoded
from tests.all_of import all_of

SUMS = ("fisher", "fisher_theta")
ROUGH = Training(epochs=2, batch=4, lr=0.1, momentum=0.5)


def arriving(encoding: str) -> Callable[[Tensor], Tensor]:
    """The tensor as it arrives after travelling in this encoding, in the tensor's own type."""

    def arrives(value: Tensor) -> Tensor:
        return torch.from_numpy(decoded("fisher", {"w": value.numpy()}, encoding, seed=1)["w"]).to(value.dtype)

    return arrives


CODES = {code: arriving(code) for code in ("float16", "bfloat16", "int8", "int8-sqrt", "top-0.1", "sparse")}
LOSSY = [code for code in CODES if code != "sparse"]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"centred": True},
    {"upload": "lean"},
    {"participation": "last_round"},
    {"keep": 0.3},
    {"centred": True, "participation": "last_round"},
    {"upload": "lean", "centred": True, "max_age": 1},
]


def through(fleet: Any, code: str) -> None:
    """Uploads go through the encoding; weights as the difference to the broadcast ones, as the emulator sends them."""

    def send(kind: str, tensors: Tensors) -> Tensors:
        broadcast = fleet.state["weights"] if kind == "weights" else {}
        return {
            name: CODES[code](value - broadcast[name]) + broadcast[name] if broadcast else CODES[code](value)
            for name, value in tensors.items()
        }

    fleet.send = send


def come_down(down: Message, code: str) -> Message:
    """The download when its sums travel in this encoding."""
    sums = {kind: down[kind] for kind in SUMS if kind in down}
    return down | {kind: {name: CODES[code](value) for name, value in part.items()} for kind, part in sums.items()}


def parts(fleet: Any) -> dict[str, Message]:
    """For each device its part of the sums as the device itself knows it, relative to the server's centre."""
    algorithm, found = fleet.algorithm, {}
    for name, kept in fleet.memory.items():
        formed = fleet.state.get("formed")
        if formed and int(formed["round"]) - int(kept["formed"]["round"]) > algorithm.max_age:
            continue
        if algorithm.upload == "lean":
            found[name] = term(
                kept["fisher"], kept["theta"], fleet.state["weights"] if algorithm.sums.about({}) else None
            )
        else:
            found[name] = recentred(kept, kept["centre"], fleet.state["weights"]) if "centre" in kept else kept
    return found


# ---- no ghosts, and no concave penalty


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("options", VARIANTS, ids=str)
@settings(max_examples=4)
@given(
    played=st.lists(
        st.tuples(st.sets(st.sampled_from("abcde"), min_size=1), st.sets(st.sampled_from("abcde"))),
        min_size=1,
        max_size=5,
    )
)
def test_devices_know_what_was_counted_of_them_and_no_curvature_is_negative(
    curved: Any, options: dict[str, Any], code: str, played: list[tuple[set[str], set[str]]]
) -> None:
    fleet = curved(FedCurv(ROUGH, 0.3, **options))
    through(fleet, code)
    for asked, counted in played:
        fleet.play(sorted(asked), sorted(asked & counted))
    own, down = parts(fleet), fleet.down()
    for kind in SUMS if own else ():
        for name, total in fleet.state[kind].items():
            believed = [part[kind][name] for part in own.values()]
            scale = max(1.0, *(float(part.abs().max()) for part in believed))
            torch.testing.assert_close(total, torch.stack(believed).sum(0), rtol=0, atol=1e-13 * scale)
    # Also where the sums lose on their way down, but for top, whose cut would come before the own part is taken out.
    arrived = [down] if code == "top-0.1" else [down, come_down(down, code)]
    for device, sums in product("abcde", arrived) if own else ():
        penalty = fleet.algorithm.penalty(sums, fleet.party(device))
        clamped = 0
        for name, u in penalty.importance.items():
            assert bool((u >= 0).all())
            assert not penalty.target[name][u == 0].any()
            mine = own[device]["fisher"][name].float() if device in own else 0.0
            clamped += int((sums["fisher"][name] - mine < 0).sum())
        assert penalty.clamped == clamped


@pytest.mark.parametrize("code", ["bfloat16", "int8", "int8-sqrt", "float16"])
def test_sums_that_lose_on_their_way_down_would_make_the_penalty_concave(curved: Any, code: str) -> None:
    """Nothing is left for a lone device, but its part as it knows it may be more than the sum that arrives."""
    fleet = curved(FedCurv(ROUGH, 0.3))
    fleet.play("a")
    own, down = fleet.memory["a"]["fisher"], come_down(fleet.down(), code)
    below = sum(int((down["fisher"][name] < value.float()).sum()) for name, value in own.items())
    assert below > 0
    penalty = fleet.algorithm.penalty(down, fleet.party("a"))
    assert penalty.clamped == below
    assert all_of(bool((value >= 0).all()) for value in penalty.importance.values())


@pytest.mark.parametrize("code", CODES)
def test_a_lone_device_feels_nothing_when_its_uploads_lose(curved: Any, code: str) -> None:
    fleet = curved(FedCurv(ROUGH, 0.3))
    through(fleet, code)
    for _ in range(3):
        fleet.play("a")
        penalty = fleet.algorithm.penalty(fleet.down(), fleet.party("a"))
        assert all_of(not value.any() for value in (*penalty.importance.values(), *penalty.target.values()))
        assert penalty.clamped == 0


@pytest.mark.parametrize("code", CODES)
def test_through_the_outbox_a_device_keeps_what_the_server_decodes_and_its_weights_error(
    curved: Any, code: str
) -> None:
    """Weights travel as their difference to the broadcast ones, and what that loses goes with the next difference."""
    fleet = curved(FedCurv(ROUGH, 0.3))
    fleet.play("bcd")
    errors: Message = {}
    for round in range(3):
        broadcast = fleet.state["weights"]
        outbox = Outbox(dict.fromkeys(("weights", *SUMS), code), round, broadcast, errors)
        fleet.send = outbox.send
        missed = dict(errors.get(ERROR, {}))
        (reply,) = fleet.play("a").values()
        arrived, errors = unread(outbox.packed(reply.upload), broadcast), outbox.errors
        for kind, tensors in reply.upload.items():
            assert all_of(torch.equal(arrived[kind][name], value) for name, value in tensors.items())
        for name, value in reply.model.items():
            gone = value - broadcast[name] + missed.get(name, 0.0)
            lost = gone - (arrived["weights"][name] - broadcast[name])
            torch.testing.assert_close(errors[ERROR][name], lost, rtol=0, atol=1e-6)
        assert any(bool(value.any()) for value in errors[ERROR].values()) == (code in LOSSY)
        for kind in SUMS:
            for name, total in fleet.state[kind].items():
                believed = sum(part[kind][name] for part in parts(fleet).values())
                torch.testing.assert_close(total, believed, rtol=0, atol=1e-13)


def test_where_less_than_nothing_is_left_the_penalty_is_nothing_and_says_so(curved: Any) -> None:
    fleet = curved(FedCurv(ROUGH, 0.3))
    u, v = torch.tensor([0.5, -0.1, 0.0, 0.25]), torch.tensor([1.0, 2.0, 3.0, -4.0])
    own = {"fisher": {"w": torch.tensor([0.0, 0.0, 0.0, 0.5]).double()}, "fisher_theta": {"w": torch.zeros(4).double()}}
    device = replace(fleet.party("a"), memory=own)
    down = {"weights": fleet.state["weights"], "fisher": {"w": u}, "fisher_theta": {"w": v}}
    penalty = fleet.algorithm.penalty(down, device)
    assert penalty.importance["w"].tolist() == [0.5, 0, 0, 0]
    assert penalty.target["w"].tolist() == [1, 0, 0, 0]
    assert penalty.clamped == 2


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("options", [{}, {"upload": "lean"}, {"centred": True}], ids=str)
def test_what_goes_up_is_what_the_way_there_left(curved: Any, options: dict[str, Any], code: str) -> None:
    fleet = curved(FedCurv(ROUGH, **options))
    through(fleet, code)
    lossy, arrived = fleet.send, []

    def send(kind: str, tensors: Tensors) -> Tensors:
        found: Tensors = lossy(kind, tensors)
        arrived.append((kind, found))
        return found

    fleet.send = send
    (reply,) = fleet.play("a").values()
    for kind in reply.upload:
        assert any(kind == of and reply.upload[kind] is tensors for of, tensors in arrived)
    for name, value in reply.model.items() if code in LOSSY else ():
        assert not torch.equal(value, reply.upload["weights"][name])


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("kinds", [("fisher",), ("weights",), ("fisher", "weights")])
def test_v_is_of_what_arrived(curved: Any, kinds: tuple[str, ...], code: str) -> None:
    fleet = curved(FedCurv(ROUGH))
    through(fleet, code)
    lossy = fleet.send
    fleet.send = lambda of, tensors: lossy(of, tensors) if of in kinds else tensors
    (reply,) = fleet.play("a").values()
    fisher, theta, v = (reply.upload[part] for part in ("fisher", "weights", "fisher_theta"))
    for name, value in v.items():
        assert torch.equal(value, (fisher[name].double() * theta[name].double()).float())
    (reply,) = fleet.play("a").values()  # now changes against that: what they add up to is the new Î⊙θ̂
    own, theta = fleet.memory["a"], reply.upload["weights"]
    for name, value in own["fisher_theta"].items():
        scale = float(value.abs().max())
        torch.testing.assert_close(value, own["fisher"][name] * theta[name].double(), rtol=0, atol=1e-6 * scale)


def test_the_report_says_how_much_was_clamped_and_how_dense_the_sum_is(curved: Any) -> None:
    fleet = curved(FedCurv(ROUGH, 0.3))
    assert "clamped" not in fleet.play("abc")["a"].numbers
    told = fleet.play("a")["a"].numbers
    dense = torch.cat([value.flatten() != 0 for value in fleet.uploads["b"]["fisher"].values()])
    assert {"clamped", "density", "penalty_share"} <= told.keys()
    assert told["clamped"] == 0
    assert float(dense.float().mean()) <= told["density"] <= 1 - 3 / 23  # the dead input's weights are not in it


# ---- one-shot exactness survives to the resolution of the encoding


K, N = 7, 40
DRAW = np.random.default_rng(0)
A, C = (torch.from_numpy(part) for part in (DRAW.uniform(0.1, 3.0, (K, N)), DRAW.normal(size=(K, N))))
OPTIMUM = (A * C).sum(0) / A.sum(0)
START = torch.zeros(N).double()
SHOTS = [
    {},
    {"centred": True},
    {"upload": "lean"},
    {"upload": "lean", "centred": True},
    {"participation": "last_round"},
]


def party(memory: Message) -> Party:
    return Party("s", K, torch.nn.Linear(1, 1), lambda a, _: a, torch.zeros(1), torch.zeros(1), 1, 0, 1, memory)


def newton(a: Tensor, c: Tensor, penalty: Pull) -> Tensor:
    """The zero of the gradient a (θ - c) + penalty, which is a line."""
    at = []
    for theta in (torch.zeros_like(c), torch.ones_like(c)):
        at.append(a * (theta - c))
        penalty("w", theta, at[-1])
    return at[0] / (at[0] - at[1])


def shot(options: dict[str, Any], code: Callable[[Tensor], Tensor], times: int = 1) -> Tensor:
    """The distance of each device's optimum from the global one, (K, N), after each has sent its a and c this many
    times."""
    algorithm = FedCurv(Training(epochs=1, batch=32, lr=0.1), 0.5, **options)
    state: Message = {"weights": {"w": START}}
    memory: list[Message] = [{} for _ in range(K)]
    for round in range(times):
        replies, server = {}, replace(party({}), round=round)
        for k in range(K):
            fisher, theta, centre = (
                {"w": A[k]},
                {"w": code(C[k])},
                state["weights"] if algorithm.sums.about({}) else None,
            )
            before = memory[k] if algorithm.participation == "counted" else {}
            if centre and before and algorithm.upload == "paper":
                before = recentred(before, before["centre"], centre)
            if algorithm.upload == "lean":
                upload, memory[k] = whole(fisher, theta, coded(code))
            else:
                upload, memory[k] = changed(before, fisher, theta, centre, coded(code))
            memory[k] |= {} if algorithm.participation == "counted" else {"formed": {"round": torch.tensor(round)}}
            replies[str(k)] = Reply({"weights": theta} | upload, 10)
        state = algorithm.combine(state, replies, server)
    down = algorithm.request(state, list(replies), server).download
    away = []
    for k in range(K):
        penalty = algorithm.penalty(down, party(memory[k]))
        assert penalty is not None
        away.append(newton(A[k], C[k], penalty) - OPTIMUM)
    return torch.stack(away)


def coded(code: Callable[[Tensor], Tensor]) -> Callable[[str, Tensors], Tensors]:
    return lambda _, tensors: {name: code(value) for name, value in tensors.items()}


# What one rounding may change: of a value x in a tensor whose largest is X, relative to x, and absolutely in X.  int8
# goes up or down by chance: a step of X / 127; on the scale of roots, 2 X / 127 at most.
RESOLUTION = {"float16": (2**-11, 0.0), "bfloat16": (2**-9, 0.0), "int8": (0.0, 1 / 127), "int8-sqrt": (0.0, 2 / 127)}


def bound(relative: float, absolute: float) -> Tensor:
    """The bound of the distance, (N,): θ*'s numerator has the errors of Î, θ̂ and v of each device, its denominator
    that of Î."""

    def err(x: Tensor) -> Tensor:
        return relative * x.abs() + absolute * x.abs().amax(1, keepdim=True)

    du, dc = err(A), err(C)
    v = (A + du) * (C.abs() + dc)
    off = (C.abs() * du + (A + du) * dc + err(v) + OPTIMUM.abs() * du).sum(0)
    return off / (A - du).sum(0)


@pytest.mark.parametrize("options", SHOTS, ids=str)
@pytest.mark.parametrize("code", RESOLUTION)
def test_one_shot_exactness_survives_to_the_resolution_of_the_encoding(options: dict[str, Any], code: str) -> None:
    away = shot(options, CODES[code]).abs()
    assert bool((away <= bound(*RESOLUTION[code])).all())
    assert float(away.max()) > 1e-9  # it does lose


@pytest.mark.parametrize("options", SHOTS, ids=str)
def test_one_shot_exactness_is_exact_where_nothing_is_lost(options: dict[str, Any]) -> None:
    assert float(shot(options, CODES["sparse"]).abs().max()) < 1e-13


@pytest.mark.parametrize(
    ("code", "left"),
    [("float16", 1e-6), ("bfloat16", 1e-12), ("int8", 1e-12), ("int8-sqrt", 1e-12), ("top-0.1", 1e-12)],
)
def test_what_changes_lose_is_sent_along_with_the_next(code: str, left: float) -> None:
    # With θ̂ as it is, Î and v become exact in the end; float16 has nothing between 0 and 6e-8.
    once, often = (shot({}, unless_model(CODES[code]), times).abs().max() for times in (1, 40))
    assert once > 1e-4
    assert often < left


@pytest.mark.parametrize(
    ("code", "least", "most"), [("int8", 0.25, 0.75), ("int8-sqrt", 0.25, 0.75), ("top-0.1", 0.9, 1.0)]
)
def test_an_own_part_as_computed_would_make_the_penalty_concave(code: str, least: float, most: float) -> None:
    # A lone device: what is rounded down is less than the exact own part of it (90 % with top-10 %; here some of
    # the tenth that is sent too, which float32 rounds down).
    clamped = []
    for a, c in zip(A, C, strict=True):
        upload, own = changed({}, {"w": a}, {"w": c}, None, coded(CODES[code]))
        sums = {kind: {"w": value["w"]} for kind, value in upload.items()}
        assert of_others(1.0, sums, own, None).clamped == 0
        clamped.append(of_others(1.0, sums, term({"w": a}, {"w": c}, None), None).clamped / N)
    assert all_of(least <= share <= most for share in clamped)


def unless_model(code: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda value: value if any(torch.equal(value, c) for c in C) else code(value)


@pytest.mark.parametrize("options", [{}, {"upload": "lean"}, {"centred": True}], ids=str)
def test_of_few_coordinates_the_optimum_is_that_of_those_who_sent_them(options: dict[str, Any]) -> None:
    sent = torch.stack([strongest({"w": a}, 0.5)["w"] for a in A])
    algorithm = FedCurv(Training(epochs=1, batch=32, lr=0.1), 0.5, **options)
    server, replies = party({}), {}
    memory: list[Message] = []
    centre = {"w": START} if algorithm.sums.about({}) else None
    for k in range(K):
        lean = algorithm.upload == "lean"
        part = ({"w": sent[k]}, {"w": C[k]})
        upload, own = whole(*part, coded(torch.clone)) if lean else changed({}, *part, centre, coded(torch.clone))
        replies[str(k)], memory = Reply({"weights": {"w": C[k]}} | upload, 10), [*memory, own]
    state = algorithm.combine({"weights": {"w": START}}, replies, server)
    down = algorithm.request(state, list(replies), server).download
    for k in range(K):
        penalty = algorithm.penalty(down, party(memory[k]))
        assert penalty is not None
        weights = sent.clone()
        weights[k] = A[k]
        found = newton(A[k], C[k], penalty)
        torch.testing.assert_close(found, (weights * C).sum(0) / weights.sum(0), rtol=0, atol=1e-12)

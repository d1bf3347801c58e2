"""FedCurv: how many coordinates it sends, which Fisher diagonal, and which options it refuses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.algorithm import Party, Tensors, Training
from algorithms.fedcurv import FedCurv
from algorithms.fedcurv_penalty import strongest
from algorithms.importance.importance import importance
from tests.all_of import all_of

SUMS = ("fisher", "fisher_theta")
ROUGH = Training(epochs=2, batch=4, lr=0.1, momentum=0.5)

# ---- few coordinates


def test_the_strongest_are_those_of_the_whole_model() -> None:
    fisher = {"w": torch.tensor([[0.1, 0.7], [0.0, 0.4]]), "b": torch.tensor([0.5, 0.2])}
    expected = {"w": torch.tensor([[0.0, 0.7], [0.0, 0.4]]), "b": torch.tensor([0.5, 0.0])}
    assert all_of(torch.equal(strongest(fisher, 0.5)[name], value) for name, value in expected.items())
    assert all_of(torch.equal(strongest(fisher, 0.41)[name], value) for name, value in expected.items())  # 2.46: 3
    assert strongest(fisher, 1.0) is fisher


def test_equals_of_the_last_one_stay() -> None:
    assert strongest({"w": torch.tensor([0.3, 0.3, 0.1, 0.3])}, 0.5)["w"].tolist() == pytest.approx([0.3, 0.3, 0, 0.3])


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30, unique=True), st.floats(0.01, 1))
def test_as_many_stay_as_were_asked_for(values: list[float], share: float) -> None:
    left = strongest({"w": torch.tensor(values)}, share)["w"]
    count = -int(-share * len(values) // 1)
    assert sorted(left.tolist(), reverse=True)[:count] == pytest.approx(sorted(values, reverse=True)[:count], rel=1e-7)
    assert int((left != 0).sum()) <= count


def held(tensors: Tensors) -> dict[str, Tensor]:
    return {name: value != 0 for name, value in tensors.items()}


@pytest.mark.parametrize("upload", ["paper", "lean"])
def test_v_is_cut_where_u_is(curved: Any, upload: Any) -> None:
    fleet = curved(FedCurv(ROUGH, upload=upload, keep=0.25))
    (reply,) = fleet.play("a").values()
    there = held(reply.upload["fisher"])
    assert sum(int(part.sum()) for part in there.values()) == 6  # of 23
    for kind in SUMS:
        assert all_of(torch.equal(part, there[name]) for name, part in held(fleet.state[kind]).items())


def test_what_is_cut_has_no_bits(curved: Any) -> None:
    # -0.0 is not 0 to an encoding that sends all but zeros
    fleet = curved(FedCurv(ROUGH, keep=0.25))
    (reply,) = fleet.play("a").values()
    for kind in SUMS:
        empty = torch.cat([value[value == 0] for value in (*reply.upload[kind].values(), *fleet.down()[kind].values())])
        assert not torch.signbit(empty).any()


def test_few_coordinates_travel_sparse(curved: Any) -> None:
    assert FedCurv(ROUGH).encodings == {}
    assert FedCurv(ROUGH, keep=0.1).encodings == {"fisher": "sparse", "fisher_theta": "sparse"}


def test_the_density_of_the_download_is_at_most_that_of_all_uploads_together(curved: Any) -> None:
    fleet = curved(FedCurv(ROUGH, keep=0.25))
    fleet.play("abc")
    reply = fleet.play("d")["d"]
    union = sum(float(value.count_nonzero()) for value in fleet.down()["fisher"].values())
    assert 6 / 23 <= reply.numbers["density"] <= 18 / 23
    assert union >= 23 * reply.numbers["density"]


@pytest.mark.slow
@settings(max_examples=20)
@given(
    played=st.lists(
        st.tuples(st.sets(st.sampled_from("abcde"), min_size=1), st.sets(st.sampled_from("abcde"))),
        min_size=1,
        max_size=5,
    )
)
def test_own_parts_of_few_coordinates_leave_nothing_negative(
    curved: Any, played: list[tuple[set[str], set[str]]]
) -> None:
    fleet = curved(FedCurv(ROUGH, 0.3, keep=0.3, upload="lean"))
    for asked, counted in played:
        fleet.play(sorted(asked), sorted(asked & counted))
    for device in "abcde" if fleet.since else "":
        assert fleet.algorithm.penalty(fleet.down(), fleet.party(device)).clamped == 0


# ---- which Fisher


@pytest.mark.parametrize(
    ("fisher", "kind"),
    [("empirical", "sq"), ("exact", "true"), ("sampled", "sampled"), ("batch_squared", "batch_squared")],
)
def test_each_fisher_is_that_of_the_trained_model(curved: Any, fisher: Any, kind: Any) -> None:
    fleet = curved(FedCurv(ROUGH, fisher=fisher))
    (reply,) = fleet.play("b").values()
    fleet.round = 0  # of which the drawn labels depend
    device: Party = fleet.party("b")
    device.model.load_state_dict(reply.upload["weights"])
    expected = importance(device.model, device.loss, device.x, device.y, kind, seed=device.seed, batch=4)
    assert all_of(torch.equal(value, expected[name]) for name, value in reply.upload["fisher"].items())


def test_the_fishers_differ(curved: Any) -> None:
    found = []
    for fisher in ("empirical", "exact", "sampled", "batch_squared"):
        (reply,) = curved(FedCurv(ROUGH, fisher=fisher)).play("b").values()
        found.append(torch.cat([value.flatten() for value in reply.upload["fisher"].values()]))
    assert all_of(not torch.allclose(a, b, rtol=1e-3) for a, b in pairwise(found))


# ---- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strength": -1.0}, r"strength is -1\.0"),
        ({"upload": "thin"}, "upload is 'thin'; it must be 'paper' or 'lean'"),
        ({"fisher": "true"}, "fisher is 'true'; it must be 'empirical', 'exact'"),
        ({"participation": "all"}, "participation is 'all'"),
        ({"centred": "yes"}, "centred is 'yes'; it must be True, False or 'auto'"),
        ({"keep": 0.0}, r"keep is 0\.0; it must be from 1e-09 to 1"),
        ({"keep": 1.5}, r"keep is 1\.5"),
        ({"max_age": 3}, "max_age is 3; .* upload 'lean'"),
        ({"max_age": 3, "upload": "lean", "participation": "last_round"}, "max_age is 3; .* 'counted'"),
        ({"max_age": -1, "upload": "lean"}, "max_age is -1"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FedCurv(ROUGH, **options)

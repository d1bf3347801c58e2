"""Splits that a scenario names: shards, natural owners, draws, time slices, and the server's proxy set."""

import numpy as np
import pytest
from numpy.random import default_rng

from devices.data.babble import babble
from devices.data.digits import digits
from scenarios.builders import parts
from scenarios.load import build
from scenarios.text.faults import BadScenario
from tests.all_of import all_of
from tests.conftest import SMALL, merged

NAMES = [f"pi-{number}" for number in range(8)]


def split(data, seed=1, dataset=None, names=NAMES, **rounds):
    scenario = build(merged(SMALL, {"data": {"set": "digits", "validation": 0.2, **data}, "rounds": rounds}))
    return parts.split(scenario, dataset or digits(), names, default_rng(seed))


def test_shards_give_each_device_few_labels():
    made = split({"split": {"kind": "shards", "each": 1, "pure": True}, "validation": 0})
    assert [len(np.unique(digits().y[held])) for (held,) in made["train"].values()] == [1] * 8


@pytest.mark.parametrize("each", [2, 3])
def test_classes_give_each_device_so_many_labels_and_all_examples(each):
    made = split({"split": {"kind": "classes", "each": each}, "validation": 0})
    held = [own for (own,) in made["train"].values()]
    assert [len(np.unique(digits().y[own])) for own in held] == [each] * 8
    np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.arange(1437))


@pytest.mark.parametrize("said", [{"kind": "iid"}, {"kind": "dirichlet", "alpha": 1.0}])
def test_devices_of_different_sizes_can_all_train(said):
    made = split({"split": {**said, "sizes_sigma": 3}, "validation": 0.9})
    train, validation = ([len(own) for (own,) in made[part].values()] for part in ("train", "validation"))
    assert min(train) >= 1
    assert max(train) > 8 * min(train)
    # 1437 examples are 179 each; none of the server's 72 is one of those held out
    assert 8 * 179 - 72 <= sum(train) + sum(validation) <= 8 * 179


def test_a_text_s_devices_may_differ_in_size_too():
    data = babble(communities=9, cycles=1, windows=20)
    made = split({"split": {"kind": "iid", "sizes_sigma": 1.0}}, dataset=data)
    assert len({len(own) for (own,) in made["train"].values()}) > 4


def test_a_draw_may_give_two_devices_the_same_example_and_none_twice():
    made = split({"split": {"kind": "draw", "each": 900}, "validation": 0})
    held = [own for (own,) in made["train"].values()]
    assert all_of(len(np.unique(own)) == 900 for own in held)
    assert np.intersect1d(held[0], held[1]).size > 0


def test_a_natural_device_holds_and_is_tested_on_its_owner_s_examples_of_each_time_slice():
    data = babble(communities=9, cycles=3, windows=20)
    made = split({"split": {"kind": "natural"}}, dataset=data)
    owners = set()
    for name in NAMES:
        mine = {int(data.owner[own]) for own in np.concatenate(made["train"][name])}
        tested = {int(data.owner_test[own]) for own in np.concatenate(made["tests"][name])}
        assert len(mine) == 1
        assert tested == mine
        owners |= mine
        for cycle in range(3):
            for part, of in (("train", data.cycle), ("validation", data.cycle), ("tests", data.cycle_test)):
                assert set(of[made[part][name][cycle]]) == {cycle}
    assert len(owners) == 8


def test_no_example_of_the_server_decides_when_to_stop():
    made = split({"split": {"kind": "iid"}, "proxy": {"fraction": 0.5, "overlap": True}})
    validation = np.concatenate([part for slices in made["validation"].values() for part in slices])
    assert np.intersect1d(validation, made["proxy"]).size == 0
    train = np.concatenate([part for slices in made["train"].values() for part in slices])
    assert np.intersect1d(train, made["proxy"]).size > 0


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("overlap", [True, False])
def test_the_server_s_owners_are_devices_to_the_share_that_is_said(shared, overlap):
    data = babble(communities=20, cycles=1, windows=40)
    proxy = {"fraction": 0.1, "owners": 4, "shared_owners": shared, "overlap": overlap}
    made = split({"split": {"kind": "natural"}, "proxy": proxy}, dataset=data)
    known = set(data.owner[made["proxy"]].tolist())
    held = np.concatenate([part for slices in made["train"].values() for part in slices])
    devices = set(data.owner[held].tolist())
    assert len(known) == 4
    assert len(known & devices) == 4 * shared
    assert set(data.owner_test[made["test"]].tolist()) == known
    if not overlap:
        assert np.intersect1d(held, made["proxy"]).size == 0


@pytest.mark.parametrize(
    ("data", "dataset", "said"),
    [
        ({"split": {"kind": "natural"}}, digits, "digits has no owners for a natural split"),
        ({"split": {"kind": "shards"}}, babble, "has a label at each position"),
        ({"split": {"kind": "classes", "each": 2}}, babble, "has a label at each position"),
        ({"split": {"kind": "classes", "each": 11}}, digits, "to hold 11 of 10 classes; it must be 1 to 10"),
        ({"split": {"kind": "classes", "each": 1}}, digits, "leave some of 10 classes to nobody; each must be 2 at"),
        ({"split": {"kind": "iid"}, "proxy": {"owners": 3}}, digits, "proxy.owners belongs to a natural split"),
        ({"split": {"kind": "draw", "each": 5000}}, digits, "each device is to draw 5000 of 1437"),
        ({"split": {"kind": "natural", "owners": "zzz*"}}, babble, "owners called 'zzz\\*'"),
    ],
)
def test_a_split_that_cannot_be_made_is_refused_in_one_line(data, dataset, said):
    with pytest.raises(BadScenario, match=said) as caught:
        split(data, dataset=dataset())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("split_said", "said"),
    [
        ({"kind": "draw"}, "a draw needs `each`"),
        ({"kind": "classes"}, "a classes split needs `each`"),
        ({"kind": "classes", "each": 2, "pure": True}, "pure belongs to a shards split; this one is classes"),
        ({"kind": "iid", "each": 3}, "each belongs to a shards or classes or draw split; this one is iid"),
        ({"kind": "shards", "alpha": 0.5}, "alpha belongs to a dirichlet split; this one is shards"),
        ({"kind": "draw", "each": 9, "sizes_sigma": 1}, "sizes_sigma belongs to an iid or dirichlet or classes split"),
        ({"kind": "shards", "sizes_sigma": 0}, "sizes_sigma belongs to .* split; this one is shards"),
        ({"kind": "iid", "sizes_sigma": -1}, "greater than or equal to 0"),
        ({"kind": "dirichlet", "alpha": 0.5, "owners": "x"}, "owners belongs to a natural split"),
    ],
)
def test_keys_of_another_split_are_refused(split_said, said):
    with pytest.raises(BadScenario, match=said):
        split({"split": split_said})


def test_cycles_need_data_that_drift_and_are_one_set_without_them():
    drifting = {"data": {"set": "babble", "options": {"windows": 20}}, "model": "lstm-tiny"}
    with pytest.raises(BadScenario, match=r"rounds\.per_cycle: it is 3, but digits has no time slices"):
        parts.dataset(build(merged(SMALL, {"rounds": {"per_cycle": 3}})))
    assert parts.dataset(build(merged(SMALL, drifting))).cycles == 1
    assert parts.dataset(build(merged(SMALL, {**drifting, "rounds": {"per_cycle": 3}}))).cycles == 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cycels": 3}, "there is no option 'cycels'; did you mean cycles"),
        ({"cycles": "many"}, "data.options.cycles: "),
        ({"cycles": 0}, "cycles is 0"),
    ],
)
def test_options_of_a_data_set_are_those_of_its_reader(options, said):
    with pytest.raises(BadScenario, match=said):
        parts.dataset(build(merged(SMALL, {"data": {"set": "babble", "options": options}, "model": "lstm-tiny"})))

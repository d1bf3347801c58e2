"""Splits that a file says: the indices of each device's examples."""

import json

import numpy as np
import pytest

from scenarios.builders import machines, parts
from scenarios.load import BadScenario, build
from tests.all_of import all_of
from tests.conftest import SMALL, merged

NAMES = ("phone-mid-0", "phone-mid-1", "pi-4-0", "pi-4-1")  # of SMALL's fleet
SHARDS = [[5, 3, 4], [3, 9], [1000], [7, 8, 0, 3]]
SORTED = [[3, 4, 5], [3, 9], [1000], [0, 3, 7, 8]]


def split(path, **says):
    scenario = build(merged(SMALL, {"data": {"split": {"kind": "file", "path": str(path)}, "validation": 0, **says}}))
    data = parts.dataset(scenario)
    parts.check_enough(scenario, data)
    found = parts.split(scenario, data, machines.fleet(scenario)[0], np.random.default_rng(1))
    return {name: slices[0].tolist() for name, slices in found["train"].items()}, found


def written(folder, held):
    path = folder / "split.json"
    path.write_text(held if isinstance(held, str) else json.dumps(held))
    return path


def test_a_list_is_in_the_order_of_the_names_and_devices_may_share_examples(tmp_path):
    train, found = split(written(tmp_path, SHARDS))
    assert train == dict(zip(NAMES, SORTED, strict=True))
    assert found["owners"] == {}


def test_an_object_may_name_the_devices_in_any_order(tmp_path):
    train, found = split(written(tmp_path, dict(reversed(list(zip(NAMES, SHARDS, strict=True))))))
    assert train == dict(zip(NAMES, SORTED, strict=True))
    assert found["owners"] == {}


def test_other_names_are_owners_and_keep_their_names(tmp_path):
    owners = ("zoe", "anna", "yan", "bert")
    train, found = split(written(tmp_path, dict(zip(owners, SHARDS, strict=True))))
    assert train == dict(zip(NAMES, SORTED, strict=True))
    assert found["owners"] == dict(zip(NAMES, owners, strict=True))


def test_an_npz_file_holds_an_array_for_each(tmp_path):
    np.savez(tmp_path / "split.npz", **{name: np.array(held) for name, held in zip(NAMES, SHARDS, strict=True)})
    assert split(tmp_path / "split.npz")[0] == dict(zip(NAMES, SORTED, strict=True))


def test_the_servers_own_examples_are_kept_apart_if_the_scenario_says_so(tmp_path):
    everything = written(tmp_path, [list(range(1437))] * 4)
    train, found = split(everything, proxy={"fraction": 0.1, "overlap": False})
    for held in train.values():
        assert sorted([*held, *found["proxy"].tolist()]) == list(range(1437))


def test_a_validation_share_is_held_out_of_what_the_file_says(tmp_path):
    train, found = split(written(tmp_path, [list(range(100))] * 4), validation=0.2, proxy={"fraction": 0.05})
    assert [len(held) for held in train.values()] == [80] * 4
    assert all_of(set(found["validation"][name][0].tolist()) <= set(range(100)) - set(train[name]) for name in NAMES)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (SHARDS[:3], "has shards for 3 devices; the fleet has 4"),
        ([*SHARDS, []], "has shards for 5 devices; the fleet has 4"),
        ([*SHARDS[:3], [1437]], "pi-4-1 has indices from 1437 to 1437; they must lie in 0 to 1436"),
        ([*SHARDS[:3], [-1, 2]], "pi-4-1 has indices from -1 to 2"),
        ([*SHARDS[:3], [4, 4, 5]], "pi-4-1 has 1 indices twice"),
        ([*SHARDS[:3], [0.5]], r"pi-4-1 has \[0.5\]; it must be a list of indices"),
        ([*SHARDS[:3], [[1], [2, 3]]], "pi-4-1 has .*; it must be a list of indices"),
        ([*SHARDS[:3], 7], "pi-4-1 has 7; it must be a list of indices"),
        ([*SHARDS[:3], []], "leave pi-4-1, one of 4, without any to train on"),
        ("[1, ", "is neither JSON nor npz"),
        ("7", "holds 7; it must be a list of lists"),
    ],
)
def test_a_file_that_does_not_fit_says_what_would_be_right(tmp_path, held, said):
    with pytest.raises(BadScenario, match=said) as error:
        split(written(tmp_path, held))
    assert "data.split" in str(error.value)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(BadScenario, match=r"cannot read nowhere\.json: No such file"):
        split("nowhere.json")


@pytest.mark.parametrize(
    ("says", "said"),
    [({"kind": "file"}, "a file split needs path"), ({"kind": "iid", "path": "a"}, "path belongs to a file split")],
)
def test_a_path_goes_with_a_file_split(says, said):
    with pytest.raises(BadScenario, match=said):
        build(merged(SMALL, {"data": {"split": says}}))

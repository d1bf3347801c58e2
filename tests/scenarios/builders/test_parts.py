"""Devices and links of a scenario: numbers as they are, or drawn."""

import math
from dataclasses import replace

import numpy as np
import pytest

from algorithms.tasks.task import named
from devices.device import NEVER, profiles
from scenarios.builders.machines import fleet, machine
from scenarios.builders.parts import check_model, dataset
from scenarios.builders.random_values import generator
from scenarios.load import BadScenario, build
from scenarios.schema.model import Model
from tests.all_of import all_of
from tests.conftest import SMALL, merged

LINK = {"up_mbit_s": 8, "down_mbit_s": 16, "latency_ms": 10}


def group(**says):
    return {"profile": "pi-4", "count": 4, "link": LINK, **says}


def made(*groups, **says):
    return fleet(build(merged(SMALL, {"fleet": list(groups), **says})))


def test_a_group_without_draws_is_so_many_equal_devices_of_its_profile():
    devices, links = made(group())
    assert list(devices) == ["pi-4-0", "pi-4-1", "pi-4-2", "pi-4-3"]
    plain = replace(profiles()["pi-4"], jitter=0.0, throttle=NEVER, wakeup_s=0.0)  # effects are asked for
    assert {device.profile for device in devices.values()} == {plain}
    assert {(link.up, link.down, link.latency) for link in links.values()} == {(1e6, 2e6, 0.01)}


def test_a_number_stands_instead_of_the_profiles():
    devices, _ = made(group(count=1, speed_gflop_s=7, memory_mb=100, overhead_ms=0, memory_bandwidth_gb_s=2))
    profile = devices["pi-4-0"].profile
    assert (profile.flops_per_s, profile.memory_bytes, profile.overhead_s, profile.memory_bytes_per_s) == (
        *(7e9, 100_000_000, 0.0, 2e9),
    )


def test_named_groups_give_their_names_and_unnamed_ones_share_their_profiles():
    devices, _ = made(group(name="shed", count=11), group(count=1), group(count=1))
    assert sorted(devices) == [f"pi-4-{n}" for n in range(2)] + [f"shed-{n:02}" for n in range(11)]


def test_draws_differ_between_devices_and_not_between_two_readings():
    draw = {"lognormal": {"median": 2, "sigma": 0.5}}
    first, links = made(group(speed_gflop_s=draw, link={**LINK, "up_mbit_s": draw}))
    again, same = made(group(speed_gflop_s=draw, link={**LINK, "up_mbit_s": draw}))
    assert first == again
    assert links == same
    assert len({device.profile.flops_per_s for device in first.values()}) == 4
    assert len({link.up for link in links.values()}) == 4


@pytest.mark.parametrize("root", [0, 1, 2**32 - 1, 2**32, 2**63 - 1])
@pytest.mark.parametrize("use", ["", "down of pi-4-03", "é"])
def test_a_generator_is_numpys_of_the_root_and_the_bytes(root, use):
    theirs = np.random.default_rng([root, *use.encode()])
    assert generator(root, use).bit_generator.state == theirs.bit_generator.state


def test_another_fleet_seed_draws_another_fleet_and_another_seed_does_not():
    draw = {"uniform": {"low": 1, "high": 2}}
    first, _ = made(group(speed_gflop_s=draw))
    assert made(group(speed_gflop_s=draw), seeds=[9])[0] == first
    assert made(group(speed_gflop_s=draw), fleet_seed=1)[0] != first


def test_a_device_keeps_what_it_drew_when_others_join():
    draw = {"uniform": {"low": 1, "high": 2}}
    few, _ = made(group(speed_gflop_s=draw, count=2))
    many, _ = made(group(speed_gflop_s=draw, count=9))
    assert all_of(many[name] == device for name, device in few.items())


def drawn(amount, devices=400):
    said = build(merged(SMALL, {"fleet": [group(count=1, speed_gflop_s=amount)]})).fleet[0]
    return np.array([machine(f"d{n}", said, seed=0).profile.flops_per_s / 1e9 for n in range(devices)])


def test_a_lognormal_draw_has_its_median_and_sigma():
    logs = np.log(drawn({"lognormal": {"median": 2, "sigma": 0.5}}))
    assert abs(np.median(logs) - math.log(2)) < 4 * 1.2533 * 0.5 / 20  # 4 standard errors of a median, n = 400
    assert abs(logs.std() - 0.5) < 4 * 0.5 / math.sqrt(800)


def test_a_uniform_draw_lies_between_its_bounds_and_fills_them():
    values = drawn({"uniform": {"low": 3, "high": 5}})
    assert 3 <= values.min() < 3.1
    assert 4.9 < values.max() <= 5
    assert abs(values.mean() - 4) < 4 * 2 / math.sqrt(12 * 400)


def test_a_choice_takes_each_value_about_as_often_as_it_is_listed():
    values = drawn({"choice": [1, 8, 8]})
    assert set(values) == {1, 8}
    assert abs((values == 8).mean() - 2 / 3) < 4 * math.sqrt(2 / 9 / 400)


def test_a_draw_out_of_all_bounds_is_refused():
    with pytest.raises(BadScenario, match="draws must lie between"):
        made(group(speed_gflop_s={"choice": [0]}))


def test_draws_of_a_device_are_independent():
    rate = {"lognormal": {"median": 2, "sigma": 0.5}}
    _, links = made(group(count=200, link={**LINK, "up_mbit_s": rate, "down_mbit_s": rate}))
    logs = np.log([(link.up, link.down) for link in links.values()])
    assert abs(np.corrcoef(logs.T)[0, 1]) < 4 / math.sqrt(200)


OWN = """
import numpy as np
from torch import nn
from devices.data.dataset import Dataset

def waves():
    x = np.zeros((100, 1, 4, 4), np.float32)
    return Dataset("waves", x, np.arange(100) % 3, x[:10], np.arange(10) % 3, classes=3)

def broken_reading():
    data = waves()
    data.x[5, 0, 2, 2] = np.nan
    return data

def tiny():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))

def wide():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5))

def none():
    return 3

def broken():
    raise RuntimeError("no such luck")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_parts.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))


def said(data, model):
    return build(merged(SMALL, {"data": {"set": f"own_parts:{data}"}, "model": f"own_parts:{model}"}))


def test_an_own_data_set_and_model_fit(own):
    scenario = said("waves", "tiny")
    data = dataset(scenario)
    assert data.name == "waves"
    check_model(scenario, data, named("classification"))


@pytest.mark.parametrize(("model", "message"), [("wide", "3 classes"), ("none", "torch.nn.Module"), ("broken", "luck")])
def test_an_own_model_that_does_not_fit_is_refused_in_one_line(own, model, message):
    scenario = said("waves", model)
    with pytest.raises(BadScenario, match=message) as caught:
        check_model(scenario, dataset(scenario), named("classification"))
    assert "\n" not in str(caught.value)


def test_an_own_model_that_is_not_found_is_told_with_where_to_start(own):
    scenario = said("waves", "tiny")
    data = dataset(scenario)
    elsewhere = scenario.model_copy(update={"model": Model(name="no_such_net:net")})
    with pytest.raises(
        BadScenario, match=r"No module named 'no_such_net'; .*start it in the folder of no_such_net\.py$"
    ):
        check_model(elsewhere, data, named("classification"))


@pytest.mark.parametrize(("data", "message"), [("none", "Dataset"), ("broken", "luck"), ("nothing", "cannot find")])
def test_an_own_data_set_that_is_none_is_refused_in_one_line(own, data, message):
    with pytest.raises(BadScenario, match=message) as caught:
        dataset(said(data, "tiny"))
    assert "\n" not in str(caught.value)


def test_a_nan_in_ones_own_data_is_told_at_load(own):
    with pytest.raises(BadScenario, match=r"waves: x\[5, 0, 2, 2\] is nan, in example 5 of 100; all values must be"):
        dataset(said("broken_reading", "tiny"))


def test_a_nan_of_a_reader_that_comes_with_fedlapse_is_told(monkeypatch):
    table = np.zeros((1797, 65))
    table[:, 3] = np.inf
    monkeypatch.setattr("devices.data.digits._table", lambda: table)
    with pytest.raises(BadScenario, match=r"digits: x\[0, 0, 0, 3\] is inf, in example 0 of 1437"):
        dataset(build(SMALL))

"""Fleets of any size: what is made of a device is the same whenever it is made, and only those asked are made."""

import asyncio
import json
import math
import pickle
from collections import Counter
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from algorithms.fedprox import FedProx
from devices import splits
from devices.data.babble import babble
from devices.data.digits import digits
from emulator.conversation.server import Server
from emulator.forecast.plan import forecast_of
from emulator.lab.build import lab_of
from emulator.record.run import Run
from emulator.report.over_time import DEVICES
from emulator.sessions.computing import Playing
from emulator.sessions.one_scenario import play_scenario
from scenarios.builders import machines, parts, wiring
from scenarios.builders.machines import fleet, machine
from scenarios.builders.roster import EACH, MANY, SOME, Made, Roster, all_names, sample
from scenarios.load import build
from scenarios.text.faults import BadScenario
from tests.all_of import all_of
from tests.conftest import SMALL, audit_run, merged

RATE = {"lognormal": {"median": 10, "sigma": 0.5}}
LINK = {"up_mbit_s": 2, "down_mbit_s": RATE, "latency_ms": {"uniform": {"low": 10, "high": 60}}}
DRAW = {"split": {"kind": "draw", "each": 50}}


def group(count, **says):
    return {"profile": "pi-4", "count": count, "speed_gflop_s": RATE, "link": LINK, **says}


def large(*groups, **says):
    """A scenario whose devices draw their speeds, links and examples."""
    said = {"data": DRAW, "rounds": {"fraction": 0.0001}, "fleet": list(groups), "evaluate": {"every": 0}, **says}
    return build(merged(SMALL, said))


@pytest.fixture
def made(monkeypatch):
    """Counts the devices and links that are made."""
    counts = Counter()

    def counted(what, function):
        def call(*args):
            counts[what] += 1
            return function(*args)

        return call

    monkeypatch.setattr(machines, "machine", counted("devices", machines.machine))
    monkeypatch.setattr(wiring, "link", counted("links", wiring.link))
    return counts


KINDS = st.lists(
    st.tuples(st.sampled_from(["pi", "pi-4", "a", "phone.low"]), st.integers(1, 120)), min_size=1, max_size=6
)


def counted_out(kinds):
    """Every name with the number of its entry and its own, one after the other."""
    totals = Counter()
    for kind, count in kinds:
        totals[kind] += count
    numbers, found = Counter(), []
    for entry, (kind, count) in enumerate(kinds):
        for _ in range(count):
            found.append((f"{kind}-{numbers[kind]:0{len(str(totals[kind] - 1))}}", (entry, len(found))))
            numbers[kind] += 1
    return found


@given(KINDS)
def test_a_roster_has_the_names_and_places_of_counting_one_after_the_other(kinds):
    roster, known = Roster(tuple(kinds)), counted_out(kinds)
    assert list(roster) == sorted(name for name, _ in known)
    assert len(roster) == len(known)
    assert all_of(roster.place(name) == place for name, place in known)


@pytest.mark.parametrize("name", ["pi-4-3", "pi-4-03", "pi-4--1", "pi-4-", "pi-4", "pi-0", "pi-4-²", "", "pi-4-1 "])
def test_who_is_not_in_a_roster_has_no_place(name):
    roster = Roster((("pi-4", 3),))
    assert name not in roster
    with pytest.raises(KeyError):
        roster.place(name)
    assert 3 not in roster


def test_all_stand_for_a_small_fleet_and_some_of_each_kind_for_a_large_one():
    assert Roster((("a", EACH),)).sample == Roster((("a", EACH),)).all
    roster = Roster((("a", 70_000), ("b", 29_990), ("rare", 9), ("single", 1)))
    chosen = sample(Made(roster, str))
    kinds = Counter(name.rpartition("-")[0] for name in chosen)
    assert kinds == {"a": 700, "b": 299, "rare": 1, "single": 1}
    assert len(set(chosen)) == len(chosen) <= SOME + 4
    assert all_of(name in roster for name in chosen)
    places = np.array([int(name[2:]) for name in chosen if name.startswith("a-")])
    assert set(np.diff(places)) == {100}


def test_what_is_made_is_made_once_while_it_is_remembered():
    asked = []
    things = Made(Roster((("a", 9),)), lambda name: asked.append(name) or [name], keep=2)
    assert things["a-1"] is things["a-1"]
    assert [things[name] for name in ("a-2", "a-3", "a-1")] == [["a-2"], ["a-3"], ["a-1"]]
    assert asked == ["a-1", "a-2", "a-3", "a-1"]
    assert len(things.kept) == 2
    assert list(things) == list(all_names(things)) == [f"a-{k}" for k in range(9)]


def test_a_device_is_the_same_in_whatever_order_it_is_asked():
    scenario = large(group(7), group(5, name="shed", memory_mb=RATE), rounds={"fraction": 1.0})
    forth, links = fleet(scenario)
    back, same = fleet(scenario)
    for things in (back, same):
        things.kept.clear()
    assert {name: (back[name], same[name]) for name in reversed(list(back))} == {
        name: (forth[name], links[name]) for name in forth
    }


def test_a_device_of_a_large_fleet_is_what_its_group_and_name_make_it():
    scenario = large(group(60_000, name="near"), group(40_000, name="far", link={**LINK, "latency_ms": 200}))
    devices, links = fleet(scenario)
    name = "far-31415"
    assert devices[name] == machine(name, scenario.fleet[1], 0)
    assert links[name] == wiring.link(name, 60_000 + 31_415, scenario.fleet[1].link, scenario)
    assert links[name].latency == 0.2
    assert len(devices) == len(links) == 100_000


def test_a_large_fleet_makes_but_those_who_stand_for_it(made):
    fleet(large(group(60_000), group(40_000, name="b")))
    assert made == {"devices": SOME, "links": SOME}


def test_only_one_generated_link_is_tried_of_each_group(made):
    fleet(large(group(30, link={"radio": "lte-walking"}), rounds={"fraction": 1.0}))
    assert made == {"devices": 30, "links": 1}


def test_a_draw_that_some_device_of_many_would_not_survive_is_refused():
    wild = {"lognormal": {"median": 10, "sigma": 3}}
    zero = {"uniform": {"low": 0, "high": 5}}
    for says in ({"speed_gflop_s": wild}, {"memory_mb": zero}, {"link": {**LINK, "down_mbit_s": wild}}):
        with pytest.raises(BadScenario, match="one of many in pi-4 may draw .* draws must lie between"):
            fleet(large(group(EACH + 1, **says)))
    fleet(large(group(EACH + 1, overhead_ms=zero)))
    fleet(large(group(1, speed_gflop_s=zero), rounds={"fraction": 1.0}))


def split(names, seed=1, dataset=None, **data):
    scenario = build(merged(SMALL, {"data": {**DRAW, **data}}))
    return parts.split(scenario, dataset or digits(), names, default_rng(seed))


NAMES = Roster((("pi", 20_000),))


def test_in_a_large_fleet_devices_draw_when_they_are_asked_and_in_any_order():
    forth, back = split(NAMES), split(NAMES)
    asked = ["pi-00007", "pi-19999", "pi-00000", "pi-12345"]
    for part in ("train", "validation", "tests"):
        first = {name: forth[part][name] for name in asked}
        for name in reversed(asked):
            assert all_of(np.array_equal(a, b) for a, b in zip(first[name], back[part][name], strict=True))
    other = split(NAMES, seed=2)
    assert not np.array_equal(forth["train"]["pi-00007"][0], other["train"]["pi-00007"][0])


def test_who_draws_holds_so_many_examples_none_of_them_twice_and_holds_out_a_share():
    made = split(NAMES, proxy={"overlap": False})
    for name in ("pi-00000", "pi-19999"):
        (train,), (kept,) = made["train"][name], made["validation"][name]
        assert (len(train), len(kept)) == (45, 5)
        assert len(np.unique([*train, *kept])) == 50
        assert not np.isin([*train, *kept], made["proxy"]).any()
        assert [len(part) for part in made["tests"][name]] == [0]  # 360 test examples, 20,000 devices


def test_draws_of_many_devices_take_each_example_about_as_often():
    train, n = split(NAMES, validation=0.0)["train"], 1437
    taken = np.bincount(np.concatenate([train[name][0] for name in NAMES.all[:1000]]), minlength=n)
    mean = 1000 * 50 / n
    chi = ((taken - mean) ** 2).sum() / (mean * (1 - 50 / n))
    assert abs(chi - n) < 4 * math.sqrt(2 * n)


def test_no_held_out_example_of_a_large_fleet_is_the_server_s():
    made = split(NAMES, proxy={"fraction": 0.5})
    kept = np.concatenate([made["validation"][name][0] for name in NAMES.all[:2000]])
    assert len(kept)
    assert not np.isin(kept, made["proxy"]).any()


def test_who_draws_of_data_that_drift_holds_examples_of_each_time_slice():
    data = babble(communities=9, cycles=3, windows=20)
    made = split(Roster((("pi", 11_000),)), dataset=data)
    for cycle, own in enumerate(made["train"]["pi-10999"]):
        assert set(data.cycle[own]) == {cycle}


def test_examples_too_few_for_each_time_slice_are_refused_at_once():
    data = babble(communities=9, cycles=3, windows=20)
    with pytest.raises(BadScenario, match="2 examples leave pi-.* without any to train on in time slice"):
        split(Roster((("pi", 11_000),)), dataset=data, split={"kind": "draw", "each": 2})


def test_a_small_fleet_draws_one_device_after_the_other_as_ever():
    names, rng = [f"pi-{k}" for k in range(8)], default_rng(5)
    made = split(names, seed=5, validation=0.0, split={"kind": "draw", "each": 40})
    splits.proxy(1437, 0.05, rng)
    for name, own in zip(names, splits.draw(1437, 8, 40, rng), strict=True):
        assert np.array_equal(made["train"][name][0], own)


def test_more_devices_than_examples_are_told_to_share_them():
    with pytest.raises(BadScenario, match="1438 devices, but digits has 1437 training examples; .*kind: draw"):
        lab_of(large(group(1438), data={"split": {"kind": "iid"}}))


def test_a_worker_is_handed_no_devices():
    sizes = [len(pickle.dumps(replace(lab_of(large(group(count))), dataset=None))) for count in (20_000, 100_000)]
    assert abs(sizes[1] - sizes[0]) < 1_000
    assert sizes[1] < 100_000


def test_a_worker_makes_the_same_devices_and_examples():
    lab = replace(lab_of(large(group(20_000))), dataset=None)
    theirs = pickle.loads(pickle.dumps(lab))
    name = "pi-4-17171"
    assert theirs.fleet[name] == lab.fleet[name]
    assert theirs.links[name] == lab.links[name]
    assert np.array_equal(theirs.held(1, name), lab.held(1, name))
    assert theirs.names == lab.names


def test_sockets_are_not_opened_for_a_large_fleet():
    with pytest.raises(BadScenario, match="10001 devices; over sockets it must be 10000 at most"):
        play_scenario(large(group(MANY + 1)), Playing(), speedup=1.0)


def test_seeds_do_not_count_where_nobody_holds_examples_before_he_is_asked():
    fleet(large(group(100_000), seeds=list(range(100))))
    with pytest.raises(BadScenario, match="seeds: 100 of them x 100000 devices"):
        fleet(large(group(100_000), seeds=list(range(100)), data={"split": {"kind": "iid"}}))


def test_a_fleet_that_is_always_on_is_not_looked_through_to_know_it(made):
    lab = lab_of(large(group(100_000)))
    before = made["devices"]
    server = Server(Mock(), lab, Run("fedavg", 1), Mock(), Mock(), Mock(), Mock())
    assert server.always_on
    assert made["devices"] == before


def test_a_fleet_that_may_be_off_is_looked_through_and_remembered(made):
    lab = lab_of(large(group(EACH + 1, presence={"off": [[5, 6]]})))
    server = Server(Mock(), lab, Run("fedavg", 1), Mock(), Mock(), Mock(), Mock())
    assert not server.always_on
    for _ in range(2):
        assert all_of(lab.fleet[name].presence.on(0.0) for name in lab.names)
    assert made["devices"] == EACH + 1


def called(scenario, label="fedavg", ask=20):
    """A server of the scenario's fleet at second 0, which asks so many."""
    world = Mock(now=Mock(return_value=0.0))
    server = Server(world, lab_of(scenario), Run(label, 1), Mock(ask=ask), Mock(), Mock(), Mock())
    return server, lambda number: asyncio.run(server._cohort(number))[0]


AWAY = {"presence": {"off": [[0, 5]]}}


def test_of_a_large_fleet_any_of_those_on_line_and_idle_are_as_likely_to_be_asked(monkeypatch):
    """A third is offline; of the others 100 rounds ask 20 each: 200 of every tenth part."""
    monkeypatch.setattr("emulator.conversation.server.EACH", 5)
    server, ask = called(large(group(1000, name="on"), group(437, name="off", **AWAY)))
    busy = ["on-007", "on-992"]
    server.stragglers.update(dict.fromkeys(busy))
    cohorts = [ask(number) for number in range(100)]
    assert all_of(len(set(names)) == 20 and list(names) == sorted(names) for names in cohorts)
    asked = [name for names in cohorts for name in names]
    assert all_of(name.startswith("on-") and name not in busy for name in asked)
    parts = np.bincount([int(name[3:]) // 100 for name in asked], minlength=10)
    assert ((parts - 200) ** 2 / 200).sum() < 27.9  # of chi squared with 9 degrees, 0.1 % are above
    assert cohorts == [ask(number) for number in range(100)]


def test_a_large_fleet_is_looked_through_as_far_as_it_must_be(made, monkeypatch):
    _, ask = called(large(group(90_000, name="on"), group(10_000, name="off", **AWAY)))
    before = made["devices"]
    assert len(ask(0)) == 20
    assert made["devices"] - before < 60
    monkeypatch.setattr("emulator.conversation.server.EACH", 5)
    _, ask = called(large(group(7, name="on"), group(40, name="off", **AWAY)))
    assert ask(0) == [f"on-{number}" for number in range(7)]


def test_an_algorithm_that_chooses_by_itself_is_told_all_who_are_on_line(monkeypatch):
    monkeypatch.setattr("emulator.conversation.server.EACH", 5)
    monkeypatch.setattr(FedProx, "cohort", lambda self, round, names, count, seed: names)
    monkeypatch.setattr(FedProx, "cohort_rule", "own")
    said = {"algorithms": ["fedprox", "fedyogi"]}
    scenario = large(group(30, name="on"), group(40, name="off", **AWAY), **said)
    assert [len(called(scenario, label)[1](0)) for label in ("fedprox", "fedyogi")] == [30, 20]


@pytest.mark.slow
def test_a_run_of_a_hundred_thousand_makes_those_who_stand_for_it_and_those_asked(made, tmp_path):
    sessions = {"renewal": {"mean_on_s": 1800, "mean_off_s": 1800}}
    scenario = large(group(100_000, presence=sessions), rounds={"max": 3, "fraction": 0.0002, "deadline_s": 600})
    assert play_scenario(scenario, Playing(workers=0, quiet=True, no_ledger=True), out=tmp_path / "out").code == 0
    drawn = 3 * 20 * 3  # in three rounds, 20 each time, and every other one is offline
    assert made["devices"] <= SOME + drawn + DEVICES  # the report reads the files, and makes its own
    assert made["links"] <= SOME + 3 * 20
    assert audit_run(tmp_path / "out" / "fedavg-s1") == []
    told = json.loads((tmp_path / "out" / "split.json").read_text())["seeds"]["1"]
    assert (told["of"], len(told["devices"])) == (100_000, SOME)
    assert "of 100,000 devices are shown" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.slow
def test_a_large_fleet_is_evaluated_on_those_who_stand_for_it(made, tmp_path):
    changes = {"rounds": {"max": 1, "fraction": 0.0002}, "evaluate": {"every": 1}}
    playing = Playing(workers=0, quiet=True, no_ledger=True)
    assert play_scenario(large(group(50_000), **changes), playing, out=tmp_path / "out").code == 0
    [row] = [json.loads(line) for line in (tmp_path / "out" / "fedavg-s1" / "rounds.jsonl").read_text().splitlines()]
    assert 0 <= row["validation"] <= 1
    assert row["initial"] is None  # more devices than test examples: nobody has any
    assert made["devices"] <= SOME + 10


@pytest.mark.slow
def test_a_check_of_a_large_fleet_looks_at_those_who_stand_for_it(made):
    plan = forecast_of(large(group(90_000), group(10_000, name="b"), rounds={"max": 4, "fraction": 0.0002}), workers=1)
    assert [(each.name, each.count) for each in plan.groups] == [("b", 10_000), ("pi-4", 90_000)]
    assert plan.devices == 100_000
    assert len(plan.labels) == SOME
    assert made["devices"] <= SOME + 4 * 20 + 1

"""Cases that fuzzing found: each once ended in a traceback, took minutes, or gave no useful message."""

import json
from dataclasses import fields

import pytest
from numpy.random import default_rng

from algorithms.fedcl import FedCL
from algorithms.tasks.task import named
from devices.data.digits import digits
from emulator.forecast.plan import forecast_of
from scenarios.builders import machines, parts
from scenarios.load import build, load, parse
from scenarios.text.faults import LONGEST, BadScenario
from tests.all_of import all_of
from tests.conftest import SMALL, merged

GOOD = """\
name: t
fleet:
  - {profile: pi-4, count: 4, link: {up_mbit_s: 1, down_mbit_s: 1}}
algorithms: [fedavg, fedcl]
"""


def refused(text=GOOD, changes=(), name="t.yaml"):
    with pytest.raises(BadScenario) as caught:
        parse(text, name, changes)
    return str(caught.value)


def group(**changes):
    return {**SMALL["fleet"][0], **changes}


def test_a_path_that_no_file_system_takes_is_refused():
    with pytest.raises(BadScenario, match="cannot read x+ \\[...\\] x+: File name too long"):
        load("x" * 5000)


@pytest.mark.parametrize("tag", ["!!int ", "!!int ''", "!!float ''", "!!bool x", "!!timestamp x", "!!int 0x"])
def test_a_tag_that_does_not_suit_its_value_is_refused(tag):
    assert "not YAML" in refused(GOOD + f"seeds: [{tag}]")


@pytest.mark.parametrize("text", ['"\\ud83d": 1', 'model: "\\ud83d"', '[{"\\ud83d:": []}]'])
def test_half_a_character_is_refused(text):
    assert "'\\ud83d' is half a character" in refused(text)
    assert "half a character" in refused(changes=['model="\\udcff"'])


def test_a_change_with_a_path_of_what_cannot_be_written_is_refused():
    for path in ("a\nb", "a\udcffb", " ", "fleet. .count"):
        assert "a change is PATH=VALUE" in refused(changes=[f"{path}=3"])


def test_a_change_deeper_than_any_scenario_is_refused():
    said = refused(changes=["a." * 3000 + "b=3"])
    assert "a path of 3001 names" in said
    assert len(said) < LONGEST


def test_a_change_inside_an_algorithm_without_a_word_as_its_name_is_refused():
    said = refused(changes=["algorithms=[{key: [], options: {}, name: x}]", "algorithms.0.lr=3"])
    assert "algorithms.0.key: it must be a valid string, not a list" in said


@pytest.mark.parametrize("of", ["data.set", "model"])
def test_an_own_function_that_ends_the_program_is_a_bad_scenario(of):
    outer, _, inner = of.partition(".")
    scenario = build(merged(SMALL, {outer: {inner: "sys:exit"} if inner else "sys:exit"}))
    with pytest.raises(BadScenario, match=f"{of}: sys:exit.*SystemExit"):
        parts.check_model(scenario, parts.dataset(scenario), named("classification"))


def test_an_own_module_that_ends_the_program_is_a_bad_scenario(tmp_path, monkeypatch):
    (tmp_path / "script_that_exits.py").write_text("import sys\n\nsys.exit('usage: ...')\n")
    monkeypatch.syspath_prepend(tmp_path)
    said = refused(changes=["algorithms=['script_that_exits:Mine']"])
    assert "importing 'script_that_exits:Mine' failed: SystemExit: usage: ..." in said


def test_a_home_folder_that_is_nobodys_is_named():
    scenario = build(merged(SMALL, {"data": {"set": "mnist", "root": "~nobody-of-this-name/x"}, "model": "mlp"}))
    with pytest.raises(BadScenario, match="data.root: there is no such home folder as in '~nobody-of-this-name/x'"):
        parts.dataset(scenario)


@pytest.mark.parametrize("words", ["a\nb", "a\x1b[31mb", "a\u202eb"])
def test_what_a_terminal_would_obey_is_written_out(words):
    for said in (
        refused(GOOD + json.dumps(words) + ": 3"),
        refused(GOOD, name=words + ".yaml", changes=["rounds=3"]),
        refused("- 1", name=words),
        refused(changes=[f"model={json.dumps(words)}"]),
    ):
        assert all_of(line.isprintable() for line in said.split("\n"))
        assert words not in said


@pytest.mark.parametrize(
    "changes",
    [
        ["name=" + "x" * 5000],
        ["x" * 5000 + "=3"],
        ["fleet.0.profile=" + "x" * 5000],
        ["algorithms=['" + "x" * 5000 + ":y']"],
        ["seeds=[1, 1" + ", 2" * 4000 + "]"],
        ["algorithms.0." + "x" * 5000 + "=3"],
    ],
)
def test_long_words_make_no_long_message(changes):
    said = refused(changes=changes)
    assert all_of(len(line) <= LONGEST for line in said.split("\n"))
    assert " [...] " in said
    assert said.startswith(changes[0][:20])


def test_a_list_where_a_word_belongs_is_said_to_be_one():
    assert refused(changes=["model=[a]"]) == (
        "model=[a]: model: it must be a name, as digits-cnn, or a mapping with `name`, not a list"
    )
    assert refused(changes=["data.set=[a]"]) == "data.set=[a]: data.set: it must be a valid string, not a list"
    assert refused(changes=["data.set={a: 1}"]).endswith("it must be a valid string, not a mapping")
    assert refused(changes=["name="]).endswith("it must be a valid string, not None")
    assert "it must not be empty" in refused(changes=["name=''"])


def test_too_many_seeds_are_counted():
    assert "it has 1001 items; it may have 1000" in refused(changes=[f"seeds={list(range(1001))}"])


def test_options_that_are_offered_can_be_given():
    said = refused(changes=["algorithms.fedcl.fisher=3"])
    offered = sorted([*(field.name for field in fields(FedCL)), "encoding", "rounds", "selection"])
    assert said.endswith(f"it must be one of {', '.join(offered)}")


def test_more_devices_in_a_round_than_can_be_played_are_refused():
    for changes, key in [({"fraction": 0.5}, "fraction"), ({"fraction": 0.1, "ask": 20_000}, "ask")]:
        scenario = build(merged(SMALL, {"fleet": [group(count=40_000)], "rounds": changes}))
        with pytest.raises(BadScenario, match=f"rounds.{key}: 20000 devices are selected per round; .* 10000 at most"):
            machines.fleet(scenario)


def test_more_shares_of_the_data_than_fit_into_memory_are_refused():
    changes = {"fleet": [group(count=2001)], "seeds": list(range(1000)), "rounds": {"fraction": 0.01}}
    with pytest.raises(BadScenario, match="seeds: 1000 of them x 2001 devices; it must be 2000000 in all at most"):
        machines.fleet(build(merged(SMALL, changes)))


def test_devices_of_a_group_share_their_absences():
    off = [[2 * k, 2 * k + 1] for k in range(1000)]
    devices, _ = machines.fleet(build(merged(SMALL, {"fleet": [group(count=3, presence={"off": off})]})))
    assert len({id(device.presence) for device in devices.values()}) == 1


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 1e6])
def test_splits_at_the_ends_of_alpha_deal_every_device_its_examples(alpha):
    scenario = build(merged(SMALL, {"data": {"split": {"kind": "dirichlet", "alpha": alpha}, "validation": 0}}))
    made = parts.split(scenario, digits(), ["a", "b", "c"], default_rng(1))
    assert {name: len(held) for name, (held,) in made["train"].items()} == {"a": 479, "b": 479, "c": 479}  # 1437 / 3


@pytest.mark.slow
def test_many_devices_in_a_round_are_rehearsed_in_fewer_rounds_and_check_says_so(monkeypatch):
    monkeypatch.setattr("emulator.forecast.rehearsal.REQUESTS", 12)
    found = forecast_of(build(merged(SMALL, {"rounds": {"max": 5}})), workers=1)
    assert found.prices["fedavg"].rounds == (1, 2)  # 12 requests to 4 devices: three rounds, less round 0
    assert any(
        "only 3 rounds were simulated, because 4 devices are selected in each" in said for said in found.warnings
    )
    monkeypatch.setattr("emulator.forecast.rehearsal.REQUESTS", 20)
    assert forecast_of(build(merged(SMALL, {"rounds": {"max": 5}})), workers=1).warnings == []

"""Scenario files: what is wrong is said at once, where it stands, with what would be right."""

import re

import pytest

from scenarios.load import BadScenario, build, dump, load, parse, shipped
from tests.conftest import SMALL, merged

GOOD = """\
name: t
fleet:
  - {profile: pi-4, count: 4, link: {up_mbit_s: 1, down_mbit_s: 1}}
algorithms: [fedavg, {fedcl: {interval: 2}, name: two}]
"""


GROUP_OF_NONE = "fleet: [{profile: pi-4, count: 0, link: {up_mbit_s: 1, down_mbit_s: 1}}]\n"


def faults(text, changes=()):
    with pytest.raises(BadScenario) as caught:
        parse(text, "t.yaml", changes)
    return str(caught.value)


def test_all_faults_are_told_at_once_with_their_places():
    said = faults(
        "name: t\nseeds: [1]\nrounds: {maxx: 3, fraction: 2}\nfleet:\n"
        "  - {profile: pi-4, count: -1, link: {up_mbit_s: x, down_mbit_s: 1}}\n"
    )
    assert re.findall(r"^t\.yaml:(\d+:\d+): ([\w.]+):", said, re.MULTILINE) == [
        ("3:10", "rounds.maxx"),
        ("3:29", "rounds.fraction"),
        ("5:28", "fleet.0.count"),
        ("5:50", "fleet.0.link.up_mbit_s"),
    ]


def test_wrong_names_and_wrong_numbers_are_told_together():
    said = faults(
        "name: t\nmodel: digits_cnn\nrounds: {max: 0}\nserver: {profile: workstatoin}\n"
        "fleet: [{profile: pi4, link: {up_mbit_s: 1, down_mbit_s: 1}}]\n"
        "algorithms: [fedavgg, {fedcl: {intervall: 2}}]\n"
    )
    twice = faults(
        "name: t\nseeds: [1, 1]\nexpect: [{label: x, reach: 0.9}]\n" + GROUP_OF_NONE + "algorithms: [fedavg, fedavg]\n"
    )
    assert all(word in twice for word in ("is there already", "no label 'x'", "another algorithm's", "fleet.0.count"))
    for word in ("digits-cnn?", "rounds.max", "workstation?", "pi-4?", "fedavg?", "interval?"):
        assert word in said


def test_the_caret_stands_under_the_fault():
    lines = faults("name: t\nfleeet: []\n").splitlines()
    at = next(number for number, line in enumerate(lines) if "fleeet: unknown" in line)
    shown, caret = lines[at + 1 : at + 3]
    assert shown[caret.index("^") :].startswith("fleeet")
    assert "did you mean fleet?" in lines[at]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("seeds: []", "seeds: it must not be empty"),
        ("seeds: [1, 1]", "1 is there already"),
        ("seeds: [-1]", "greater than or equal to 0"),
        ("name: a b", "begin with a letter or digit"),
        ("name: 3", "a valid string, not 3"),
        ("model: mnist_cnn", "did you mean mnist-cnn?"),
        ("model: no.such:thing", None),
        ("data: {set: mnst}", "did you mean mnist?"),
        ("data: {split: {kind: dirichlet}}", "a dirichlet split needs alpha"),
        ("data: {split: {kind: dirichlet, alpha: .nan}}", "finite"),
        ("server: {profile: workstatoin}", "did you mean workstation?"),
        ("rounds: {ask: 5}", "5 devices are selected, but the fleet has 4"),
        ("rounds: {fraction: 1.0, ask: 2}", "2 devices are selected, but 4 replies"),
        ("rounds: {min_replies: 2}", "it is 2, but 1 replies"),
        ("rounds: {deadline_s: -3}", "greater than 0, not -3"),
        ("rounds: {deadline_s: .inf}", "finite number, not inf"),
        ("rounds: {max: 0}", "greater than or equal to 1, not 0"),
        ("rounds: {stragglers: wait}", "'wait' is not known"),
        ("rounds: {targets: [{value: 0.9}]}\nevaluate: {every: 0}", "evaluate.every is 0"),
        ("rounds: {targets: [{value: 0.9}]}\nevaluate: {test: false}", "evaluate.test is false; it must be true"),
        ("rounds: {stop_at: {value: 0.9}}\ndata: {validation: 0}", "data.validation is 0"),
        ("rounds: {max: 3, targets: [{value: 0.9, hold: 4}]}", "rounds.targets.0.hold: it is 4, but a run of 3 rounds"),
        ("rounds: {max: 3, stop_at: {value: 0.9, hold: 4}}", "evaluates validation 3 times; it must be 3 or less"),
        ("rounds: {max: 3}\nexpect: [{label: fedavg, reach: 0.9, hold: 4}]", "expect.0.hold: it is 4"),
        ("rounds: {max: 10, targets: [{value: 1, hold: 4}]}\nevaluate: {every: 5}", "it must be 2 or less"),
        ("rounds: {max: 9, targets: [{value: 1, hold: 4}]}\nevaluate: {every: 4}", "it must be 3 or less"),
        ("expect: [{label: fedagv, reach: 0.9}]", "did you mean fedavg?"),
        ("expect: [{label: fedavg}]", "an expectation needs"),
        ("expect: [{label: fedavg, time_s: 3}]", "time_s is a limit to `reach:`"),
    ],
)
def test_bad_values_are_named_with_what_would_be_right(line, message):
    text = re.sub(r"^name: t\n", "", GOOD) if line.startswith("name") else GOOD
    if message is None:
        assert parse(text + line, "t.yaml").model.name == "no.such:thing"  # found out when it is built
    else:
        assert message in faults(text + line)


@pytest.mark.parametrize(
    "hold", ["rounds: {max: 3, targets: [{value: 0.9, hold: 3}]}", "expect: [{label: fedavg, reach: 0.9}]"]
)
def test_a_value_may_hold_in_every_round(hold):
    assert parse(GOOD + hold, "t.yaml")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("network=ideal", "it must be a mapping, not 'ideal'; write {model: ideal}"),
        ("data.split=iid", "it must be a mapping, not 'iid'; write {kind: iid}"),
        ("network=wifi", "it must be a mapping, not 'wifi'; as {model: ideal}"),
        ("fleet.0.link={trace: a.csv}", "not 'a.csv'; as {down: [traces], up_ratio: 0.2}"),
        ("fleet.0.link.up_mbit_s={uniform: [1, 8]}", "it must be a mapping, not a list; write {low: 1, high: 8}"),
        ("fleet.0.link={radio: 4G}", "there is no radio '4G'; did you mean lte-walking or lte-driving?"),
        ("network=[ideal]", "it must be a mapping, not a list; as {model: ideal}"),
    ],
)
def test_a_bare_word_is_answered_with_the_mapping_to_write(change, told):
    with pytest.raises(BadScenario) as error:
        load("quickstart", [change])
    assert str(error.value).endswith(told)


@pytest.mark.parametrize("key", ["up_mbit_s", "down_mbit_s"])
def test_a_rate_of_zero_is_answered_with_what_keeps_a_device_offline(key):
    told = "not 0; a device that is off is written `presence: {off: [[0, .inf]]}`"
    assert told in faults(GOOD.replace(f"{key}: 1", f"{key}: 0"))
    assert parse(GOOD.replace("count: 4", "count: 4, presence: {off: [[0, .inf]]}"), "t.yaml").fleet[0].presence.off
    assert "presence" not in faults(GOOD.replace(f"{key}: 1", f"{key}: -1"))
    shared = faults(GOOD + f"topology: {{cell: {{{key}: 0}}}}")
    assert f"topology.cell.{key}: it must be greater" in shared
    assert "presence" not in shared


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("fedcurvv", "did you mean fedcurv?"),
        ("{fedcl: {intervall: 3}}", "unknown key 'intervall'; did you mean interval?"),
        ("{fedcl: {lambda: 3}}", "unknown key 'lambda'; did you mean strength?"),
        ("{fedprox: {lambda: 3}}", "unknown key 'lambda'; did you mean mu?"),
        ("{fedcl: {training: {learning_rate: 1}}}", "did you mean lr?"),
        ("{fedcl: {importance: squared}}", "'squared' is not known"),
        ("{fedcl: {strength: .nan}}", "finite"),
        ("{fedcl: {strength: -1}}", "strength is -1"),
        ("{fedcl: {strength: '1'}}", "valid number"),
        ("{fedcl: 3}", "its options are a mapping"),
        ("{fedcl: {}, fedavg: {}}", "names one algorithm"),
        ("{fedcl: {training: 3}}", "it must be a mapping"),
        ("{fedcl: {training: {lrr: 1}}}", "did you mean lr?"),
        ("fedavg", "'fedavg' is another algorithm's name already"),
        ("{fedprox: {}, name: ../x}", "begin with a letter or digit"),
        ("no.such.module:Thing", "No module named"),
        ("json:JSONEncoder", "frozen dataclass"),
        ("json:nothing", "cannot find"),
        ("7", "mapping"),
    ],
)
def test_bad_algorithms_are_named_with_what_would_be_right(entry, message):
    assert message in faults(GOOD.replace("{fedcl: {interval: 2}, name: two}", entry))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds nothing"),
        ("- 1\n- 2", "holds a list"),
        ("just words", "holds a str"),
        ("name: [t", "not YAML"),
        ("a: &a [*a]", "contains itself"),
    ],
)
def test_what_is_no_mapping_is_refused_in_one_line(text, message):
    said = faults(text)
    assert message in said
    assert said.startswith("t.yaml:")


def test_a_list_that_is_too_short_is_not_called_empty():
    rates = "{arrive: [1], leave: [1]}"
    said = faults(f"name: t\nfleet: [{{profile: pi-4, link: {{radio: lte-driving}}, presence: {{diurnal: {rates}}}}}]")
    assert "arrive: it has 1 items; it must have 24" in said
    assert "empty" not in said


def test_a_list_that_holds_a_bad_item_is_not_called_empty():
    assert "must not be empty" not in faults("name: t\nfleet: [{profile: 3}]")


def test_groups_of_equal_names_are_refused():
    group = "{name: a, profile: pi-4, link: {up_mbit_s: 1, down_mbit_s: 1}}"
    assert "another group's name already" in faults(f"name: t\nfleet: [{group}, {group}]")


def test_a_missing_file_and_a_binary_one_are_refused_in_one_line(tmp_path):
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00binary")
    for path, message in [("nothing.yaml", "cannot read"), ("b.yaml", "not UTF-8 text"), (".", "cannot read")]:
        with pytest.raises(BadScenario, match=message) as caught:
            load(str(tmp_path / path))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("campus.yml", "did you mean campus.yaml?"),
        ("campuss", "did you mean campus.yaml?"),
        ("quikstart", "did you mean quickstart?"),
        ("m_missing_file.yaml", "`fedlapse scenarios` lists those with a name"),
    ],
)
def test_only_a_near_name_is_suggested_for_a_missing_file(path, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("campus.yaml", "m_neg_lr.yaml"):
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(BadScenario) as caught:
        load(path)
    assert str(caught.value) == f"cannot read {path}: No such file or directory; {hint}"


@pytest.mark.parametrize(
    ("key", "value", "number"),
    [
        ("fleet.0.link.up_mbit_s", "2Mbit/s", "2"),
        ("fleet.0.link.up_mbit_s", "1 MB/s", "8"),
        ("fleet.0.link.down_mbit_s", "1.5Gbit/s", "1500"),
        ("server.link.up_mbit_s", "500kbit/s", "0.5"),
        ("server.link.up_mbit_s", "2Mbps", "2"),
        ("fleet.0.link.latency_ms", "40ms", "40"),
        ("fleet.0.link.latency_ms", "0.2 s", "200"),
        ("fleet.0.speed_gflop_s", "4GFLOP/s", "4"),
        ("fleet.0.memory_mb", "4GB", "4000"),
        ("rounds.deadline_s", "2min", "120"),
    ],
)
def test_a_unit_in_a_value_is_answered_with_the_number_to_write(key, value, number):
    assert faults(GOOD, [f"{key}={value}"]).endswith(f"not {value!r}; the unit is in the key: write {number}")


def test_a_percentage_is_answered_with_the_share_to_write():
    assert faults(GOOD, ["rounds.fraction=50 %"]).endswith("not '50 %'; 50 % is 0.5")


def test_a_word_in_the_place_of_a_number_is_answered_with_a_range():
    assert faults(GOOD, ["fleet.0.link.up_mbit_s=fast"]).endswith("a range is {uniform: {low: 0.5, high: 2}}")


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_scenario_that_comes_along_loads_and_survives_being_written_out(name):
    scenario = load(name)
    assert parse(dump(scenario), "again") == scenario
    schema = "../" * name.count("/") + "scenario.schema.json"
    assert shipped()[name].startswith(f"# yaml-language-server: $schema={schema}\n")


def test_draws_survive_being_written_out():
    drawn = {"lognormal": {"median": 2.0, "sigma": 0.5}}
    scenario = build(merged(SMALL, {"fleet": [{**SMALL["fleet"][0], "speed_gflop_s": drawn}]}))
    assert parse(dump(scenario), "again") == scenario


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        ({}, "a draw is one of"),
        ({"lognormal": {"median": 1, "sigma": 1}, "uniform": {"low": 1, "high": 2}}, "a draw is one of"),
        ({"uniform": {"low": 2, "high": 1}}, "low is 2, above high = 1"),
        ({"lognorml": {"median": 1, "sigma": 1}}, "did you mean lognormal?"),
        ({"lognormal": {"median": -1, "sigma": 1}}, "greater than or equal to"),
        ({"choice": []}, "must not be empty"),
    ],
)
def test_bad_draws_are_named(draw, message):
    with pytest.raises(BadScenario, match=re.escape(message)):
        build(merged(SMALL, {"fleet": [{**SMALL["fleet"][0], "speed_gflop_s": draw}]}))


@pytest.mark.parametrize("entry", ["fedcl", {"fedcl": None}, {"fedcl": {}}, {"algorithm": "fedcl"}])
def test_the_forms_of_an_entry_mean_the_same(entry):
    plain = build(merged(SMALL, {"algorithms": ["fedcl"]}))
    assert build(merged(SMALL, {"algorithms": [entry]})) == plain


@pytest.mark.parametrize(
    "change", ["fleet.0.profile=[]", "fleet.0.name={}", "seeds=[[1], [1]]", "expect=[{label: [x]}]"]
)
def test_what_is_no_name_is_no_obstacle_to_telling_so(change):
    assert "t.yaml" in faults(GOOD, [change]) or change in faults(GOOD, [change])

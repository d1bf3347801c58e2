"""The JSON schema of scenario files."""

import json
from importlib import resources

import jsonschema
import pytest
from ruamel.yaml import YAML

from scenarios.describe import json_schema, text
from scenarios.load import build, shipped
from scenarios.schema import link_keys
from scenarios.schema.entries import Encoding
from scenarios.schema.training import Training

SCHEMA = json_schema(own=False)


def valid(yaml):
    return jsonschema.Draft7Validator(SCHEMA).is_valid(YAML(typ="safe", pure=True).load(yaml))


def test_it_is_a_draft_7_schema():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert "$defs" not in json.dumps(SCHEMA)
    assert "prefixItems" not in json.dumps(SCHEMA)


def test_the_committed_copy_is_fresh():
    copy = resources.files("scenarios").joinpath("scenario.schema.json").read_text(encoding="utf-8")
    hint = "write it anew: python -m emulator schema > scenarios/scenario.schema.json"
    assert copy == text(own=False) + "\n", hint


def test_the_file_holds_the_schema_in_lines_that_fit_on_a_screen():
    assert json.loads(text(own=False)) == SCHEMA
    assert len(text(own=False).splitlines()) < 4100


def test_training_and_encoding_are_written_once():
    """Every algorithm refers to them."""
    described = [spec["description"] for _, spec in fields(SCHEMA)]
    assert described.count(Training.model_fields["epochs"].description) == 2  # the scenario's, and an algorithm's own
    assert described.count(Encoding.model_fields["up"].description) == 1


@pytest.mark.parametrize("name", sorted(shipped()))
def test_scenarios_that_come_along_are_valid(name):
    assert valid(shipped()[name])


def test_the_template_of_new_is_valid():
    assert valid(resources.files("scenarios").joinpath("template.yaml.txt").read_text(encoding="utf-8"))


LINK = "{up_mbit_s: 1, down_mbit_s: {uniform: {low: 1, high: 2}}}"


@pytest.mark.parametrize(
    ("rest", "right"),
    [
        ("", True),
        ("algorithms: [fedavg, my.mine:Mine, {fedcl: {interval: 3}, name: x}, {my.mine:Mine: {a: 1}}]", True),
        ("algorithms: [{algorithm: my.mine:Mine, options: {a: 1}, name: y}]", True),
        ("algorithms: [fedavgg]", False),
        ("algorithms: [{fedcl: {intervall: 3}}]", False),
        ("algorithms: [{fedcl: {training: {lr: 0.1}}}]", True),
        ("algorithms: [{fedcl: {training: {lrr: 0.1}}}]", False),
        ("rounds: {max: 0}", False),
        ("unknown: 1", False),
        ("model: mlp", True),
        ("model: my.nets:tiny", True),
        ("model: mlpp", False),
        ("task: regression", True),
        ("task: regresion", False),
        ("task: {name: my.tasks:Pinball, metrics: [pinball]}", True),
        ("data: {set: mnist}", True),
        ("data: {set: mnits}", False),
        ("server: {profile: of-my-own}", True),
        ("algorithms: [{fedcl: }]", True),
        ("algorithms: [{fedcl: {encoding: {up: {weights: int8}}}}]", True),
        ("algorithms: [{fedcl: {encoding: {upp: {}}}}]", False),
        ("expect: [{label: fedavg, reach: 0.9, time_s: 3}]", True),
        ("fleet_seed: -1", False),
    ],
)
def test_it_takes_what_the_scenario_takes(rest, right):
    assert valid(f"name: x\nfleet: [{{profile: pi-4, link: {LINK}}}]\n{rest}") is right


def followed(spec):
    return SCHEMA["definitions"][spec["$ref"].rpartition("/")[2]] if "$ref" in spec else spec


def fields(node, path=()):
    """Every described key: (path, its schema)."""
    if isinstance(node, dict):
        properties = node.get("properties")
        if isinstance(properties, dict):
            yield from ((".".join(map(str, (*path, key))), followed(spec)) for key, spec in properties.items())
        for key, inner in node.items():
            yield from fields(inner, (*path, key))
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from fields(inner, (*path, number))


def test_every_field_has_a_description_and_an_example():
    bare = [path for path, spec in fields(SCHEMA) if not spec.get("description") or not spec.get("examples")]
    assert bare == []
    assert "its class describes it" not in json.dumps(SCHEMA)  # each option of ours has its line


def descriptions(node):
    if isinstance(node, dict):
        if isinstance(node.get("description"), str):
            yield node["description"]
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from descriptions(inner)


def test_every_description_is_a_sentence_that_stands_alone():
    """Editors show one at a time, so none may go on from that of another key."""
    leaning = ("And ", "Of ", "The same ", "Or ", "Likewise", "More,", "While ")
    for description in descriptions(SCHEMA):
        assert description[0].isupper(), description
        assert len(description.split()) >= 4, description
        assert description.endswith((".", ")")), description
        assert not description.startswith(leaning), description
        assert "..." not in description.replace("Dir(alpha, ..., alpha)", ""), description


FLEET = [{"profile": "pi-4", "link": {"up_mbit_s": 1, "down_mbit_s": 1}}]
FAST = {"up_mbit_s": 9, "down_mbit_s": 9}
STATIONS = {"home-wifi": {"airtime": True}, "backhaul": FAST}
PLACES = {  # where a part of links stands in a scenario
    link_keys.Transport: lambda said: {"network": said},
    link_keys.Links: lambda said: {"fleet": [{"profile": "pi-4", "link": said}], "topology": STATIONS},
    link_keys.Link: lambda said: {"server": {"link": said}},
    link_keys.Shared: lambda said: {"topology": {**STATIONS, "a": said}},
    link_keys.Recorded: lambda said: {"topology": {"a": {"trace": {"down": "x", **said}}}},
    link_keys.Traces: lambda said: {"fleet": [{"profile": "pi-4", "link": {"trace": {"down": "x", **said}}}]},
}
WITH = {"up_source": {"up_ratio": 0.2}, "trace": {}, "radio": {}, "airtime": {}}  # what goes with a key
EXAMPLES = [
    (part, name, example)
    for part in PLACES
    for name, field in part.model_fields.items()
    for example in field.examples or ()
]


@pytest.mark.parametrize(("part", "key", "example"), EXAMPLES)
def test_examples_of_links_are_accepted(part, key, example):
    base = FAST if part in (link_keys.Links, link_keys.Link, link_keys.Shared) else {}
    said = {**WITH.get(key, base), key: example}
    assert build({"name": "t", "fleet": FLEET, **PLACES[part](said)})

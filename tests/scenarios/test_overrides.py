"""`path=value` on the command line."""

import pytest

from scenarios.load import BadScenario, load


def changed(*changes):
    return load("quickstart", changes)


def test_a_value_is_read_as_yaml_and_put_in_its_place():
    scenario = changed("rounds.max=3", "data.split={kind: iid}", "seeds=[4, 5]", "training.lr=1e-3")
    assert scenario.rounds.max == 3
    assert scenario.data.split.kind == "iid"
    assert scenario.seeds == (4, 5)
    assert scenario.training.lr == 0.001


def test_a_part_that_the_file_leaves_out_is_made():
    assert changed("evaluate.every=2").evaluate.every == 2


def test_a_part_given_by_its_name_alone_keeps_it():
    model = changed("model.keep='*.bias'").model
    assert (model.name, model.keep) == ("digits-cnn", "*.bias")
    task = changed("task=classification", "task.metrics=[f1]").task
    assert (task.name, task.metrics) == ("classification", ("f1",))


def test_groups_go_by_number_and_by_profile():
    assert changed("fleet.2.count=30").fleet[2].count == 30
    assert changed("fleet.pi-4.count=30").fleet[2].count == 30


def test_algorithms_go_by_label_and_their_options_by_name():
    scenario = changed("algorithms.fedcl-n10.interval=3", "algorithms.1.mu=2.5", "algorithms.fedcurv.name=curv")
    assert [entry.options for entry in scenario.algorithms[1:3]] == [
        {"mu": 2.5},
        {"strength": 0.5, "importance": "sq", "interval": 3},
    ]
    assert scenario.algorithms[3].name == "curv"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rounds.mx=3", "rounds.mx=3: rounds.mx: unknown key 'mx'; did you mean max?"),
        ("roundz.max=3", "did you mean rounds?"),
        ("rounds.max=x", "rounds.max=x: rounds.max: it must be a valid integer, not 'x'"),
        ("rounds.max=", "not None"),
        ("fleet.9.count=1", "a number from 0 to 2"),
        ("fleet.pi4.count=1", "did you mean pi-4?"),
        ("algorithms.fedcurve.strength=1", "did you mean fedcurv?"),
        ("algorithms.fedcurv.strenght=1", "did you mean strength?"),
        ("name.x=1", "nothing inside"),
        ("seeds.0.x=1", "nothing inside"),
        ("=3", "a change is PATH=VALUE"),
        ("rounds..max=3", "a change is PATH=VALUE"),
        ("rounds.max=[1", "the value is not YAML"),
        ("algorithms=3", "a list"),
    ],
)
def test_a_bad_change_is_named_as_it_was_typed(change, message):
    with pytest.raises(BadScenario) as caught:
        changed(change)
    assert str(caught.value).startswith(change)
    assert message in str(caught.value)

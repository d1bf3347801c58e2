"""Mistakes that are found only once the data are read are also reported at the place where they were written."""

import pytest

from emulator.lab.build import lab_of
from scenarios.load import build, parse
from scenarios.text.faults import BadScenario, placed
from tests.conftest import SMALL, merged

TEXT = """\
name: t
model: digits-cnn
data: {set: digits}
fleet:
  - {profile: pi-4, count: 4, link: {up_mbit_s: 1, down_mbit_s: 1}}
"""


def refused(scenario):
    with pytest.raises(BadScenario) as caught, placed(scenario.source):
        lab_of(scenario)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("digits-cnn", "mnist-cnn", "t.yaml:2:8: model: mnist-cnn takes examples of shape (1, 28, 28), but digits has"),
        ("set: digits", "set: digits, options: {many: 1}", "t.yaml:3:37: data.options.many: there is no option 'many'"),
        ("set: digits", "set: mnist, root: /nowhere", "t.yaml:3:7: data: the four MNIST files are in none of /nowhere"),
        ("count: 4", "count: 5000", "t.yaml:5:3: fleet: 5000 devices, but digits has 1437 training examples"),
        (
            "data:",
            "rounds: {per_cycle: 3}\ndata:",
            "t.yaml:3:21: rounds.per_cycle: it is 3, but digits has no time slic",
        ),
    ],
)
def test_a_fault_of_the_data_is_placed(old, new, place):
    said = refused(parse(TEXT.replace(old, new), "t.yaml"))
    assert said.startswith(place)
    assert said.splitlines()[2].endswith("^")


def test_a_change_on_the_command_line_is_quoted():
    assert refused(parse(TEXT, "t.yaml", ["model=mnist-cnn"])).startswith("model=mnist-cnn: model: mnist-cnn takes")


def test_a_scenario_of_plain_values_has_no_places():
    said = refused(build(merged(SMALL, {"model": "mnist-cnn"})))
    assert said.startswith("model: mnist-cnn takes examples of shape (1, 28, 28)")
    assert said.endswith("it must be digits-cnn or digits-mlp")


def test_where_a_scenario_was_read_does_not_tell_it_apart():
    assert parse(TEXT, "a.yaml") == parse(TEXT, "b.yaml")

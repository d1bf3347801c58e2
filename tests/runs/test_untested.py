"""Data without test examples: devices train all the same, and nothing is said of accuracy but by validation."""

from dataclasses import replace

import pytest

from devices.data.dataset import Dataset
from devices.data.digits import digits
from emulator.lab.build import lab_of
from emulator.lab.doubts import about_model
from scenarios.load import BadScenario, build
from tests.conftest import SMALL, merged

SET = {"set": f"{__name__}:untested"}
TESTED = ("accuracy", "loss", "initial", "personalised_participants", "personalised")


def untested() -> Dataset:
    data = digits()
    return replace(data, x_test=data.x_test[:0], y_test=data.y_test[:0])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["fedavg", "fedcl"])
def test_nothing_but_accuracies_is_missing(play, algorithm):
    """The rows are those of a run whose test set is not looked at."""
    data = {**SET, "validation": 0.1}
    one = play(algorithm, data=data, evaluate={"every": 1, "personalise_every": 1})
    other = play(algorithm, data=data, evaluate={"every": 1, "personalise_every": "never", "test": False})
    assert one.model == other.model
    assert one.rounds == other.rounds
    assert len(one.rounds) == 2
    for row in one.rounds:
        assert {row[name] for name in TESTED} == {None}
        assert row["validation"] > 0.1


@pytest.mark.parametrize(
    ("says", "where"),
    [
        ({"rounds": {"targets": [{"value": 0.5}]}}, "rounds.targets.0: accuracy"),
        ({"rounds": {"targets": [{"metric": "personalised", "value": 0.5}]}}, "rounds.targets.0: personalised"),
        ({"rounds": {"stop_at": {"metric": "initial", "value": 0.5}}}, "rounds.stop_at: initial"),
        ({"expect": [{"label": "fedavg", "final": 0.5}]}, "expect.0: accuracy"),
    ],
    ids=str,
)
def test_what_needs_them_is_told_in_one_line(says, where):
    with pytest.raises(BadScenario) as told:
        lab_of(build(merged(SMALL, {"data": SET, **says})))
    assert str(told.value).endswith(
        f"{where} can never be seen: digits has no test examples; the metric must be validation"
    )


def test_validation_may_be_a_target_and_a_warning_is_due():
    targets = {"rounds": {"targets": [{"metric": "validation", "value": 0.5}]}}
    lab = lab_of(build(merged(SMALL, {"data": {**SET, "validation": 0.1}, **targets})))
    assert list(about_model(lab)) == [
        "digits has no test examples: the only accuracy is on validation data (data.validation)"
    ]
    assert list(about_model(lab_of(build(SMALL)))) == []


@pytest.mark.slow
def test_the_commands_go_through(fedlapse, tmp_path):
    import json

    (tmp_path / "bare.yaml").write_text(json.dumps(merged(SMALL, {"data": SET, "seeds": [1, 2]})))
    assert "digits has no test examples" in fedlapse("check", "bare.yaml").stderr
    for command in (["compare", "bare.yaml", "--workers", "0", "--out", "out"], ["audit", "out"], ["report", "out"]):
        done = fedlapse(*command)
        assert done.returncode == 0, done.stderr

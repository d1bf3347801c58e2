"""Data that are odd are told by `check` and `compare`, and a value that is no number ends both before training."""

import json
from pathlib import Path

import pytest
import yaml

from tests.conftest import SMALL, merged

pytestmark = pytest.mark.slow

OWN = """
from dataclasses import replace
import numpy as np
from devices.data.digits import digits

def of_one_class():
    data = digits()
    return replace(data, name="alike", y=np.full_like(data.y, 3))

def without_a_nine():
    data = digits()
    return replace(data, name="digits", x_test=data.x_test[data.y_test < 9], y_test=data.y_test[data.y_test < 9])

def broken():
    data = digits()
    data.x_test[7, 0, 3, 4] = np.inf
    return data
"""


@pytest.fixture
def of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A scenario on own data."""
    (tmp_path / "odd_data.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))

    def written(function: str) -> str:
        changed = {"data": {"set": f"odd_data:{function}"}, "model": "tests.runs.network:small", "rounds": {"max": 2}}
        (tmp_path / "odd.yaml").write_text(yaml.safe_dump(merged(SMALL, changed)))
        return "odd.yaml"

    return written


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("of_one_class", "all training examples of alike have the label 3"),
        ("without_a_nine", "1 of 10 classes of digits have no test example (9)"),
    ],
)
def test_check_and_compare_warn_of_it_and_the_results_keep_it(fedlapse, tmp_path, of, function, said):
    scenario = of(function)
    assert said in fedlapse("check", scenario).stderr
    played = fedlapse("compare", scenario, "--workers", "0", "--out", "out")
    assert played.returncode == 0, played.stderr
    assert f"fedlapse: data: {said}" in played.stderr
    assert json.loads((tmp_path / "out/summary.json").read_text())["data"][0].startswith(said)
    assert "obey the laws" in fedlapse("audit", "out").stdout
    assert said in fedlapse("report", "out", "--format", "markdown").stdout


def test_a_value_that_is_no_number_ends_both_in_one_line(fedlapse, tmp_path, of):
    scenario = of("broken")
    for command in ("check", "compare"):
        done = fedlapse(command, scenario)
        assert done.returncode == 2
        assert "digits: x_test[7, 0, 3, 4] is inf, in example 7 of 360; all values must be finite" in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()

"""docs/measuring.md: its script runs, and `fedlapse calibrate --from` takes what it prints."""

import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import devices.data.tv  # noqa: F401  torchvision may lack operators
from devices.device import read_profiles

PAGE = Path(__file__).parents[2] / "docs" / "measuring.md"


@pytest.mark.slow
def test_a_profile_comes_of_the_script_of_the_page(fedlapse, tmp_path):
    """Cut to two networks, two small images, and three steps."""
    [script] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    cuts = {r"BATCH, SIDE = .*": "BATCH, SIDE = 2, 64", r"range\(7\)": "range(3)"}
    cuts[r"NETWORKS = .*"] = 'NETWORKS = ("squeezenet1_0", "squeezenet1_1")'
    for whole, cut in cuts.items():
        script, found = re.subn(whole, cut, script)
        assert found == 1, whole
    with (tmp_path / "steps.csv").open("w") as table, redirect_stdout(table):
        exec(compile(script, "a script", "exec"), {})
    done = fedlapse("calibrate", "--from", "steps.csv", "--name", "my-board", "--like", "laptop")
    assert done.returncode == 0, done.stderr
    assert "torchvision:squeezenet1_1, batch 2" in done.stderr
    profile = read_profiles(done.stdout.splitlines())["my-board"]
    assert "2 steps in steps.csv with torch 2" in profile.source

"""Every scenario that comes along runs, cut to one round of one epoch and seed, and leaves a sound record."""

import pytest

from emulator.record.folders import run_folders
from scenarios.load import load, shipped
from tests.conftest import audit_run

pytestmark = pytest.mark.slow

# With 300 devices each holds a thirtieth of the usual; the personalised model would train all of them.
FEW = ("fleet.pi-4.count=293", "rounds.fraction=0.007", "data.proxy.fraction=0.002")
SMALL = (*FEW, "evaluate.every=0", "rounds.targets=[]")
SHORT = ("training.epochs=1", "--rounds", "1", "--seed", "1", "--workers", "0", "-q", "--out", "out")


@pytest.mark.pages
@pytest.mark.parametrize("name", sorted(name for name in shipped() if "/" not in name))  # papers: test_papers.py
def test_a_scenario_that_comes_along_runs(name, fedlapse, tmp_path, monkeypatch, request):
    scenario = load(name)
    if scenario.data.set != "digits":
        monkeypatch.setenv("FEDLAPSE_DATA", str(request.getfixturevalue("shared_data")))
    done = fedlapse("compare", name, *(SMALL if scenario.data.set == "mnist" else ()), *SHORT)
    assert done.returncode == 0, done.stderr
    folders = run_folders(tmp_path / "out")
    assert {folder.name for folder in folders} == {f"{entry.name}-s1" for entry in scenario.algorithms}
    assert [fault for folder in folders for fault in audit_run(folder)] == []
    assert (tmp_path / "out" / "report.html").stat().st_size < 2_000_000

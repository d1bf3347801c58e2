"""The notebook for researchers runs, small: what its cells need of the Python interface is there."""

import json
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "research.ipynb"


@pytest.mark.slow
def test_the_notebook_for_researchers_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDLAPSE_LEDGER", "off")
    monkeypatch.setattr(sys, "path", [*sys.path])
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    first, *others = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    names = {}
    exec(first, names)
    assert len(names["SEEDS"]) >= 6  # the fewest that show a significant difference
    names |= {"SEEDS": [1, 2], "ROUNDS": 2, "STRENGTHS": (0.01, 0.1)}
    for source in others:
        exec(source, names)
    assert list(names["accuracies"].index) == [0.01, 0.1]
    assert names["best"] == names["accuracies"].idxmax()
    assert names["found"].labels == ["fedavg", "anchored"]
    assert (tmp_path / "accuracy.pdf").read_bytes().startswith(b"%PDF")
    told = capsys.readouterr().out
    assert "No run reached" in told or "too few to tell a difference from chance" in told
    assert "mcmahan2017communication" in told

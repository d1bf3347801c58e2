"""benchmarks.gpu runs, and leaves things as they were; what it measures needs a GPU."""

import pytest

from algorithms.training import stack_graph, stack_model
from benchmarks import gpu
from tests.all_of import all_of


@pytest.mark.slow
def test_every_way_and_precision_has_a_line(capsys, monkeypatch):
    monkeypatch.setattr(gpu, "PRECISIONS", ("float32", "bf16"))
    monkeypatch.setattr(gpu, "EXAMPLES", 4)
    before = stack_graph.SEEN, stack_model.instead_of
    gpu.main("cpu", rounds=1, devices=2)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 * 4
    assert len({line.split("  ")[0] for line in lines}) == 3
    assert all_of(float(line.split()[-4]) > 0 for line in lines[1:])
    assert (stack_graph.SEEN, stack_model.instead_of) == before


def test_a_way_is_what_it_says_and_ends():
    before = stack_graph.SEEN, stack_model.instead_of
    with gpu.otherwise(recorded=False, products=False):
        assert stack_graph.SEEN > 10**6
        assert stack_model.instead_of(None) is None
    with gpu.otherwise(recorded=True, products=True):
        assert (stack_graph.SEEN, stack_model.instead_of) == before
    assert (stack_graph.SEEN, stack_model.instead_of) == before

"""Steps in memory that is kept from round to round, as a CUDA graph needs it.  There is no graph here: what would be
replayed is done again, on the memory that it would be replayed on."""

from dataclasses import replace

import pytest
import torch

from algorithms import stack
from algorithms.training import stack_graph, stack_step
from algorithms.training.stack_model import StackModel
from scenarios.builders import plugins
from tests.algorithms.test_stack import OPTIONS, ROUGH, SHARDS, net, played, same
from tests.all_of import all_of

EXACT = replace(ROUGH, lr=0.125, lr_decay=0.5)  # a graph's rate is float32


def recorded(recorder, batch):
    own = batch.made_of([tensor.clone() for tensor in batch.tensors()])

    def replay(batch):
        for place, given in zip(own.tensors(), batch.tensors(), strict=True):
            place.copy_(given)
        return recorder.stack.step(own).clone()

    return replay


@pytest.fixture(autouse=True)
def graphs(monkeypatch):
    """The number of graphs that are kept."""
    model = StackModel(net())
    monkeypatch.setattr(stack_step, "stack_model", lambda _: model)  # as on a GPU, where networks stay
    monkeypatch.setattr(stack_graph, "recordable", lambda stack: all(pull.together for pull in stack.pulls))
    monkeypatch.setattr(stack_graph.Recorder, "_recorded", recorded)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    kept = {}
    monkeypatch.setattr(stack_graph, "_kept", kept)
    return kept


@pytest.mark.parametrize("key", sorted(OPTIONS))
def test_rounds_one_after_the_other_are_the_loop(key, graphs):
    options = {"training": EXACT, **OPTIONS[key][0]}
    if key == "continual":
        options = {**options, "training": replace(EXACT, per_cycle=2)}
    algorithm = plugins.kinds()[key](**options)
    for downloads, devices in played(algorithm, 4):
        found = stack.train(algorithm, downloads, devices)
        for reply, download, device in zip(found, downloads, devices, strict=True):
            same(reply, algorithm.train(download, device))
    assert len(graphs) < 4 or key == "continual"  # rounds of one sort share one
    assert any(recorder.graphs for recorder in graphs.values()) or key in ("scaffold", "agentimportance", "continual")


def test_what_a_round_has_given_stays_as_it_is_in_the_next():
    algorithm = plugins.kinds()["fedavg"](training=EXACT)
    (first, second) = played(algorithm, 2)
    replies = stack.train(algorithm, *first)
    before = [{name: value.clone() for name, value in reply.upload["weights"].items()} for reply in replies]
    stack.train(algorithm, *second)
    for reply, values in zip(replies, before, strict=True):
        assert all_of(torch.equal(value, values[name]) for name, value in reply.upload["weights"].items())


def test_only_so_many_sorts_are_kept(graphs):
    algorithm = plugins.kinds()["fedprox"]
    for k in range(stack_graph.MOST + 2):
        each = algorithm(training=EXACT, mu=0.1 * (k + 1))
        stack.train(each, *played(each, 1)[0])
    assert len(graphs) == stack_graph.MOST
    stack_graph.forget()
    assert not graphs


def test_a_shape_that_comes_seldom_is_not_worth_a_graph(graphs):
    """Five devices have 13 steps in all, of 5 shapes: 3 epochs of 1 to 3 batches in a round."""
    algorithm = plugins.kinds()["fedavg"](training=replace(EXACT, epochs=1))
    stack.train(algorithm, *played(algorithm, 1)[0])
    (recorder,) = graphs.values()
    assert not recorder.graphs
    assert len(recorder.seen) == 3
    assert len(SHARDS) == 5

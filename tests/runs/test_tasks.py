"""Runs of every kind of task: what is measured, targets from below and above, stacks, FLOPs, Fisher diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load
from sklearn import metrics as oracle
from torch.utils.flop_counter import FlopCounterMode

from algorithms import models, stack
from algorithms.algorithm import Party, Phase, Training
from algorithms.counting.cost import Meter
from algorithms.fedavg import FedAvg
from algorithms.importance.importance import importance
from algorithms.tasks.task import named
from algorithms.training.tensors import as_input
from emulator.lab.build import built
from scenarios.load import build
from scenarios.text.faults import BadScenario
from tests.all_of import all_of
from tests.conftest import SMALL, Play, merged
from tests.runs import own_tasks

HERE = own_tasks.__name__
CASES: dict[str, dict[str, Any]] = {  # task, its first metric with a target, data and network
    "regression": {"task": "regression", "data": "plane", "model": "dense"},
    "multilabel": {"task": "multilabel", "data": "tags", "model": "dense"},
    "segmentation": {"task": "segmentation", "data": "spots", "model": "pointwise"},
    "language": {"task": "language", "data": "counting", "model": "NextOne"},
    "own": {"task": f"{HERE}:Gaussian", "data": "pairs", "model": "Two"},
}
FIRST = {"regression": "mse", "multilabel": "f1", "segmentation": "iou", "language": "perplexity", "own": "off"}
LOWER = ("regression", "language", "own")


def changes(case: str, **more: Any) -> dict[str, Any]:
    said = CASES[case]
    training = {"epochs": 2, "batch": 16, "lr": 0.1}
    own = {"task": said["task"], "model": f"{HERE}:{said['model']}", "data": {"set": f"{HERE}:{said['data']}"}}
    return merged({**own, "training": training, "rounds": {"max": 3}}, more)


def parts(case: str, dtype: torch.dtype = torch.float64) -> tuple[Any, Any, torch.Tensor, torch.Tensor]:
    """Task, network, examples and targets."""
    said = CASES[case]
    data = getattr(own_tasks, said["data"])()
    x, y = as_input(torch.from_numpy(data.x[:24])), torch.from_numpy(data.y[:24])
    network = models.build(f"{HERE}:{said['model']}", 1, *data.form).to(dtype)
    return named(said["task"]), network, x.to(dtype) if x.is_floating_point() else x, y


def party(case: str, some: slice) -> Party:
    task, network, x, y = parts(case)
    return Party("d", 2, network, task, x[some], y[some], round=0, cycle=0, seed=5)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["fedavg", "fedcl", "fedcurv"])
@pytest.mark.parametrize("case", CASES)
def test_every_task_is_learnt_and_measured(play: Play, case: str, algorithm: str) -> None:
    metric, lower = FIRST[case], case in LOWER
    value = 1e6 if lower else 1e-6  # which any model has reached
    done = play(algorithm, **changes(case, rounds={"targets": [{"metric": metric, "value": value}]}))
    known = [(row["numbers"][metric], row["validation"], row["initial"]) for row in done.rounds]
    assert all_of(value is not None for values in known for value in values)
    # FedCurv's own strength is far too large for the curvature of squared errors.
    assert algorithm == "fedcurv" or done.rounds[-1]["loss"] < done.rounds[0]["loss"]


@pytest.mark.slow
def test_a_run_stops_when_a_value_is_reached_from_above(play: Play) -> None:
    free = play(**changes("regression"))
    values = [row["validation"] for row in free.rounds]
    between = (values[0] + values[1]) / 2
    stopped = play(**changes("regression", rounds={"stop_at": {"value": between}}))
    assert len(stopped.rounds) == 2


@pytest.mark.slow
def test_what_is_measured_is_what_scikit_learn_says_of_the_final_model(play: Play) -> None:
    wanted = {"name": "regression", "metrics": ["r2", "mae"]}
    done = play(**changes("regression", task=wanted))
    data = own_tasks.plane()
    network = own_tasks.dense(1)
    network.load_state_dict(load(done.model))
    said = network(torch.from_numpy(data.x_test)).detach().numpy()
    numbers = done.rounds[-1]["numbers"]
    assert numbers["r2"] == pytest.approx(oracle.r2_score(data.y_test, said), rel=1e-6)
    assert numbers["mae"] == pytest.approx(oracle.mean_absolute_error(data.y_test, said), rel=1e-6)
    assert "mse" not in numbers


@pytest.mark.parametrize("case", CASES)
def test_a_stack_trains_as_devices_one_by_one(case: str) -> None:
    devices = [party(case, slice(0, 16)), party(case, slice(16, 23))]
    weights = {name: value.detach().clone() for name, value in devices[0].model.named_parameters()}
    devices[1] = Party(**{**vars(devices[1]), "model": devices[0].model, "loss": devices[0].loss})
    algorithm = FedAvg(Training(epochs=2, batch=8, lr=0.1, momentum=0.5))
    together = stack.train(algorithm, [{"weights": weights}] * 2, devices)
    for found, device in zip(together, devices, strict=True):
        alone = algorithm.train({"weights": weights}, device)
        for name, value in alone.upload["weights"].items():
            assert torch.allclose(found.upload["weights"][name], value, rtol=0, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_the_flops_of_a_step_are_those_that_torch_counts(case: str) -> None:
    task, network, x, y = parts(case, torch.float32)
    meter = Meter(network, tuple(x.shape[1:]), task, x.dtype, tuple(y.shape[1:]), str(y.dtype).removeprefix("torch."))
    with FlopCounterMode(display=False) as counted:
        task(network(x), y).mean().backward()
    declared = meter.flops(Phase("train", "batch", len(y), len(y)))
    assert declared == pytest.approx(counted.get_total_flops(), rel=0.01)


@pytest.mark.parametrize("case", CASES)
def test_the_empirical_fisher_is_the_squared_gradient_of_an_example_s_loss(case: str) -> None:
    task, network, x, y = parts(case)
    found = importance(network, task, x, y, "sq")
    sums = {name: torch.zeros_like(p) for name, p in network.named_parameters()}
    for k in range(len(y)):
        gradients = torch.autograd.grad(task(network(x[k : k + 1]), y[k : k + 1]).sum(), list(network.parameters()))
        for name, gradient in zip(sums, gradients, strict=True):
            sums[name] += gradient.square()
    for name, total in sums.items():
        assert torch.allclose(found[name], total / len(y), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_fedcl_s_importance_without_labels_takes_any_outputs(case: str) -> None:
    task, network, x, y = parts(case)
    assert all_of(bool((value >= 0).all()) for value in importance(network, task, x, y, "mas").values())


@pytest.mark.parametrize("fisher", ["exact", "sampled"])
def test_a_fisher_that_needs_classes_is_refused_without_them(fisher: str) -> None:
    said = merged(SMALL, changes("regression", algorithms=[{"fedcurv": {"fisher": fisher}}]))
    with pytest.raises(BadScenario, match=f"fedcurv: fisher: {fisher} needs probabilities of classes, and regression"):
        built(build(said))


@pytest.mark.parametrize(
    ("case", "more", "said"),
    [
        ("regression", {"rounds": {"targets": [{"metric": "acuracy", "value": 0.9}]}}, "no metric 'acuracy'"),
        ("multilabel", {"rounds": {"targets": [{"metric": "f1", "value": 80}]}}, "f1 is a share.* 80 % is 0.8"),
        ("regression", {"task": {"name": "regresion"}}, "did you mean regression"),
        ("regression", {"data": {"split": {"kind": "shards"}}}, "plane has no classes, and its Dataset no `strata`"),
        ("own", {"task": {"name": f"{HERE}:Gaussian", "metrics": ["on"]}}, "has no metric 'on'"),
        ("own", {"task": {"name": f"{HERE}:Nobody"}}, "cannot find"),
        ("regression", {"task": {"name": "classification"}}, "the labels of plane are float32"),
    ],
)
def test_a_task_that_cannot_be_is_told_in_one_line(case: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadScenario, match=said) as found:
        built(build(merged(SMALL, changes(case, **more))))
    assert "\n" not in str(found.value)


def test_splits_by_classes_take_the_strata_of_the_data() -> None:
    said = changes("multilabel", data={"split": {"kind": "dirichlet", "alpha": 0.1}})
    _, lab = built(build(merged(SMALL, said)))
    strata = lab.data.strata
    assert strata is not None
    shares = [np.bincount(strata[slices[0]], minlength=8) for slices in lab.splits[1].train.values()]
    assert max(int(each.max()) for each in shares) > 1.5 * len(strata) / 8 / len(shares)


def test_several_inputs_reach_the_network_as_they_were_given() -> None:
    data = own_tasks.pairs()
    seen: dict[str, Any] = {}
    network = models.build(f"{HERE}:Two", 1, *data.form)
    network.register_forward_hook(lambda _m, _a, given, _o: seen.update(given), with_kwargs=True)
    network(torch.from_numpy(data.x[:3]))
    assert (seen["dense"].dtype, seen["words"].dtype) == (torch.float32, torch.int64)
    random = np.random.default_rng(5)
    dense, words = random.normal(size=(own_tasks.ALL, 4)).astype(np.float32), random.integers(0, 9, (own_tasks.ALL, 2))
    assert seen["dense"].numpy().tobytes() == dense[:3].tobytes()
    assert seen["words"].tolist() == words[:3].tolist()

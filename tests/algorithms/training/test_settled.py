"""A network whose weights come from a file, and of which some stay: by plain torch, and by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from algorithms import models, stack
from algorithms.algorithm import Party, Phase, Tensors, Training
from algorithms.counting.cost import Meter
from algorithms.fedavg import FedAvg
from algorithms.fedcurv import FedCurv
from algorithms.fedprox import FedProx
from algorithms.keeptrace import keep_trace
from algorithms.networks import TRAINABLE, Network
from algorithms.training.as_built import remember
from algorithms.training.local import sgd
from algorithms.training.tensors import frozen_of, kept_of, load, tensors_of, travelling
from tests.all_of import all_of

NAMES = __name__
STATISTICS = ("1.running_mean", "1.running_var", "1.num_batches_tracked")
X, Y = torch.linspace(-1, 1, 6 * 8).view(6, 8).sin(), torch.tensor([0, 1, 2, 0, 1, 2])


def normed() -> nn.Sequential:
    """With two BatchNorms, the second without parameters, and a head: 0, 1, 2, 3, 4."""
    inner = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5, affine=False))
    return nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5), nn.ReLU(), inner, nn.Linear(5, 3))


class Adapted(nn.Module):
    """A layer that is frozen, with a LoRA adapter of rank 1 beside it, as peft makes it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(8, 3).requires_grad_(False)
        self.down, self.up = nn.Linear(8, 1, bias=False), nn.Linear(1, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.base(x) + self.up(self.down(x))
        return found


class Tied(nn.Module):
    """Two layers with one weight, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.b.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.b(self.a(x)))
        return found


def dense() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def convolved() -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 4)), nn.Conv2d(1, 3, 2), nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(12, 3)
    )


def built(name: str, train: str = "", **more: str) -> nn.Module:
    return models.build(Network(f"{NAMES}:{name}", train=train, **more), 3)


def party(model: nn.Module, x: Tensor = X, y: Tensor = Y, seed: int = 5) -> Party:
    return Party("a", 2, model, models.cross_entropy, x, y, round=0, cycle=0, seed=seed)


# ---- what travels


@pytest.mark.parametrize(
    ("name", "train", "travels"),
    [
        ("normed", "4.*", ["4.weight", "4.bias"]),
        ("normed", "*.bias", ["0.bias", "1.bias", *STATISTICS, "3.0.bias", *(f"3.{n}" for n in STATISTICS), "4.bias"]),
        ("normed", "0.* !*.bias", ["0.weight"]),
        ("normed", "3.0.weight", ["3.0.weight", *(f"3.{n}" for n in STATISTICS)]),
        ("Adapted", TRAINABLE, ["down.weight", "up.weight"]),
        ("Tied", "b.weight", ["a.weight"]),
        ("Tied", "head.*", ["head.weight", "head.bias"]),
    ],
)  # fmt: skip
def test_what_is_trained_travels_and_a_buffer_goes_with_its_layer(name: str, train: str, travels: list[str]) -> None:
    model, whole = built(name, train), built(name)
    assert list(tensors_of(model)) == travels
    assert tensors_of(model).keys() | frozen_of(model).keys() == tensors_of(whole).keys()
    assert not tensors_of(model).keys() & frozen_of(model).keys()
    assert frozen_of(whole) == {}


def test_without_train_a_frozen_layer_travels_as_it_always_did() -> None:
    assert list(tensors_of(built("Adapted"))) == ["base.weight", "base.bias", "down.weight", "up.weight"]


def test_only_what_travels_is_loaded() -> None:
    model = built("normed", "4.*")
    load(model, {name: torch.zeros_like(value) for name, value in tensors_of(model).items()})
    assert all_of(not value.any() for value in tensors_of(model).values())
    assert all_of(torch.equal(model.state_dict()[name], value) for name, value in built("normed").state_dict().items()
                  if name[0] != "4")  # fmt: skip
    with pytest.raises(RuntimeError, match=r"4\.bias"):
        load(model, {"4.weight": torch.zeros(3, 5)})
    with pytest.raises(RuntimeError, match=r"5\.weight"):
        load(model, {**tensors_of(model), "5.weight": torch.zeros(1)})


# ---- training


def plainly(model: nn.Module, chosen: list[nn.Parameter], lr: float, steps: int) -> None:
    """Full batches, by torch's own optimiser."""
    optimizer = torch.optim.SGD(chosen, lr)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X.double()), Y).backward()
        optimizer.step()


@pytest.mark.parametrize(("name", "train"), [("normed", "4.*"), ("dense", "2.* 4.bias"), ("Adapted", TRAINABLE)])
def test_training_is_that_of_torch_with_the_others_left_out_and_a_frozen_batch_norm_in_eval_mode(
    name: str, train: str
) -> None:
    ours = remember(built(name, train).double())
    other = copy.deepcopy(built(name).double())
    plainly(other.eval(), [p for n, p in other.named_parameters() if n in tensors_of(ours)], 0.3, 4)
    training = Training(epochs=4, batch=6, lr=0.3)
    found = sgd(party(ours, X.double()), {n: v.clone() for n, v in tensors_of(ours).items()}, training)
    assert all_of(torch.allclose(value, other.state_dict()[n], rtol=1e-12, atol=1e-14) for n, value in found.items())
    assert all_of(torch.equal(value, built(name).double().state_dict()[n]) for n, value in frozen_of(ours).items())


@pytest.mark.parametrize(("name", "train"), [("dense", "4.*"), ("dense", "0.bias 2.*"), ("convolved", "2.* 4.*"),
                                             ("normed", "4.*"), ("Adapted", TRAINABLE)])  # fmt: skip
def test_a_stack_gives_what_each_device_gives_alone(name: str, train: str) -> None:
    model = remember(built(name, train).double())
    download = {"weights": {n: value.clone() for n, value in tensors_of(model).items()}}
    devices = [party(model, X[:4].double(), Y[:4], 1), party(model, X[3:].double(), Y[3:], 2)]
    algorithm = FedAvg(Training(epochs=2, batch=2, lr=0.1))
    together = stack.train(algorithm, [download] * 2, devices)
    for reply, device in zip(together, devices, strict=True):
        alone = algorithm.train(download, device).upload["weights"]
        assert reply.upload["weights"].keys() == alone.keys() == tensors_of(model).keys()
        assert all_of(torch.allclose(reply.upload["weights"][n], v, rtol=1e-10, atol=0) for n, v in alone.items())


def test_a_frozen_buffer_is_as_it_was_built_for_each_device() -> None:
    model = remember(built("normed", "4.*"))
    with torch.no_grad():
        model.get_buffer("1.running_mean").add_(7)
    load(model, tensors_of(model))
    assert not model.get_buffer("1.running_mean").any()


# ---- what each device keeps


def kept(model: nn.Module, scale: float = 1.0) -> Tensors:
    return {name: value.clone() * scale for name, value in kept_of(model).items()}


@pytest.mark.parametrize(
    ("name", "keep", "train", "travels", "keeps"),
    [
        ("normed", "4.*", "", 12, ["4.weight", "4.bias"]),
        ("normed", "1.* 3.1.*", "", 6, ["1.weight", "1.bias", *STATISTICS, *(f"3.{n}" for n in STATISTICS)]),
        ("normed", "*.bias", "3.0.*", 4, ["3.0.bias"]),
        ("Tied", "b.weight", "", 4, ["a.weight"]),
    ],
)
def test_what_is_kept_does_not_travel(name: str, keep: str, train: str, travels: int, keeps: list[str]) -> None:
    model = built(name, train, keep=keep)
    assert list(kept_of(model)) == keeps
    assert len(tensors_of(model)) == travels
    assert not tensors_of(model).keys() & keeps
    assert travelling(model).keys() == {n for n, p in model.named_parameters() if p.requires_grad and n not in keeps}
    with pytest.raises(RuntimeError, match="do not fit the model"):
        load(model, tensors_of(model))
    load(model, {**tensors_of(model), **kept(model)})


@pytest.mark.parametrize(("keep", "mu"), [("4.*", 0.0), ("4.*", 3.0), ("0.bias 2.weight", 3.0)])
def test_training_is_that_of_torch_whose_penalty_is_of_what_travels(keep: str, mu: float) -> None:
    ours, theirs = remember(built("dense", keep=keep).double()), copy.deepcopy(built("dense").double())
    download = {"weights": {n: value.clone() for n, value in tensors_of(ours).items()}}
    device = replace(party(ours, X.double()), own=kept(ours, 2.0))
    theirs.load_state_dict({**download["weights"], **device.own})
    reply = FedProx(Training(epochs=3, batch=6, lr=0.2), mu=mu).train(download, device)
    optimizer = torch.optim.SGD(theirs.parameters(), 0.2)
    for _ in range(3):
        optimizer.zero_grad()
        own = dict(theirs.named_parameters())
        gone = sum(((own[n] - value) ** 2).sum() for n, value in download["weights"].items())
        (nn.functional.cross_entropy(theirs(X.double()), Y) + mu / 2 * gone).backward()
        optimizer.step()
    found = {**reply.upload["weights"], **device.own}
    assert reply.upload["weights"].keys() == download["weights"].keys()
    assert found.keys() == theirs.state_dict().keys()
    assert all_of(torch.allclose(v, found[n], rtol=1e-12, atol=1e-14) for n, v in theirs.state_dict().items())


@pytest.mark.parametrize(("name", "keep"), [("dense", "4.*"), ("dense", "0.bias 2.weight"), ("convolved", "1.*")])
@pytest.mark.parametrize("algorithm", [FedProx(Training(epochs=2, batch=2, lr=0.1), mu=0.5),
                                       FedCurv(Training(epochs=2, batch=2, lr=0.1), strength=0.1)])  # fmt: skip
def test_in_a_stack_each_device_has_its_own(name: str, keep: str, algorithm: FedAvg) -> None:
    model = remember(built(name, keep=keep).double())
    download = {"weights": {n: value.clone() for n, value in tensors_of(model).items()}}
    pairs = [(X[:4].double(), Y[:4], 1), (X[3:].double(), Y[3:], 2)]
    stacked, loop = ([replace(party(model, *pair), own=kept(model, 1.0 + k)) for k, pair in enumerate(pairs)]
                     for _ in range(2))  # fmt: skip
    together = stack.train(algorithm, [download] * 2, stacked)
    for reply, one, device in zip(together, stacked, loop, strict=True):
        alone = algorithm.train(download, device)
        assert {kind: value.keys() for kind, value in reply.upload.items()} == {
            kind: download["weights"].keys() for kind in algorithm.uploads
        }
        for kind, tensors in [*alone.upload.items(), ("own", device.own)]:
            ours = one.own if kind == "own" else reply.upload[kind]
            assert all_of(torch.allclose(ours[n], v, rtol=1e-10, atol=1e-14) for n, v in tensors.items())
    assert not torch.equal(next(iter(stacked[0].own.values())), next(iter(stacked[1].own.values())))


def test_the_meta_gradient_is_of_what_travels_and_takes_the_device_s_own_along() -> None:
    """With one epoch it is the plain gradient, at the device's own values."""
    model = remember(built("dense", keep="4.*").double())
    device = replace(party(model, X.double()), own=kept(model, 2.0))
    weights = {n: value.clone() for n, value in tensors_of(model).items()}
    found = keep_trace(device, weights, Training(epochs=1, batch=6, lr=0.2))
    plain = built("dense").double()
    plain.load_state_dict({**weights, **device.own})
    nn.functional.cross_entropy(plain(X.double()), Y).backward()
    assert found.gradient.keys() == weights.keys()
    assert all_of(torch.allclose(found.gradient[n], plain.get_parameter(n).grad, rtol=1e-12) for n in weights)


@pytest.mark.parametrize(
    ("keep", "train", "said"),
    [
        ("9.*", "", r"keep has '9\.\*', which matches none of"),
        ("0.*", "4.*", r"keep is '0\.\*', which matches only tensors that are frozen"),
        ("*", "", r"keep is '\*', and no parameter travels"),
        ("4.*", "4.*", r"keep is '4\.\*', and no parameter travels"),
    ],
)
def test_what_is_kept_must_be_there_and_leave_something(keep: str, train: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        built("normed", train, keep=keep)


# ---- what it costs


CASES = [("dense", "4.*"), ("dense", "0.*"), ("dense", "2.weight"), ("convolved", "4.*"), ("convolved", "2.*")]


@pytest.mark.parametrize(("name", "train"), [*CASES, ("Adapted", TRAINABLE)])
def test_a_step_costs_the_flops_that_torch_counts_whose_backward_goes_as_far_as_it_must(name: str, train: str) -> None:
    model = built(name, train)
    counted = Meter(model, (8,), models.cross_entropy).flops(Phase("train", "batch", 6, 6))
    with FlopCounterMode(display=False) as counter:
        models.cross_entropy(model(X), Y).mean().backward()
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)


# ---- files of weights


def saved(path: Path, model: nn.Module, how: str) -> str:
    state = model.state_dict()
    if how == "safetensors":
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=how == "zip")
    return str(path)


@pytest.mark.parametrize("how", ["safetensors", "zip", "old"])
def test_pretrained_weights_are_those_of_the_file_for_every_seed(tmp_path: Path, how: str) -> None:
    other = models.build(f"{NAMES}:normed", 99)
    path = saved(tmp_path / "w", other, how)
    for seed in (1, 2):
        found = models.build(Network(f"{NAMES}:normed", weights=path), seed).state_dict()
        assert all_of(torch.equal(found[name], value) for name, value in other.state_dict().items())


def test_a_tied_weight_may_be_in_the_file_once(tmp_path: Path) -> None:
    other = models.build(f"{NAMES}:Tied", 99)
    state = {name: value for name, value in other.state_dict().items() if name != "b.weight"}
    save_file(state, tmp_path / "w")
    found = built("Tied", weights=str(tmp_path / "w"))
    assert torch.equal(found.get_parameter("b.weight"), other.get_parameter("a.weight"))


class Runs:
    """What pickle would run."""

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return print, ("run",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"x": torch.zeros(1)}, "has x, which the model has not"),
        ("less", "lacks 4.bias, of the model's"),
        ("other", r"has 4.bias of shape \(4,\); the model's has \(3,\)"),
        ({"state_dict": {}, "epoch": 3}, "holds state_dict, epoch; it must be a state dict"),
        ([1], "holds a list; it must be a state dict"),
        (Runs(), "is neither safetensors nor a state dict"),
        (b"", "is neither safetensors nor a state dict"),
        (b"\x05\0\0\0\0\0\0\0{", "is no sound safetensors file"),
    ],
)
def test_a_file_that_does_not_fit_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object, said: str
) -> None:
    path, state = tmp_path / "w", built("normed").state_dict()
    if content == "less":
        del state["4.bias"]
        content = state
    if content == "other":
        content = {**state, "4.bias": torch.zeros(4)}
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(ValueError, match=f"{said}") as told:
        built("normed", weights=str(path))
    assert "\n" not in str(told.value)
    assert not capsys.readouterr().out


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "w", built("normed"), "zip")
    with pytest.raises(ValueError, match="has changed since the scenario was read"):
        built("normed", weights=path, digest="0" * 64)


@pytest.mark.parametrize(
    ("train", "said"),
    [
        ("5.*", r"train has '5\.\*', which matches none of 0\.weight, 0\.bias, 1\.weight, and 5 more"),
        ("4.* !6.*", r"train has '!6\.\*', which matches none"),
        ("4.* !4.*", "no parameter is trained; it must leave at least one"),
    ],
)
def test_patterns_must_match_and_leave_something(train: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        built("normed", train)

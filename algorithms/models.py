"""The networks that scenarios may name, and the loss they are trained with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pkgutil import resolve_name

from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.local import seeded


def mnist_cnn(dropout: float = 0.2) -> nn.Sequential:
    """The MNIST network of McMahan et al. 2017: 1,663,370 parameters (algorithms.md §0).

    The papers do not say how much is dropped; 0.2 is what FedCL's code does (algorithms.md §7, row 4).
    """
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 32, 5, padding=2),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),  # (n, 32, 14, 14)
            conv2=nn.Conv2d(32, 64, 5, padding=2),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),  # (n, 64, 7, 7)
            flatten=nn.Flatten(),
            fc1=nn.Linear(64 * 7 * 7, 512),
            relu3=nn.ReLU(),
            dropout=nn.Dropout(dropout),
            fc2=nn.Linear(512, 10),
        )
    )


def mlp() -> nn.Sequential:
    """The MNIST perceptron of importance from agents: 159,010 parameters (algorithms.md §0)."""
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(28 * 28, 200),
            relu=nn.ReLU(),
            fc2=nn.Linear(200, 10),
        )
    )


def digits_cnn() -> nn.Sequential:
    """A small network for the 8 x 8 digits that come with scikit-learn: 53,002 parameters."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 32, 3, padding=1),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),  # (n, 32, 4, 4)
            conv2=nn.Conv2d(32, 64, 3, padding=1),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),  # (n, 64, 2, 2)
            flatten=nn.Flatten(),
            fc1=nn.Linear(64 * 2 * 2, 128),
            relu3=nn.ReLU(),
            fc2=nn.Linear(128, 10),
        )
    )


@dataclass(frozen=True)
class Design:
    """How a network is made, and what it takes."""

    make: Callable[[], nn.Module]
    input_shape: tuple[int, ...]  # of one example


MODELS: dict[str, Design] = {
    "digits-cnn": Design(digits_cnn, (1, 8, 8)),
    "mlp": Design(mlp, (1, 28, 28)),
    "mnist-cnn": Design(mnist_cnn, (1, 28, 28)),
}


def build(name: str, seed: int) -> nn.Module:
    """The network called `name` with torch's default initial weights, drawn after `seeded(seed)`.

    A name like `package.module:function` is a user's own: a function that returns the network.
    Raises ValueError for an unknown name, TypeError for a function that returns something else.
    """
    make = resolve_name(name) if ":" in name else _design(name).make
    seeded(seed)
    network = make()
    if not isinstance(network, nn.Module):
        raise TypeError(f"{name}() must return a torch.nn.Module, not {type(network).__name__}")
    return network


def input_shape(name: str) -> tuple[int, ...]:
    """Shape of one example for the network called `name`.  Raises ValueError for an unknown name."""
    return _design(name).input_shape


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of each example, (n,), from logits (n, classes) and labels (n,)."""
    return F.cross_entropy(outputs, y, reduction="none")


def _design(name: str) -> Design:
    if name in MODELS:
        return MODELS[name]
    near = get_close_matches(name, MODELS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"there is no model {name!r}; {hint}the models are {', '.join(sorted(MODELS))}")

"""The networks that scenarios can name, and the loss with which they are trained."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from inspect import signature

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parameter import is_lazy

from algorithms import own
from algorithms.networks import Network
from algorithms.training.seeding import seeded
from algorithms.training.settled import settle
from algorithms.training.tensors import overlap
from algorithms.training.torch_lock import TURN

UNLABELLED = -1  # a position of a text without a label, as in devices.data.dataset


# ---- images: (n, channels, height, width) -> logits (n, classes)


def mnist_cnn(dropout: float = 0.2, classes: int = 10) -> nn.Sequential:
    """Returns the MNIST network of McMahan et al. 2017: 1,663,370 parameters, 1,690,046 for 62 classes.

    The papers do not give the dropout rate; 0.2 is the rate of FedCL's code.
    """
    return _cnn_32_64(1, 28, dropout, classes)


def cifar_cnn_32_64(dropout: float = 0.2, classes: int = 10) -> nn.Sequential:
    """Returns the CIFAR CNN of importance from agents (Kim et al. 2020), McMahan's network for colour images: 2,156,490
    parameters.

    The paper names neither the dense layer nor the padding: 512 units and SAME are our choice.
    """
    return _cnn_32_64(3, 32, dropout, classes)


def _cnn_32_64(channels: int, side: int, dropout: float, classes: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 32, 5, padding=2),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),  # (n, 32, side / 2, side / 2)
            conv2=nn.Conv2d(32, 64, 5, padding=2),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),  # (n, 64, side / 4, side / 4)
            flatten=nn.Flatten(),
            fc1=nn.Linear(64 * (side // 4) ** 2, 512),
            relu3=nn.ReLU(),
            dropout=nn.Dropout(dropout),
            fc2=nn.Linear(512, classes),
        )
    )


def cifar_cnn(dropout: float = 0.2, classes: int = 10) -> nn.Sequential:
    """Returns the CIFAR-10 network of FedCL and of FedMeta with UGA: 1,756,426 parameters.

    The dropout rate of 0.2 after both dense layers comes from FedCL's code.
    """
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, 64, 5, padding=2),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(3, stride=2, padding=1),  # (n, 64, 16, 16)
            conv2=nn.Conv2d(64, 64, 5, padding=2),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(3, stride=2, padding=1),  # (n, 64, 8, 8)
            flatten=nn.Flatten(),
            fc1=nn.Linear(64 * 8 * 8, 384),
            relu3=nn.ReLU(),
            dropout1=nn.Dropout(dropout),
            fc2=nn.Linear(384, 192),
            relu4=nn.ReLU(),
            dropout2=nn.Dropout(dropout),
            fc3=nn.Linear(192, classes),
        )
    )


def cifar_cnn_3x3(classes: int = 10) -> nn.Sequential:
    """Returns the CIFAR-10 network of pfl-research's cross-device benchmark: 1,626,442 parameters.

    As there, its initial weights are Glorot's, and its biases torch's own.
    """
    network = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, 32, 3),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(32, 64, 3),
            relu2=nn.ReLU(),
            pool=nn.MaxPool2d(2),  # (n, 64, 14, 14)
            dropout1=nn.Dropout(0.25),
            flatten=nn.Flatten(),
            fc1=nn.Linear(64 * 14 * 14, 128),
            relu3=nn.ReLU(),
            dropout2=nn.Dropout(0.5),
            fc2=nn.Linear(128, classes),
        )
    )
    for name, parameter in network.named_parameters():
        if name.endswith("weight"):
            nn.init.xavier_uniform_(parameter)
    return network


def fedcurv_cnn(classes: int = 10) -> nn.Sequential:
    """Returns FedCurv's network, PyTorch's MNIST example as of 2019 (commit 0d3fe14a): 431,080 parameters.

    The example ends with a log-softmax and the negative log-likelihood, which together equal cross_entropy of these
    logits.
    """
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 20, 5),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),  # (n, 20, 12, 12)
            conv2=nn.Conv2d(20, 50, 5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),  # (n, 50, 4, 4)
            flatten=nn.Flatten(),
            fc1=nn.Linear(50 * 4 * 4, 500),
            relu3=nn.ReLU(),
            fc2=nn.Linear(500, classes),
        )
    )


def perceptron(inputs: int, hidden: int = 200, classes: int = 10) -> nn.Sequential:
    """Returns a network with one hidden layer of ReLU units.

    With 200 units it is the perceptron of importance from agents: 159,010 parameters for MNIST (`mlp`), 616,610 for
    CIFAR-10 (`cifar-mlp`).
    """
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(inputs, hidden),
            relu=nn.ReLU(),
            fc2=nn.Linear(hidden, classes),
        )
    )


def digits_cnn(classes: int = 10) -> nn.Sequential:
    """Returns a small network for the 8 x 8 digits that come with scikit-learn: 53,002 parameters."""
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
            fc2=nn.Linear(128, classes),
        )
    )


# ---- texts: int64 tokens (n, positions) -> logits (n, positions, classes); the classes are the vocabulary


class NextToken(nn.Sequential):
    """An embedding, one recurrent layer and a softmax layer, which predict the next token from all tokens before it."""

    def forward(self, tokens: Tensor) -> Tensor:
        embedding, recurrent, softmax = self
        states, _ = recurrent(embedding(tokens))  # (n, positions, units)
        logits: Tensor = softmax(states)
        return logits


def char_gru(embedding: int = 256, units: int = 1024, classes: int = 90) -> NextToken:
    """Returns the character model of FedMeta with UGA: 3,938,304 + 1,281 V parameters.

    The paper does not name V; 90 is TFF's Shakespeare vocabulary of 86 and its four special tokens.
    """
    return NextToken(
        OrderedDict(
            embedding=nn.Embedding(classes, embedding),
            gru=nn.GRU(embedding, units, batch_first=True),
            softmax=nn.Linear(units, classes),
        )
    )


def word_lstm(size: int, classes: int = 2000) -> NextToken:
    """Returns An Bian's one-layer word model: 2Vh + V + 8h² + 8h parameters, h = `size`.

    The paper's sizes are 100 (small), 200 (medium) and 600 (large); it does not give V, and 2,000 is about the size
    that the text of its subreddits supports.
    """
    return NextToken(
        OrderedDict(
            embedding=nn.Embedding(classes, size),
            lstm=nn.LSTM(size, size, batch_first=True),
            softmax=nn.Linear(size, classes),
        )
    )


# ---- by name


@dataclass(frozen=True)
class Design:
    """A network's constructor and the shape of its input."""

    make: Callable[..., nn.Module]  # called with `classes` if it has such a parameter
    input_shape: tuple[int, ...] | None  # shape of one example; None: any number of tokens


MODELS: dict[str, Design] = {
    "char-gru": Design(char_gru, None),
    "char-gru-small": Design(partial(char_gru, 32, 64), None),
    "cifar-cnn": Design(cifar_cnn, (3, 32, 32)),
    "cifar-cnn-32-64": Design(cifar_cnn_32_64, (3, 32, 32)),
    "cifar-cnn-3x3": Design(cifar_cnn_3x3, (3, 32, 32)),
    "cifar-mlp": Design(partial(perceptron, 3 * 32 * 32), (3, 32, 32)),
    "digits-cnn": Design(digits_cnn, (1, 8, 8)),
    "digits-mlp": Design(partial(perceptron, 8 * 8, 50), (1, 8, 8)),
    "fedcurv-cnn": Design(fedcurv_cnn, (1, 28, 28)),
    "lstm-large": Design(partial(word_lstm, 600), None),
    "lstm-medium": Design(partial(word_lstm, 200), None),
    "lstm-small": Design(partial(word_lstm, 100), None),
    "lstm-tiny": Design(partial(word_lstm, 32), None),
    "mlp": Design(partial(perceptron, 28 * 28), (1, 28, 28)),
    "mlp-50": Design(partial(perceptron, 28 * 28, 50), (1, 28, 28)),
    "mnist-cnn": Design(mnist_cnn, (1, 28, 28)),
}


def build(
    said: str | Network,
    seed: int,
    classes: int | None = None,
    shape: Sequence[int] | None = None,
    text: bool = False,
    inputs: own.Inputs = (),
) -> nn.Module:
    """Returns the network that is called, or described by, `said`, with torch's default initial weights, drawn after
    `seeded(seed)`, in place of which it has pretrained ones if there are any.

    It has `classes` outputs, or with None its usual number: 10 kinds of image, 90 characters, 2,000 words.  A name like
    `package.module:thing` names a user's own network.  The thing is a function that returns the network, and gets
    `classes` only if it has a parameter of this name; or it is a network, which is copied with its weights.  Lazy
    layers infer the number of their inputs from examples of shape `shape`, which are int64 tokens with `text` and
    float32 numbers without; `shape` None means that the network has no lazy layers.  `inputs`: those of a network that
    takes several, which lie in an example one after another (own.taking).

    Raises ValueError for an unknown name, for `classes` below 1, for lazy layers that no example reaches and as
    settled.settle does; TypeError for a function that returns something else.
    """
    said = Network(said) if isinstance(said, str) else said
    name = said.name
    if classes is not None and classes < 1:
        raise ValueError(f"classes is {classes}; a network tells at least 1 class apart")
    with TURN:  # creating a model draws random numbers
        seeded(0)  # a module's draws at its first import are the same in each process
        make = own.maker(name) if ":" in name else _design(name).make
        chosen = {"classes": classes} if classes is not None and "classes" in signature(make).parameters else {}
        seeded(seed)
        network = make(**chosen)
        if not isinstance(network, nn.Module):
            raise TypeError(f"{name}() must return a torch.nn.Module, not {type(network).__name__}")
        if inputs:
            own.taking(network, inputs)
        if shape is not None and _lazy(network):
            _sized(network, torch.zeros(2, *shape, dtype=torch.int64 if text else torch.float32))
    if names := overlap(network):
        raise ValueError(f"{' and '.join(names)} share memory; one weight with two names is `b.weight = a.weight`")
    settle(network, said)
    return network


def _lazy(network: nn.Module) -> list[str]:
    """Returns the names of parameters and buffers without a shape yet."""
    named = (*network.named_parameters(), *network.named_buffers())
    return [name for name, tensor in named if is_lazy(tensor)]


@torch.no_grad()
def _sized(network: nn.Module, examples: Tensor) -> None:
    """Gives lazy layers their shapes, and draws their weights, which do not depend on the examples' values."""
    network.eval()  # keeps BatchNorm from learning from these examples
    network(examples)
    network.train()
    if lazy := _lazy(network):
        raise ValueError(f"{', '.join(lazy)} has no shape, for no example reaches that lazy layer; remove it")


def fits(name: str, shape: Sequence[int], tokens: bool) -> bool:
    """Returns true if the network called `name` accepts examples of this shape, which are int64 tokens if `tokens` and
    otherwise float32 numbers.

    Always true for a user's own network (`package.module:function`), for which only a try can tell.  Raises ValueError
    for an unknown name.
    """
    if ":" in name:
        return True
    expected = _design(name).input_shape
    if expected is None:
        return tokens and len(shape) == 1 and shape[0] > 0
    return not tokens and tuple(shape) == expected


def takes(name: str) -> str:
    """Returns a description, for a message, of the input of the network called `name`.  Raises ValueError for an
    unknown name."""
    shape = _design(name).input_shape
    return "texts, of any number of int64 tokens" if shape is None else f"examples of shape {shape}"


def input_shape(name: str) -> tuple[int, ...]:
    """Returns the shape of one example for the network called `name`.

    Raises ValueError for an unknown name, and for a network that takes texts of any length.
    """
    shape = _design(name).input_shape
    if shape is None:
        raise ValueError(f"{name} takes {takes(name)}; such examples have no one shape")
    return shape


def _design(name: str) -> Design:
    if name in MODELS:
        return MODELS[name]
    near = get_close_matches(name, MODELS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"there is no model {name!r}; {hint}the models are {', '.join(sorted(MODELS))}")


# ---- what a network's answers are worth


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Returns the cross-entropy of each example, (n,), from logits and labels.

    Logits (n, classes) go with labels (n,).  Logits (n, positions, classes) go with labels (n, positions), and the
    example's loss is the mean over its labelled positions; or with labels (n,), for the last position.  UNLABELLED
    positions do not count: an example without any label has loss 0 and zero gradients.  Raises ValueError for other
    shapes.
    """
    logits = answers(outputs, y)
    if y.dim() == 1:
        return F.cross_entropy(logits, y, reduction="none", ignore_index=UNLABELLED)
    # Flat: of the two forms of this loss, the one for more dimensions is not deterministic on every device.
    flat = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none", ignore_index=UNLABELLED)
    return flat.view(y.shape).sum(1) / (y != UNLABELLED).sum(1).clamp(min=1)


def hits(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the numbers of correct and of labelled positions for each example: int64 (n,) both.

    Shapes as in cross_entropy; an image is one position.  A tie goes to the first of the classes.  Raises ValueError
    for other shapes.
    """
    right = answers(outputs, y).argmax(-1) == y
    return (right.long() if y.dim() == 1 else right.sum(1)), labelled(y)


def labelled(y: Tensor) -> Tensor:
    """Returns the number of labels of each example: int64 (n,)."""
    known = y != UNLABELLED
    return known.long() if y.dim() == 1 else known.flatten(1).sum(1)


def answers(outputs: Tensor, y: Tensor) -> Tensor:
    """Returns the logits that belong to the labels y, (*y's shape, classes); for one label per text, those of the last
    position.  Raises ValueError for shapes that do not belong together."""
    if outputs.dim() == 3 and y.dim() == 1:
        outputs = outputs[:, -1]
    if outputs.shape[:-1] != y.shape or y.dim() not in (1, 2):
        raise ValueError(
            f"outputs have shape {tuple(outputs.shape)} and labels {tuple(y.shape)}; they must be (n, classes) and "
            "(n,), or (n, positions, classes) and (n, positions) or (n,)"
        )
    return outputs

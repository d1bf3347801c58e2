"""Networks of users for the 8 x 8 digits, whose outputs are more than logits, or something else."""

from collections import OrderedDict
from typing import NamedTuple

import torch
from torch import nn


class ModelOutput(OrderedDict):
    """As that of Hugging Face's transformers: a dict whose keys are attributes too, without those that are None."""

    def __init__(self, **parts):
        super().__init__((name, part) for name, part in parts.items() if part is not None)

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Auxiliary(NamedTuple):
    """As torchvision's GoogLeNet returns in training."""

    logits: torch.Tensor
    more: torch.Tensor


class Plain(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.hidden, self.head = nn.Linear(64, 12), nn.Linear(12, classes)

    def forward(self, x):
        return self.told(self.head(self.hidden(x.flatten(1)).tanh()))

    def told(self, logits):
        return logits


class Dict(Plain):
    def told(self, logits):
        return {"logits": logits, "features": logits + 1}


class HuggingFace(Plain):
    def told(self, logits):
        return ModelOutput(loss=None, logits=logits, attentions=(logits,))


class InTraining(Plain):
    def told(self, logits):
        return Auxiliary(logits, logits) if self.training else logits


class Tuple(Plain):
    def told(self, logits):
        return logits, logits + 1


class Other(Plain):
    def told(self, logits):
        return {"prediction": logits, "features": logits}


class Nothing(Plain):
    def told(self, logits):
        return None


class TupleWhenTested(Plain):
    def told(self, logits):
        return logits if self.training else (logits, logits)


class Soft(Plain):
    def told(self, logits):
        return logits.softmax(-1)


class SoftWhenTested(Plain):
    def told(self, logits):
        return logits if self.training else logits.softmax(-1)


def soft_words(classes):
    return nn.Sequential(nn.Embedding(classes, 8), nn.Linear(8, classes), nn.Softmax(-1))


def soft_pixels(classes):
    return nn.Sequential(nn.Conv2d(1, classes, 1), nn.Softmax(1))


class LogSoft(Plain):
    def told(self, logits):
        return logits.log_softmax(-1)


class Sigmoid(Plain):
    def told(self, logits):
        return logits.sigmoid()


class Positive(Plain):
    def told(self, logits):
        return logits.abs()


class Half(Plain):
    """Its weights are bfloat16, and its inputs are made so."""

    def __init__(self, classes=10):
        super().__init__(classes)
        self.bfloat16()

    def forward(self, x):
        return super().forward(x.bfloat16()).float()


class HalfBuffer(Plain):
    def __init__(self, classes=10):
        super().__init__(classes)
        self.register_buffer("shift", torch.zeros(1, dtype=torch.bfloat16))


made = Plain()  # a network, not what makes one
with torch.no_grad():
    for parameter in made.parameters():
        parameter.copy_(torch.linspace(-0.3, 0.3, parameter.numel()).view_as(parameter))


class Masked(nn.Module):
    """Causal attention over the rows of an image; its mask of 0 and -inf is a buffer, and others hold inf and NaN."""

    def __init__(self, classes=10):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(64, classes)
        self.register_buffer("mask", torch.full((8, 8), float("-inf")).triu(1))
        self.register_buffer("bounds", torch.tensor([float("-inf"), 0.5, float("inf")]))
        self.register_buffer("unused", torch.full((2,), float("nan")))

    def forward(self, x):
        x = x.view(-1, 8, 8).clamp(self.bounds[0], self.bounds[2])
        weights = (self.q(x) @ self.k(x).transpose(1, 2) / 8**0.5 + self.mask).softmax(-1)
        return self.head((weights @ self.v(x)).flatten(1))


class DrawnMask(Masked):
    """Each seed has another mask."""

    def __init__(self, classes=10):
        super().__init__(classes)
        self.mask[1:, 1:].masked_fill_(torch.rand(7, 7) < 0.3, float("-inf")).fill_diagonal_(0)


class Opening(Masked):
    """Training changes its mask: after a step the first row sees everything but the last place."""

    def forward(self, x):
        if self.training:
            self.mask[0, :7] = 0
        return super().forward(x)


class Closing(Masked):
    """A value of its mask that was 0 becomes -inf."""

    def forward(self, x):
        if self.training:
            self.mask[7, 0] = float("-inf")
        return super().forward(x)


_kept = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def always_the_same() -> nn.Module:
    return _kept


class Turned(nn.Module):
    """With a complex helper as rotary embeddings have it, which is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)
        self.register_buffer("turn", torch.polar(torch.ones(32), torch.arange(32.0)), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned = torch.view_as_complex(x.reshape(-1, 32, 2)) * self.turn
        found: torch.Tensor = self.head(torch.view_as_real(turned).flatten(1))
        return found

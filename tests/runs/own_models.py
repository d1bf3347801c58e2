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

"""Two inputs: an image of a digit and a question about it (is it even, prime, above four?); the answer is yes or no.

python two_inputs.py
"""

import fedlapse
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from devices.data.dataset import Dataset

TRAIN = 1400


def data():
    """A dict of arrays: `image` float32 (n, 1, 8, 8), `question` int64 (n,)."""
    images, digits = load_digits(return_X_y=True)
    draw = np.random.default_rng(0)
    order, question = draw.permutation(len(digits)), draw.integers(0, 3, len(digits))
    digits, image = digits[order], (images[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    answers = np.stack([digits % 2 == 0, np.isin(digits, [2, 3, 5, 7]), digits > 4], axis=1)
    x, y = {"image": image, "question": question}, answers[np.arange(len(digits)), question].astype(np.int64)
    train, test = ({name: each[part] for name, each in x.items()} for part in (slice(TRAIN), slice(TRAIN, None)))
    return Dataset("questions", train, y[:TRAIN], test, y[TRAIN:], classes=2, strata=digits[:TRAIN])


class Answer(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.see = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 32), nn.ReLU())
        self.words = nn.Embedding(3, 8)
        self.answer = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, image, question):  # the names are those of the data's inputs
        return self.answer(torch.cat([self.see(image), self.words(question)], 1))


SCENARIO = {
    "name": "two-inputs",
    "data": {"set": "two_inputs:data", "split": {"kind": "dirichlet", "alpha": 0.5}},
    "model": "two_inputs:Answer",
    "training": {"epochs": 3, "batch": 10, "lr": 0.1, "momentum": 0.5},
    "rounds": {"max": 25, "fraction": 0.5, "targets": [{"metric": "accuracy", "value": 0.9}]},
    "fleet": [{"profile": "phone-mid", "count": 10, "link": {"up_mbit_s": 5, "down_mbit_s": 20, "latency_ms": 40}}],
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.1}}, {"fedcl": {"strength": 1.0}}, {"fedcurv": {"strength": 0.1}}],
}

if __name__ == "__main__":
    print(fedlapse.compare(SCENARIO).verdict)

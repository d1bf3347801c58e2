"""Fine-tuning: a MobileNetV3 of torchvision whose last layer alone is trained, on digits in colour.

python mobilenet.py
"""

import fedlapse  # first: beside a PyTorch for CPUs, torchvision needs it
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torchvision.models import mobilenet_v3_small

from devices.data.dataset import Dataset

TRAIN, TEST = 400, 100


def data():
    """Images of bytes (n, 3, 32, 32): each digit of scikit-learn, four times as large, in one of three colours."""
    x, y = load_digits(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(x))[: TRAIN + TEST]
    grey = (x[some] * 15).astype(np.uint8).reshape(-1, 8, 8).repeat(4, 1).repeat(4, 2)
    colour = np.eye(3, dtype=np.uint8)[some % 3]
    x, y = grey[:, None] * colour[:, :, None, None], y[some]
    return Dataset("colours", x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], classes=10)


class Head(nn.Module):
    """The network's features, frozen, and a new last layer."""

    def __init__(self, classes):
        super().__init__()
        self.features = mobilenet_v3_small().features  # yours: weights="IMAGENET1K_V1"
        for layer in self.features.modules():
            layer.momentum = None  # in place of pretraining: BatchNorm's statistics are those of noise
        with torch.no_grad():
            self.features(torch.rand(8, 3, 32, 32))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(576), nn.Linear(576, classes))

    def forward(self, x):
        return self.head(self.features(x))


SCENARIO = {
    "name": "mobilenet",
    "data": {"set": "mobilenet:data", "split": {"kind": "dirichlet", "alpha": 0.5}},
    "model": {"name": "mobilenet:Head", "train": "head.*", "preloaded": True},  # the head alone travels
    "training": {"epochs": 2, "batch": 10, "lr": 0.02},
    "rounds": {"max": 15, "fraction": 0.5, "targets": [{"metric": "accuracy", "value": 0.2}]},
    "fleet": [{"profile": "phone-mid", "count": 10, "link": {"up_mbit_s": 5, "down_mbit_s": 20, "latency_ms": 40}}],
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.1}}, {"fedcl": {"strength": 1.0}}, {"fedcurv": {"strength": 0.1}}],
}

if __name__ == "__main__":
    print(fedlapse.compare(SCENARIO).verdict)

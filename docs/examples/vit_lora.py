"""LoRA (Hu et al. 2021): a small vision transformer that is frozen but for low-rank layers and its head.

python vit_lora.py
"""

import fedlapse  # first: beside a PyTorch for CPUs, torchvision needs it
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torchvision.models import VisionTransformer

from devices.data.dataset import Dataset

TRAIN, TEST = 400, 100


def data():
    """Images of bytes (n, 3, 16, 16): digits of scikit-learn, twice as large."""
    x, y = load_digits(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(x))[: TRAIN + TEST]
    grey = (x[some] * 15).astype(np.uint8).reshape(-1, 1, 8, 8).repeat(3, 1).repeat(2, 2).repeat(2, 3)
    return Dataset("digits16", grey[:TRAIN], y[some[:TRAIN]], grey[TRAIN:], y[some[TRAIN:]], classes=10)


class LoRA(nn.Module):
    """W x + B A x, where W is given and only A and B, of rank r, are trained; B begins as 0."""

    def __init__(self, given, rank=4):
        super().__init__()
        self.given = given
        self.a = nn.Parameter(torch.randn(rank, given.in_features) / given.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(given.out_features, rank))

    def forward(self, x):
        return self.given(x) + x @ self.a.T @ self.b.T


def network(classes):
    vit = VisionTransformer(image_size=16, patch_size=4, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64)
    vit.requires_grad_(False)
    for block in vit.encoder.layers:
        block.mlp[0], block.mlp[3] = LoRA(block.mlp[0]), LoRA(block.mlp[3])
    vit.heads = nn.Linear(32, classes)
    return vit


SCENARIO = {
    "name": "vit-lora",
    "data": {"set": "vit_lora:data", "split": {"kind": "dirichlet", "alpha": 0.5}},
    "model": {"name": "vit_lora:network", "train": "trainable", "preloaded": True},  # as with peft
    "training": {"optimizer": "adam", "epochs": 4, "batch": 10, "lr": 0.01},
    "rounds": {"max": 20, "fraction": 0.5, "targets": [{"metric": "accuracy", "value": 0.4}]},
    "fleet": [{"profile": "phone-mid", "count": 10, "link": {"up_mbit_s": 5, "down_mbit_s": 20, "latency_ms": 40}}],
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.01}}, {"fedcl": {"strength": 1.0}}, {"fedcurv": {"strength": 0.1}}],
}

if __name__ == "__main__":
    print(fedlapse.compare(SCENARIO).verdict)

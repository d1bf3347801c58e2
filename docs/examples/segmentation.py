"""Segmentation: which pixels of a noisy image belong to a disc, which to a square?  A small U-Net.

python segmentation.py
"""

import fedlapse
import numpy as np
import torch
from torch import nn

from devices.data.dataset import Dataset

SIDE, TRAIN = 16, 400


def data():
    """Images of bytes (n, 1, 16, 16); targets are a class for each pixel, int64 (n, 16, 16)."""
    draw = np.random.default_rng(0)
    down, across = np.mgrid[:SIDE, :SIDE]
    images, targets = [], []
    for _ in range(TRAIN + 100):
        a, b, c, d = draw.integers(3, SIDE - 3, 4)
        target = np.where((down - a) ** 2 + (across - b) ** 2 <= 9, 1, 0)
        target = np.where((abs(down - c) <= 2) & (abs(across - d) <= 2), 2, target)
        targets.append(target)
        images.append(np.clip(90 * target + draw.normal(40, 20, target.shape), 0, 255).astype(np.uint8)[None])
    x, y = np.stack(images), np.stack(targets)
    return Dataset("shapes", x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], classes=3)


class UNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, classes, 3, padding=1)

    def forward(self, x):  # (n, 1, 16, 16) -> logits (n, classes, 16, 16)
        fine = self.down(x)
        return self.out(torch.cat([fine, self.up(self.deep(fine))], 1))


SCENARIO = {
    "name": "segmentation",
    "data": {"set": "segmentation:data"},
    "model": "segmentation:UNet",
    "task": "segmentation",
    "training": {"optimizer": "adam", "epochs": 1, "batch": 10, "lr": 0.01},
    "rounds": {"max": 15, "fraction": 1.0, "targets": [{"metric": "iou", "value": 0.8}]},
    "fleet": [{"profile": "pi-4", "count": 6, "link": {"up_mbit_s": 2, "down_mbit_s": 8, "latency_ms": 30}}],
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.01}}, {"fedcl": {"strength": 1.0}}, {"fedcurv": {"strength": 1.0}}],
}

if __name__ == "__main__":
    print(fedlapse.compare(SCENARIO).verdict)

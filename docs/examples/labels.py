"""Several labels for each example: is a handwritten digit even, prime, above four (scikit-learn's data)?

python labels.py
"""

import fedlapse
import numpy as np
from sklearn.datasets import load_digits
from torch import nn

from devices.data.dataset import Dataset

TRAIN = 1400


def data():
    """1,400 images to train on and 397 to test; `strata` are the digits, so a split can give a device few of them."""
    x, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, digits = (x[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8), digits[order]
    y = np.stack([digits % 2 == 0, np.isin(digits, [2, 3, 5, 7]), digits > 4], axis=1)
    return Dataset("traits", x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], classes=3, strata=digits[:TRAIN])


def network(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, classes))


SCENARIO = {
    "name": "labels",
    "data": {"set": "labels:data", "split": {"kind": "classes", "each": 2}},
    "model": "labels:network",
    "task": {"name": "multilabel", "metrics": ["f1", "auc"]},
    "training": {"epochs": 2, "batch": 10, "lr": 0.2},
    "rounds": {"max": 25, "fraction": 0.5, "targets": [{"metric": "f1", "value": 0.8}]},
    "fleet": [{"profile": "phone-mid", "count": 12, "link": {"up_mbit_s": 5, "down_mbit_s": 20, "latency_ms": 40}}],
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.1}}, {"fedcl": {"strength": 1.0}}, {"fedcurv": {"strength": 1.0}}],
    "seeds": [1, 2],
}

if __name__ == "__main__":
    print(fedlapse.compare(SCENARIO).verdict)

"""Tabular regression: how far diabetes has progressed, from ten measurements (scikit-learn's data).

python tabular.py
"""

import fedlapse
import numpy as np
from sklearn.datasets import load_diabetes
from torch import nn

from devices.data.dataset import Dataset


def data():
    """354 patients to train on and 88 to test; a split by `strata` gives each clinic patients of few ages."""
    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x = (x[order] * np.sqrt(len(x))).astype(np.float32)  # each measurement has mean 0 and deviation 1
    y = ((y[order] - y.mean()) / y.std()).astype(np.float32)
    ages = np.digitize(x[:354, 0], [-1, -0.4, 0.4, 1])
    return Dataset("diabetes", x[:354], y[:354], x[354:], y[354:], classes=1, strata=ages)


def network():
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))


SCENARIO = {
    "name": "tabular",
    "data": {"set": "tabular:data", "split": {"kind": "dirichlet", "alpha": 0.5}},
    "model": "tabular:network",
    "task": {"name": "regression", "metrics": ["mse", "r2"]},
    "training": {"epochs": 2, "batch": 8, "lr": 0.01},
    "rounds": {"max": 20, "fraction": 0.5, "targets": [{"metric": "mse", "value": 0.6}]},
    "fleet": [{"name": "clinics", "profile": "gateway", "count": 8, "link": {"up_mbit_s": 1, "down_mbit_s": 4}}],
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.1}}, {"fedcl": {"strength": 0.5}}, {"fedcurv": {"strength": 0.05}}],
    "seeds": [1, 2],
}

if __name__ == "__main__":
    print(fedlapse.compare(SCENARIO).verdict)

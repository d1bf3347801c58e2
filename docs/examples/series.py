"""A time series: the next hour of a household's load from its last day, by a GRU.

python series.py
"""

import fedlapse
import numpy as np
from torch import nn

HOUSEHOLDS, DAY = 8, 24


def data():
    """Windows of 24 hours (n, 24, 1) and the hour after each, from three weeks of eight households."""
    draw = np.random.default_rng(0)
    x, y, owner = [], [], []
    for home in range(HOUSEHOLDS):
        hours = np.arange(21 * DAY)
        load = np.sin(2 * np.pi * (hours - draw.integers(DAY)) / DAY) + 0.5 * (hours // DAY % 7 < 5)
        load += 0.1 * draw.normal(size=len(hours))
        for start in range(0, len(hours) - DAY, 3):
            x.append(load[start : start + DAY, None])
            y.append(load[start + DAY])
            owner.append(f"home-{home}")
    return {"x": np.stack(x).astype(np.float32), "y": np.array(y, np.float32), "owner": owner}


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(1, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, x):  # (n, 24, 1) -> (n, 1)
        return self.out(self.gru(x)[0][:, -1])


SCENARIO = {
    "name": "series",
    "data": {"set": "series:data", "split": {"kind": "natural"}},
    "model": "series:Forecast",
    "task": {"name": "regression", "metrics": ["mae"]},
    "training": {"optimizer": "adam", "epochs": 1, "batch": 16, "lr": 0.01},
    "rounds": {"max": 10, "fraction": 1.0, "targets": [{"metric": "mae", "value": 0.15}]},
    "fleet": [{"name": "homes", "profile": "gateway", "count": 8, "link": {"up_mbit_s": 1, "down_mbit_s": 4}}],
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.01}}, {"fedcl": {"strength": 0.1}}, {"fedcurv": {"strength": 0.1}}],
}

if __name__ == "__main__":
    print(fedlapse.compare(SCENARIO).verdict)

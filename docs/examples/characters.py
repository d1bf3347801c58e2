"""Language: a transformer of characters, whose embedding is its output layer too (tied), on scikit-learn's texts.

python characters.py
"""

import fedlapse
import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud, load_wine
from torch import nn

LONG, WIDTH = 32, 32
TEXTS = (load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud, load_wine)


def data():
    """Windows of 32 characters and the same one further on; their owner is the text that they are from."""
    windows, owners = [], []
    for load in TEXTS:
        text = np.frombuffer(load().DESCR.encode("ascii", "ignore"), np.uint8).astype(np.int64)
        cut = [text[start : start + LONG + 1] for start in range(0, len(text) - LONG, LONG)]
        windows += cut
        owners += [load.__name__.removeprefix("load_")] * len(cut)
    tokens = np.stack(windows)
    return {"x": tokens[:, :-1], "y": tokens[:, 1:], "owner": owners}


class Transformer(nn.Module):
    def __init__(self, classes):  # the tokens of the vocabulary
        super().__init__()
        self.characters, self.places = nn.Embedding(classes, WIDTH), nn.Embedding(LONG, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, classes, bias=False)
        nn.init.normal_(self.characters.weight, std=0.1)
        self.out.weight = self.characters.weight  # one tensor with two names: it is sent and stored once

    def forward(self, tokens):  # (n, positions) -> logits (n, positions, classes)
        positions = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(positions, device=tokens.device)
        x = self.characters(tokens) + self.places(torch.arange(positions, device=tokens.device))
        return self.out(self.norm(self.block(x, src_mask=mask, is_causal=True)))


SCENARIO = {
    "name": "characters",
    "data": {"set": "characters:data", "split": {"kind": "natural"}},
    "model": "characters:Transformer",
    "task": "language",
    "training": {"optimizer": "adam", "epochs": 2, "batch": 8, "lr": 0.003, "clip_norm": 1.0},
    "rounds": {"max": 20, "fraction": 1.0, "targets": [{"metric": "perplexity", "value": 20}]},
    "fleet": [{"profile": "phone-mid", "count": 6, "link": {"up_mbit_s": 5, "down_mbit_s": 20, "latency_ms": 40}}],
    "algorithms": ["fedavg", {"fedprox": {"mu": 0.01}}, {"fedcl": {"strength": 0.1}}, {"fedcurv": {"strength": 0.1}}],
}

if __name__ == "__main__":
    print(fedlapse.compare(SCENARIO).verdict)

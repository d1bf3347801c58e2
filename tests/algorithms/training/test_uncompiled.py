"""The cost of a model is counted without torch's compiler. test_cost.py checks the counts by hand."""

import json
import subprocess
import sys

import pytest

CODE = """
import json, sys
from torch import nn
from algorithms import models
from algorithms.algorithm import Phase
from algorithms.counting.cost import Meter
from algorithms.training.copied import without_compiler
from emulator.pricing.memory import activations

layers = nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Dropout(0.5), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 4)
model = nn.Sequential(*layers)
meter = Meter(model, (1, 8, 8), models.cross_entropy)
for kind in ("forward", "batch", "each", "each_label"):
    meter.step(Phase("p", kind, 10, 5))
activations(model.to("meta"), (1, 8, 8), 5)
unloaded = "torch._dynamo" not in sys.modules
with without_compiler():
    import torch._dynamo
    real = torch._dynamo.config.__name__  # which the stand-in has not
print(json.dumps([unloaded, real, torch._dynamo.is_compiling()]))
"""


@pytest.mark.slow
def test_counting_does_not_load_it_and_who_needs_it_gets_it():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=True)
    assert json.loads(done.stdout) == [True, "torch._dynamo.config", False]

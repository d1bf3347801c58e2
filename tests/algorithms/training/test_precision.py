"""training.precision: what is computed in fewer bits, and what stays float32."""

import pytest
import torch
from torch import nn

from algorithms import models
from algorithms.algorithm import Party, Training
from algorithms.training import precision
from algorithms.training.local import Sgd
from algorithms.training.seeding import seeded
from algorithms.training.stack_sgd import sgd
from algorithms.uga import UGA
from tests.all_of import all_of


def net():
    seeded(2)
    layers = nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(48, 3)
    return nn.Sequential(*layers)


def task(n, how, epochs=2):
    model, generator = net(), torch.Generator().manual_seed(n)
    x, y = torch.randn(n, 2, 4, 4, generator=generator), torch.arange(n) % 3
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    device = Party(f"d{n}", 3, model, models.cross_entropy, x, y, round=0, cycle=0, seed=n)
    return Sgd(device, weights, Training(epochs=epochs, batch=4, lr=0.1, momentum=0.9, precision=how))


def far(one, other):
    """Largest difference of any weight."""
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def test_bf16_rounds_as_numbers_of_8_bits_do():
    """A sum of two products, by hand: 1 + 2**-9 is 1 in 8 bits, and 3 * 1 + 3 * 2**-9 would not be 3."""
    x, weight = torch.tensor([[1 + 2**-9, 2.0]]), torch.tensor([[3.0, 0.0]])
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data = weight
    found = precision.outputs("bf16", x.device, lambda: layer(x))
    assert (found.dtype, found.item()) == (torch.float32, 3.0)
    assert precision.outputs("float32", x.device, lambda: layer(x)).item() == 3 + 3 * 2**-9


def test_weights_stay_float32_and_differ_by_rounding():
    full, few = (task(9, how).alone() for how in ("float32", "bf16"))
    assert {value.dtype for value in few.values()} == {torch.float32}
    assert 1e-5 < far(full, few) < 0.05
    assert any(bool((value != value.bfloat16()).any()) for value in few.values())


def test_a_stack_and_the_loop_agree_in_bf16():
    """To its rounding; the masks are the same, as another dropout would be farther away than this."""
    alone = [task(n, "bf16").alone() for n in (9, 6, 1)]
    together = sgd([task(n, "bf16") for n in (9, 6, 1)])
    assert all_of(far(one, other) < 0.05 for one, other in zip(alone, together, strict=True))
    plain = sgd([task(n, "float32") for n in (9, 6, 1)])
    assert all_of(far(one, other) > 1e-5 for one, other in zip(plain, together, strict=True))


def test_tf32_is_allowed_within_training_only():
    settings = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [each.allow_tf32 for each in settings]
    with precision.multiplying("tf32"):
        assert [each.allow_tf32 for each in settings] == [True, True]
    assert [each.allow_tf32 for each in settings] == before
    with precision.multiplying("float32"):
        assert [each.allow_tf32 for each in settings] == before


def test_what_it_may_not_be_is_refused():
    with pytest.raises(ValueError, match="precision is 'half'; it must be 'float32', 'tf32' or 'bf16'"):
        Training(precision="half")
    with pytest.raises(ValueError, match="'bf16'; gradients through training need 'float32'"):
        UGA(Training(precision="bf16"))

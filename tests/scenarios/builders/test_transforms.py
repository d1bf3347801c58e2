"""Transforms that a scenario names, and augmentation in training."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from algorithms import models
from algorithms.algorithm import Party, Training
from algorithms.fedavg import FedAvg
from algorithms.keeptrace import keep_trace
from algorithms.stack import train as in_a_stack
from algorithms.training.augmenting import augmented
from algorithms.training.tensors import tensors_of
from emulator.lab import jobs, training
from emulator.lab.build import lab_of
from emulator.ledger.key import Keys
from emulator.messages.files import Memory
from emulator.messages.store import NOTHING
from emulator.record.run import Run
from scenarios.builders import parts
from scenarios.builders.transforms import Augmentation, pipeline
from scenarios.load import BadScenario, build
from tests.conftest import SMALL, merged

CROP, FLIP = {"RandomCrop": {"size": 8, "padding": 2}}, {"RandomHorizontalFlip": 0.5}
HERE = ("data", "transform")


def data_of(**says):
    return parts.dataset(build(merged(SMALL, {"data": says})))


def lab(**says):
    return lab_of(build(merged(SMALL, {"data": says})))


def test_a_transform_is_of_all_examples_and_torchvisions_arithmetic():
    plain, found = data_of(), data_of(transform=[{"Normalize": {"mean": [0.5], "std": [0.25]}}])
    for part in ("x", "x_test"):
        np.testing.assert_allclose(getattr(found, part), (getattr(plain, part) - 0.5) / 0.25, atol=1e-6)
    np.testing.assert_array_equal(plain.y, found.y)


def test_transforms_follow_one_another_and_take_one_argument_by_itself():
    change = pipeline([{"Pad": 1}, {"Resize": [5, 7]}, {"ToDtype": {"dtype": "float64"}}], HERE)
    found = change(torch.rand(3, 4, 4))
    assert (found.shape, found.dtype) == ((3, 5, 7), torch.float64)


def test_transforms_inside_a_transform_are_named_too():
    never = pipeline([{"RandomApply": {"transforms": [{"Pad": 3}], "p": 0.0}}], HERE)
    always = pipeline([{"RandomApply": {"transforms": [{"Pad": 3}], "p": 1.0}}], HERE)
    assert (never(torch.rand(1, 2, 2)).shape, always(torch.rand(1, 2, 2)).shape) == ((1, 2, 2), (1, 8, 8))


def test_a_transform_that_draws_draws_the_same_each_time():
    drawn = [data_of(transform=["RandomHorizontalFlip", {"GaussianNoise": {"sigma": 0.1}}]) for _ in range(2)]
    np.testing.assert_array_equal(drawn[0].x, drawn[1].x)
    assert not np.array_equal(drawn[0].x, data_of().x)


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ({"transform": ["Resise"]}, r"data\.transform.*no transform 'Resise'; did you mean Resize"),
        ({"transform": [{"Resize": {"sise": 3}}]}, "Resize: .*unexpected keyword argument 'sise'"),
        ({"augment": ["functional"]}, r"data\.augment.*no transform 'functional'"),
        ({"augment": [{"AutoAugment": {"policy": "mnist"}}]}, "AutoAugment: 'mnist' is not a valid AutoAugmentPolicy"),
        ({"augment": [{"RandomCrop": 4}]}, r"float32 of shape \(1, 4, 4\) of torch.float32 of shape \(1, 8, 8\)"),
        ({"augment": [{"RandomCrop": 30}]}, r"on an example of shape \(1, 8, 8\): ValueError"),
        ({"transform": [{"Resize": 3, "Pad": 1}]}, "it has more items; it may have 1"),
    ],
)
def test_a_wrong_transform_says_what_would_be_right(says, said):
    with pytest.raises(BadScenario, match=said):
        lab(**says)


def test_a_normalisation_at_the_end_comes_after_the_augmentation():
    normalise = {"Normalize": {"mean": [0.5], "std": [0.25]}}
    found = Augmentation.of([{"ColorJitter": {"brightness": [2, 2]}}], ["Grayscale", normalise])
    x = torch.full((1, 2, 2), 0.4)
    # 0.4 doubled is 0.8; with the normalised -0.4 doubled, ColorJitter's clamp would give 0
    torch.testing.assert_close(found((x - 0.5) / 0.25), torch.full((1, 2, 2), (0.8 - 0.5) / 0.25))
    assert Augmentation.of([FLIP], ["Grayscale"]).normalise is None
    assert Augmentation.of([], [normalise]) is None


def party(n, seed, augment, model):
    x = torch.rand(n, 1, 8, 8, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    y = torch.arange(n) % 10
    return Party(str(n), 3, model, models.cross_entropy, x, y, round=0, cycle=0, seed=seed, augment=augment)


class Dropped(torch.nn.Module):
    """A network with dropout, whose draws must not depend on augmentation."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(64, 9), torch.nn.Dropout(0.3), torch.nn.Linear(9, 10)
        )

    def forward(self, x):
        return self.body(x)


@pytest.fixture
def network():
    torch.manual_seed(3)
    model = Dropped().double()
    return model, {name: value.clone() for name, value in tensors_of(model).items()}


AUGMENTATION = Augmentation((CROP, FLIP, {"GaussianNoise": {"sigma": 0.1, "clip": False}}))


def test_a_stack_augments_as_its_devices_do_alone(network):
    model, weights = network
    algorithm = FedAvg(Training(epochs=2, batch=4, lr=0.1))
    devices = [party(n, seed, AUGMENTATION, model) for n, seed in ((6, 5), (11, 6), (4, 7))]
    stacked = in_a_stack(algorithm, [{"weights": weights}] * 3, devices)
    for device, reply in zip(devices, stacked, strict=True):
        alone = algorithm.train({"weights": weights}, device).upload["weights"]
        plain = algorithm.train({"weights": weights}, replace(device, augment=None)).upload["weights"]
        for name, value in alone.items():
            torch.testing.assert_close(reply.upload["weights"][name], value, rtol=0, atol=1e-10)
            assert not torch.equal(value, plain[name])


def test_an_augmentation_that_changes_nothing_changes_no_bit(network):
    """So dropout draws as it does without augmentation."""
    model, weights = network
    algorithm, never = FedAvg(Training(epochs=2, batch=4)), Augmentation(({"RandomErasing": {"p": 0.0}},))
    found = [
        algorithm.train({"weights": weights}, party(11, 5, augment, model)).upload["weights"]
        for augment in (None, never)
    ]
    for name, value in found[0].items():
        assert torch.equal(found[1][name], value)


def test_each_example_and_each_step_and_each_device_draws_anew_and_a_step_may_be_repeated(network):
    model, _ = network
    noise = Augmentation(({"GaussianNoise": {"sigma": 0.1, "clip": False}},))
    device, other = party(4, 5, noise, model), party(4, 6, noise, model)
    x = torch.full((4, 1, 8, 8), 0.5)
    before = torch.get_rng_state()
    drawn = [augmented(device, x, 0), augmented(device, x, 1), augmented(other, x, 0)]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(augmented(device, x, 0), drawn[0])
    noises = torch.cat(drawn).flatten(1)
    assert len(torch.unique(noises, dim=0)) == 12
    assert augmented(replace(device, augment=None), x, 0) is x


def test_steps_that_are_computed_again_draw_the_same(network):
    """UGA's trace with few kept weights repeats steps: with other draws it would be another gradient."""
    model, weights = network
    training, device = Training(epochs=3, batch=4, lr=0.05), party(8, 5, AUGMENTATION, model)
    each, seldom = (keep_trace(device, weights, training, every) for every in (1, 3))
    for name, value in each.gradient.items():
        assert torch.equal(seldom.gradient[name], value)


def test_an_augmentation_travels_to_workers_by_name():
    AUGMENTATION(torch.rand(1, 8, 8))
    assert len(pickle.dumps(AUGMENTATION)) < 300
    assert pickle.loads(pickle.dumps(AUGMENTATION)) == AUGMENTATION


def keys(some):
    run = Run("fedavg", 1)
    made = Keys(some, "numerics", {"": "", "fedavg": ""})
    device = some.names[0]
    return (
        made.key(training.train, (run, device, 0, NOTHING, NOTHING, False)),
        made.key(jobs.evaluate, (run, NOTHING, "test", 0, 0)),
    )


def test_another_augmentation_is_another_training_and_the_same_evaluation():
    plain, flipped, cropped = (keys(lab(augment=augment)) for augment in ([], [FLIP], [FLIP, CROP]))
    assert len({plain[0], flipped[0], cropped[0]}) == 3
    assert len({plain[1], flipped[1], cropped[1]}) == 1


def test_only_training_is_augmented():
    """What a round of one step uploads is another model; its evaluation on the same weights is the same."""
    plain, flipped = lab(), lab(augment=[CROP, FLIP])
    run = Run("fedavg", 1)
    found = []
    for each in (plain, flipped):
        store = Memory()
        start = jobs.start(each, store, run)
        opening = jobs.request(each, store, run, 0, start.message, each.names)
        trained = training.train(each, store, run, each.names[0], 0, opening.download.ref, NOTHING, False)
        scores = jobs.evaluate(each, store, run, start.weights, "test", 0, 0)
        found.append((trained.upload.ref.digest, scores.loss.tolist()))
    assert found[0][0] != found[1][0]
    assert found[0][1] == found[1][1]

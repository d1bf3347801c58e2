"""Masks that follow from a number: SplitMix64's, whatever the layout of what they are for."""

import pytest
import torch
from torch import nn

from algorithms.training.dropout import keys, mask
from algorithms.training.seeding import seeded
from tests.all_of import all_of

# Of its first numbers from 1234567, as Rosetta Code has them for this generator.
FIRST = (
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
)


@pytest.mark.parametrize("p", [0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
def test_what_is_below_p_is_dropped(p):
    halves = [half for number in FIRST for half in (number % 2**32, number >> 32)]
    wanted = [0.0 if half / 2**32 < p else 1 / (1 - p) for half in halves]
    found = mask(nn.Dropout(p), torch.ones(10), torch.tensor(1234567))
    assert found.tolist() == pytest.approx(wanted)


def test_the_share_that_is_dropped_is_p_and_the_mean_stays():
    """The share of 200,000 values must be within 4 standard deviations of p."""
    found = mask(nn.Dropout(0.3), torch.ones(200_000), torch.tensor(-5))
    assert (found == 0).double().mean() == pytest.approx(0.3, abs=4 * (0.21 / 200_000) ** 0.5)
    assert set(found.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}


def test_neighbouring_keys_give_masks_that_have_nothing_to_do_with_each_other():
    one, other = (mask(nn.Dropout(0.5), torch.ones(100_000), torch.tensor(key)) / 2 for key in (7, 8))
    assert torch.corrcoef(torch.stack([one, other]))[0, 1].abs() < 4 / 100_000**0.5


@pytest.mark.parametrize("layer", [nn.Dropout2d(0.5), nn.Dropout3d(0.5), nn.Dropout1d(0.5)])
def test_layers_of_images_drop_whole_channels(layer):
    shape = {"Dropout1d": (8, 9, 3), "Dropout2d": (8, 9, 3, 2), "Dropout3d": (8, 9, 3, 2, 2)}[type(layer).__name__]
    found = mask(layer, torch.ones(shape), torch.tensor(1)).expand(shape).flatten(2)
    assert bool((found == found[:, :, :1]).all())
    assert 20 < (found[:, :, 0] == 0).sum() < 52


def test_all_is_dropped_or_nothing():
    assert not mask(nn.Dropout(1.0), torch.ones(4), torch.tensor(3)).any()
    assert bool((mask(nn.Dropout(0.0), torch.ones(4), torch.tensor(3)) == 1).all())


def test_a_short_batch_has_the_first_rows_of_a_whole_one():
    layer, key = nn.Dropout(0.5), torch.tensor(11)
    assert torch.equal(mask(layer, torch.ones(3, 4), key), mask(layer, torch.ones(5, 4), key)[:3])


def test_the_layout_makes_no_difference():
    x = torch.ones(2, 3, 4, 5)
    found = mask(nn.Dropout(0.5), x.contiguous(memory_format=torch.channels_last), torch.tensor(2))
    assert torch.equal(found, mask(nn.Dropout(0.5), x, torch.tensor(2)))


def test_keys_are_the_same_at_once_and_one_by_one():
    seeded(4)
    at_once = keys(3)
    seeded(4)
    assert torch.equal(torch.cat([keys(1), keys(2)]), at_once)


def test_a_stack_makes_each_devices_own():
    layer, many, x = nn.Dropout2d(0.4), torch.tensor([5, -6, 7]), torch.ones(3, 2, 5, 4, 4)
    found = torch.vmap(lambda x, key: mask(layer, x, key))(x, many)
    assert all_of(map(torch.equal, found, [mask(layer, one, key) for one, key in zip(x, many, strict=True)]))

"""Profiles with a speed per class of operator, and speeds from other people's scores."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.algorithm import Phase
from algorithms.counting.cost import Meter
from algorithms.counting.step_counts import StepCounts
from algorithms.models import build, cross_entropy
from devices.benchmark_scores import ANCHORS, scores, speed_of
from devices.device import POSITION, Device, Profile, numbers_of, profile_of, profiles, read_profiles
from devices.profiles import shipped

PLAIN = Profile("plain", 1e9, 1e8, 0.5, 10**6, "made up")
CLASSES = replace(PLAIN, conv_flops_per_s=2e9, dense_flops_per_s=4e9, recurrent_flops_per_s=5e8)
HEADER = "name,quantity,value,unit,source,date"
LINES = [
    "board,speed,2,GFLOP/s,assumed,2026-11-21",
    "board,memory_bandwidth,3,GB/s,assumed,2026-11-21",
    "board,overhead,4,ms,assumed,2026-11-21",
    "board,memory,5,MB,assumed,2026-11-21",
]
FLOPS = st.floats(0, 1e13)


def test_each_class_of_operator_has_its_speed():
    # of 10 GFLOP, 4 are convolutions (2 s), 1 is recurrent (2 s) and 5 are dense (1.25 s); and 0.5 s of overhead
    assert Device("a", CLASSES).seconds(StepCounts(10e9, conv=4e9, recurrent=1e9), 1) == pytest.approx(5.75)


def test_a_class_without_a_speed_has_the_profiles():
    some = replace(PLAIN, recurrent_flops_per_s=5e8)
    assert Device("a", some).seconds(StepCounts(10e9, conv=4e9, recurrent=1e9), 1) == pytest.approx(9 + 2 + 0.5)


@given(FLOPS, FLOPS, FLOPS, st.integers(1, 500))
def test_with_one_speed_the_classes_change_no_bit(conv, dense, recurrent, steps):
    device, flops = Device("a", PLAIN), conv + dense + recurrent
    split = StepCounts(flops, 7e3, conv, recurrent)
    assert device.seconds(split, steps) == device.seconds(StepCounts(flops, 7e3), steps)
    assert device.seconds(StepCounts(flops), 1) == flops / 1e9 + 0.5


def test_each_position_of_a_layer_that_is_not_fused_costs_a_part_of_an_overhead():
    whole = Device("a", PLAIN).seconds(StepCounts(1e9, positions=5), 2)
    assert whole == pytest.approx(2 * (1 + (1 + 5 * POSITION) * 0.5))
    assert 0 < POSITION < 1


def test_operators_and_convolutions_cost_what_the_profile_says_of_starting_one():
    # 2 steps, each: 1 s of computing, 0.5 s of overhead, 7 operators of 0.01 s and 3 convolutions of 0.2 s
    started = replace(PLAIN, operator_s=0.01, convolution_s=0.2)
    step = StepCounts(1e9, operators=7, convolutions=3)
    assert Device("a", started).seconds(step, 2) == pytest.approx(2 * (1 + 0.5 + 0.07 + 0.6))
    assert Device("a", PLAIN).seconds(step, 2) == Device("a", PLAIN).seconds(StepCounts(1e9), 2)


@pytest.mark.parametrize("what", ["operator_s", "convolution_s"])
@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
def test_what_it_takes_to_start_something_is_not_negative(what, value):
    with pytest.raises(ValueError, match=what):
        replace(PLAIN, **{what: value})


def small(*layers):
    return Meter(torch.nn.Sequential(*layers), (8,), cross_entropy)


def starts(step):
    return step.positions, step.operators, step.convolutions


@pytest.mark.parametrize("pairs", [0, 1, 3])
def test_the_operators_that_a_step_starts_are_counted_by_hand(pairs):
    """A dense layer and a ReLU: two forward; back a threshold, two products and the sum of the bias.

    The last dense layer and the loss are in the step's overhead.
    """
    layers = [layer for _ in range(pairs) for layer in (torch.nn.Linear(8, 8), torch.nn.ReLU())]
    it = small(*layers, torch.nn.Linear(8, 10))
    assert starts(it.step(Phase("train", "batch", 12, 4))) == (0, 6 * pairs, 0)
    assert starts(it.step(Phase("train", "batch", 12, 5))) == (0, 6 * pairs, 0)  # the last batch has as many
    assert starts(it.step(Phase("sums", "forward", traffic=9.0))) == (0, 0, 0)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_convolution_is_started_forward_and_back(layers):
    convolutions = [torch.nn.Conv2d(1, 1, 3, padding=1) for _ in range(layers)]
    model = torch.nn.Sequential(*convolutions, torch.nn.Flatten(), torch.nn.Linear(16, 10))
    it = Meter(model, (1, 4, 4), cross_entropy)
    assert it.step(Phase("train", "batch", 8, 4)).convolutions == 2 * layers
    assert it.step(Phase("evaluate", "forward", 8, 4)).convolutions == layers


@pytest.mark.slow
@pytest.mark.parametrize(("name", "positions"), [("char-gru-small", 1), ("lstm-tiny", 0)])
@pytest.mark.parametrize("length", [3, 7])
def test_operators_inside_recurrent_layers_do_not_count_however_long_the_text(name, positions, length):
    """In a GRU the positions count; an LSTM is a single operator."""
    it = Meter(build(name, 0, 11), (length,), cross_entropy, torch.long, (length,))
    other = Meter(build(name, 0, 11), (5,), cross_entropy, torch.long, (5,))
    train, fisher, product = (
        Phase("train", "batch", 8, 4),
        Phase("fisher", "each", 8, 4),
        Phase("reverse", "batch", 0, 4, second_order=8),
    )
    assert starts(it.step(train))[1:] == starts(other.step(train))[1:]
    assert starts(it.step(train))[::2] == (positions * length, 0)
    assert it.step(train).operators > 0  # the embedding's, and the mean over positions
    assert starts(it.step(fisher))[1:] == starts(other.step(fisher))[1:]
    assert it.step(fisher).operators > 3 * (it.step(train).operators + 10)  # four texts, each alone
    assert it.step(product).operators == 3 * (it.step(train).operators + 10) - 10


def test_parts_above_the_whole_are_refused():
    with pytest.raises(ValueError, match="must be parts"):
        Device("a", PLAIN).seconds(StepCounts(1e9, conv=9e8, recurrent=2e8), 1)


@pytest.mark.parametrize("field", ["conv_flops_per_s", "dense_flops_per_s", "recurrent_flops_per_s"])
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_a_class_without_speed_is_refused(field, bad):
    with pytest.raises(ValueError, match=field):
        replace(PLAIN, **{field: bad})


def test_one_speed_forgets_the_classes():
    assert CLASSES.one_speed == PLAIN


def test_a_radio_wakes_up_after_ten_idle_seconds_only():
    phone = replace(PLAIN, wakeup_s=0.3)
    assert [phone.waking(idle) for idle in (0.0, 10.0, 10.1)] == [0, 0, 0.3]
    assert PLAIN.waking(1e6) == 0


def test_what_a_profile_leaves_out_has_no_effect():
    board = read_profiles([HEADER, *LINES])["board"]
    assert board.one_speed == board
    assert board.power.joules(1, 1, 1) == 0
    assert board.throttle.speed(1.0) == 1
    assert (board.wakeup_s, board.jitter) == (0, 0)


def test_optional_quantities_are_turned_into_our_units():
    more = [
        "board,speed_conv,3,GFLOP/s,assumed,d",
        "board,power_radio,1.5,W,assumed,d",
        "board,wakeup,0.2,s,assumed,d",
        "board,sustained,0.6,of full speed,assumed,d",
        "board,heating,90,s,assumed,d",
        "board,jitter,0.05,cv,assumed,d",
    ]
    board = read_profiles([HEADER, *LINES, *more])["board"]
    assert (board.conv_flops_per_s, board.dense_flops_per_s) == (3e9, None)
    assert (board.power.radio, board.wakeup_s, board.jitter) == (1.5, 0.2, 0.05)
    assert (board.throttle.sustained, board.throttle.heating) == (0.6, 90)


def test_every_shipped_profile_has_power_and_says_where_it_is_from():
    for name, profile in profiles().items():
        assert profile.power.idle < profile.power.compute, name
        assert profile.power.idle < profile.power.radio, name
        assert "power_idle: " in profile.source, name


# ---- FLOPs by class


@pytest.mark.slow
def test_a_cnns_flops_are_split_by_hand():
    it = Meter(build("mnist-cnn", 0), (1, 28, 28), cross_entropy)
    step = Phase("train", "batch", 20, 10)
    # forward: 5 x 5 kernels on 28 x 28 and 14 x 14; training has three such products, but none for the image
    first, second = 2 * 28 * 28 * 32 * 25, 2 * 14 * 14 * 64 * 32 * 25
    counted = it.step(step)
    assert counted.conv == 10 * (2 * first + 3 * second)
    assert counted.recurrent == 0
    assert counted.dense == 10 * 3 * 2 * (3136 * 512 + 512 * 10)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "gates", "fused"), [("char-gru-small", 3, False), ("lstm-tiny", 4, True)])
def test_a_recurrent_layers_flops_and_positions_are_counted_by_hand(name, gates, fused):
    embedding, units = (32, 64) if name == "char-gru-small" else (32, 32)
    it, n, length = Meter(build(name, 0, 11), (6,), cross_entropy, torch.long, (6,)), 5, 6
    state = 2 * gates * units * units
    forward = length * (2 * gates * units * embedding + state)
    passes = {
        Phase("evaluate", "forward", n, n): n * forward,
        Phase("train", "batch", 2 * n, n): n * (3 * forward - state),
        Phase("train", "batch", n, n, backward="softmax.*"): n * forward,
    }
    for phase, recurrent in passes.items():
        assert (it.step(phase).conv, it.step(phase).recurrent) == (0, recurrent)
    assert it.step(Phase("train", "batch", 2 * n, n)).positions == (0 if fused else length)
    assert it.step(Phase("evaluate", "forward", n, n)).positions == pytest.approx(0 if fused else length / 3)
    assert it.step(Phase("fisher", "each", n, n)).positions == (0 if fused else n * length)  # each text alone


@pytest.mark.slow
def test_hessian_vector_products_keep_the_shares_of_the_layers():
    it = Meter(build("char-gru-small", 0, 11), (6,), cross_entropy, torch.long, (6,))
    once, twice = Phase("train", "batch", 5, 5), Phase("reverse", "batch", 0, 5, second_order=5)
    shares = [it.step(phase).recurrent / it.step(phase).flops for phase in (once, twice)]
    assert shares[1] == pytest.approx(shares[0], rel=0.01)
    assert it.step(twice).positions == 18


@pytest.mark.slow
def test_a_fused_layer_reads_its_weights_once_however_long_the_text():
    def floats(length, n):
        it = Meter(build("lstm-tiny", 0, 11), (length,), cross_entropy, torch.long, (length,))
        return it.step(Phase("train", "batch", n, n)).floats

    weights = 2 * 4 * (32 * 32 + 32)
    # the share that does not grow with the batch: a product at each position would read the weights again
    fixed = [2 * floats(length, 4) - floats(length, 8) for length in (6, 12)]
    assert fixed[0] == fixed[1]
    assert fixed[0] >= 3 * weights


# ---- sources


def test_speed_between_two_anchors_is_a_power_law():
    anchors = {100.0: 1e9, 400.0: 4e9, 1600.0: 64e9}
    assert speed_of(200, anchors) == pytest.approx(2e9)  # speed ~ score
    assert speed_of(800, anchors) == pytest.approx(16e9)  # speed ~ score squared
    assert [speed_of(score, anchors) for score in anchors] == pytest.approx(list(anchors.values()))


def test_beyond_the_anchors_speed_is_proportional():
    anchors = {100.0: 1e9, 400.0: 8e9}
    assert speed_of(50, anchors) == pytest.approx(0.5e9)
    assert speed_of(800, anchors) == pytest.approx(16e9)


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_a_higher_score_is_never_slower(a, b):
    anchors = {score: profiles()[name].flops_per_s for name, (score, _) in ANCHORS.items()}
    low, high = sorted((a, b))
    assert speed_of(low, anchors) <= speed_of(high, anchors) * (1 + 1e-12)


@pytest.mark.parametrize(("score", "anchors"), [(0, {1.0: 1.0}), (math.nan, {1.0: 1.0}), (1, {}), (1, {1.0: -1.0})])
def test_scores_without_sense_are_refused(score, anchors):
    with pytest.raises(ValueError, match="must be positive"):
        speed_of(score, anchors)


@pytest.mark.parametrize("text", ["{", "3", '[{"Model": "a"}]', '{"a": "fast"}', '{"a": -1}', '{"a": null}'])
def test_a_file_without_scores_is_refused_by_name(tmp_path, text):
    file = tmp_path / "table.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="table.json"):
        scores(file)


def test_flashs_tables_are_read():
    root = Path(os.environ.get("FEDLAPSE_DATA") or Path(__file__).parents[2] / "../shared/data").resolve()
    folder = root / "traces/flash"
    if not folder.is_dir():
        pytest.skip(f"NO FLASH TABLES: {folder} is not there; set FEDLAPSE_DATA")
    found = scores(folder / "raw_ai_benchmark_list.json")
    assert (found["Google Pixel 4"], min(found.values())) == (3212, 105)
    assert len(scores(folder / "benchmark2score.json")) == 307
    for score, said in ANCHORS.values():
        if "assumed" not in said:
            assert found[said] == score


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_profile_gives_back_the_numbers_of_its_file(name):
    """This holds for all numbers that have an effect: a device that sustains its full speed does not throttle."""
    said = {quantity: one.value for quantity, one in shipped()[name].items()}
    numbers = {quantity: value for quantity, value in said.items() if value != {"sustained": 1}.get(quantity, 0)}
    assert numbers_of(profiles()[name]) == pytest.approx(numbers)


def test_quantities_without_effect_are_left_out():
    required = {"speed": 2.0, "memory_bandwidth": 3.0, "overhead": 4.0, "memory": 500.0}
    assert numbers_of(profile_of("mine", required, "assumed")) == pytest.approx(required)

"""FLOPs and floats of a phase: by hand, against torch's counter on real tensors, and by their laws."""

import math
from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Pass, Phase
from algorithms.counting.cost import PULL, PULL_PLAIN, SQUARES, FloatCounter, Meter, sgd_traffic
from algorithms.importance.batched import CHUNK
from algorithms.models import MODELS, build, cross_entropy, input_shape

torch.set_num_threads(1)  # as in a worker

# A multiply-add counts as two.
MLP_FORWARD = 2 * (784 * 200 + 200 * 10)
# conv1: 28 x 28 places, 32 filters of 25; conv2: 14 x 14 places, 64 filters of 25 x 32; two dense layers.
CNN_FORWARD = 2 * (28 * 28 * 32 * 25 + 14 * 14 * 64 * 25 * 32 + 3136 * 512 + 512 * 10)
PASSES: tuple[Pass, ...] = ("batch", "each")
FORWARD = {"mlp": MLP_FORWARD, "mnist-cnn": CNN_FORWARD}


def meter(name: str) -> Meter:
    return Meter(build(name, 0), input_shape(name), cross_entropy)


def linear(inputs: int = 6, outputs: int = 10) -> Meter:
    return Meter(nn.Linear(inputs, outputs), (inputs,), cross_entropy)


@pytest.mark.slow  # the first use of the meta device takes two seconds
@pytest.mark.parametrize("name", FORWARD)
def test_a_forward_pass_costs_what_one_counts_by_hand(name: str) -> None:
    assert meter(name).flops(Phase("evaluate", "forward", 7, 7)) == 7 * FORWARD[name]


@pytest.mark.parametrize("name", FORWARD)
def test_a_backward_is_two_forwards_but_for_the_first_layers_inputs(name: str) -> None:
    first = 784 * 200 if name == "mlp" else 28 * 28 * 32 * 25
    assert meter(name).flops(Phase("train", "batch", 10, 10)) == 10 * (3 * FORWARD[name] - 2 * first)


@pytest.mark.parametrize(("name", "ratio"), [("mnist-cnn", 2.95), ("mlp", 2.01)])
def test_training_costs_the_multiple_of_a_forward_that_was_measured(name: str, ratio: float) -> None:
    it = meter(name)
    assert it.flops(Phase("train", "batch", 1, 1)) / it.flops(Phase("evaluate", "forward", 1, 1)) == pytest.approx(
        ratio, abs=0.005
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["batch", "each"])
@pytest.mark.parametrize("name", sorted(name for name, design in MODELS.items() if design.input_shape))
def test_it_agrees_with_the_counter_on_real_tensors(name: str, kind: Pass) -> None:
    model = build(name, 0)
    x, y = torch.randn(8, *input_shape(name)), torch.randint(10, (8,))
    with FlopCounterMode(display=False) as counted:
        cross_entropy(model(x), y).mean().backward()
    assert meter(name).flops(Phase("pass", kind, 8, 8)) == pytest.approx(counted.get_total_flops(), rel=0.01)


@pytest.mark.parametrize("kind", get_args(Pass))
def test_flops_are_linear_in_the_examples_and_epochs_whatever_the_batch(kind: Pass) -> None:
    it = meter("digits-cnn")
    one = it.flops(Phase("pass", kind, 1, 1))
    for examples, batch, epochs in ((7, 7, 1), (100, 32, 5), (3.5, 64, 2)):
        cost = it.flops(Phase("pass", kind, examples, batch, epochs))
        assert cost == pytest.approx(epochs * examples * one, rel=1e-12)


def test_only_the_gradients_that_are_asked_for_are_charged() -> None:
    it = meter("mlp")
    last = it.flops(Phase("retrain", "batch", 1, 1, backward="fc2.*"))
    assert last == MLP_FORWARD + 2 * 200 * 10  # the last layer's weight; nothing flows further down
    assert it.flops(Phase("train", "batch", 1, 1)) == last + 2 * 200 * 10 + 2 * 784 * 200


def test_several_globs_stand_for_all_that_any_of_them_matches() -> None:
    it = meter("mlp")
    every, some = (
        it.flops(Phase("train", "batch", 1, 1, backward=globs)) for globs in ("fc1.* fc2.*", "fc2.bias fc2.weight")
    )
    assert every == it.flops(Phase("train", "batch", 1, 1))
    assert some == it.flops(Phase("train", "batch", 1, 1, backward="fc2.*"))


def test_frozen_parameters_are_not_trained() -> None:
    model = build("mlp", 0)
    model.get_submodule("fc1").requires_grad_(False)
    frozen = Meter(model, (1, 28, 28), cross_entropy)
    assert frozen.flops(Phase("train", "batch", 3, 3)) == meter("mlp").flops(
        Phase("train", "batch", 3, 3, backward="fc2.*")
    )


def test_a_hessian_vector_pass_is_three_trainings_of_a_network_of_many_layers() -> None:
    it = meter("mnist-cnn")  # docs/design/algorithms.md §14: 9F where training takes 3F, but for the first layer
    second = it.flops(Phase("reverse", "batch", 0, 8, second_order=8))
    assert second == pytest.approx(3 * it.flops(Phase("train", "batch", 8, 8)), rel=0.01)
    both = it.flops(Phase("both", "batch", 8, 8, epochs=2, second_order=5))
    assert both == pytest.approx(it.flops(Phase("train", "batch", 16, 8)) + second * 5 / 8, rel=1e-12)


def test_a_hessian_vector_pass_agrees_with_the_counter_on_real_tensors() -> None:
    model = build("mlp", 0)
    weights = list(model.parameters())
    with FlopCounterMode(display=False) as counted:
        loss = cross_entropy(model(torch.randn(4, 1, 28, 28)), torch.zeros(4, dtype=torch.long)).mean()
        gradients = torch.autograd.grad(loss, weights, create_graph=True)
        torch.autograd.grad(gradients, weights, grad_outputs=[torch.ones_like(g) for g in gradients])
    assert meter("mlp").flops(Phase("reverse", "batch", 0, 4, second_order=4)) == counted.get_total_flops()


@pytest.mark.parametrize(
    ("phase", "steps"),
    [
        (Phase("train", "batch", 100, 10), 10),
        (Phase("train", "batch", 101, 10, epochs=3), 33),
        (Phase("train", "batch", 3, 10), 1),
        (Phase("train", "batch", 0, 10), 0),
        (Phase("combine", "forward", traffic=5.0), 1),
        (Phase("reverse", "batch", 0, 10, second_order=25), 3),
    ],
)
def test_a_step_is_a_batch(phase: Phase, steps: int) -> None:
    assert linear().steps(phase) == steps


def test_the_steps_of_a_phase_add_up_to_its_flops() -> None:
    it = linear()
    phase = Phase("train", "batch", 101, 10, epochs=3, second_order=7)
    assert it.steps(phase) * it.step(phase).flops == pytest.approx(it.flops(phase), rel=1e-12)


def test_combining_moves_its_traffic_and_computes_nothing() -> None:
    combine = Phase("combine", "forward", traffic=1234.0)
    it = linear()
    assert (it.flops(combine), it.step(combine).flops, it.step(combine).floats) == (0, 0, 1234)


def test_nothing_costs_nothing() -> None:
    nothing = Phase("train", "batch", 0, 10)
    it = linear()
    assert (it.steps(nothing), it.flops(nothing), it.step(nothing).flops, it.step(nothing).floats) == (0, 0, 0, 0)


def summed(outputs: Tensor, y: Tensor) -> Tensor:
    return outputs.sum(1)


def test_the_floats_of_a_linear_forward_are_its_operands_and_its_result() -> None:
    forward = Phase("evaluate", "forward", 4, 4)
    found = Meter(nn.Linear(6, 10), (6,), summed).step(forward).floats
    assert found == (4 * 6 + 6 * 10 + 10 + 4 * 10) + (4 * 10 + 4)  # the layer; the sum over its outputs


def test_every_weight_is_read_in_the_forward_and_backward_and_its_gradient_written() -> None:
    """So floats at a batch are c + 3 |θ| + a * batch, and c is too small to matter."""
    model = nn.Sequential(nn.Linear(500, 500), nn.Linear(500, 500), nn.Linear(500, 500))
    it = Meter(model, (500,), cross_entropy)
    once, twice = (it.step(Phase("train", "batch", batch, batch)).floats for batch in (8, 16))
    fixed = 2 * once - twice
    assert fixed == pytest.approx((3 * 3 - 1) * 500 * 500, rel=0.01)  # the first layer needs no input gradient


def test_activations_grow_with_the_batch_and_weights_do_not() -> None:
    it = meter("mlp")
    floats = [it.step(Phase("train", "batch", batch, batch)).floats for batch in (1, 2, 5)]
    assert floats[2] - floats[1] == pytest.approx(3 * (floats[1] - floats[0]))
    assert floats[1] - floats[0] > 5 * 200  # the hidden layer: written, read, its gradient written, read ...


def test_a_short_last_batch_is_charged_at_its_size() -> None:
    it = meter("mlp")
    full, half, mean = (it.step(Phase("train", "batch", n, 10)).floats for n in (10, 5, 15))
    assert mean == pytest.approx((full + half) / 2)


def test_declared_traffic_is_added_to_every_step() -> None:
    it = linear()
    bare = Phase("train", "batch", 100, 10)
    assert it.step(replace(bare, traffic=99.0)).floats == it.step(bare).floats + 99


def test_gradients_of_single_examples_move_more_than_their_sum() -> None:
    it = meter("digits-cnn")
    train, fisher = (it.step(Phase("pass", kind, CHUNK, CHUNK)).floats for kind in PASSES)
    convs = (32 * 9 + 64 * 32 * 9) * CHUNK  # weights whose gradients are held, squared and summed one by one
    assert fisher > train + 4 * convs


def test_without_a_fast_path_every_gradient_is_written_squared_and_summed() -> None:
    it = Meter(nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 10)), (6,), cross_entropy)
    train, fisher = (it.step(Phase("pass", kind, 8, 8)).floats for kind in PASSES)
    parameters = 6 + 6 + 60 + 10
    assert fisher == train + (4 * 8 + 1) * parameters


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)))


@pytest.mark.parametrize("kind", get_args(Pass))
def test_the_name_of_a_phase_has_no_price(kind: Pass) -> None:
    it = linear()
    one, other = Phase("fisher_true", kind, 20, 8), Phase("ewc", kind, 20, 8)
    for count in (it.flops, it.steps, it.step):
        assert count(one) == count(other)


def test_each_label_of_an_example_costs_a_gradient_of_its_own() -> None:
    labels = 10
    it = linear(outputs=labels)
    assert it.flops(Phase("pass", "each_label", 4, 4)) == labels * it.flops(Phase("pass", "each", 4, 4))


def test_a_kind_of_phase_that_there_is_not_is_refused() -> None:
    said = "kind of phase 'ewc' is 'per_example'; it must be one of 'forward', 'batch', 'each', 'each_label'"
    with pytest.raises(ValueError, match=said):
        Phase("ewc", "per_example", 20, 8)  # type: ignore[arg-type]


def test_measuring_leaves_the_model_alone_and_ties_as_they_are() -> None:
    model = Tied().eval()
    it = Meter(model, (6,), cross_entropy)
    it.flops(Phase("train", "batch", 4, 2, backward="first*"))
    assert len(list(it.model.parameters())) == 1
    assert not model.training
    assert model.first.weight.device.type == "cpu"
    assert model.first.weight.requires_grad


def test_a_recurrent_network_is_counted() -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.rnn, self.head = nn.Embedding(50, 8), nn.LSTM(8, 16), nn.Linear(16, 50)

        def forward(self, words: Tensor) -> Tensor:
            return self.head(self.rnn(self.embedding(words).transpose(0, 1))[0][-1])

    it = Meter(Reader(), (12,), cross_entropy, dtype=torch.long)
    per_word = 2 * 4 * 16 * (8 + 16)  # four gates from input and state
    assert it.flops(Phase("evaluate", "forward", 3, 3)) == 3 * (12 * per_word + 2 * 16 * 50)


def test_a_model_whose_operations_are_not_counted_is_refused() -> None:
    it = Meter(nn.LayerNorm(6), (6,), cross_entropy)
    with pytest.raises(ValueError, match=r"phase 'train' counts 0 FLOPs for 4 examples"):
        it.flops(Phase("train", "batch", 4, 2))


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (Phase("train", "batch", -1, 10), "examples of phase 'train' is -1"),
        (Phase("train", "batch", math.inf, 10), "examples of phase 'train' is inf"),
        (Phase("train", "batch", 1, 10, traffic=math.nan), "traffic of phase 'train' is nan"),
        (Phase("train", "batch", 1, 0), "batch of phase 'train' is 0"),
        (
            Phase("train", "forward", 1, 1, second_order=1),
            "has second_order, which needs gradients, but the kind 'forward'",
        ),
        (
            Phase("train", "batch", 1, 1, backward="fc9.*"),
            r"backward is 'fc9\.\*'; the trainable parameters are weight, bias",
        ),
    ],
)
def test_a_phase_that_makes_no_sense_is_refused(phase: Phase, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        linear().flops(phase)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_optimisers_traffic_is_its_operands(momentum: float) -> None:
    operands = 2 if momentum == 0 else 3  # parameter, gradient, buffer: all read; all but the gradient written
    assert sgd_traffic(100, momentum) == 100 * (operands + operands - 1)


def test_the_constants_are_what_the_operations_move() -> None:
    parameter, anchor, gradient, omega = (torch.ones(1000) for _ in range(4))
    with FloatCounter() as pulled:
        gradient.addcmul_(omega, parameter - anchor, value=0.1)
    with FloatCounter() as plain:
        gradient.add_(parameter - anchor, alpha=0.1)
    with FloatCounter() as squares:
        torch.zeros(1000, dtype=torch.float64).add_(parameter)
    written = 2000  # the accumulator's zeros, once and not per step
    assert (pulled.floats, plain.floats) == (1000 * PULL, 1000 * PULL_PLAIN)
    assert squares.floats - written == 1000 * SQUARES


def test_a_view_moves_nothing() -> None:
    x = torch.zeros(4, 6)
    with FloatCounter() as moved:
        x.T.reshape(3, 8)[1:].detach()
    assert moved.floats == 2 * 24  # the reshape of a transpose copies: read and written
    with FloatCounter() as moved:
        F.relu(x.view(24))
    assert moved.floats == 2 * 24


def test_an_average_over_all_batches_costs_what_a_moving_average_does() -> None:
    """momentum=None: the layer divides by the number of its batches, which has no value on the meta device."""
    moving, over_all = (
        Meter(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5, momentum=each)), (6,), cross_entropy)
        for each in (0.1, None)
    )
    for phase in (Phase("train", "batch", 10, 10), Phase("train", "batch", 1, 1)):
        assert (over_all.flops(phase), over_all.step(phase)) == (moving.flops(phase), moving.step(phase))


def test_a_single_example_costs_what_each_of_many_does_where_batches_are_normalised() -> None:
    it = Meter(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)), (6,), cross_entropy)
    assert it.flops(Phase("train", "batch", 1, 1)) == it.flops(Phase("train", "batch", 8, 8)) / 8
    assert (
        it.flops(Phase("trace", "batch", 0, 1, second_order=1))
        == it.flops(Phase("trace", "batch", 0, 8, second_order=8)) / 8
    )

"""How much memory training takes on a device: what the algorithm holds there, and what a batch leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from algorithms import models
from algorithms.algorithm import Load, Phase
from algorithms.training.copied import on_meta, shapes
from algorithms.training.local import single_values
from algorithms.training.turns import TURN
from emulator.lab.guarded import Faulty
from emulator.lab.lab import Lab
from scenarios.builders.own_code import kept_for_a_call

FLOAT = 4  # bytes
TWICE = 1.6  # of what a forward pass keeps: measured 1.55 on CNNs, 1.02 on a perceptron


@dataclass(frozen=True)
class Footprint:
    """Bytes that live at once on a device that trains; its runtime and its data are not among them."""

    parameters: int  # and buffers
    gradients: int
    momentum: int
    downloaded: int  # what came down, as it came: penalties refer to it
    uploaded: int  # what goes up beside the weights
    kept: int  # from earlier rounds
    further: int  # what the algorithm declares beside these, as the models of a trajectory
    activations: int  # what autograd keeps of the largest batch for its way back, and the batch

    @property
    def total(self) -> int:
        return sum(vars(self).values())


def footprint(lab: Lab, label: str, load: Load, downloaded: int, uploaded: int, kept: int) -> Footprint:
    """Of a device's half of a round: the declared work of `load`, and bytes of what comes down, goes up and is kept."""
    algorithm = lab.algorithms[label]
    held, trained = _of_module(lab.model, lab.data.classes, lab.input_shape, lab.data.text)
    phases = [
        phase
        for phase in algorithm.device_work(load)
        if phase.kind != "forward" and (phase.examples or phase.second_order)
    ]
    try:
        activations = max((_kept(lab, phase) for phase in phases), default=0)
    except ValueError as error:  # torch's word about a pass through the model
        raise Faulty(label, "", f"declares work whose memory cannot be told: {error}") from None
    return Footprint(
        parameters=held,
        gradients=trained,
        momentum=trained if algorithm.training.momentum else 0,
        downloaded=downloaded,
        uploaded=uploaded,
        kept=kept,
        further=round(FLOAT * algorithm.device_floats(load)),
        activations=activations,
    )


def uploaded(lab: Lab, label: str, round: int) -> int:
    """Bytes that a device sends in a round beside the weights."""
    form = lab.upload_form(label, round)
    return sum(form.values_of(kind) for kind in form.shapes if kind != "weights")


def _kept(lab: Lab, phase: Phase) -> int:
    """What a phase's largest batch leaves for the way back; with a gradient that is differentiated again, its own."""
    return round((TWICE if phase.second_order else 1.0) * _activations(lab, phase.batch))


def _activations(lab: Lab, batch: int) -> int:
    data = lab.data
    return _measured(lab.model, data.classes, data.x.shape[1:], data.text, data.y.shape[1:], batch)


@kept_for_a_call(maxsize=8)
def _of_module(model: str, classes: int, shape: tuple[int, ...], text: bool) -> tuple[int, int]:
    """Bytes of its parameters and buffers, and of those parameters that are trained."""
    module = models.build(model, 0, classes, shape, text)
    trained = (parameter for parameter in module.parameters() if parameter.requires_grad)
    return _bytes((*module.parameters(), *module.buffers())), _bytes(trained)


@kept_for_a_call(maxsize=256)
def _measured(
    model: str, classes: int, shape: tuple[int, ...], text: bool, targets: tuple[int, ...], batch: int
) -> int:
    with TURN:  # it may draw
        network = on_meta(models.build(model, 0, classes, shape, text))
        return activations(network, shape, batch, torch.int64 if text else torch.float32, targets)


@shapes()
def activations(
    model: nn.Module,
    shape: Sequence[int],
    batch: int,
    dtype: torch.dtype = torch.float32,
    targets: Sequence[int] = (),
) -> int:
    """Bytes that a forward pass over so many examples of this shape leaves for the backward pass.

    The model is on the meta device, so that nothing is computed.  Memory that tensors share counts once.
    """
    x = torch.empty(batch, *shape, dtype=dtype)
    y = torch.empty(batch, *targets, dtype=torch.long)
    own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
    kept = {x.untyped_storage()._cdata: _size(x)}

    def keep(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()._cdata
        if memory not in own:
            kept[memory] = _size(tensor)
        return tensor

    model.train()
    with single_values(model), saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = models.cross_entropy(model(x), y).mean()  # holds the graph, so that no memory is used twice
    total = sum(kept.values())
    del loss
    return total


def _size(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

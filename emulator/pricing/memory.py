"""Predicts the memory of training on a device: the algorithm's tensors, and the activations of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from algorithms import models
from algorithms.algorithm import Load, Loss, Phase
from algorithms.networks import Network
from algorithms.tasks.task import Task
from algorithms.training.copied import on_meta, shapes
from algorithms.training.local import single_values
from algorithms.training.optimizers import state_floats
from algorithms.training.torch_lock import TURN
from devices.data.dataset import Form, Target
from emulator.lab.faulty import Faulty
from emulator.lab.lab import Lab
from scenarios.builders.own_code import kept_for_a_call

FLOAT = 4  # bytes
TWICE = 1.6  # factor on activations for second derivatives: measured 1.55 on CNNs, 1.02 on a perceptron


@dataclass(frozen=True)
class Footprint:
    """Bytes that a device needs at the same time to train, without its runtime and its data."""

    parameters: int  # and buffers
    gradients: int
    optimizer: int  # its state, as the momentum
    downloaded: int  # the original download, to which penalties refer
    uploaded: int  # the upload besides the weights
    kept: int  # the device's memory from earlier rounds
    further: int  # declared by the algorithm, for example models of a trajectory
    activations: int  # kept by autograd for the backward pass of the largest batch, and the batch

    @property
    def total(self) -> int:
        return sum(vars(self).values())


def footprint(lab: Lab, label: str, load: Load, downloaded: int, uploaded: int, kept: int) -> Footprint:
    """Returns the memory that a device's half of a round needs, for a load, and the bytes downloaded, uploaded besides
    the weights, and kept."""
    algorithm = lab.algorithms[label]
    held, trained = _of_module(lab.model, lab.data.form)
    phases = [
        phase
        for phase in algorithm.device_work(load)
        if phase.kind != "forward" and (phase.examples or phase.second_order)
    ]
    try:
        activations = max((_activations(lab, phase) for phase in phases), default=0)
    except ValueError as error:  # from torch, during a pass through the model
        raise Faulty(label, "", f"declares work whose memory cannot be told: {error}") from None
    return Footprint(
        parameters=held,
        gradients=trained,
        optimizer=round(trained * state_floats(algorithm.training)),
        downloaded=downloaded,
        uploaded=uploaded,
        kept=kept,
        further=round(FLOAT * algorithm.device_floats(load)),
        activations=activations,
    )


def uploaded(lab: Lab, label: str, round: int) -> int:
    """Returns the bytes that a device sends in a round besides the weights."""
    form = lab.upload_form(label, round)
    return sum(form.values_of(kind) for kind in form.shapes if kind != "weights")


def _activations(lab: Lab, phase: Phase) -> int:
    """Returns the bytes that the phase's largest batch keeps for the backward pass, with a factor if it has second
    derivatives."""
    nbytes = _measured(lab.model, lab.data.form, lab.data.target, lab.task, phase.batch)
    return round((TWICE if phase.second_order else 1.0) * nbytes)


@kept_for_a_call(maxsize=8)
def _of_module(model: Network, form: Form) -> tuple[int, int]:
    """Returns the bytes of a network's parameters and buffers, and of its trained parameters alone."""
    module = models.build(model, 0, *form)
    trained = (parameter for parameter in module.parameters() if parameter.requires_grad)
    return _bytes((*module.parameters(), *module.buffers())), _bytes(trained)


@kept_for_a_call(maxsize=256)
def _measured(model: Network, form: Form, target: Target, task: Task, batch: int) -> int:
    _, shape, text, _ = form
    with TURN:  # building the model may draw from torch's generator
        network = on_meta(models.build(model, 0, *form))
        return activations(network, shape, batch, torch.int64 if text else torch.float32, *target, task)


@shapes()
def activations(
    model: nn.Module,
    shape: Sequence[int],
    batch: int,
    dtype: torch.dtype = torch.float32,
    targets: Sequence[int] = (),
    target_dtype: str = "int64",
    loss: Loss = models.cross_entropy,
) -> int:
    """Returns the bytes that a forward pass over `batch` examples of this shape leaves for the backward pass.

    The model is on the meta device, so nothing is computed.  Memory that tensors share counts once.
    """
    x = torch.empty(batch, *shape, dtype=dtype)
    y = torch.empty(batch, *targets, dtype=getattr(torch, target_dtype))
    own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
    kept = {x.untyped_storage()._cdata: _size(x)}

    def keep(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()._cdata
        if memory not in own:
            kept[memory] = _size(tensor)
        return tensor

    model.train()
    with single_values(model), saved_tensors_hooks(keep, lambda tensor: tensor):
        mean = loss(model(x), y).mean()  # keeps the graph alive, so no memory is reused
    total = sum(kept.values())
    del mean
    return total


def _size(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

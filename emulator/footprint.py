"""How much memory training takes on a device: what the algorithm holds there, and what a batch leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from algorithms import models
from algorithms.algorithm import Load
from emulator.rehearsal import Rehearsal
from emulator.study import Study


@dataclass(frozen=True)
class Footprint:
    """Bytes that live at once on a device that trains; its runtime and its data are not among them."""

    parameters: int  # and buffers
    gradients: int
    momentum: int
    downloaded: int  # what came down, as it came: penalties refer to it
    uploaded: int  # what goes up beside the weights
    kept: int  # from earlier rounds
    activations: int  # what autograd keeps of the largest batch for its way back, and the batch

    @property
    def total(self) -> int:
        return sum(asdict(self).values())


def footprint(study: Study, label: str, seed: int, rehearsal: Rehearsal) -> Footprint:
    """The largest on any device of the fleet, for the messages that were seen in a rehearsal."""
    algorithm = study.algorithms[label]
    model = models.build(study.model, seed=0).to("meta")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    count = sum(parameter.numel() for parameter in trained)
    examples = max(len(held) for held in study.splits[seed].train.values())
    work = algorithm.device_work(Load(1, examples, count, kinds=frozenset(algorithm.downloads)))
    batches = {phase.batch for phase in work if phase.backward and (phase.examples or phase.second_order)}
    return Footprint(
        parameters=_bytes(list(model.state_dict().values())),
        gradients=_bytes(trained),
        momentum=_bytes(trained) if algorithm.training.momentum else 0,
        downloaded=sum(rehearsal.downloaded.values()),
        uploaded=sum(size for kind, size in rehearsal.uploaded.items() if kind != "weights"),
        kept=sum(rehearsal.kept.values()),
        activations=max((activations(model, study.input_shape, batch) for batch in batches), default=0),
    )


def activations(model: nn.Module, shape: Sequence[int], batch: int) -> int:
    """Bytes that a forward pass over so many examples of this shape leaves for the backward pass.

    The model is on the meta device, so that nothing is computed.  Memory that tensors share counts once.
    """
    x = torch.empty(batch, *shape, device="meta")
    y = torch.empty(batch, dtype=torch.long, device="meta")
    own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
    kept = {x.untyped_storage()._cdata: _size(x)}

    def keep(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()._cdata
        if memory not in own:
            kept[memory] = _size(tensor)
        return tensor

    model.train()
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = models.cross_entropy(model(x), y).mean()  # holds the graph, so that no memory is used twice
    total = sum(kept.values())
    del loss
    return total


def _size(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

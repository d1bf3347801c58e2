"""SCAFFOLD (Karimireddy et al. 2020): each device corrects its steps by the difference between the mean gradient and
its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch

from algorithms import option_checks
from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Load, Message, Party, Reply, Request, Tensors
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.pseudogradient import change, gradients, stepped
from algorithms.training.local import Sgd, Shift, steps

CORRECTION = 3.0  # floats per parameter and step: gradient and correction read, gradient written
MOVED = 3.0  # floats per parameter: θ and mean read, θ written; a reply's control read, the sum read and written


@dataclass(frozen=True)
class SCAFFOLD(FedAvg):
    """Devices correct each local step, y ← y - η (g - c_i + c), where c_i is the mean gradient of the device and c the
    mean over all devices (Karimireddy et al. 2020, Alg. 1).

    After training c_i ← c_i - c + (θ - y) / (K η), the mean of its corrected gradients over K steps, without the
    correction (option II); with momentum, the mean is weighted as momentum weights gradients.  Bytes: 2 |θ| down and
    up, θ and c, and y and the change of c_i; |θ| down until a reply has been counted.  A device keeps c_i, which
    changes by the decoded upload once that is counted; c_i = 0 before, so always c = Σ c_i / N over all N devices of
    the fleet.  The models are weighted by examples, as in FedAvg, which round 0 equals. c counts each device once, as
    in the paper, and determines the fixed point: the minimum of the mean loss of the *devices*.  Weight decay is part
    of the gradients.  In a round with rate 0 nothing changes, not even c_i.  Raises ValueError if server_lr is out of
    its range, and for another optimiser than SGD.
    """

    downloads: ClassVar[Collection[str]] = ("weights", "control")
    uploads: ClassVar[Collection[str]] = ("weights", "control")
    synchronous: ClassVar[str] = "its control variates belong to the model of their round"

    server_lr: float = 1.0
    """Learning rate of the server, η_g: how much of the way to the mean of the models it goes."""

    def __post_init__(self) -> None:
        option_checks.check(self, server_lr=(0, inf))
        option_checks.plain_sgd(self.training, "control variates, which are mean gradients,")

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:  # noqa: ARG002
        """Returns the message for all devices: the model and, once a reply has been counted, c."""
        model, total = state["weights"], state.get("control", {})
        control = {name: (value / server.devices).to(model[name].dtype) for name, value in total.items()}
        return Request({"weights": model, "control": control} if control else {"weights": model})

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains for E epochs of corrected steps; uploads the model and the change of c_i."""
        before, training = download["weights"], self.training
        c, own = _doubles(download.get("control", {})), device.memory.get("control", {})
        corrections = {name: (value - own.get(name, 0.0)).to(before[name].dtype) for name, value in c.items()}
        weights = yield Sgd(device, before, training, (Shift(corrections),) if corrections else ())
        taken = steps(len(device.y), training, device.steps)
        reach = training.rate(device.round) * gradients(taken, training.momentum)
        gone = change(device.model, before, weights)
        new = {name: -value / reach - c.get(name, 0.0) for name, value in gone.items()} if reach else _zeros(gone)
        sent = device.send("control", {name: value.to(before[name].dtype) for name, value in new.items()})
        kept = {name: value + own.get(name, 0.0) for name, value in _doubles(sent).items()}
        return Reply({"weights": weights, "control": sent}, len(device.y), if_counted={"control": kept})

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the state after a step towards the mean of the models; adds the uploaded changes to the sum of all
        c_i."""
        mean = weighted_mean(replies)
        delta = change(server.model, state["weights"], mean)
        total = state.get("control", _zeros(delta))
        for name in sorted(replies):
            control = _doubles(replies[name].upload["control"])
            total = {parameter: value + control[parameter] for parameter, value in total.items()}
        step = {name: self.server_lr * value for name, value in delta.items()}
        return {"weights": stepped(mean, delta, step), "control": total}

    def penalty_traffic(self, load: Load) -> float:
        """Returns the floats that the correction moves for each parameter and step; 0 while there is none."""
        return CORRECTION if "control" in load.kinds else 0.0

    def device_floats(self, load: Load) -> float:
        """Returns the floats that the correction holds."""
        return float(load.parameters) if "control" in load.kinds else 0.0

    def combine_traffic(self, load: Load) -> float:
        """Returns the floats that the server moves for each parameter: its step, each device's change of c_i read, and
        the float64 sum of all c_i read and written."""
        return load.replies + 4.0 + MOVED


def _doubles(values: Tensors) -> Tensors:
    return {name: value.double() for name, value in values.items()}


def _zeros(values: Tensors) -> Tensors:
    return {name: torch.zeros_like(value) for name, value in values.items()}

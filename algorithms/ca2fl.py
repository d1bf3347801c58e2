"""CA2FL (Wang et al., ICLR 2024): the server keeps the last change of each device, and steps along all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import torch

from algorithms import option_checks
from algorithms.aggregation import plain_mean
from algorithms.algorithm import Load, Message, Party, Reply, Tensors
from algorithms.staleness import device_of, newest
from algorithms.training.tensors import travelling
from algorithms.uploaded_changes import Changes

KEPT = "of "  # prefix of kinds of the server's state: a device's last change h_i, by the device's name
MOST = 1000  # devices whose changes a state may hold: it is read and written anew for each version


@dataclass(frozen=True)
class CA2FL(Changes):
    """The server steps along v = h + (1/K) Σ (Δ_i - h_i) over the K replies in its buffer: x ← x + η_g v (Wang et al.,
    ICLR 2024, Alg. 2).

    h_i is the last change of device i in an earlier version, 0 at first, and h their mean over all devices of the
    fleet.  After the step h_i ← Δ_i; of a device that is twice in a buffer both changes count, and the last one is
    kept.  If all devices reply to each version, v is the mean of their changes, as FedBuff's without weights.  Replies
    are not weighted.  The server keeps |θ| for each device that has replied, so there may be 1,000 devices at most, and
    needs individual uploads.  Bytes as FedBuff.  Raises ValueError for more devices, or if a field is out of its range.
    """

    server_lr: float = 1.0
    """Learning rate of the server, η_g; 1 is untuned."""

    def __post_init__(self) -> None:
        option_checks.check(self, server_lr=(0, inf))

    @property
    def sums_only(self) -> bool:
        """False: the server keeps each device's own change."""
        return False

    def start(self, weights: Tensors, server: Party) -> Message:
        """Returns the model, and the sum of all h_i, which is 0."""
        if server.devices > MOST:
            raise ValueError(f"the fleet has {server.devices} devices; ca2fl keeps a model of each, for {MOST} at most")
        names = sorted(travelling(server.model))
        return {"weights": weights, "kept": {name: torch.zeros_like(weights[name]).double() for name in names}}

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the state after one step; buffers of the model become their mean."""
        new = {**state, "weights": plain_mean(replies, "update"), "kept": dict(state["kept"])}
        for name, total in state["kept"].items():
            v = total / server.devices
            for sender in sorted(replies):
                v += (_change(replies[sender], name) - _kept(state, device_of(sender, replies), name)) / len(replies)
            for device, reply in newest(replies).items():
                new["kept"][name] = new["kept"][name] + (_change(reply, name) - _kept(state, device, name))
            before = state["weights"][name]
            new["weights"][name] = (before.double() + self.server_lr * v).to(before.dtype)
        for device, reply in newest(replies).items():
            new[KEPT + device] = {name: reply.upload["update"][name] for name in state["kept"]}
        return new

    def combine_traffic(self, load: Load) -> float:
        """Returns the floats that the server moves for each parameter beside the mean: θ read, the sum of all h_i in
        float64 read and written; of each reply h_i read and written, and v and that sum, in float64, read and
        written."""
        return 5.0 + 10.0 * load.replies


def _change(reply: Reply, name: str) -> torch.Tensor:
    return reply.upload["update"][name].double()


def _kept(state: Message, device: str, name: str) -> torch.Tensor | float:
    return state[KEPT + device][name].double() if KEPT + device in state else 0.0

"""FedDyn (Acar et al. 2021): each device's loss is changed so that its optimum is that of all devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from algorithms import option_checks
from algorithms.aggregation import plain_mean
from algorithms.algorithm import Load, Message, Party, Reply, Tensors
from algorithms.counting.cost import PULL_PLAIN
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.pseudogradient import change
from algorithms.training.local import STRONGEST, Quadratic, Shift, fitting

SHIFT = 3.0  # floats per parameter and step: gradient and g_k read, gradient written
MOVED = 7.0  # floats per parameter: h in float64 read and written (4), θ_t and mean read, θ written (3)


@dataclass(frozen=True)
class FedDyn(FedAvg):
    """Devices minimise L_k(θ) - ⟨g_k, θ⟩ + (α/2) ‖θ - θ_t‖², and the server corrects the mean of their models by h
    (Acar et al. 2021, Alg. 1).

    After training g_k ← g_k - α (θ_k - θ_t), h ← h - (α/N) Σ (θ_k - θ_t) over the devices that were counted, of N in
    the fleet, and θ ← mean θ_k - h/α; the mean counts each device once, as in the paper.  A device keeps g_k, 0 at
    first, and changes it once its reply is counted, so that h is always the mean of all g_k.  Where devices reach the
    minima of their own losses, the fixed point is the minimum of the mean loss of the devices.  Bytes as FedAvg; with a
    lossy encoding both sides use the decoded model.  Buffers come from the mean.  Raises ValueError if α is not
    positive.
    """

    synchronous: ClassVar[str] = "its gradients belong to the model of their round"

    alpha: float = 0.1
    """Weight α of the dynamic penalty: how strongly a device is held to the broadcast model, and how fast its loss is
    corrected. The paper takes 0.001 to 0.1."""

    def __post_init__(self) -> None:
        option_checks.check(self, alpha=(1e-9, STRONGEST))

    def penalty(self, download: Message, device: Party) -> Quadratic:  # noqa: ARG002
        """Returns the penalty (α/2) ‖θ - θ_t‖²."""
        return Quadratic(download["weights"], self.alpha / 2)

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains on the changed loss; uploads the model, and keeps g_k."""
        start, own = download["weights"], device.memory.get("gradient", {})
        pulls = (Shift({name: -value.to(start[name].dtype) for name, value in own.items()}),) if own else ()
        reply = yield from fitting(device, start, self.training, self.penalty(download, device), pulls)
        sent = device.send("weights", reply.upload["weights"])
        gone = change(device.model, start, sent)
        kept = {name: own.get(name, 0.0) - self.alpha * value for name, value in gone.items()}
        return replace(reply, upload={"weights": sent}, if_counted={"gradient": kept})

    def start(self, weights: Tensors, server: Party) -> Message:
        """Returns the model, and h = 0."""
        return {"weights": weights, "h": change(server.model, weights, weights)}

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the mean of the models, corrected by the new h, and h."""
        mean, before, h = plain_mean(replies, "weights"), state["weights"], state["h"]
        for name in sorted(replies):
            gone = change(server.model, before, replies[name].upload["weights"])
            h = {key: value - self.alpha / server.devices * gone[key] for key, value in h.items()}
        moved = {name: (mean[name].double() - value / self.alpha).to(mean[name].dtype) for name, value in h.items()}
        return {"weights": {**mean, **moved}, "h": h}

    def penalty_traffic(self, load: Load) -> float:
        """Returns the floats that the penalty moves for each parameter and step, and g_k once there is one."""
        return PULL_PLAIN + (SHIFT if "gradient" in load.memory else 0.0)

    def device_floats(self, load: Load) -> float:
        """Returns the floats of g_k in the model's precision, once there is one."""
        return float(load.parameters) if "gradient" in load.memory else 0.0

    def combine_traffic(self, load: Load) -> float:
        """Returns how many floats the server moves for each parameter: each model read again, and its step."""
        return load.replies + MOVED

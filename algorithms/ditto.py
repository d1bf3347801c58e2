"""Ditto (Li et al. 2021): a global model as FedAvg's, and on each device a personal one that is held to it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from algorithms import option_checks
from algorithms.algorithm import Load, Message, Party, Reply, Work
from algorithms.counting.cost import PULL_PLAIN
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.training.local import STRONGEST, Quadratic, Sgd

KEPT = "personal"  # kind: the personal model, which is never sent


@dataclass(frozen=True)
class Ditto(FedAvg):
    """Devices train the global model as FedAvg does, and then a personal model v_k on L_k(v) + (λ/2) ‖v - θ_t‖² (Li et
    al. 2021, Alg. 1).

    The global model has FedAvg's bits.  v_k starts from the first model that the device receives, is trained with the
    same settings and as many steps, and stays on the device, whether its reply counts or not; a device that is not
    selected does not train it.  The metric `personalised` is v_k's.  The second training is charged, as the phase
    "personal"; `training.seconds` limits the first alone.  Bytes as FedAvg.  Raises ValueError if λ is negative.
    """

    strength: float = 1.0
    """Weight λ of the penalty, with ½ before it: how strongly the personal model is held to the global one; 0 trains it
    alone. The paper takes 0.1 to 2."""

    def __post_init__(self) -> None:
        option_checks.check(self, strength=(0, STRONGEST))

    @property
    def keeps_uncounted(self) -> bool:
        """True: devices keep their personal models."""
        return True

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains the global model, which is uploaded, and the personal one, which is kept."""
        reply = yield from super().course(download, device)
        start = download["weights"]
        pulls = (Quadratic(start, self.strength / 2),) if self.strength else ()
        own = yield Sgd(device, device.memory.get(KEPT, start), self.training, pulls)
        return replace(reply, memory={KEPT: own}, model=own)

    def device_work(self, load: Load) -> Work:
        """Returns the work of both trainings."""
        pulled = PULL_PLAIN * load.parameters if self.strength else 0.0
        once = super().device_work(load)
        return (*once, *(replace(phase, name="personal", traffic=phase.traffic + pulled) for phase in once))

    def device_floats(self, load: Load) -> float:
        """Returns the floats of the trained global model, which waits while the personal one is trained."""
        return float(load.parameters)

"""An algorithm of somebody's own, whose devices take one more pass over their examples."""

from dataclasses import dataclass

from algorithms.algorithm import Load, Pass, Phase, Work
from algorithms.counting.cost import SQUARES
from algorithms.fedavg import FedAvg
from algorithms.importance.batched import CHUNK


@dataclass(frozen=True)
class OwnPass(FedAvg):
    """FedAvg that declares a pass of this name and kind beside its training."""

    called: str = "ewc"
    kind: Pass = "each"

    def device_work(self, load: Load) -> Work:
        batch = max(1, min(CHUNK, load.examples))
        more = Phase(self.called, self.kind, load.examples, batch, traffic=SQUARES * load.parameters)
        return (*super().device_work(load), more)


def own_pass(**options: str) -> dict[str, object]:
    """As a scenario names it."""
    return {"algorithm": f"{__name__}:OwnPass", "options": options, "name": "own"}

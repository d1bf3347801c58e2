"""What the leverage of a penalty says: how far it pulls the weights in one step."""

from __future__ import annotations

from collections.abc import Mapping


def warnings(leverage: Mapping[str, float], momentum: float) -> list[str]:
    """What is wrong with a penalty of this leverage, in words; [] if nothing is (docs/design/algorithms.md §10)."""
    found = []
    if leverage and leverage["p99"] < 0.01:
        found.append(
            f"the penalty does nothing: this is FedAvg with extra bytes (leverage of the 99th percentile is "
            f"{leverage['p99']:.2g}; below 0.01 it cannot be seen)"
        )
    bound = 2 * (1 + momentum)
    if leverage and leverage["step"] > bound:
        found.append(
            f"diverges: learning rate x 2 x strength x largest importance is {leverage['step']:.3g}; SGD with "
            f"momentum {momentum:g} needs it below {bound:g}"
        )
    return found

"""Work that is known piece by piece, priced: what it takes on a device, and with the jitter of a round.

Used by runs, by replays, and by the audit, which reads no algorithm and no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.random import Generator

from algorithms.generators import generators
from devices.device import Device
from devices.jitter import factor
from emulator.lab.seeds import seed
from emulator.record.tally import Bill
from emulator.record.work import Pieces

TRAINING = "train"  # the phase of FedAvg's device_work, and of those who build on it


def priced(pieces: Pieces, device: Device) -> Bill:
    """What these take on a device.  Raises ValueError for counts that no work has."""
    bill = Bill(pieces=pieces)
    for piece in pieces:
        bill.add(piece.phase, piece.flops, piece.seconds(device))
    return bill


def jittered(bill: Bill, device: Device, root: int, round: int, rng: Generator | None = None) -> Bill:
    """The same with the jitter that this round has on a device in the runs of a seed.

    `rng`: what is drawn from, if it has been made already; see `sources`.
    """
    factors = jitter(bill.steps, device, root, round, rng)
    return bill.jittered(factors) if factors else bill


def sources(devices: Iterable[Device], root: int, round: int) -> dict[str, Generator]:
    """What the jitter of each of these devices is drawn from in this round, made at once."""
    uneven = [device.name for device in devices if device.profile.jitter]
    return dict(zip(uneven, generators([_seed(root, name, round) for name in uneven]), strict=True))


def _seed(root: int, name: str, round: int) -> int:
    return seed(root, "jitter", name, round)


def jitter(
    steps: Mapping[str, int], device: Device, root: int, round: int, rng: Generator | None = None
) -> Mapping[str, float]:
    """By how much each phase of so many steps takes longer than on an even machine: a factor; {} on such a machine.

    Training draws first, so its factor is the same whatever an algorithm or an encoding computes before it.
    """
    cv = device.profile.jitter
    if not cv:
        return {}
    rng = rng or np.random.default_rng(_seed(root, device.name, round))
    drawing = sorted(steps, key=lambda phase: phase != TRAINING)
    return {phase: factor(cv, steps[phase], rng) for phase in drawing}

"""Work that is known piece by piece, priced: what it takes on a device, and with the jitter of a round.

Used by runs, by replays, and by the audit, which reads no algorithm and no model.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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


def jittered(bill: Bill, device: Device, root: int, round: int) -> Bill:
    """The bill with the jitter that this round has on a device in the runs of a seed."""
    factors = jitter(bill.steps, device, root, round)
    return bill.jittered(factors) if factors else bill


def jitter(steps: Mapping[str, int], device: Device, root: int, round: int) -> Mapping[str, float]:
    """By how much each phase of so many steps takes longer than on an even machine: a factor; {} on such a machine.

    Training draws first, so its factor is the same whatever an algorithm or an encoding computes before it.
    """
    cv = device.profile.jitter
    if not cv:
        return {}
    rng = np.random.default_rng(seed(root, "jitter", device.name, round))
    drawing = sorted(steps, key=lambda phase: phase != TRAINING)
    return {phase: factor(cv, steps[phase], rng) for phase in drawing}

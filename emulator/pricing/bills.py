"""Prices recorded work: its cost on a device, and its cost with jitter, the random variation of times from round to
round.

Runs, replays and the audit use it; the audit reads no algorithm and no model.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from devices.device import Device
from devices.jitter import factor
from emulator.lab.seeds import seed
from emulator.record.tally import Bill
from emulator.record.work import TRAINING, Pieces


def priced(pieces: Pieces, device: Device) -> Bill:
    """Returns the cost of this work on a device.  Raises ValueError for counts that no work can have."""
    bill = Bill(pieces=pieces)
    for piece in pieces:
        bill.add(piece.phase, piece.flops, piece.seconds(device))
    return bill


def jittered(bill: Bill, device: Device, root: int, round: int) -> Bill:
    """Returns the bill with each phase's time multiplied by the device's jitter in this round, in the runs of the seed
    `root`."""
    factors = jitter(bill.steps, device, root, round)
    return bill.jittered(factors) if factors else bill


def jitter(steps: Mapping[str, int], device: Device, root: int, round: int) -> Mapping[str, float]:
    """Returns, by phase, the random factor by which jitter multiplies the time of a phase with this number of steps; {}
    on a device without jitter.

    Training draws first, so its factor does not depend on phases that an algorithm or an encoding adds before it.
    """
    cv = device.profile.jitter
    if not cv:
        return {}
    rng = np.random.default_rng(seed(root, "jitter", device.name, round))
    drawing = sorted(steps, key=lambda phase: phase != TRAINING)
    return {phase: factor(cv, steps[phase], rng) for phase in drawing}

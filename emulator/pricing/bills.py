"""Work that is known piece by piece, priced: what it takes on a device, and with the jitter of a round.

Used by runs, by replays, and by the audit, which reads no algorithm and no model.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from devices.device import Device
from devices.jitter import factor
from emulator.record.tally import Bill
from emulator.record.work import Pieces
from emulator.study.seeds import seed


def priced(pieces: Pieces, device: Device) -> Bill:
    """What these take on a device.  Raises ValueError for counts that no work has."""
    bill = Bill(pieces=pieces)
    for piece in pieces:
        bill.add(piece.phase, piece.flops, piece.seconds(device))
    return bill


def jittered(bill: Bill, device: Device, root: int, round: int) -> Bill:
    """The same with the jitter that this round has on a device in the runs of a seed."""
    factors = jitter(bill.pieces, device, root, round)
    return bill.jittered(factors) if factors else bill


def jitter(pieces: Pieces, device: Device, root: int, round: int) -> Mapping[str, float]:
    """By how much each phase takes longer than on an even machine: a factor; {} on such a machine."""
    cv = device.profile.jitter
    if not cv:
        return {}
    steps: dict[str, int] = {}
    for piece in pieces:
        steps[piece.phase] = steps.get(piece.phase, 0) + piece.steps
    rng = np.random.default_rng(seed(root, "jitter", device.name, round))
    return {phase: factor(cv, n, rng) for phase, n in steps.items()}

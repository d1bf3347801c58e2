"""The most memory that training takes on any device of a fleet, for `check`."""

from __future__ import annotations

from emulator.forecast.rehearsal import Rehearsal
from emulator.pricing.costs import Costs
from emulator.pricing.memory import Footprint, footprint


def largest(costs: Costs, rehearsal: Rehearsal) -> Footprint:
    """On any device of the fleet, for the messages that were seen in a rehearsal."""
    load = costs.heaviest()
    uploaded = sum(size for kind, size in rehearsal.uploaded.items() if kind != "weights")
    downloaded, kept = sum(rehearsal.downloaded.values()), sum(rehearsal.kept.values())
    return footprint(costs.lab, costs.label, load, downloaded, uploaded, kept)

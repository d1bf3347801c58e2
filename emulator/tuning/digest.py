"""The digest of a protocol, which is the complete plan of a comparison; it is in the records of all runs of that
plan."""

from __future__ import annotations

import hashlib

from scenarios.load import dump
from scenarios.schema.scenario import Scenario


def digest(scenario: Scenario) -> str:
    """Returns the SHA-256, as hex digits, of the whole protocol with every default: fleet, data, algorithms, grids,
    seeds, targets, links."""
    plain = scenario.model_copy(update={"protocol": None})
    return hashlib.sha256(dump(plain).encode()).hexdigest()

"""The digest of a protocol, which is in the records of all its runs."""

from __future__ import annotations

import hashlib

from scenarios.load import dump
from scenarios.schema.scenario import Scenario


def digest(scenario: Scenario) -> str:
    """SHA-256 of the whole protocol: fleet, data, algorithms, grids, seeds, targets, links; with every default."""
    plain = scenario.model_copy(update={"protocol": None})
    return hashlib.sha256(dump(plain).encode()).hexdigest()

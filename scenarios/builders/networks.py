"""Makes the Network (algorithms/networks.py) that a scenario says."""

from __future__ import annotations

from pathlib import Path

from algorithms.networks import Network
from algorithms.training.settled import digest_of
from network.foreign_files import BadFile
from scenarios.builders.recordings import place
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

WEIGHTS = ("model", "weights")


def with_digest(scenario: Scenario) -> Scenario:
    """Returns the scenario with the digest of its file of pretrained weights, if there is one.

    Raises BadScenario for a file that cannot be read, or that has changed since fedlapse wrote the scenario.
    """
    said = scenario.model
    if not said.weights:
        return scenario
    try:
        digest = digest_of(_place(said.weights))
    except OSError as error:
        raise BadScenario(f"cannot read {said.weights}: {error.strerror or error}", WEIGHTS) from None
    if said.digest not in (None, digest):
        raise BadScenario(
            f"{said.weights} has SHA-256 {digest[:12]}..., and the scenario says {said.digest[:12]}...; it must be the "
            "same file",
            WEIGHTS,
        )
    return scenario.model_copy(update={"model": said.model_copy(update={"digest": digest})})


def network(scenario: Scenario) -> Network:
    """Returns what the scenario says of its network.  Raises BadScenario."""
    said = scenario.model
    path = str(_place(said.weights)) if said.weights else ""
    return Network(said.name, path, said.digest or "", said.train or "", said.keep or "")


def _place(path: str) -> Path:
    try:
        return place(path)
    except BadFile as error:
        raise BadScenario(str(error), WEIGHTS) from None

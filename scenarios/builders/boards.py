"""Reads a user's own hardware profiles: from a file that `fedlapse calibrate` has written, or from the scenario."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from devices.device import Profile, profile_of, profiles
from devices.profiles import NAMED, QUANTITIES, Table, read_table, sources_of
from scenarios.builders.recordings import place
from scenarios.schema.keys import Part
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

LARGEST = 1_000_000  # bytes of a profiles file: some thousand profiles


def read(path: str) -> Table:
    """Returns the hardware profiles in a file, by name, with the source of each number.  Raises BadScenario."""
    try:
        with place(path).open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError(f"is larger than {LARGEST / 1e6:g} MB; a profile has some 800 bytes")
        table = read_table(data.decode("utf-8-sig").splitlines())
        for name, said in table.items():
            profile_of(name, {quantity: one.value for quantity, one in said.items()}, "")
    except OSError as error:
        raise BadScenario(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadScenario(f"{path} is not UTF-8 text; save it with that encoding") from None
    except ValueError as error:  # also open's error for an impossible path
        raise BadScenario(f"{path}: {error}") from None
    return table


def written_out(path: str) -> dict[str, dict[str, Any]]:
    """Returns the hardware profiles of a file as keys of a scenario, so that the scenario no longer needs the file.
    Raises BadScenario."""
    return {
        name: {**{NAMED[quantity].key: one.value for quantity, one in said.items()}, "source": sources_of(said)}
        for name, said in read(path).items()
    }


def known(scenario: Scenario) -> Mapping[str, Profile]:
    """Returns all hardware profiles that the scenario can name, by name: those of fedlapse, and its own."""
    own = scenario.profiles
    assert not isinstance(own, str), "load writes files out"
    return profiles() | {name: _made(name, board) for name, board in own.items()}


@lru_cache(maxsize=4096)
def _made(name: str, board: Part) -> Profile:
    said = board.model_dump(exclude_none=True)
    numbers = {quantity.name: said[quantity.key] for quantity in QUANTITIES if quantity.key in said}
    return profile_of(name, numbers, said["source"])

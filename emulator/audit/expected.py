"""What a run's scenario says of it: devices, links, rules.  Read from OUT, with no algorithm, model or data imported.

For the audit: the record must show what the scenario beside it says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from devices.device import Device
from emulator.record.record import read_lines, unique
from emulator.record.work import Works
from network.links.link import Link
from scenarios.build import boards, machines
from scenarios.schema.scenario import Rounds, Scenario
from scenarios.text import source

DRAW = ("fedlapse", "numpy")  # another version may make another fleet of a scenario
REPLAY = "replay.json"


@dataclass(frozen=True)
class Declared:
    """A run as it should be."""

    rounds: Rounds
    needed: int  # replies that close a round
    devices: Mapping[str, Device]
    links: Mapping[str, Link]
    server: Device
    server_link: Link
    works: Works  # what was to be computed, as the record says
    seed: int | None  # of the run, where its folder's name says so
    virtual: bool  # time is computed, so things happen when they are due; else they may be late, never early

    @property
    def finish(self) -> bool:
        """Whether devices may end what they do after the close."""
        return self.rounds.stragglers == "finish"


def declared(folder: Path) -> Declared:
    """What OUT says of the run in `folder`, OUT/LABEL-sSEED.  Raises ValueError or OSError if that cannot be told."""
    out = folder.resolve().parent
    if (out / REPLAY).is_file():
        raise ValueError("it is a replay, whose devices and links may be others than the scenario's")
    host = host_of(out)
    scenario = scenario_of(out)
    _, _, seed = folder.resolve().name.rpartition("-s")
    return Declared(
        scenario.rounds,
        scenario.needed,
        *machines.unseen(scenario),
        *machines.server(scenario),
        works_of(folder),
        int(seed) if seed.isdecimal() else None,
        host.get("world") == "virtual",
    )


def works_of(folder: Path) -> Works:
    """What the run's work.jsonl says; nothing if there is none.  Raises ValueError for what no run writes."""
    path = folder / "work.jsonl"
    return Works(path, read_lines(path, repeated_keys=False) if path.is_file() else ())


def scenario_of(out: Path) -> Scenario:
    """OUT's scenario as it was resolved: it is not checked again, as that would run the code of plugins.

    Raises ValueError or OSError if it cannot be read.
    """
    path = out / "scenario.yaml"
    if not path.is_file():
        raise ValueError(f"there is no {path.name} beside the run")
    return _parsed(path.read_text(encoding="utf-8"), path.name)


@lru_cache(maxsize=4)  # all runs of a folder share one
def _parsed(text: str, name: str) -> Scenario:
    plain = source.read(text, name).plain
    try:
        scenario = Scenario.model_validate_json(json.dumps(plain, default=str))
    except (ValueError, TypeError, RecursionError):
        raise ValueError(f"{name} is not as `fedlapse compare` writes it") from None
    if isinstance(scenario.profiles, str):
        raise ValueError(f"{name} names a file of profiles; that of a run has them written out")
    named = {scenario.server.profile, *(group.profile for group in scenario.fleet)}
    if strange := named - boards.known(scenario).keys():
        raise ValueError(f"there is no profile {min(strange)!r}")
    return scenario


def host_of(out: Path) -> Mapping[str, Any]:
    """host.json, {} if there is none.  Raises ValueError if what draws a fleet is not what drew this one."""
    path = out / "host.json"
    try:
        host = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique) if path.is_file() else {}
        versions = dict(host.get("versions", {}))
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path.name} is not as `fedlapse compare` writes it") from None
    for package in DRAW:
        if (then := versions.get(package, here := version(package))) != here:
            raise ValueError(f"it was played with {package} {then}, and this is {here}: the fleet may be another")
    return host

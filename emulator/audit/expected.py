"""What a run's scenario says of it: devices, links, rules.  Read from OUT, with no algorithm, model or data imported.

For the audit: the record must show what the scenario beside it says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from devices.device import Device
from emulator.record.record import read_lines
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
    host = _host(out / "host.json")
    scenario = _scenario(out / "scenario.yaml")
    works = folder / "work.jsonl"
    _, _, seed = folder.resolve().name.rpartition("-s")
    return Declared(
        scenario.rounds,
        scenario.needed,
        *machines.unseen(scenario),
        *machines.server(scenario),
        Works(works, read_lines(works) if works.is_file() else ()),
        int(seed) if seed.isdecimal() else None,
        host.get("world") == "virtual",
    )


def _scenario(path: Path) -> Scenario:
    """As it was resolved: it is not checked again, as that would run the code of plugins."""
    if not path.is_file():
        raise ValueError(f"there is no {path.name} beside the run")
    plain = source.read(path.read_text(encoding="utf-8"), path.name).plain
    try:
        scenario = Scenario.model_validate_json(json.dumps(plain, default=str))
    except (ValueError, TypeError, RecursionError):
        raise ValueError(f"{path.name} is not as `fedlapse compare` writes it") from None
    if isinstance(scenario.profiles, str):
        raise ValueError(f"{path.name} names a file of profiles; that of a run has them written out")
    named = {scenario.server.profile, *(group.profile for group in scenario.fleet)}
    if strange := named - boards.known(scenario).keys():
        raise ValueError(f"there is no profile {min(strange)!r}")
    return scenario


def _host(path: Path) -> Mapping[str, Any]:
    """host.json, {} if there is none.  Raises ValueError if what draws a fleet is not what drew this one."""
    try:
        host = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        versions = dict(host.get("versions", {}))
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path.name} is not as `fedlapse compare` writes it") from None
    for package in DRAW:
        if (then := versions.get(package, here := version(package))) != here:
            raise ValueError(f"it was played with {package} {then}, and this is {here}: the fleet may be another")
    return host

"""A file of measured rounds, so that predictions can be judged again without measuring."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.testbed.players import Moments, Played
from devices.device import Profile

DIGITS = 4  # of seconds
COMMA = ",\n"
Runs = Mapping[str, Sequence[Sequence[Played]]]  # by algorithm, repetition and round


@dataclass(frozen=True)
class Diary:
    """Runs, and the host that they ran on."""

    host: str
    here: Profile
    runs: Runs

    def write(self, path: Path) -> None:
        """A line for each run; times count from its first round on."""
        head = f'"host": {json.dumps(self.host)},\n"here": {json.dumps(_numbers(self.here))}'
        labels = [
            f"{json.dumps(label)}: [\n{COMMA.join(json.dumps(_plain(rounds)) for rounds in runs)}]"
            for label, runs in self.runs.items()
        ]
        path.write_text(f'{{{head},\n"runs": {{\n{COMMA.join(labels)}}}}}\n')


def read(path: Path) -> Diary:
    """The diary that `write` wrote."""
    said = json.loads(path.read_text())
    runs = {label: [[_played(told) for told in rounds] for rounds in runs] for label, runs in said["runs"].items()}
    return Diary(said["host"], Profile(**said["here"]), runs)


def _numbers(profile: Profile) -> dict[str, object]:
    """The numbers of a profile that `fedlapse calibrate` measures; the others have their defaults."""
    values = {field.name: getattr(profile, field.name) for field in fields(profile)}
    return {name: value for name, value in values.items() if value is None or isinstance(value, (str, int, float))}


def _plain(rounds: Sequence[Played]) -> list[dict[str, Any]]:
    zero = rounds[0].began

    def since(*times: float) -> list[float]:
        return [round(t - zero, DIGITS) for t in times]

    return [
        {
            "server": since(each.began, each.asked, each.heard, each.combined),
            "devices": {name: since(at.came, at.trained, at.arrived) for name, at in each.devices.items()},
        }
        for each in rounds
    ]


def _played(told: Mapping[str, Any]) -> Played:
    devices = {name: Moments(*times) for name, times in told["devices"].items()}
    began, asked, heard, combined = told["server"]
    return Played(began, asked, heard, combined, devices)

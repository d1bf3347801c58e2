"""Real devices and a real server, each a process in a namespace of its own; devices have a share of a core."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

from benchmarks.testbed import namespaces, quota
from benchmarks.testbed.tree import tree
from emulator.lab.lab import Lab


@dataclass(frozen=True)
class Moments:
    """One device in one round, s of CLOCK_MONOTONIC."""

    came: float
    trained: float
    arrived: float


@dataclass(frozen=True)
class Played:
    """One round, s of CLOCK_MONOTONIC."""

    began: float
    asked: float
    heard: float
    combined: float
    devices: Mapping[str, Moments]

    @property
    def seconds(self) -> float:
        return self.combined - self.began


@dataclass(frozen=True)
class Players:
    """Processes that are ready to play."""

    host: Popen[str]
    devices: Mapping[str, Popen[str]]

    def play(self, label: str, seed: int, rounds: int) -> list[Played]:
        """One run from the start."""
        for device in self.devices.values():
            _tell(device, f"{label} {seed}")
        _tell(self.host, f"{label} {seed} {rounds}")
        of_host = json.loads(namespaces.heard(self.host))
        of_devices = {name: json.loads(namespaces.heard(device)) for name, device in self.devices.items()}
        return [
            _played(told, {name: said[number] for name, said in of_devices.items()})
            for number, told in enumerate(of_host)
        ]


def _played(told: Mapping[str, Any], devices: Mapping[str, Mapping[str, float]]) -> Played:
    moments = {
        name: Moments(devices[name]["came"], devices[name]["trained"], arrived)
        for name, arrived in told["arrived"].items()
    }
    return Played(told["began"], told["asked"], told["heard"], told["combined"], moments)


@contextmanager
def players(scenario: Path, lab: Lab, shares: Mapping[str, float]) -> Iterator[Players]:
    """The fleet of the lab on its network; the server has all of a core that is left."""
    with tree(lab) as places, ExitStack() as stack:
        host = _started(stack, places.server, "benchmarks.testbed.host", str(scenario))
        devices = {
            name: _started(stack, leaf, "benchmarks.testbed.device", str(scenario), name, places.address)
            for name, leaf in places.devices.items()
        }
        for process in (host, *devices.values()):
            namespaces.heard(process)
        for name, device in devices.items():  # not before it is warm
            stack.enter_context(quota.limited(device.pid, shares[name]))
        yield Players(host, devices)


def _started(stack: ExitStack, namespace: str, module: str, *arguments: str) -> Popen[str]:
    process = namespaces.start(namespace, module, *arguments)
    stack.callback(namespaces.stop, process)
    return process


def _tell(process: Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()

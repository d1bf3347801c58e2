"""Real devices around a real server: each in a namespace behind a shaped wire, with a share of a core."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

from benchmarks.testbed import namespaces, quota
from benchmarks.testbed.namespaces import End
from emulator.study.study import Study

BURST = 3_000  # bytes of htb: two packets, as messages of different sizes should meet the same rate
QUEUE = 200_000  # bytes


@dataclass(frozen=True)
class Moments:
    """One device in one round, s of CLOCK_MONOTONIC."""

    sent: float
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
class Star:
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
        name: Moments(at["sent"], devices[name]["came"], devices[name]["trained"], at["arrived"])
        for name, at in told["devices"].items()
    }
    return Played(told["began"], told["asked"], told["heard"], told["combined"], moments)


@contextmanager
def star(scenario: Path, study: Study, shares: Mapping[str, float]) -> Iterator[Star]:
    """The fleet of the study behind wires of its links' rates; the server has all of a core that is left."""
    names = list(study.fleet)
    with namespaces.spaces(1 + len(names)) as (middle, *leaves), ExitStack() as stack:
        for number, (name, leaf) in enumerate(zip(names, leaves, strict=True)):
            link = study.links[name]
            out = End(middle, f"wire{number}", f"10.78.{number}.1", link.mean("down"))
            back = End(leaf, "wire", f"10.78.{number}.2", link.mean("up"))
            namespaces.join((out, back), QUEUE, BURST)
        host = _started(stack, middle, "benchmarks.testbed.host", str(scenario))
        devices = {
            name: _started(stack, leaf, "benchmarks.testbed.device", str(scenario), name, f"10.78.{number}.1")
            for number, (name, leaf) in enumerate(zip(names, leaves, strict=True))
        }
        for process in (host, *devices.values()):
            namespaces.heard(process)
        for name, device in devices.items():  # not before it is warm
            stack.enter_context(quota.limited(device.pid, shares[name]))
        yield Star(host, devices)


def _started(stack: ExitStack, namespace: str, module: str, *arguments: str) -> Popen[str]:
    process = namespaces.start(namespace, module, *arguments)
    stack.callback(namespaces.stop, process)
    return process


def _tell(process: Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()

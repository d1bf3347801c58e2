"""Profiles of phones from a file of benchmark scores: `fedlapse devices --score FILE`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from devices.benchmark_scores import ANCHORS, scores, speed_of
from devices.device import profiles
from devices.profiles import shipped
from network.foreign_files import BadFile
from network.traces import fedscale
from scenarios.text.faults import BadScenario

LIKE = {"nexus-6": "phone-low", "redmi-note-7": "phone-mid", "pixel-4": "phone-high"}  # whose other numbers are taken


def lines(path: Path, only: str, mflop: float | None) -> Iterator[str]:
    """Yields the lines of a CSV file of device profiles, for the phones whose names match the glob `only`.

    A phone's speed comes from its score by AI-Benchmark, or from FedScale's seconds to train on one example, which
    takes three forward passes of `mflop` MFLOP each.  All other numbers are those of the built-in phone of the nearest
    speed.  Raises BadScenario.
    """
    found = {name: speed for name, speed in _speeds(path, mflop) if fnmatchcase(name, only)}
    if not found:
        raise BadScenario(f"{path} has no phone that {only!r} matches")
    known = shipped()
    yield "name,quantity,value,unit,source,date"
    for name, (speed, source) in found.items():
        like = min(LIKE.values(), key=lambda each: abs(_ratio(profiles()[each].flops_per_s, speed)))
        yield _line(name, "speed", f"{speed / 1e9:.4g}", "GFLOP/s", source)
        for quantity, said in known[like].items():
            if quantity != "speed":
                yield _line(name, quantity, f"{said.value:g}", said.unit, f"assumed: as {like}")


def _ratio(a: float, b: float) -> float:
    return max(a, b) / min(a, b)


def _line(*cells: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([*cells, date.today()])
    return line.getvalue()


def _speeds(path: Path, mflop: float | None) -> Iterator[tuple[str, tuple[float, str]]]:
    """Yields each phone's name, with its speed in FLOP/s and the source of this number."""
    try:
        data = path.read_bytes()
        if data[:1] in (b"\x80", b",") or b'"computation"' in data[:10_000]:
            yield from _of_capacities(path, data, mflop)
        else:
            anchors = {score: profiles()[name].flops_per_s for name, (score, _) in ANCHORS.items()}
            for phone, score in scores(path).items():
                source = f"assumed: AI-Benchmark's {score:g} between FLASH's phones"
                yield _name(phone), (speed_of(score, anchors), source)
    except OSError as error:
        raise BadScenario(f"cannot read {path}: {error.strerror}") from None
    except (BadFile, ValueError) as error:
        raise error if isinstance(error, BadScenario) else BadScenario(str(error)) from None


def _of_capacities(path: Path, data: bytes, mflop: float | None) -> Iterator[tuple[str, tuple[float, str]]]:
    if mflop is None:
        raise BadScenario(
            f"{path} has milliseconds per example and not of which network; give --mflop, of its forward pass (300 M "
            f"multiply-adds are 600)"
        )
    for client in fedscale.read(str(path), data):
        if not client.computation:
            raise BadScenario(f"{path}: the computation of client {client.client} is 0; it must be above")
        source = f"assumed: FedScale's {1e3 * client.computation:g} ms for {mflop:g} MFLOP"
        yield _name(f"client-{client.client}"), (3 * mflop * 1e6 / client.compute(1, 1), source)


def _name(phone: str) -> str:
    """Returns the phone's name in a form that scenarios accept, such as `google-pixel-4`."""
    return re.sub(r"[^a-z0-9._]+", "-", phone.lower()).strip("-._")[:80] or "phone"

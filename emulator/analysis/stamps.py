"""Stamps: the times, in modelled seconds, at which the rounds of a study's runs end on other links.  Replays compute
them once, and a file keeps them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emulator.record.writing import replace_file
from emulator.replay.conditions import Condition
from emulator.replay.findings import ReplayResult

DIGEST = hashlib.sha256().digest_size  # bytes, at the end of the file
Stamps = Mapping[str, Mapping[int, tuple[float, ...] | None]]  # by label, by seed; None: no exact replay


def stamps(
    results: Sequence[ReplayResult], rounds: Mapping[tuple[str, int], int]
) -> dict[str, dict[int, tuple[float, ...] | None]]:
    """Returns the stamps of one setting, by label and seed, from the results of its replays; None for a replay that is
    not exact, or that has fewer rounds than the record.

    `rounds`: the number of rounds in the record of each run, by label and seed.
    """
    found: dict[str, dict[int, tuple[float, ...] | None]] = {}
    for each in results:
        exact = each.failure is None and each.parting is None and len(each.stamps) == rounds[each.label, each.seed]
        found.setdefault(each.label, {})[each.seed] = each.stamps if exact else None
    return found


def key(condition: Condition, record: str) -> str:
    """Returns the key of a setting in the file: the SHA-256, in hex, of the setting's values and of `record`, which
    identifies the replayed runs."""
    plain = {
        name: value if isinstance(value, (int, float, str)) else repr(value) for name, value in vars(condition).items()
    }
    said = json.dumps({**plain, "record": record}, sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()


class KeptSettings:
    """The stamps of all replayed settings, kept in one file.

    The file is no part of the results: if it is missing, the replays are made again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Stamps] = _read(path)

    def add(self, found: Mapping[str, Stamps]) -> None:
        """Adds the stamps of these settings, by key, in memory only; `write` saves them."""
        self.known.update(found)

    def write(self) -> None:
        """Writes the stamps of all settings to the file, and at its end the SHA-256 of all before.  Raises OSError if
        that fails."""
        replace_file(self.path, self._content())

    def _content(self) -> bytes:
        arrays: dict[str, NDArray[np.float64]] = {}
        for name, of in self.known.items():
            for label, seeds in of.items():
                for seed, ends in seeds.items():
                    arrays[f"{name}/{label}/{seed}"] = np.array([np.nan] if ends is None else ends)
        written = io.BytesIO()
        np.savez(written, **arrays)  # type: ignore[arg-type]
        content = written.getvalue()
        return content + hashlib.sha256(content).digest()


def _read(path: Path) -> dict[str, Stamps]:
    """Returns the stamps of all settings in the file, by key; {} if the file is missing or damaged."""
    found: dict[str, dict[str, dict[int, tuple[float, ...] | None]]] = {}
    try:
        written = path.read_bytes()
    except OSError:
        return {}
    content, digest = written[:-DIGEST], written[-DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        return {}
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        for whole in arrays.files:
            name, label, seed = whole.split("/")
            ends = arrays[whole]
            known = None if np.isnan(ends).any() else tuple(map(float, ends))
            found.setdefault(name, {}).setdefault(label, {})[int(seed)] = known
    return dict(found)

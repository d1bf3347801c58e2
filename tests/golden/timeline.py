"""The content of a golden file for a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from emulator.record.lines import Line


def without_digests(lines: Iterable[Line]) -> Iterator[Line]:
    """The timeline as golden files keep it: exact on any machine, because no float of a model enters it."""
    for line in lines:
        yield {key: value for key, value in line.items() if key not in ("model", "update")}

"""Makes the part of summary.json that can be computed from records: its numbers, and not its sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emulator.record.digest import digest
from emulator.results.caveats import Caveats
from emulator.results.expectations import judge
from emulator.results.results import Results

Failures = Mapping[str, Sequence[str]]  # by label: why runs ended early


def summary_json(found: Results, failures: Failures, links: Caveats, interrupted: bool = False) -> dict[str, Any]:
    """Returns the summary of runs that have ended.  `links`: the caveats about links; `interrupted`: the command was
    ended early."""
    return {
        **found.summary,
        "failures": failures,
        "digest": digest(found.folder),
        "expect": [
            {"ok": each.ok, "text": each.text} for each in judge(found.scenario.expect, found.runs, found.scenario.task)
        ],
        "interrupted": interrupted,
        "links": links,
    }

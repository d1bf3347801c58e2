"""The report as JSON: the summary, and the numbers behind the stacked bars."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from emulator.report import critical, payloads
from emulator.report.comparison import MADE_BY, compare, notes
from emulator.report.critical import Part
from emulator.results.results import Results


def plain(results: Sequence[Results]) -> str:
    """The JSON text; its seconds and bytes are means over the seeds' whole runs.  Raises ValueError without results."""
    all_ = compare(results)
    said = {
        "about": MADE_BY,
        "notes": notes(all_),
        **all_.summary,
        "critical_s": {label: _named(critical.mean(seeds)) for label, seeds in all_.runs.items()},
        "bytes_by_kind": {label: _named(payloads.mean(seeds)) for label, seeds in all_.runs.items()},
        "digests": {name: one.summary.get("digest") for name, one in all_.sources.items()},
    }
    return json.dumps(said, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _named(found: Mapping[Part, float]) -> dict[str, float]:
    return {" ".join(part).strip(): value for part, value in sorted(found.items())}

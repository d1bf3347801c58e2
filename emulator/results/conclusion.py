"""summary.json: everything that the record of ended runs adds up to."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator.record.digest import digest
from emulator.results.caveats import Caveats
from emulator.results.expectations import judge
from emulator.results.results import Results, targets
from emulator.results.units import under
from emulator.results.verdict import verdict

Failures = Mapping[str, Sequence[str]]  # what ended runs early, by label


def summed_up(
    found: Results, failures: Failures, links: Caveats, interrupted: bool = False, cut_short: Sequence[str] = ()
) -> dict[str, Any]:
    """The summary of these results; `links` is what was assumed about links.

    `cut_short`: labels of which a record could not be written to its end.
    """
    reserved = _reservation(found, [*failures, *cut_short], interrupted)
    said = verdict(found.runs, targets(found.scenario))
    return {
        **found.summary,
        "failures": failures,
        "digest": digest(found.folder),
        "sentence": f"{reserved}{said.sentence} {under(found.scenario.network_model)}.",
        "why": list(said.why),
        "hints": list(said.hints),
        "expect": [{"ok": each.ok, "text": each.text} for each in judge(found.scenario.expect, found.runs)],
        "interrupted": interrupted,
        "links": links,
    }


def _reservation(found: Results, early: Sequence[str], interrupted: bool) -> str:
    """What a verdict must not hide: that runs are not what the scenario says."""
    if interrupted:
        rounds = sorted(len(rows) for seeds in found.runs.values() for rows in seeds.values())
        return f"Interrupted after {rounds[0]} to {rounds[-1]} rounds, so this is no result. "
    return f"Some runs ended early ({', '.join(dict.fromkeys(early))}). " if early else ""


def told(summary: Mapping[str, Any], out: Path) -> list[str]:
    """The verdict in lines: the answer, why, and what to do next with the results in this folder."""
    hints = [str(hint).replace("OUT", shlex.quote(str(out))) for hint in summary.get("hints", ())]
    return [str(summary["sentence"]), *(f"  {line}" for line in summary.get("why", ())), *hints]

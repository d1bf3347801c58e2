"""The content of summary.json: numbers and sentences that are computed from the records of ended runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator.results.caveats import Caveats
from emulator.results.resampling import figure
from emulator.results.results import FOUND, Results, targets
from emulator.results.settings import how_sure
from emulator.results.summary_json import Failures, summary_json
from emulator.results.units import counted, joined, under
from emulator.wording.hints import Plan
from emulator.wording.holds import held
from emulator.wording.verdict import verdict
from scenarios.schema.scenario import Scenario

NOTHING: Mapping[str, Any] = {}


def summed_up(
    found: Results,
    failures: Failures,
    links: Caveats,
    interrupted: bool = False,
    cut_short: Sequence[str] = (),
    replayed: Mapping[str, Any] = NOTHING,
) -> dict[str, Any]:
    """Returns the content of summary.json for the results `found`.

    `failures`: by label, why runs ended early.  `links`: assumptions about links.  `interrupted`: a signal stopped the
    runs.  `cut_short`: labels of runs whose record is incomplete, because it could not be written.  `replayed`: what
    replays of the runs found, under keys of summary.json.
    """
    early = list(dict.fromkeys([*failures, *cut_short]))
    reserved = [f"Some runs ended early ({', '.join(early)})."] if early else []
    if interrupted:
        reserved = [f"{cut_off(found)}, so these are not final results."]
    reserved += [_overtime(label, share, label in failures) for label, share in replayed.get("overtime", {}).items()]
    said = verdict(found.runs, targets(found.scenario), Plan.of(found.scenario))
    made = summary_json(found, failures, links, interrupted)
    return {
        **{key: value for key, value in made.items() if key not in FOUND},  # which may be of fewer runs
        "how_sure": how_sure(found.scenario, replayed.get("chance")),
        "reserved": reserved,
        **replayed,
        "verdict": [*said.lines, *held(replayed.get("holds"), found.scenario)],
        "why": [*said.why, *_versions(found.scenario), f"{under(found.scenario.network_model)}."],
        "hints": list(said.hints),
    }


def _versions(scenario: Scenario) -> Iterator[str]:
    """Yields a sentence on the rounds of asynchronous runs, if there are any, as they are counted with the others."""
    of = {entry.name: scenario.under(entry.name).rounds for entry in scenario.algorithms}
    if names := [label for label, rounds in of.items() if rounds.mode == "async"]:
        yield f"Rounds of {joined(names)} are versions of the model, of fewer replies than other rounds."


def _overtime(label: str, share: float, failed: bool) -> str:
    late = f"{label} took up to {figure(1 + share)}x as long as modelled"
    advice = "; a smaller --speedup helps, a longer deadline_s does not" if failed else ""
    return f"This computer cannot keep up with the --speedup: {late}, so its seconds depend on the computer{advice}."


def cut_off(found: Results) -> str:
    """Returns a phrase with the smallest and largest number of rounds of a run: `Interrupted after 3 to 4 rounds`."""
    rounds = sorted({len(rows) for seeds in found.runs.values() for rows in seeds.values()})
    few = f"{rounds[0]} to " if len(rounds) > 1 else ""
    return f"Interrupted after {few}{counted(rounds[-1], 'round')}"


def answered(summary: Mapping[str, Any]) -> list[str]:
    """Returns the lines of a summary's reservations and, after them, of its verdict; [] if it has neither."""
    return [*summary.get("reserved", ()), *summary.get("verdict", ())]


def told(summary: Mapping[str, Any], out: Path) -> Iterator[str]:
    """Yields the lines of a summary that follow the verdict: reasons, and next steps as commands.

    `out`: the folder of the results, which the commands name.
    """
    yield from (f"  {line}" for line in summary.get("why", ()))
    yield from (str(hint).replace("OUT", shlex.quote(str(out)), 1) for hint in summary.get("hints", ()))

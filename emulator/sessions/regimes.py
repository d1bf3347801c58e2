"""Plays a study in several regimes, each of which is a study of its own, and compares them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from emulator.analysis import regimes
from emulator.analysis.answer import Answer
from emulator.compute.executor import Tally
from emulator.lab.build import built
from emulator.record.host import note
from emulator.record.removal import remove, written
from emulator.record.writing import replace_file
from emulator.sessions.computing import Playing
from emulator.sessions.folder import alone, folder
from emulator.sessions.studying import Studied, StudyCost, Studying, claim
from emulator.terminal.errors import Unfinished
from emulator.terminal.lines import say
from emulator.terminal.stopping import uninterrupted
from emulator.wording.regimes_page import markdown, tables, verdict
from scenarios.schema.scenario import Scenario


def study(
    scenario: Scenario, playing: Playing, out: Path | None = None, force: bool = False, exploratory: bool = False
) -> Studied:
    """Plays the study of a scenario, in each of its regimes if it names some, and writes its answer to OUT.

    Raises BadScenario for a faulty protocol, before anything is trained, and Unfinished if the study was stopped.
    `force` and `exploratory` are those of `Studying.into`.
    """
    studies = {name: Studying(each, playing) for name, each in regimes.scenarios(scenario).items()}
    if not studies:
        return Studying(scenario, playing).into(out, force, exploratory)
    for each in studies.values():
        built(each.scenario)  # its data can be split as it says
    out = folder(out, f"{scenario.name}-study")
    with alone(out):
        kinds = {f"regimes/{name}": "study" for name in studies} | {"tables": "tables", "figures": "figures"}
        changed = claim(out, scenario, kinds, force, exploratory) is not None
        note(out, kinds)
        found: dict[str, Studied] = {}
        for number, (name, each) in enumerate(studies.items(), 1):
            if not playing.quiet:
                say(f"fedlapse: regime {number} of {len(studies)}, {name}", err=True)
            try:
                found[name] = each.into(out / "regimes" / name, force, exploratory)
            except Unfinished as end:
                again = f"the regimes before {name} are done; the same command with --out {out} goes on"
                raise Unfinished(end.code, *end.lines[:-1], again) from None
            # The files are those of the regimes so far, so that a study of hours shows what it has found.
            whole = {name: of.answers[""] for name, of in found.items()}
            answers = {name: replace(of, exploratory=changed or of.exploratory) for name, of in whole.items()}
            plain = _write(out, answers, list(studies)[number:])
    return Studied(out, answers, plain, _added(found))


def costs(scenario: Scenario, playing: Playing) -> Iterator[tuple[str, StudyCost]]:
    """Yields the name of each regime, "" if the study names none, and the cost of the study in it.  Nothing is
    trained."""
    for name, each in (regimes.scenarios(scenario) or {"": scenario}).items():
        yield name, Studying(each, playing).cost()


def _added(found: Mapping[str, Studied]) -> Tally | None:
    tallies = [of.tally for of in found.values() if of.tally]
    total = Tally()
    for each in tallies:
        total.add(each)
    return total if tallies else None


def _write(out: Path, answers: Mapping[str, Answer], left: Sequence[str]) -> Mapping[str, Any]:
    """Writes tables, the figure, study.md and study.json; returns the content of study.json.  `left`: the names of the
    regimes that are not played yet."""
    from emulator.report.regimes import picture  # altair takes a second to import

    places = regimes.places(answers)
    names = list(dict.fromkeys(entry.name for each in answers.values() for entry in each.scenario.algorithms))
    with uninterrupted():
        for kind in ("tables", "figures"):  # an earlier report may have had more files
            (out / kind).mkdir(exist_ok=True)
            remove(written(out / kind, kind))
        named = tables(answers, places)
        for name, each in named.items():
            replace_file(out / "tables" / name, each.csv)
        for name, content in picture(names, places).items():
            replace_file(out / "figures" / name, content)
        replace_file(out / "study.md", markdown(answers, places, left))
        said = {"exploratory": any(each.exploratory for each in answers.values()), "verdict": verdict(answers, places)}
        said |= {"regimes": {name: each.digest for name, each in answers.items()}, "left": list(left)}
        replace_file(out / "study.json", json.dumps({**said, "tables": sorted(named)}, indent=1) + "\n")
    return said

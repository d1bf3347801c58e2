"""Checks a folder of results: that it equals its seal, that summary.json and split.json follow from the runs in it, and
that all runs of a seed begin with the same model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from emulator.audit import expected
from emulator.audit.audit import Audit
from emulator.audit.format import COUNT, NAMES
from emulator.lab.links import LinksAtOffsets, places
from emulator.record.call import turn
from emulator.record.difference import ABSENT, Change, unlike
from emulator.record.folders import REPLAY
from emulator.record.host import FOLDERS
from emulator.record.lines import object_of, read_lines
from emulator.record.run import Run, read_run
from emulator.record.seal import OF_RESULTS, SEAL, broken, read_seal
from emulator.results.caveats import Caveats, caveats
from emulator.results.results import FOUND, Results, results_of
from emulator.results.soundness import LOST, has_lost_seal
from emulator.results.summary_json import summary_json
from scenarios.builders import wiring
from scenarios.builders.assumed import assumptions
from scenarios.load import recorded
from scenarios.schema import known
from scenarios.schema.scenario import Scenario

CLOSE = 1e-9  # relative: another machine may add up in another order
NO_TIMELINES = "it holds no timelines; `fedlapse replay --events` keeps those of several settings"
SHOWN = 5  # differing values of the summary that are reported
SAID = ("reserved", "verdict", "why", "hints")  # keys of the summary with prose alone
PROSE = ("how_sure", "text", "assumed")  # keys whose words may differ between versions
REPORT = "report.html"
ALWAYS = ("scenario.yaml", "split.json", "host.json", "summary.json", REPORT)
SOMETIMES = {"speedup", "strangers"}  # keys of host.json for runs over sockets
GPU = re.compile(r"cuda:\d+")
HOST = {"command", "versions", "machine", "device", "real_seconds", "world", "overruns", FOLDERS}


def audit_results(out: Path, runs: Mapping[Path, Audit]) -> Audit:
    """Checks the folder `out`, which holds the audited `runs`.  Checks its summary only if the runs break no law."""
    audited = _as_a_whole(out, runs)
    if (out / REPLAY).is_file():
        return audited
    faults, doubt = first_models(out, runs)
    return replace(audited, faults=[*audited.faults, *faults], unjudged=audited.unjudged or doubt)


def _as_a_whole(out: Path, runs: Mapping[Path, Audit]) -> Audit:
    lost = [LOST] if has_lost_seal(out) else []
    faults = [f"seal: {fault}" for fault in (*broken(out, due=_due(out, runs)), *lost)]
    if not (out / SEAL).is_file() or (out / REPLAY).is_file():
        return Audit(faults, None if runs else NO_TIMELINES, bool(faults) or (out / SEAL).is_file())
    if unreadable := list(_unreadable(out)):
        return Audit([*faults, *filter(None, unreadable)], None, True)
    try:
        host, scenario = expected.host_of(out), recorded(out)
        known = _host(host) if (out / "host.json").is_file() else ()  # the seal reports a missing one
        faults += chain(known, _runs(scenario, runs), _split(out, scenario, runs))
        if faults or any(run.faults for run in runs.values()):
            return Audit(faults, None, True)
        faults += _summary(out, scenario, host.get("world") == "virtual")
    except (OSError, ValueError) as error:
        return Audit(faults, str(error), True)
    except (KeyError, TypeError, AttributeError) as error:  # well-formed rows may lack a value for a sum
        return Audit([*faults, f"summary: the rows do not add up to one: {type(error).__name__} {error}"], None, True)
    return Audit(faults, None, True)


def _due(out: Path, runs: Iterable[Path]) -> Iterator[str]:
    """Yields the files that the seal of these results must name, as paths in `out`."""
    needed: tuple[str, ...] = () if (out / REPLAY).is_file() else ALWAYS
    if _of_a_study(out):  # or a search: one page covers all their folders
        needed = tuple(name for name in needed if name != REPORT)
    for name in OF_RESULTS:
        if name in needed or (out / name).is_file():
            yield name
    for run in runs:
        yield f"{run.name}/{SEAL}"


def _of_a_study(out: Path) -> bool:
    try:
        return recorded(out).protocol is not None
    except (OSError, ValueError):
        return False


def _unreadable(out: Path) -> Iterator[str]:
    """Yields a sentence for each file that cannot be read; an empty one for a missing file, which the check of the seal
    reports."""
    for name in ("split.json", "summary.json"):
        try:
            _object(out / name)
        except FileNotFoundError:
            yield ""
        except (OSError, ValueError) as error:
            yield f"form: {error}"


def _host(host: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"form: host.json has the unknown key {key!r}" for key in sorted(host.keys() - HOST - SOMETIMES))
    yield from (f"form: host.json has no {key!r}" for key in sorted(HOST - host.keys()))
    if host.get("world") not in ("virtual", "sockets"):
        yield f"form: world in host.json is {host.get('world')!r}; it must be virtual or sockets"
    if "device" in host and not _is_device(host["device"]):
        yield f"form: device in host.json is {host['device']!r}; it must name the cpu, or GPUs and their model"


def _is_device(said: object) -> bool:
    """Returns true if `said` is a valid description of the hardware that trained: {"torch": ["cpu"]}, or {"torch":
    ["cuda:0", ...], "model": "..."}."""
    if said == {"torch": ["cpu"]}:
        return True
    if not isinstance(said, dict) or said.keys() != {"torch", "model"} or not isinstance(said["model"], str):
        return False
    places = said["torch"]
    named = isinstance(places, list) and places and all(isinstance(place, str) for place in places)
    return bool(named) and all(map(GPU.fullmatch, places)) and len(set(places)) == len(places)


def _runs(scenario: Scenario, runs: Mapping[Path, Audit]) -> Iterator[str]:
    due = {Run(entry.name, seed).name for entry in scenario.algorithms for seed in scenario.seeds}
    there = {run.name for run in runs}
    yield from (f"scenario: the run {name} is missing" for name in sorted(due - there))
    yield from (f"scenario: {name} is no run of the scenario" for name in sorted(there - due))
    for folder in runs:
        if (said := read_run(folder)[0].name) != folder.name:
            yield f"scenario: {folder.name} holds the run {said}"


def _summary(out: Path, scenario: Scenario, virtual: bool) -> Iterator[str]:
    said = _object(out / "summary.json")
    for key in SAID:
        if not NAMES.fits(prose := said.pop(key, ABSENT)):
            yield f"summary: {key} is {prose!r}; it must be {NAMES.words}"
    found = {key: said.pop(key) for key in FOUND if key in said}  # replays: see emulator/sessions/auditing.py
    results = results_of(out, scenario)
    failures: dict[str, list[str]] = {}
    for label, seeds in results.runs.items():
        for seed in seeds:
            sealed = read_seal(out / Run(label, seed).name)
            if sealed and sealed.failure:
                failures.setdefault(label, []).append(sealed.failure)
    links = _links(results) if virtual else said.get("links", {})
    made = {key: value for key, value in summary_json(results, failures, links).items() if key not in (*SAID, *found)}
    due = json.loads(json.dumps(made))
    wrong = [change for change in unlike(said, due) if not (_near(change) or _reworded(change))]
    for change in wrong[:SHOWN]:
        yield f"summary: {change.key} is {change.a!r}, but the records say {change.b!r}"
    if len(wrong) > SHOWN:
        yield f"summary: {len(wrong) - SHOWN} more values are not those of the records"


def _links(results: Results) -> Caveats:
    """Returns the caveats that the summary must state: the assumptions about links, and how often recordings repeat
    while a run replays them."""
    looped, scenario = [], results.scenario
    for label, seeds in results.runs.items():
        for seed, rows in seeds.items():
            declared = expected.declared(results.folder / Run(label, seed).name)
            links = LinksAtOffsets(declared.server_link, declared.links, wiring.topology(scenario), places(seed))
            spent = (row["seconds"]["devices"].items() for row in results.rows(label, seed))
            for name in {name for each in spent for name, of in each if any(of[:2])}:
                links.links[name]
            looped.append(links.loops.most(float(rows[-1]["time_s"]) if rows else 0.0))
    return caveats(list(assumptions(scenario)), looped)


def _split(out: Path, scenario: Scenario, runs: Iterable[Path]) -> Iterator[str]:
    """Checks the form of split.json, and that each device was asked to train on as many examples as split.json says
    that it holds in that round."""
    said = _object(out / "split.json")
    if not _is_split(said, scenario.rounds.per_cycle):
        yield "form: split.json is not as `fedlapse compare` writes it"
        return
    if said["seeds"].keys() != {str(seed) for seed in scenario.seeds}:
        yield f"split: split.json has the seeds {', '.join(said['seeds'])}; the scenario has {[*scenario.seeds]}"
        return
    for run in runs:
        of, _ = read_run(run)
        devices, own = said["seeds"].get(str(of.seed), {}).get("devices", {}), scenario.under(of.label)
        for name, duties in expected.works_of(run).asked.items():
            for round, duty in duties if name in devices else ():
                at = turn(round, own.rounds.buffer or 0, own.asked)
                held = _held(devices[name], said["classes"], at, scenario.rounds.per_cycle)
                if duty.examples not in held:
                    due = f"{max(held)} examples in round {round}"
                    yield f"split: {name} holds {due}; in {run.name} it was asked to train on {duty.examples}"


def _held(counts: Sequence[int], classes: int, round: int, per_cycle: int) -> Sequence[int]:
    """Returns the possible numbers of a device's examples in a round; `counts`: by class, or by time slice for texts.

    Drifting data come in slices, one for each cycle of `per_cycle` rounds; after the last cycle the last slice stays.
    Counts by class are sums over all slices, so that a slice may hold any part of them.
    """
    if not per_cycle:
        return (sum(counts),)
    if len(counts) == classes:
        return range(sum(counts) + 1)
    return (counts[min(round // per_cycle, len(counts) - 1)],)


def _is_split(said: Mapping[str, Any], per_cycle: int) -> bool:
    """Returns true if the content of split.json is well-formed: each device has a count for each class, or for texts
    one for each time slice."""
    if said.keys() != {"classes", "seeds"} or not COUNT.fits(said["classes"]) or not isinstance(said["seeds"], dict):
        return False
    if not all(map(_is_dealt, said["seeds"].values())):
        return False
    lengths = {len(counts) for of in said["seeds"].values() for counts in of["devices"].values()}
    return lengths <= {said["classes"], 1} if not per_cycle else len(lengths) <= 1


def _is_dealt(of: object) -> bool:
    """Returns true if `of` is a well-formed part of split.json for one seed: counts of examples under "devices", and
    possibly under "of" the size of a fleet that is too large to be listed whole."""
    if not isinstance(of, dict) or not {"devices"} <= of.keys() <= {"devices", "of"} or not COUNT.fits(of.get("of", 0)):
        return False
    return isinstance(of["devices"], dict) and all(
        isinstance(counts, list) and counts and all(map(COUNT.fits, counts)) for counts in of["devices"].values()
    )


def _object(path: Path) -> dict[str, Any]:
    """Reads the JSON object in a file.  Raises ValueError if the file holds anything else."""
    return object_of(path.read_bytes(), str(path), repeated_keys=False)


def _near(change: Change) -> bool:
    a, b = change.a, change.b
    return type(a) is type(b) is float and abs(a - b) <= CLOSE * max(abs(a), abs(b))


def _reworded(change: Change) -> bool:
    """Returns true if a summary differs only in the wording of sentences: one sentence, or a list of as many.  The
    values in them are compared under other keys."""
    a, b = change.a, change.b
    if change.key.rpartition(".")[2] not in PROSE or ABSENT in (a, b):
        return False
    sentences = isinstance(a, list) and isinstance(b, list) and len(a) == len(b)
    return sentences or (isinstance(a, str) and isinstance(b, str))


def first_models(out: Path, runs: Mapping[Path, Audit]) -> tuple[list[str], str | None]:
    """Returns a sentence for each run that begins with another model than the other runs of its seed, and the reason
    for a doubt, None if there is no doubt.

    Runs that break another law are skipped.  An algorithm may train on the server's examples before round 0: a shipped
    algorithm does so with the option `pretrain`, and its runs are skipped.  A user's own algorithm may do so without
    any such option; then a different model is only a doubt.
    """
    try:
        scenario = recorded(out)
    except (OSError, ValueError):
        return [], None  # the audits of the runs report it
    faults, doubt = list[str](), None
    shipped = [entry.name for entry in scenario.algorithms if entry.key in known.algorithms()]
    pretrained = {
        entry.name for entry in scenario.algorithms if entry.name in shipped and entry.options.get("pretrain")
    }
    sound = {folder.name for folder, run in runs.items() if not run.faults}
    for seed in scenario.seeds:
        begun = {entry.name: Run(entry.name, seed).name for entry in scenario.algorithms}
        models = {
            label: model
            for label, name in begun.items()
            if label not in pretrained and name in sound and (model := _first(out / name))
        }
        first = next((label for label in [*shipped, *models] if label in models), "")
        for label in (label for label, model in models.items() if model != models[first]):
            said = f"{begun[label]} begins with model {models[label]}, and {begun[first]} with {models[first]}"
            if label in shipped:
                faults.append(f"scenario: {said}; all runs of a seed begin with one model")
            else:
                doubt = f"{said}, which only the code of {label} can explain"
    return faults, doubt


def _first(folder: Path) -> Any:
    """Returns the digest of the model with which a run begins; None if its record is empty."""
    path = folder / "events.jsonl"
    opened = next(read_lines(path), None) if path.is_file() else None
    return opened.get("model") if opened else None

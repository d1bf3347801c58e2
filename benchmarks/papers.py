"""The papers' small settings, run one after the other, ours beside theirs: writes docs/papers.md.

    python -m benchmarks.papers                 all of scenarios/papers, with their `small:` changes
    python -m benchmarks.papers fedcl fedcurv   those whose names begin so; the others keep what was found before
    python -m benchmarks.papers none            runs nothing, and writes the page anew from what was found before

Leaves scenarios/papers/reproduced.json for `fedlapse papers`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.results import units
from emulator.results.full_runs import digest
from emulator.results.papers import AGREEMENTS, Lead, steps
from emulator.results.units import Unit
from emulator.wording.papers_page import PAPERS, RULE, row, table
from scenarios.load import load, shipped

ROOT = Path(__file__).resolve().parents[1]
PAGE, FOUND = ROOT / "docs" / "papers.md", ROOT / "scenarios" / "papers" / "reproduced.json"
RAW = ROOT / "benchmarks" / "papers.json"
METRICS = ("accuracy", "initial", "personalised")
SHARE = Unit("", 1.0, 3)
REMARKS = {
    "continual": "The text states no numbers, only that Algorithms 0 to 2 (`alg0` to `alg2`) outperform the "
    "baseline: compare `personalised`, which is what each device would use. Left out: decentralised rounds (§1.2) and "
    "surplus layers (§1.1). The text names them, but none of its algorithms has them."
}
INTRODUCTION = f"""\
# The papers, run small

Made by `python -m benchmarks.papers`, which runs the `small:` version of each file in `scenarios/papers`. Small
versions use small data, small models and few devices, so their numbers are not the papers'. What may be compared is
how an algorithm differs from the baseline, seed by seed. Where a paper states such a difference, a second table puts
ours beside it, the median of all seeds, and ends each row with a verdict:

{RULE}
"Table 1, there to 0.95" means that the paper's number is for accuracy 0.95, and ours for the target that the row names.
In a seed in which only the baseline never reached the target the ratio is 0; in one in which only the other algorithm
never did it is ∞. "2 of 3 seeds" says how many seeds have a ratio, if not all have one. [low, high] are the extremes
of the seeds; with three of them this is no test of significance.

The learning rates, batches, rounds and targets of the small versions were chosen by trial, some of them on these
seeds, so the counts favour the algorithms that were easiest to tune. Several settings may have the same small runs:
these are shown and counted once, beside the published numbers of the first of them. Without `--small` the same files
are the papers' own settings: [what came out of those](papers/results/README.md). The papers say nothing of networks, so
all settings have `network: {{model: ideal}}` (latency, then size over rate).
"""


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Beginnings of names; default: all.")] = None,
    limit: Annotated[float, typer.Option(help="Seconds that one setting may take.")] = 300.0,
) -> None:
    """Runs the small settings, keeps what they gave in benchmarks/papers.json, and writes docs/papers.md."""
    known: dict[str, Any] = json.loads(RAW.read_text(encoding="utf-8")) if RAW.is_file() else {}
    every = sorted(name.removeprefix("papers/") for name in shipped() if name.startswith("papers/"))
    for name in every:
        if not names or name.startswith(tuple(names)):
            known[name] = _run(name, limit)
            RAW.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            found = known[name]
            said = found.get("failure") or _count(steps(found["published"]))
            typer.echo(f"{name}: {said}, {found['host_s']:.0f} s")
    known = {name: known[name] for name in every if name in known}
    same = homes(known)
    PAGE.write_text("\n".join(page(known, same)) + "\n", encoding="utf-8")
    FOUND.write_text(json.dumps(counted(known, same), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def counted(known: Mapping[str, Any], homes: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """For each setting: how often its leads have each verdict, or the setting that has the same small runs."""
    return {
        name: _counts(_leads(name, found, homes))
        if name in of.values()
        else {"same_as": units.joined([*dict.fromkeys(of.values())])}
        for name, of in homes.items()
        if "published" in (found := known[name])
    }


def _run(name: str, limit: float) -> dict[str, Any]:
    """One setting through the command line, as a user would."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "emulator", "compare", f"papers/{name}", "--small", "--quiet"]
        try:
            done = subprocess.run(
                [*command, "--out", f"{folder}/out"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"failure": f"took longer than {limit:.0f} s", "host_s": limit}
        seconds = time.monotonic() - began
        if done.returncode:
            return {"failure": done.stderr.strip().splitlines()[-1], "host_s": seconds}
        summary = json.loads(Path(folder, "out", "summary.json").read_text(encoding="utf-8"))
    kept = {
        label: {key: said[key] for key in ("final", "time_s", "bytes")} for label, said in summary["labels"].items()
    }
    return {"published": summary["published"], "labels": kept, "host_s": round(seconds, 1)}


def _counts(leads: Sequence[Lead]) -> dict[str, int]:
    said = [lead.agrees for lead in leads]
    return {word: said.count(word) for word in AGREEMENTS}


def _count(leads: Sequence[Lead]) -> str:
    return ", ".join(f"{count} {word}" for word, count in _counts(leads).items() if count) or "nothing to compare"


def homes(known: Iterable[str]) -> dict[str, dict[str, str]]:
    """For each setting, by label, the first setting that has the same small run."""
    firsts: dict[str, str] = {}
    found: dict[str, dict[str, str]] = {}
    for name in known:
        small = load(f"papers/{name}", small=True)
        alone = {entry.name: small.model_copy(update={"algorithms": (entry,)}) for entry in small.algorithms}
        found[name] = {label: firsts.setdefault(digest(of), name) for label, of in alone.items()}
    return found


def _leads(name: str, found: Mapping[str, Any], homes: Mapping[str, Mapping[str, str]]) -> list[Lead]:
    """The leads of a setting that no setting before it has shown."""
    return [lead for lead in steps(found.get("published", [])) if homes[name].get(lead.label) == name]


def page(known: Mapping[str, Any], homes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield INTRODUCTION
    new = {name: found for name, found in known.items() if name in homes[name].values()}
    yield from table(("paper", *AGREEMENTS, "settings", "experiments"), list(_summary(known, new, homes)))
    for start, title in PAPERS.items():
        mine = {name: found for name, found in new.items() if name.startswith(start)}
        if mine:
            yield f"\n## {title}"
            if start in REMARKS:
                yield f"\n{REMARKS[start]}"
        for name, found in mine.items():
            yield from _setting(name, found, homes)


def _summary(
    known: Mapping[str, Any], new: Mapping[str, Any], homes: Mapping[str, Mapping[str, str]]
) -> Iterator[Sequence[str]]:
    for start, title in PAPERS.items():
        mine = {name: found for name, found in new.items() if name.startswith(start)}
        counts = _counts([lead for name, found in mine.items() for lead in _leads(name, found, homes)])
        settings = sum(name.startswith(start) for name in known)
        yield (title, *map(str, counts.values()), str(settings), str(len(mine)))


def _setting(name: str, found: Mapping[str, Any], homes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    scenario = load(f"papers/{name}", small=True)
    yield f"\n### {name}"
    yield ""
    yield (
        f"`fedlapse compare papers/{name} --small`: {scenario.data.set}, {scenario.model.name}, "
        f"{scenario.devices} devices, {len(scenario.seeds)} seeds, {scenario.rounds.max} rounds, "
        f"network model {scenario.network.model}, {found['host_s']:.0f} s here."
    )
    yield ""
    twins = [other for other, of in homes.items() if other not in of.values() and name in of.values()]
    for whole, said in ((True, "This is also"), (False, "Some of these runs are those of")):
        if named := [other for other in twins if (set(homes[other].values()) == {name}) == whole]:
            yield f"{said} the small version of {', '.join(named)}."
            yield ""
    for home in dict.fromkeys(homes[name].values()):
        if home != name:
            shared = units.joined([label for label, of in homes[name].items() if of == home])
            yield f"The same runs as in {home}, and shown there: {shared}."
            yield ""
    if "failure" in found:
        yield f"It did not run: {found['failure']}"
        return
    finals = [
        (
            label,
            *(units.spread(said["final"][m], SHARE) if said["final"].get(m) else units.NONE for m in METRICS),
            units.duration(said["time_s"]["mean"]),
        )
        for label, said in found["labels"].items()
        if homes[name].get(label) == name
    ]
    yield from table(("algorithm", *METRICS, "virtual time"), finals)
    if rows := [row(lead) for lead in _leads(name, found, homes)]:
        yield ""
        yield from table(("compared with the baseline", "", "where", "published", "ours", ""), rows)


if __name__ == "__main__":
    typer.run(main)

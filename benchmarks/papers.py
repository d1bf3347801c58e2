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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.results import units
from emulator.results.papers import AGREEMENTS, Lead, steps
from emulator.results.units import Unit
from scenarios.load import load, shipped

ROOT = Path(__file__).resolve().parents[1]
PAGE, FOUND = ROOT / "docs" / "papers.md", ROOT / "scenarios" / "papers" / "reproduced.json"
RAW = ROOT / "benchmarks" / "papers.json"
PAPERS = {  # what their files' names begin with
    "fedcl": "FedCL (Yao and Sun 2020)",
    "fedcurv": "FedCurv (Shoham et al. 2019)",
    "agentimportance": "Importance from agents",
    "fedmeta": "FedMeta and UGA (Yao et al. 2019)",
    "continual": "Continual federated learning with knowledge transfer (An Bian 2018)",
}
METRICS = ("accuracy", "initial", "personalised")
SHARE = Unit("", 1.0, 3)
INTRODUCTION = """\
# The papers, run small

Made by `python -m benchmarks.papers`, which runs the `small:` version of each file in `scenarios/papers`. Small
versions use small data, small models and few devices, so their numbers are not the papers'. What may be compared is
how an algorithm differs from the baseline, seed by seed. Where a paper states such a difference, a second table puts
ours beside it, and ends each row with a verdict:

* *as published*: the paper's difference lies between those of our seeds; or all seeds differ in the paper's direction,
  and the mean by half to twice as much (of ratios, their logarithms are compared);
* *same direction*: all seeds differ in the paper's direction, but by more or less than that;
* *against it*: all seeds differ in the other direction;
* *undecided*: the seeds disagree, or in one of them neither algorithm reached the target.

"Table 1, there to 0.95" means that the paper's number is for accuracy 0.95, and ours for the target that the row names.
In a seed in which only the baseline never reached the target the ratio is 0; in one in which only the other algorithm
never did it is ∞. "2 of 3 seeds" says how many seeds have a ratio, if not all have one. [low, high] are the extremes
of the seeds; with three of them this is no test of significance.

The learning rates, batches, rounds and targets of the small versions were chosen by trial, some of them on these
seeds, so the counts favour the algorithms that were easiest to tune. Several settings may have the same small version:
it is shown and counted once, beside the published numbers of the first of them. Without `--small` the same files are
the papers' own settings. The papers say nothing of networks, so all settings have `network: {model: ideal}` (latency,
then size over rate).
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
            typer.echo(f"{name}: {known[name].get('failure') or _count(known[name])}, {known[name]['host_s']:.0f} s")
    known = {name: known[name] for name in every if name in known}
    twins = _twins(known)
    PAGE.write_text("\n".join(_page(known, twins)) + "\n", encoding="utf-8")
    counts: dict[str, Any] = {name: _counts(found) for name, found in known.items() if "published" in found}
    counts |= {twin: {"same_as": name} for name, others in twins.items() for twin in others if twin in counts}
    FOUND.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n", encoding="utf-8")


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


def _counts(found: Mapping[str, Any]) -> dict[str, int]:
    said = [step.agrees for step in steps(found["published"])]
    return {word: said.count(word) for word in AGREEMENTS}


def _count(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {word}" for word, count in _counts(found).items() if count) or "nothing to compare"


def _twins(known: Mapping[str, Any]) -> dict[str, list[str]]:
    """The first setting of each small experiment, and the others that are the same one."""
    firsts: list[tuple[str, Any]] = []
    twins: dict[str, list[str]] = {}
    for name in known:
        said = load(f"papers/{name}", small=True).model_dump(exclude={"name", "published", "small", "expect"})
        first = next((other for other, told in firsts if told == said), None)
        if first is None:
            firsts.append((name, said))
            twins[name] = []
        else:
            twins[first].append(name)
    return twins


def _page(known: Mapping[str, Any], twins: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield INTRODUCTION
    yield from _table(("paper", *AGREEMENTS, "settings", "experiments"), list(_summary(known, twins)))
    for start, title in PAPERS.items():
        mine = {name: known[name] for name in twins if name.startswith(start)}
        if mine:
            yield f"\n## {title}"
        for name, found in mine.items():
            yield from _setting(name, found, twins[name])


def _summary(known: Mapping[str, Any], twins: Mapping[str, Sequence[str]]) -> Iterator[Sequence[str]]:
    for start, title in PAPERS.items():
        mine = [known[name] for name in twins if name.startswith(start)]
        counts = [_counts(found) for found in mine if "published" in found]
        settings = sum(name.startswith(start) for name in known)
        yield (title, *(str(sum(each[word] for each in counts)) for word in AGREEMENTS), str(settings), str(len(mine)))


def _setting(name: str, found: Mapping[str, Any], twins: Sequence[str]) -> Iterator[str]:
    scenario = load(f"papers/{name}", small=True)
    yield f"\n### {name}"
    yield ""
    yield (
        f"`fedlapse compare papers/{name} --small`: {scenario.data.set}, {scenario.model}, {scenario.devices} devices, "
        f"{len(scenario.seeds)} seeds, {scenario.rounds.max} rounds, network model {scenario.network.model}, "
        f"{found['host_s']:.0f} s here."
    )
    yield ""
    if twins:
        yield f"This is also the small version of {', '.join(twins)}."
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
    ]
    yield from _table(("algorithm", *METRICS, "virtual time"), finals)
    if rows := [_row(step) for step in steps(found["published"])]:
        yield ""
        yield from _table(("beside the baseline", "", "where", "published", "ours", ""), rows)


def _row(step: Lead) -> Sequence[str]:
    unit = Unit("", 1.0, 2 if step.ratio else 3)
    theirs = f"{step.theirs:.2f}x" if step.ratio else f"{step.theirs:+.3f}"
    ours = units.spread(step.ours, unit)
    if 0 < step.known < step.of:
        ours = f"{ours} ({step.known} of {step.of} seeds)"
    return (step.label, step.what, step.source, theirs, ours, step.agrees)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(headings) + " |"
    yield "|" + " --- |" * len(headings)
    yield from ("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    typer.run(main)

"""The page of the papers' full settings as Markdown: what was published, what came out, and what has not been run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emulator.results import units
from emulator.results.full_runs import GPU, Setting, pace
from emulator.results.papers import AGREEMENTS, Lead, beside, steps
from emulator.results.units import Unit, counted
from emulator.wording.markup import escaped

PAPERS = {  # what their settings' names begin with
    "fedcl": "FedCL (Yao and Sun 2020)",
    "fedcurv": "FedCurv (Shoham et al. 2019)",
    "agentimportance": "Importance from agents",
    "fedmeta": "FedMeta and UGA (Yao et al. 2019)",
    "continual": "Continual federated learning with knowledge transfer (An Bian 2018)",
}
ENDING = 5  # evaluated rounds of the second column
RULE = """\
* *as published*: all seeds differ from the baseline in the paper's direction, and their median by half to twice as
  much (of ratios, the logarithms are compared);
* *same direction*: all seeds differ in the paper's direction, but their median by more or less than that;
* *against it*: all seeds differ in the other direction;
* *undecided*: the seeds disagree, or one of them does not differ, or in one of them neither algorithm reached the
  target. If the paper has no difference, none in any seed is as published, and anything else is undecided.
"""
INTRODUCTION = f"""\
# The papers, full size

Made by `fedlapse papers report` from the CSVs next to this page. Each CSV is one algorithm with one seed of a setting
of the paper, `scenarios/papers/NAME.yaml`; `fedlapse papers run NAME` runs those that are missing. Every number is
compared with the paper's: the mean over seeds and [lowest, highest], at the end of a run, and as the mean of its last
{ENDING} evaluated rounds, because some accuracies vary a lot from round to round. If a paper states how much an
algorithm differs from the baseline, a second table has the median of our differences, seed by seed, and a verdict:

{RULE}
There is no verdict before an algorithm was run with all seeds. A run is stopped if no reply can be used for some
rounds, as when training diverges; its last accuracy counts, but there is no verdict if all of an algorithm's runs were
stopped. The table below counts verdicts at the end of the runs. Where several settings read one published number in
different ways, only the one that `fedlapse papers` lists first is counted.
"""
TABLE = ("algorithm", "", "where", "published", "ours", f"mean of the last {ENDING}", "seeds")
LEADS = ("compared with the baseline", "", "where", "published", "ours", "", f"mean of the last {ENDING}", "", "seeds")


def full_page(found: Mapping[str, Setting]) -> str:
    """Returns the page on these settings, by name."""
    return "\n".join([INTRODUCTION, *_summary(found), *_settings(found), *_open(found)]) + "\n"


def leads(of: Setting, ending: int = 1) -> list[Lead]:
    """Returns the leads over the baseline for which a paper has a number; none if the baseline has not been played."""
    baseline = of.scenario.algorithms[0].name
    return steps(beside(of.scenario.published, of.runs, ending, of.scenario.task)) if of.done[baseline] else []


def _summary(found: Mapping[str, Setting]) -> Iterator[str]:
    rows = []
    for start, title in PAPERS.items():
        mine = [of for name, of in found.items() if name.startswith(start)]
        known = [lead for of in reversed(mine) for lead in leads(of) if _judged(of, lead)]
        said = [*{(lead.label, lead.what, lead.source, lead.theirs): lead.agrees for lead in known}.values()]
        done = sum(len(seeds) for of in mine for seeds in of.done.values())
        left = sum(len(of.open) for of in mine)
        rows.append((title, *(str(said.count(word)) for word in AGREEMENTS), str(done), str(done + left)))
    yield from table(("paper", *AGREEMENTS, "runs", "of"), rows)


def _settings(found: Mapping[str, Setting]) -> Iterator[str]:
    for start, title in PAPERS.items():
        mine = {
            name: of for name, of in found.items() if name.startswith(start) and (any(of.done.values()) or of.stale)
        }
        if mine:
            yield f"\n## {title}"
        for name, of in mine.items():
            yield from _setting(name, of)


def _setting(name: str, of: Setting) -> Iterator[str]:
    data, rounds = of.scenario.data.set, of.scenario.rounds
    yield f"\n### {name}\n"
    yield f"{data}, {of.scenario.model.name}, {of.scenario.devices} devices, {rounds.max} rounds.\n"
    once, often = (beside(of.scenario.published, of.runs, ending, of.scenario.task) for ending in (1, ENDING))
    if once:
        yield from table(TABLE, [_number(of, *both) for both in zip(once, often, strict=True)])
    if compared := [_lead(of, *both) for both in zip(leads(of), leads(of, ENDING), strict=True)]:
        yield ""
        yield from table(LEADS, compared)
    for text in (*_told(of), of.why, *_stale(of), *_played(of)):
        if text:
            yield f"\n{text}"


def _number(of: Setting, once: Mapping[str, Any], often: Mapping[str, Any]) -> Sequence[str]:
    share = once["kind"] in ("final", "gap")
    unit = Unit("", 1.0, 4 if share else 2 if once["kind"] == "part" else None)
    last = units.spread(often["ours"], unit) if share else ""
    said = (once["label"], once["what"], once["source"], unit.show(once["theirs"]), units.spread(once["ours"], unit))
    stopped = _stopped(of, once["label"])
    return (*said, last, f"{once['of']} ({stopped} stopped)" if stopped else str(once["of"]))


def _lead(of: Setting, once: Lead, often: Lead) -> Sequence[str]:
    cells = [*row(once, 4), *(("", "") if once.ratio else row(often, 4)[-2:])]
    if not _judged(of, once):
        cells[5], cells[7] = "", ""  # the verdicts
    return (*cells, str(once.of))


def _judged(of: Setting, lead: Lead) -> bool:
    """Returns True if an algorithm was run with all seeds, and not all of its runs were stopped."""
    return lead.of >= len(of.scenario.seeds) and _stopped(of, lead.label) < lead.of


def _stopped(of: Setting, label: str) -> int:
    """Returns how many runs of an algorithm ended before their last round."""
    return sum(played.last < of.scenario.rounds.max for played in of.done[label].values())


def row(lead: Lead, digits: int = 3) -> Sequence[str]:
    """Returns a row on a lead over the baseline: label, quantity, place in the paper, published, ours, verdict.

    `digits`: of differences, after the point.
    """
    unit = Unit("", 1.0, 2 if lead.ratio else digits)
    theirs = f"{lead.theirs:.2f}x" if lead.ratio else f"{lead.theirs:+.{digits}f}"
    ours = units.spread({**lead.ours, "mean": lead.median}, unit)
    if 0 < lead.known < lead.of:
        ours = f"{ours} ({lead.known} of {lead.of} seeds)"
    return (lead.label, lead.what, lead.source, theirs, ours, lead.agrees)


def _told(of: Setting) -> Iterator[str]:
    """Yields a sentence for each failure and warning of a run."""
    for label, seeds in of.done.items():
        for seed, played in seeds.items():
            who = f"{label}, seed {seed}: "  # a failure names its run itself
            texts = (escaped(text.removeprefix(who)) for text in played.facts.get("told", ()))
            yield from (f"`{label}`, seed {seed}: {text}." for text in texts)


def _stale(of: Setting) -> Iterator[str]:
    if of.stale:
        names = units.joined([f"`{escaped(path.name)}`" for path in of.stale])
        yield f"Left out, because their row of the setting has changed since: {names}."


def _played(of: Setting) -> Iterator[str]:
    """Yields a sentence for each machine and version that has played runs of the setting."""
    facts = [played.facts for seeds in of.done.values() for played in seeds.values()]
    for where in dict.fromkeys(map(_where, facts)):
        mine = [each for each in facts if _where(each) == where]
        seconds, cores = sum(each["host_s"] for each in mine), [each["cpu_s"] for each in mine if "cpu_s" in each]
        told = f", {units.duration(sum(cores))} of a core" if len(cores) == len(mine) else ""
        yield f"{counted(len(mine), 'run')} {escaped(where)}: {units.duration(seconds)}{told}."


def _where(facts: Mapping[str, Any]) -> str:
    commit = f" at commit {facts['commit']}" if facts["commit"] else ""
    on = facts["gpu"] or f"{counted(facts['workers'] or 1, 'worker')} on {facts['processor']}, {facts['cores']} cores"
    return f"by fedlapse {facts['fedlapse']}{commit}, PyTorch {facts['torch']}, {on}"


def _open(found: Mapping[str, Setting]) -> Iterator[str]:
    """Yields the table of settings with runs that have not been played, and what they would take."""
    yield "\n## Open\n"
    core, gpu = _pace(found, gpu=False) or 1.0, _pace(found, gpu=True) or 1.0 / GPU
    yield (
        "What has not been run. CPU-hours, of one core, are the estimate of `fedlapse check` times the measured ratio "
        f"of real time to it, {core:.2f}; a GPU is assumed to do the work of {1.0 / gpu:.0f} cores.\n"
    )
    rows = []
    for name, of in found.items():
        if of.open:
            labels = units.joined([*dict.fromkeys(run.run.label for run in of.open)])
            foreseen = [of.forecast.get(run.run.label) for run in of.open]
            seconds = None if None in foreseen else sum(each or 0.0 for each in foreseen)
            costs = (
                [units.NONE] * 2 if seconds is None else [f"{seconds * core / 3600:.1f}", f"{seconds * gpu / 60:.0f}"]
            )
            rows.append((name, labels, str(len(of.open)), *costs))
    yield from table(("setting", "algorithms", "runs", "CPU-hours", "GPU-minutes"), rows)


def _pace(found: Mapping[str, Setting], gpu: bool) -> float | None:
    """Returns the ratio of the seconds that computed runs took to those foreseen, on a core or on a GPU; None if there
    are none."""
    done = [(of, played) for of in found.values() for seeds in of.done.values() for played in seeds.values()]
    facts = [played.facts for of, played in done if played.is_computed(of.scenario)]
    key = "host_s" if gpu else "cpu_s"
    mine = [each for each in facts if key in each and bool(each["gpu"]) == gpu]
    return pace(mine, key)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a table in Markdown."""
    yield "| " + " | ".join(headings) + " |"
    yield "|" + " --- |" * len(headings)
    yield from ("| " + " | ".join(each) + " |" for each in rows)

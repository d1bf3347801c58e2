"""Every number on the pages of the papers is that of the files which they are made from."""

import csv
import json
import math
import re
from functools import cache
from pathlib import Path
from statistics import fmean, median

import pytest

from benchmarks import importance, papers
from emulator.results.full_runs import FullRun, setting
from emulator.sessions.full_runs import settings
from emulator.wording.papers_page import full_page
from scenarios.load import load

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "papers" / "results"
NAME = "agentimportance-table1-mnist-mlp"


def runs(folder: Path) -> dict[str, dict[int, list[dict[str, str]]]]:
    """The rows of all CSVs in the folder of a setting, by label and seed."""
    found: dict[str, dict[int, list[dict[str, str]]]] = {}
    for file in folder.glob("*.csv"):
        label, _, seed = file.stem.rpartition("-s")
        lines = file.read_text(encoding="utf-8").splitlines()[1:]
        found.setdefault(label, {})[int(seed)] = list(csv.DictReader(lines))
    return found


def end(rows, metric, ending):
    known = [float(row[metric]) for row in rows if row.get(metric)][-ending:]
    return fmean(known) if known else math.inf  # a run that failed in its first round


def first(rows, metric, value):
    return next((int(row["round"]) for row in rows if row.get(metric) and float(row[metric]) >= value), math.inf)


def values(of, what, ending=1):
    """By seed: a metric at the end, or the first round with a value of it."""
    words = what.partition(",")[0].split()
    if words[0] == "rounds":
        return {seed: first(rows, words[2], float(words[3])) for seed, rows in of.items()}
    return {seed: end(rows, words[0], ending) for seed, rows in of.items()}


def shown(middle, each, digits):
    """As a table has it: one number, or one with the extremes."""
    if min(each) == math.inf:
        return "not reached"
    texts = ["∞" if value == math.inf else f"{value:,.{digits}f}" for value in (middle, min(each), max(each))]
    if digits == 1:
        texts = [text.removesuffix(".0") for text in texts]
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def verdict(theirs, ours, ratio):
    """The rule, word by word."""
    sizes = [math.log(value or 1e-300) if ratio else value for value in (theirs, *ours)]
    published, seeds = sizes[0], sizes[1:]
    if published * min(seeds) > 0 and published * max(seeds) > 0:
        return "as published" if 0.5 <= median(seeds) / published <= 2 else "same direction"
    if published * min(seeds) < 0 and published * max(seeds) < 0:
        return "against it"
    return "as published" if published == 0 == min(seeds) == max(seeds) else "undecided"


def tables(page, heading):
    """The rows of a section's two tables."""
    section = page.partition(f"### {heading}\n")[2].partition("\n#")[0]
    parts = [[], []]
    for block in section.split("\n\n"):
        rows = [
            [cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines() if line[:1] == "|"
        ]
        if rows:
            parts[rows[0][0] == "compared with the baseline"] = rows[2:]
    return parts


def check(page, name, folder):
    """Computes again all numbers of a setting; returns how many rows it has."""
    ran, (numbers, leads) = runs(folder), tables(page, name)
    bases = {}
    for label, what, where, theirs, ours, often, seeds in numbers:
        bases.setdefault((what, where), (label, float(theirs.replace(",", ""))))
        each = values(ran[label], what)
        digits = 4 if what.endswith("at the end") else 1
        if not what.endswith("baseline's"):
            assert ours == shown(fmean(each.values()), each.values(), digits), (name, label, what)
        if digits == 4:
            last = values(ran[label], what, 5)
            assert often == shown(fmean(last.values()), last.values(), 4), (name, label, what)
        stopped = ended(ran[label].values(), name)
        assert seeds == (f"{len(each)} ({stopped} stopped)" if stopped else str(len(each)))
    for label, what, where, theirs, ours, said, often, too, both in leads:
        base, theirs_base = bases[what, where]
        baseline = "fedavg" if what.endswith("baseline's") else base
        for ending, text, judged in [(1, ours, said), *([(5, often, too)] if often else [])]:
            mine, its = (values(ran[one], what, ending) for one in (label, baseline))
            ratio = what.startswith("rounds")
            each = [
                mine[s] / its[s] if ratio else mine[s] - its[s]
                for s in mine
                if s in its and (min if ratio else max)(mine[s], its[s]) < math.inf
            ]
            stated = next(float(row[3]) for row in numbers if row[:3] == [label, what, where])
            stated = stated if baseline != base else stated / theirs_base if ratio else stated - theirs_base
            assert int(both) == len(mine.keys() & its)
            assert theirs == (f"{stated:.2f}x" if ratio else f"{stated:+.4f}")
            assert text.partition(" (")[0] == shown(median(each), each, 2 if ratio else 4), (name, label, what)
            whole = len(mine.keys() & its) >= len(load(f"papers/{name}").seeds) and ended(ran[label].values(), name) < 3
            assert judged == (
                "" if not whole else verdict(stated, each, ratio) if len(each) == len(its) else "undecided"
            )
    return len(numbers) + len(leads)


def told(folder: Path) -> list[tuple[str, str, str]]:
    """Label, seed and text of each warning about a run in the folder of a setting."""
    found = []
    for file in folder.glob("*.csv"):
        label, _, seed = file.stem.rpartition("-s")
        facts = json.loads(file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "))
        found += [(label, seed, text.removeprefix(f"{label}, seed {seed}: ")) for text in facts.get("told", [])]
    return sorted(found)


def warned(page: str, name: str) -> list[tuple[str, str, str]]:
    """The same, as a section of the page has them."""
    section = page.partition(f"### {name}\n")[2].partition("\n#")[0].replace("\\", "")
    return sorted(re.findall(r"^`(\S+)`, seed (\d+): (.*)\.$", section, re.M))


def ended(ran, name):
    """How many runs of a setting ended before the last round."""
    last = load(f"papers/{name}").rounds.max
    return sum(not rows or int(rows[-1]["round"]) < last for rows in ran)


@cache
def scenario():
    return load(f"papers/{NAME}")


def written(out, label, seed, accuracies, **facts):
    run = FullRun.of(NAME, scenario(), label, seed)
    known = {
        "run": run.digest,
        "fedlapse": "1",
        "torch": "2",
        "commit": "abc",
        "processor": "P",
        "cores": 2,
        "gpu": None,
    }
    lines = [f"# {json.dumps({**known, 'workers': 0, 'host_s': 60.0, 'cpu_s': 50.0, 'forecast_s': 25.0, **facts})}"]
    last = scenario().rounds.max - len(accuracies) + 1
    lines += ["round,time_s,down_bytes,up_bytes,accuracy"]
    lines += [f"{number},{number},{number},{number},{value}" for number, value in enumerate(accuracies, last)]
    run.file(out).parent.mkdir(exist_ok=True)
    run.file(out).write_text("\n".join(lines) + "\n")


@pytest.fixture
def page(tmp_path):
    climbing = [0.3, 0.5, 0.86, 0.6, 0.88, 0.7]
    written(tmp_path, "fedavg", 1, climbing)
    written(tmp_path, "fedavg", 2, climbing[::-1], host_s=120.0)
    written(tmp_path, "agentimportance", 1, [0.4, 0.87, 0.7, 0.7, 0.7, 0.74])
    written(
        tmp_path,
        "agentimportance",
        2,
        [0.4, 0.6, 0.5, 0.6, 0.7, 0.33],
        told=["agentimportance, seed 2: its loss is not finite"],
    )
    written(tmp_path, "fedprox", 1, climbing)
    written(tmp_path, "fedprox", 2, climbing[::-1], run="of another version")
    (tmp_path / NAME / "why.txt").write_text("It is a test.\n")
    return full_page({NAME: setting(NAME, scenario(), tmp_path)})


def test_numbers_are_those_of_the_runs(page, tmp_path):
    (tmp_path / NAME / "fedprox-s2.csv").unlink()  # it is left out
    assert check(page, NAME, tmp_path / NAME) >= 9
    assert "| fedavg | accuracy at the end | Tables 1 and 3 | 0.8570 | 0.5000 [0.3000, 0.7000] |" in page
    with pytest.raises(AssertionError):
        check(page.replace("0.5000 [0.3000", "0.5001 [0.3000"), NAME, tmp_path / NAME)


def test_a_page_says_who_played_what_is_open_and_why(page):
    assert "\nIt is a test.\n" in page
    assert "`agentimportance`, seed 2: its loss is not finite." in page
    assert "Left out, because their row of the setting has changed since: `fedprox-s2.csv`." in page
    assert "5 runs by fedlapse 1 at commit abc, PyTorch 2, 1 worker on P, 2 cores: 360 s, 250 s of a core." in page
    labels = len(scenario().algorithms)
    assert re.search(rf"\| {NAME} \| [\w, -]+ \| {3 * labels - 5} \| – \| – \|", page)


def test_core_hours_are_those_foreseen_times_what_runs_took_over_them(page, tmp_path):
    of = setting(NAME, scenario(), tmp_path)
    foreseen = {entry.name: 3600.0 for entry in scenario().algorithms}
    again = full_page({NAME: type(of)(**{**vars(of), "forecast": foreseen})})
    left = len(of.open)
    assert re.search(rf"\| {left} \| {2.0 * left:.1f} \| {60 * left / 50:.0f} \|", again)  # 50 s where 25 were foreseen


def test_runs_that_were_stopped_say_nothing_of_hours(page, tmp_path):
    """One that ended after 6 of 100 rounds would make all others look short."""
    before, last = real_over_foreseen(tmp_path), scenario().rounds.max
    written(tmp_path, "rwalk", 1, [0.3], forecast_s=5000.0, told=["training diverges"])
    assert real_over_foreseen(tmp_path) != before  # it has its last round
    file = tmp_path / NAME / "rwalk-s1.csv"
    file.write_text(file.read_text().replace(f"\n{last},{last},", "\n6,6,"))
    assert real_over_foreseen(tmp_path) == before


def real_over_foreseen(out):
    return re.search(r"real time to it, ([\d.]+);", full_page({NAME: setting(NAME, scenario(), out)}))[1]


@pytest.mark.slow
def test_the_page_of_full_runs_is_that_of_its_files():
    found = {name: setting(name, scenario, RESULTS) for name, scenario in settings([]).items()}
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert page == full_page(found)
    said = {}
    for name, of in found.items():
        if any(of.done.values()) and not of.stale:
            check(page, name, RESULTS / name)
            assert warned(page, name) == told(RESULTS / name), name
            for label, what, where, theirs, _, judged, *_ in tables(page, name)[1]:
                said.setdefault((name.partition("-")[0], label, what, where, theirs), judged)
    summary = [line.strip("| ").split(" | ") for line in page.partition("## ")[0].splitlines() if line[:1] == "|"]
    words = summary[0][1:5]
    for start, (title, *cells) in zip(papers.PAPERS, summary[2:], strict=True):
        mine = [judged for (paper, *_), judged in said.items() if paper == start]
        assert cells[:4] == [str(mine.count(word)) for word in words], title
        done = [RESULTS / name for name in found if name.startswith(start)]
        assert cells[4] == str(sum(len(list(folder.glob("*.csv"))) for folder in done))


def test_what_is_written_on_fedavg_by_hand_is_in_its_files():
    """Its accuracy after 10 rounds, and the rounds that it takes to 0.85, for each number of shards."""

    def extremes(name, what, show):
        each = values(runs(RESULTS / name)["fedavg"], what).values()
        return f"{min(each):{show}} to {max(each):{show}}"

    of = {path.parent.name: path.read_text(encoding="utf-8") for path in RESULTS.glob("*/why.txt")}
    table1, table3 = NAME, NAME.replace("table1", "table3")
    assert f"FedAvg reaches 0.85 here in {extremes(table1, 'rounds to accuracy 0.85', 'd')} rounds" in of[table1]
    alone = runs(RESULTS / f"{table1}-one-shard")["fedavg"]
    assert f"it ends at {extremes(f'{table1}-one-shard', 'accuracy', '.2f')} after 100" in of[f"{table1}-one-shard"]
    assert "reaches 0.85 under one of three seeds" in of[f"{table1}-one-shard"]
    assert [first(rows, "accuracy", 0.85) < math.inf for rows in alone.values()].count(True) == 1 == len(alone) - 2
    assert "`rwalk` and `per-sample` diverge under all three, and are stopped after the first rounds." in of[table1]
    assert [ended(runs(RESULTS / table1)[label].values(), table1) for label in ("rwalk", "per-sample")] == [3, 3]
    two, one = (extremes(name, "accuracy", ".2f") for name in (table3, f"{table3}-one-shard"))
    assert f"FedAvg is at {two} after 10 rounds" in of[table3]
    cnn = table3.replace("mlp", "cnn")
    assert f"FedAvg is at {extremes(cnn, 'accuracy', '.2f')} after 10 rounds" in of[cnn]
    fedavg, alone = (values(runs(RESULTS / cnn)[label], "accuracy") for label in ("fedavg", "ewc-only"))
    assert "to within 0.001;" in of[cnn]
    assert max(abs(fedavg[seed] - alone[seed]) for seed in fedavg) < 0.001
    assert f"FedAvg is at {one} after 10 rounds" in of[f"{table3}-one-shard"]
    assert f"while with two it is at {two}" in of[f"{table3}-one-shard"]


def test_what_is_written_on_importance_by_hand_is_in_its_files():
    """How much of the paper's gain it has, and which runs diverge."""
    of = {path.parent.name: path.read_text(encoding="utf-8") for path in RESULTS.glob("*/why.txt")}
    table1, table3 = NAME, NAME.replace("table1", "table3")
    alone = f"{table3}-one-shard"
    assert "at a quarter of its size at the end of the runs, and half of it over the last five rounds" in of[table3]
    assert share_of_gain(table3, "agentimportance") == pytest.approx(1 / 4, abs=0.05)
    assert share_of_gain(table3, "agentimportance", 5) == pytest.approx(1 / 2, abs=0.1)
    for name, said in (
        (table3, "and at 0.51 in the paper"),
        (table3.replace("mlp", "cnn"), "and at 0.62 in the paper"),
    ):
        paper = {each.label: each.final for each in load(f"papers/{name}").published if each.final}
        assert f"and at {paper['fedavg']:.2f} in the paper" == said
        assert said in of[name]
    assert "in the paper in 91," in of[table1]
    assert [each.rounds for each in load(f"papers/{table1}").published if each.label == "fedavg" and each.rounds] == [
        91
    ]
    assert "Its advantage has the paper's sign under all seeds" in of[table3]
    assert min(*gains(table3, "agentimportance"), *gains(table3, "agentimportance", 5)) > 0
    assert "all that importance from agents gains comes from its weighted mean" in of[table3.replace("mlp", "cnn")]
    both = zip(
        *(gains(table3.replace("mlp", "cnn"), label) for label in ("agentimportance", "weighted-only")), strict=True
    )
    assert max(abs(one - other) for one, other in both) <= 0.0011
    assert "The penalty alone gains nothing that three seeds show." in of[alone]
    assert min(gains(alone, "ewc-only")) < 0 < max(gains(alone, "ewc-only"))
    assert "Importance from agents and its weighted mean then gain half of what they gain in the paper." in of[alone]
    assert share_of_gain(alone, "agentimportance") == pytest.approx(1 / 2, abs=0.1)
    assert share_of_gain(alone, "weighted-only") == pytest.approx(1 / 2, abs=0.1)
    assert "`ewc-only` and `raw` diverge under seed 2, in rounds 9 and 10: from there on" in of[table3]
    for label in ("ewc-only", "raw"):
        every = {seed: [row["accuracy"] for row in rows] for seed, rows in runs(RESULTS / table3)[label].items()}
        assert {seed for seed, each in every.items() if each[7] == each[8] == each[9]} == {2}
    assert "`ewc-only` and `raw` diverge under two of three seeds" in of[table1]
    assert [ended(runs(RESULTS / table1)[label].values(), table1) for label in ("ewc-only", "raw")] == [2, 2]
    assert "the drift of `agentimportance` under one." in of[table1]
    told = [
        json.loads((RESULTS / table1 / f"agentimportance-s{seed}.csv").read_text("utf-8").splitlines()[0][2:]).get(
            "told", []
        )
        for seed in (1, 2, 3)
    ]
    assert ["drift grew" in " ".join(each) for each in told].count(True) == 1


def gains(name, label, ending=1):
    """The gain over FedAvg under each seed."""
    mine, its = (values(runs(RESULTS / name)[each], "accuracy at the end", ending) for each in (label, "fedavg"))
    return [mine[seed] - its[seed] for seed in sorted(mine)]


def share_of_gain(name, label, ending=1):
    """The median gain, as a share of the paper's."""
    paper = {each.label: each.final for each in load(f"papers/{name}").published}
    return median(gains(name, label, ending)) / (paper[label] - paper["fedavg"])


def test_strengths_that_sgd_bears_are_those_that_were_measured():
    """lr x strength x largest F on MNIST, over three seeds: in the specification, and in the settings' comments."""
    measured = {name: f"{two_digits(min(each))} to {two_digits(max(each))}" for name, each in importance.kept().items()}
    text = (ROOT / "docs" / "design" / "algorithms.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| .* \| `(\w+)` \| ([\d.]+ to [\d.]+) \|$", text, re.M))
    assert said == measured
    for file in (ROOT / "scenarios" / "papers").glob("agentimportance-*.yaml"):
        comment = " ".join(line.lstrip("# ") for line in file.read_text("utf-8").splitlines() if line[:1] == "#")
        if "λ = 100,000 the F" in comment:
            assert f"the F of round 1 gives {measured['mean_squared']} (" in comment, file
            assert f"of the squares of single examples: {measured['empirical']}" in comment, file


def test_no_reading_of_f_is_stable_on_cifar_with_the_strength_of_mnist():
    name = "agentimportance-table1-cifar-mlp"
    why = (RESULTS / name / "why.txt").read_text(encoding="utf-8")
    own, single = (f"{two_digits(min(each))} to {two_digits(max(each))}" for each in importance.kept("cifar").values())
    assert f"largest F is {own} in the reading of F that gives the smallest values on MNIST, and {single} with" in why
    assert f"On CIFAR-10 the two are {own} and {single}:" in (ROOT / f"scenarios/papers/{name}.yaml").read_text("utf-8")
    found = runs(RESULTS / name)
    fedavg = found.pop("fedavg")
    last = {label: [int(rows[-1]["round"]) for rows in of.values()] for label, of in found.items()}
    assert {label: ended(found[label].values(), name) for label in last} == dict.fromkeys(
        ("agentimportance", "raw", "per-sample"), 3
    )
    assert f"stopped after {min(map(min, last.values()))} to {max(map(max, last.values()))} rounds" in why
    low, high = sorted(values(fedavg, "accuracy").values())  # of two seeds
    paper = next(each.final for each in load(f"papers/{name}").published if each.label == "fedavg")
    assert (
        f"FedAvg ends at {low:.2f} to {high:.2f} under the two seeds that were run, in the paper at {paper:.2f}." in why
    )


def two_digits(value):
    return f"{float(f'{value:.1e}'):.{max(0, 1 - math.floor(math.log10(value)))}f}"


@pytest.mark.slow
def test_the_page_of_small_runs_is_that_of_its_files():
    known = json.loads(papers.RAW.read_text(encoding="utf-8"))
    homes = papers.homes(known)
    assert papers.PAGE.read_text(encoding="utf-8") == "\n".join(papers.page(known, homes)) + "\n"
    assert json.loads(papers.FOUND.read_text(encoding="utf-8")) == papers.counted(known, homes)


def test_numbers_of_small_runs_are_those_of_their_seeds():
    """Each accuracy, and each comparison of two accuracies or two numbers of rounds, with its verdict by the rule."""
    known, page = json.loads(papers.RAW.read_text(encoding="utf-8")), papers.PAGE.read_text(encoding="utf-8")
    compared = 0
    for name, of in known.items():
        numbers, leads = tables(page, name)
        for label, *cells, _ in numbers:
            final = of["labels"][label]["final"]
            for cell, each in zip(cells, map(final.get, ("accuracy", "initial", "personalised")), strict=True):
                assert cell == f"{each['mean']:.3f} [{each['low']:.3f}, {each['high']:.3f}]", (name, label)
        stated = {(one["label"], one["what"], one["source"]): one for one in of["published"]}
        for label, what, where, theirs, ours, judged in leads:
            mine, its = stated[label, what, where], stated.get(("fedavg", what, where))
            if its is None or None in (*mine["seeds"].values(), *its["seeds"].values()):
                continue
            compared += 1
            ratio = mine["kind"] == "rounds"
            pairs = [(value, its["seeds"][seed]) for seed, value in mine["seeds"].items()]
            each = [one / base if ratio else one - base for one, base in pairs]
            paper = mine["theirs"] / its["theirs"] if ratio else mine["theirs"] - its["theirs"]
            assert theirs == (f"{paper:.2f}x" if ratio else f"{paper:+.3f}"), (name, label, what)
            assert ours == shown(median(each), each, 2 if ratio else 3), (name, label, what)
            assert judged == verdict(paper, each, ratio), (name, label, what)
    assert compared > 50


def test_equal_small_runs_are_shown_once():
    """The MLP's and the CNN's differ in FedProx's μ alone, and in published numbers and targets."""
    names = ("agentimportance-table1-mnist-cnn", "agentimportance-table1-mnist-mlp", "continual-lstm-large")
    homes = papers.homes([*names, "continual-lstm-small"])
    assert homes[names[1]]["fedavg"] == names[0]
    assert homes[names[1]]["fedprox"] == names[1]
    assert set(homes["continual-lstm-small"].values()) == {names[2]}


def test_verdicts_count_once_all_seeds_are_played(tmp_path):
    """The paper has +0.0349, and each seed has +0.03."""
    for seed in (1, 2):
        written(tmp_path, "fedavg", seed, [0.5])
        written(tmp_path, "agentimportance", seed, [0.53])
    head = "| Importance from agents |"
    assert f"{head} 0 | 0 | 0 | 0 | 4 |" in full_page({NAME: setting(NAME, scenario(), tmp_path)})
    written(tmp_path, "fedavg", 3, [0.5])
    written(tmp_path, "agentimportance", 3, [0.53])
    again = full_page({NAME: setting(NAME, scenario(), tmp_path)})
    (line,) = (line for line in again.splitlines() if line.startswith(head))
    assert line.startswith(f"{head} 1 | 0 | 0 | 1 |")  # none reached 0.85, of Table 2

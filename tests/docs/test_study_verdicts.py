"""The sentences and the protocol of each regime, on the study's two pages, are those of its tables and files."""

import json
import re
from collections import Counter
from io import BytesIO
from itertools import chain

import pytest
from PIL import Image, ImageChops
from ruamel.yaml import YAML

from benchmarks import study as made
from emulator.report.regimes import picture
from tests.docs.test_studied import each_regime, holm, known_for, restricted_mean, rounds_to, rows, runs
from tests.docs.test_studied_tables import UNITS, is_ratio, seen_against, tables, text_of
from tests.docs.test_study_settings import protocol

RATIO = r"(?:[≥≤] )?[\d.]+x? \[[\d.]+, [\d.∞]+\]"
ITEM = re.compile(
    r"(\S+) (≥ )?([\d.]+)x \[([\d.]+), ([\d.]+|∞)\] \((at least )?([\d.]+) (s|min|h)(?:, (\d+) of (\d+) seeds)?"
)


def first_lines(text):
    """The lines of the verdict."""
    return [line for line in text.partition("\n|")[0].partition("**Warn")[0].splitlines() if line.startswith("- ")]


def the_line(text, start):
    (line,) = (line for line in first_lines(text) if re.match(f"- {start}", line))
    return line


def kept(study, regime, name):
    return made.KEPT / study / regime / name


@each_regime
def test_both_pages_have_the_same_lines(study, regime):
    whole, short = (first_lines(text_of(study, regime, page)) for page in ("whole.txt", "short.txt"))
    assert len(short) == 5
    assert [line for line in short if line not in whole] == []


def entered(study, regime):
    """The baseline and the ranked algorithms, with their runs to each target."""
    said, of = protocol(regime), runs(study, regime)
    aside = {*said.study.placebos, *said.study.nulls, *said.study.controls, *said.study.rows}
    labels = [entry.name for entry in said.algorithms if entry.name not in aside]
    return labels, list(dict.fromkeys(goal for goal, _ in of)), of


@each_regime
def test_the_first_lines_rank_the_algorithms_by_their_runs(study, regime):
    """Each p-value is adjusted as any pair's: over its targets, not over the other algorithms."""
    short, main = text_of(study, regime, "short.txt"), made.main_target(study, regime)
    labels, goals, of = entered(study, regime)
    tau = known_for(*(of[main, label] for label in labels))
    first = min(labels, key=lambda label: restricted_mean(of[main, label], tau))

    def adjusted(label):
        return holm([seen_against(of[goal, label], of[goal, first]).p for goal in goals])[goals.index(main)]

    others = set(labels) - {first}
    slower = {label for label in others if adjusted(label) < 0.05}
    said = {
        line: ITEM.findall(the_line(short, line)) for line in ("Significantly slower", "Not distinguishable from it")
    }
    assert {item[0] for item in said["Significantly slower"]} == slower
    assert {item[0] for item in said["Not distinguishable from it"]} == others - slower
    for label, bound, *ends, least, amount, unit, reached, seeds in chain(*said.values()):
        found, mine = seen_against(of[main, label], of[main, first]), of[main, label]
        known = zip(ends, (found.ratio, found.low, found.high), strict=True)
        assert [end for end, value in known if end != "∞" and not rounds_to(end, value)] == [], label
        assert rounds_to(amount, restricted_mean(mine, known_for(mine, of[main, first])) / UNITS[unit]), label
        there = sum(run.time is not None for run in mine.values())
        assert bool(bound) == bool(least) == (ends[-1] == "∞") == (there < 10)
        assert (reached, seeds) == (("", "") if there == 10 else (str(there), "10"))
    (line,) = (line for line in first_lines(short) if "on the study's own links" in line)
    assert f"to test accuracy {main.split()[1]} on the study's own links" in line
    assert len(of[main, first]) == 10
    if slower == others:
        amount, unit = re.match(rf"- {first} is fastest .*: ([\d.]+) (\w+) \(mean of 10 seeds\)\.$", line).groups()
    else:
        found = re.match(rf"- No algorithm .* \(10 seeds\)\. {first} has the lowest mean time, ([\d.]+) (\w+)\.$", line)
        amount, unit = found.groups()
    assert rounds_to(amount, restricted_mean(of[main, first], tau) / UNITS[unit])


@each_regime
def test_pairs_have_the_ratios_of_their_comparisons(study, regime):
    whole, main = text_of(study, regime, "whole.txt"), made.main_target(study, regime)
    known = {
        (row["algorithm"], row["base"]): row for row in rows(study, regime, "comparisons") if row["target"] == main
    }
    pairs = [tuple(pair) for pair in protocol(regime).study.pairs]
    head, rest = (line for line in first_lines(whole) if re.match(r"- \S+ takes ", line))
    told = {}
    for part in [head, *rest.removeprefix("- ").split("; ")]:
        label = re.match(r"(?:- )?(\S+) takes", part)[1]
        for ratio, base, says in re.findall(rf"({RATIO}) times as long as (\S+)(.*?)(?= and {RATIO} times|$)", part):
            told[label, base] = ratio, says
    assert sorted(told) == sorted(pairs)
    for pair, (ratio, says) in told.items():
        assert is_ratio(ratio, known[pair]), pair
        assert ("not significant" in says) == (known[pair]["decided"] == "no"), pair
    assert f"to test accuracy {main.split()[1]}, which is " in head
    (why,) = (
        row
        for row in rows(study, regime, "reasons")
        if (row["algorithm"], row["base"], row["target"]) == (*pairs[0], main)
    )
    rounds, pace = re.search(rf"it needs ({RATIO}) times as many rounds, each ({RATIO}) times", head).groups()
    assert is_ratio(rounds, why, "rounds ratio")
    assert is_ratio(pace, why, "seconds per round ratio")


@each_regime
def test_placebos_have_the_ratios_of_their_comparisons(study, regime):
    main = made.main_target(study, regime)
    placebos = protocol(regime).study.placebos
    known = {
        (row["algorithm"], row["base"]): row for row in rows(study, regime, "comparisons") if row["target"] == main
    }
    line = the_line(text_of(study, regime, "short.txt"), "Importance")
    told = re.findall(r"(\S+-shuffled) (\d+\.\d+)( \[[\d., ]+\])?", line.partition("multiples of the originals': ")[2])
    assert [name for name, *_ in told] == list(placebos)
    for name, ratio, ends in told:
        row = known[name, placebos[name]]
        assert rounds_to(ratio, float(row["ratio"])), name
        assert bool(ends) == (row["decided"] == "yes"), name
        assert not ends or is_ratio(ratio + ends, row), name


@each_regime
def test_the_line_on_the_map_counts_its_places(study, regime):
    line = the_line(text_of(study, regime, "whole.txt"), "Of the 6 links")
    every, pair = line.split("; between fedcl and fedavg alone, ")
    for said, table in ((every, "map"), (pair, "map-fedcl-fedavg")):
        found = Counter(row["winner"] for row in rows(study, regime, table))
        assert found.total() == 6
        undecided = found.pop("undecided", 0)
        told = {label: int(count) for label, count in re.findall(r"(\S+) is fastest on (\d+)", said)}
        assert told == dict(found), regime
        left = re.search(r"(\d+) \((\d+) %\) (?:is|are) undecided", said)
        assert (int(left[1]) if left else 0) == undecided
        shares = re.findall(r"(\d+) \((\d+) %\)", said)
        assert [share for count, share in shares if share != f"{100 * int(count) / 6:.0f}"] == []


@each_regime
def test_borders_lie_between_the_places_whose_first_differs(study, regime):
    whole = re.sub(r"\| first (below|above)", r"| fastest \1", text_of(study, regime, "whole.txt"))  # of older runs
    if not kept(study, regime, "tables/borders.csv").is_file():
        assert "| fastest below |" not in whole
        return
    ((_, table),) = tables(whole, "fastest below", "fastest above")
    known = rows(study, regime, "borders")
    for row, said in zip(known, table, strict=True):
        below, above = row["first below"], row["first above"]
        assert (said["fastest below"], said["fastest above"]) == (below, above)
        assert rounds_to(said["uplink, Mbit/s"], float(row["up_mbit_s"]))
        at = float(row["up_mbit_s"])
        assert (below, above) in {decided_around(at, of) for of in maps(study, regime)}


def maps(study, regime):
    """Of the map, and of each pair's: who is first on which uplink, where that is decided."""
    for file in sorted(kept(study, regime, "tables").glob("map*.csv")):
        if file.stem != "map-times":
            found = rows(study, regime, file.stem)
            yield {float(row["up_mbit_s"]): row["winner"] for row in found if row["winner"] != "undecided"}


def decided_around(at, won):
    """Who is first on the nearest slower uplink, and on the nearest faster one."""
    slower, faster = [uplink for uplink in won if uplink < at], [uplink for uplink in won if uplink > at]
    return won[max(slower)] if slower else None, won[min(faster)] if faster else None


@each_regime
def test_the_setting_is_that_of_the_protocol(study, regime):
    said, whole = protocol(regime), text_of(study, regime, "whole.txt")
    split = said.data.split
    kind = (
        f"{said.data.set} (kind shards, each {split.each})" if split.kind == "shards" else f"{said.data.set} (kind iid)"
    )
    asked = 6 if said.rounds.fraction == 0.3 else 20
    head = f"{kind}, {said.model.name}, {asked} of 20 devices a round, {said.training.epochs} epochs."
    assert head in text_of(study, regime, "short.txt").splitlines()
    main = made.main_target(study, regime).split()
    for line in (
        f"- 20 devices, {said.data.set}, {said.model.name}, network model windows.",
        f"- Seeds {', '.join(map(str, said.seeds))}. At most {said.rounds.max} rounds.",
    ):
        assert line in whole
    targets = re.search(r"^- Targets: .*$", whole, re.M)[0]
    assert f"held for {said.study.hold} evaluations in a row; the main one is test accuracy {main[1]}." in targets
    assert (float(main[1]), int(main[3])) == (max(map(goal, rows_of_targets(study, regime))), said.study.hold)
    digest = json.loads(kept(study, regime, "study.json").read_text(encoding="utf-8"))["digest"]
    assert f"SHA-256 `{digest}`" in whole
    tuned = YAML(typ="safe").load(kept(study, regime, "tuned.yaml").read_text(encoding="utf-8"))["tuned"]
    searched = {re.search(r"to (validation [\d.]+ held 3)", text)[1] for text in tuned.values() if "best of" in text}
    (aim,) = searched
    assert re.search(rf"seeds 101, 102.* 12 configurations.*to {aim}\.$", whole, re.M)


def goal(name):
    return float(name.split()[1])


def rows_of_targets(study, regime):
    """The targets that are shares of the best; MNIST has one of a paper beside them."""
    goals = dict.fromkeys(row["target"] for row in rows(study, regime, "times"))
    return [name for name in goals if name != "accuracy 0.9 held 3"]


@each_regime
def test_roles_are_those_of_the_protocol(study, regime):
    said = protocol(regime)
    expected = {entry.name: "ranked" for entry in said.algorithms}
    expected |= {said.algorithms[0].name: "baseline"}
    expected |= {name: f"placebo of {original}" for name, original in said.study.placebos.items()}
    expected |= dict.fromkeys(said.study.nulls, "without penalty")
    expected |= dict.fromkeys(said.study.controls, "control")
    expected |= dict.fromkeys(said.study.rows, "row")
    whole = text_of(study, regime, "whole.txt")
    found = [table for _, table in tables(whole, "algorithm", "role")]
    assert len(found) == 2
    for table in found:
        assert {row["algorithm"]: row["role"] for row in table} == expected


@each_regime
def test_notes_of_the_search_are_those_of_its_table(study, regime):
    """Values at an edge, and searches of fewer settings than the budget."""
    whole = text_of(study, regime, "whole.txt")
    own = [row for row in rows(study, regime, "tuning") if row["tuned for"] == made.OWN]
    edges = {(row["algorithm"], option) for row in own for option in row["at the edge"].split(", ") if option}
    told = re.findall(r"^- (\S+): the best (\S+), (\S+), is at the edge", whole, re.M)
    assert {(label, option) for label, option, _ in told} == edges
    settings = {row["algorithm"]: dict(part.split(" = ") for part in row["settings"].split(", ")) for row in own}
    for label, option, value in told:
        assert settings[label][option.rpartition(".")[2]] == value
    few = re.findall(r"^- (\S+): all (\d+) configurations that there can be, fewer than the budget of 12", whole, re.M)
    assert dict(few) == {row["algorithm"]: row["tried"] for row in own if row["tried"] != "12"}


@each_regime
def test_bounds_are_marked_where_runs_missed_the_target(study, regime):
    whole = text_of(study, regime, "whole.txt")
    goals = {row["target"].split()[1]: row["target"] for row in rows(study, regime, "comparisons")}
    known = {(row["algorithm"], row["base"], row["target"]): row for row in rows(study, regime, "comparisons")}
    ((_, table),) = (each for each in tables(whole, "algorithm", "over") if each[0].startswith("Time of the first"))
    for line in table:
        for heading, cell in list(line.items())[2:]:
            row = known[line["algorithm"], line["over"], goals[heading.split()[2]]]
            mine, base, of = (int(row[key]) for key in ("reached", "base reached", "of"))
            assert ("≥" in cell) == (mine < of == base), (line, heading)
            assert ("≤" in cell) == (base < of == mine), (line, heading)
            counts = re.search(r"\((\d+) and (\d+) of (\d+)\)", cell)
            assert (counts.groups() if counts else None) == (
                (str(mine), str(base), str(of)) if min(mine, base) < of else None
            ), (line, heading)


@pytest.mark.parametrize("study", made.STUDIES)
def test_the_map_is_drawn_of_its_places(study):
    ratios = [row for regime in made.regimes(study) for row in rows(study, regime, "regimes")]
    names = list(dict.fromkeys(label for row in ratios for label in (row["base"], row["algorithm"])))
    drawn = Image.open(BytesIO(picture(names, made.places(study))["pays.png"])).convert("RGB")
    there = Image.open(made.KEPT / study / "pays.png").convert("RGB")
    assert drawn.size == there.size
    assert ImageChops.difference(drawn, there).getbbox() is None

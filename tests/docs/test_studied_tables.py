"""Each cell of the tables on the study's two pages is the one that its row and column have in docs/studies."""

import re
from collections import Counter
from math import inf
from statistics import fmean

import pytest

from benchmarks import study as made
from emulator.results.restricted import Timed, contrast
from scenarios.load import load
from tests.all_of import all_of
from tests.docs.test_studied import TRIPLE, each_regime, known_for, restricted_mean, rounds_to, rows, runs

UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def text_of(study, regime, page):
    return (made.KEPT / study / regime / page).read_text(encoding="utf-8").replace("\\_", "_")


def tables(text, *first):
    """The tables whose headings begin so: each with its caption, and its rows by heading."""
    for table, caption in re.findall(r"((?:^\|.*\n)+)\n<sub>(.*)</sub>", text, re.M):
        head, _, *lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
        if head[: len(first)] == list(first):
            yield caption, [dict(zip(head, line, strict=True)) for line in lines]


def the_table(text, *first):
    ((caption, found),) = tables(text, *first)
    assert len(found) >= 3
    return caption, found


def is_ratio(cell, row, what=""):
    """True if a cell has the ratio and the interval of a table's row; 0 and ∞ are the open ends of bounds."""
    values = [float(row[f"{what}{end}"]) for end in ((" low", " high") if what else ("low", "high"))]
    said = TRIPLE.search(cell) or re.search(r"([\d.]+) \[([\d.]+), ([\d.]+)\]", cell)
    found = zip(said.groups(), [float(row[what or "ratio"]), *values], strict=True)
    return all_of(end in ("0", "∞") or rounds_to(end, value) for end, value in found)


@each_regime
def test_ratios_are_those_of_their_rows(study, regime):
    known = {(row["algorithm"], row["base"], row["target"]): row for row in rows(study, regime, "comparisons")}
    whole = text_of(study, regime, "whole.txt")
    goals = {target.split()[1]: target for _, _, target in known}
    pairs = [of for caption, of in tables(whole, "algorithm", "over") if caption.startswith("Time of the first")]
    for row in pairs[0]:
        for heading, cell in list(row.items())[2:]:
            found = known[row["algorithm"], row["over"], goals[heading.split()[2]]]
            assert is_ratio(cell, found), (row, heading)
            assert ("✓" in cell) == (found["decided"] == "yes"), (row, heading)
    main = made.main_target(study, regime)
    reasons = {(row["algorithm"], row["base"]): row for row in rows(study, regime, "reasons") if row["target"] == main}
    _, why = the_table(whole, "algorithm", "over", "reached")
    for row in why:
        found = reasons[row["algorithm"], row["over"]]
        for what in ("time", "rounds", "seconds per round", "bytes", "joules"):
            assert is_ratio(row[what], found, f"{what} ratio"), (row, what)
        pair = known[row["algorithm"], row["over"], main]
        assert row["reached"] == f"{pair['reached']} and {pair['base reached']} of {pair['of']}"


@each_regime
def test_times_are_those_of_their_rows(study, regime):
    ((caption, found),) = (
        each
        for each in tables(text_of(study, regime, "whole.txt"), "algorithm", "role")
        if each[0][:10] == "Restricted"
    )
    unit = UNITS[re.search(r"in (\w+), and", caption)[1]]
    crossings = {}
    for row in rows(study, regime, "times"):
        if row["link"] == made.OWN:
            time = Timed(float(row["first crossing s"] or "nan"), float(row["end s"] or inf))
            crossings.setdefault((row["target"], row["algorithm"]), {})[row["seed"]] = (
                time if row["first crossing s"] else Timed(None, time.end)
            )
    goals = {target.split()[1]: target for target, _ in crossings}
    held = runs(study, regime)
    for row in found:
        for heading, cell in list(row.items())[2:]:
            goal = goals[heading.split()[2].rstrip(",")]
            of = (crossings if heading.endswith("first crossing") else held)[goal, row["algorithm"]]
            bound, mean, reached = re.fullmatch(r"(≥ )?([\d.]+) \((\d+ of \d+)\)", cell).groups()
            assert reached == f"{sum(run.time is not None for run in of.values())} of {len(of)}", (row, heading)
            assert bool(bound) == any(run.time is None for run in of.values())
            assert rounds_to(mean, restricted_mean(of, known_for(of)) / unit), (row, heading)


@each_regime
def test_settings_are_those_of_their_rows(study, regime):
    tuning = {(row["algorithm"], row["tuned for"]): row for row in rows(study, regime, "tuning")}
    _, found = the_table(text_of(study, regime, "whole.txt"), "algorithm", "tuned for")
    assert len(found) == len(tuning)
    for row in found:
        known = tuning[row["algorithm"], row["tuned for"]]
        assert (row["settings"], row["at the edge"]) == (
            known["settings"],
            " and ".join(known["at the edge"].split(", ")) or "–",
        )
        amount, unit, reached = re.fullmatch(r"(?:over )?([\d.]+) (\w+) \((\d+ of \d+)\)", row["mean time"]).groups()
        assert rounds_to(amount, float(known["restricted mean time"]) / UNITS.get(unit, 1.0)), row
        assert reached == f"{known['reached']} of {known['of']}"


@each_regime
def test_rounds_are_those_of_their_rows(study, regime):
    parts = {}
    for row in rows(study, regime, "rounds"):
        parts.setdefault(row["algorithm"], {})[row["what"]] = float(row["amount per round"])
    _, found = the_table(text_of(study, regime, "whole.txt"), "algorithm", "a round, s")
    for row in found:
        of = parts[row["algorithm"]]
        total = lambda start, of=of: sum(value for what, value in of.items() if what.startswith(start))  # noqa: E731
        for heading, cell in list(row.items())[1:]:
            name, _, unit = heading.partition(", ")
            value = {"a round": of["all"], "energy": of["all devices"]}.get(name) or total(f"{name} ")
            assert rounds_to(cell, value / BYTES.get(unit, 1.0)), (row, heading, value)


@each_regime
def test_targets_are_shares_of_the_best(study, regime):
    """The shares are the protocol's; accuracies have four digits."""
    (line,) = re.findall(r"^- Targets: (.*)$", text_of(study, regime, "whole.txt"), re.M)
    shares = load(str(made.KEPT / study / regime / "protocol.yaml")).study.shares
    best = float(re.search(r"Shares are of ([\d.]+),", line)[1])
    said = [float(value) for value in re.findall(r"test accuracy ([\d.]+)", line.partition(";")[0])]
    assert {float(row["target"].split()[1]) for row in rows(study, regime, "times")} == set(said)
    assert all_of(any(abs(value - share * best) < 1e-4 for value in said) for share in shares)
    assert len(said) - len(shares) == (study == "mnist")  # the paper's own, 0.9


@each_regime
def test_places_on_the_map_are_counted(study, regime):
    text = text_of(study, regime, "whole.txt").replace("| first | count |", "| fastest | count |")  # of older runs
    counted = list(tables(text, "fastest", "count"))
    assert len(counted) == 7
    for caption, found in counted:
        pair = re.search(r"between (\S+) and (\S+) alone", caption)
        known = Counter(row["winner"] for row in rows(study, regime, f"map-{pair[1]}-{pair[2]}" if pair else "map"))
        assert {row["fastest"]: int(row["count"]) for row in found if row["count"] != "0"} == dict(known), caption
        assert all_of(row["share"] == f"{100 * int(row['count']) / known.total():.0f} %" for row in found)


@each_regime
def test_the_map_follows_from_the_seconds_of_the_runs(study, regime):
    """The least restricted mean is first; it must be faster than each of the others, so the largest p counts."""
    found = {}
    for row in rows(study, regime, "map-times"):
        time = Timed(float(row["time s"]) if row["time s"] else None, float(row["end s"] or inf))
        found.setdefault(row["up_mbit_s"], {}).setdefault(row["algorithm"], {})[int(row["seed"])] = time
    pays = {(row["question"], row["up_mbit_s"]): row for row in rows(study, regime, "pays")}
    assert len(pays) == 7 * 6
    for (question, uplink), row in pays.items():
        pair = question.split(" or ") if " or " in question else []
        here = {label: of for label, of in found[uplink].items() if not pair or label in pair}
        assert len(here) == (len(pair) or 9)
        means = {label: restricted_mean(of, known_for(*here.values())) for label, of in here.items()}
        first, second = row["first"], row["second"]
        assert means[first] == min(means.values())
        assert means[second] == min(mean for label, mean in means.items() if label != first)
        over = {label: seen_against(of, here[first]) for label, of in here.items() if label != first}
        said = tuple(float(row[key]) for key in ("ratio", "low", "high"))
        again = over[second].ratio, over[second].low, over[second].high
        assert said == pytest.approx(again, rel=1e-9)  # logarithms differ by processor
        p = max(each.p if each.ratio > 1 else 1.0 for each in over.values())
        assert float(row["p"]) == pytest.approx(p, rel=1e-9)
        on_map = {each["up_mbit_s"]: each for each in rows(study, regime, f"map-{'-'.join(pair)}" if pair else "map")}
        mapped = on_map[uplink]
        assert said == tuple(float(mapped[key]) for key in ("ratio", "low", "high"))
        assert all_of(float(mapped[f"{label} s"]) == pytest.approx(mean, rel=1e-12) for label, mean in means.items())


def seen_against(mine, base):
    return contrast(mine, base, known_for(mine, base))


@each_regime
def test_ratios_of_rounds_follow_from_the_rounds_of_the_runs(study, regime):
    """Where all seeds of both reached the target; else a ratio is a bound, which counts parts of rounds."""
    taken = {}
    for row in rows(study, regime, "times"):
        taken.setdefault((row["target"], row["algorithm"]), []).append(int(row["rounds"] or 0))
    reasons = [row for row in rows(study, regime, "reasons") if row["rounds ratio"]]
    whole = 0
    for row in reasons:
        mine, base = (taken[row["target"], row[key]] for key in ("algorithm", "base"))
        if min(*mine, *base) > 0:
            whole += 1
            assert float(row["rounds ratio"]) == pytest.approx(fmean(mine) / fmean(base), rel=1e-9), row
            parts = [float(row[f"{what} ratio"]) for what in ("rounds", "seconds per round", "time")]
            assert parts[0] * parts[1] == pytest.approx(parts[2], rel=1e-9)
    assert whole > 0.8 * len(reasons)


@each_regime
def test_nulls_are_counted(study, regime):
    rounds = Counter()
    for row in rows(study, regime, "nulls"):
        rounds[row["algorithm"]] += int(row["rounds"])
    _, found = the_table(text_of(study, regime, "whole.txt"), "algorithm", "same")
    assert {row["algorithm"]: row["same"] for row in found} == {
        label: f"yes, in all {count} rounds" for label, count in rounds.items()
    }


@each_regime
def test_the_table_of_a_regime_is_that_of_its_rows(study, regime):
    main, short = made.main_target(study, regime), text_of(study, regime, "short.txt")
    _, found = the_table(short, "algorithm", "role", "best settings")
    tuning = {
        row["algorithm"]: row["settings"] for row in rows(study, regime, "tuning") if row["tuned for"] == made.OWN
    }
    ratios = {row["algorithm"]: row for row in rows(study, regime, "regimes") if row["base"] == "fedavg"}
    compared = [row for row in rows(study, regime, "comparisons") if row["target"] == main]
    for row in found:
        label = row["algorithm"]
        of = runs(study, regime)[main, label]
        assert row["best settings"] == tuning.get(label, "as published")
        assert row["reached"] == f"{sum(run.time is not None for run in of.values())} of {len(of)}"
        bound, amount, unit = re.fullmatch(r"(≥ )?([\d.]+) (\w+)", row["time"]).groups()
        assert rounds_to(amount, restricted_mean(of, known_for(of)) / UNITS[unit]), row
        assert bool(bound) == any(run.time is None for run in of.values())
        if label != "fedavg":
            assert is_ratio(row["rounds"], ratios[label], "rounds"), row
            assert is_ratio(row["seconds per round"], ratios[label], "seconds a round"), row
            assert is_ratio(row["time over fedavg"], ratios[label], "time"), row
            assert ("✓" in row["time over fedavg"]) == (float(ratios[label]["adjusted p"]) < 0.05)
        placebo = [each for each in compared if each["base"] == label and each["algorithm"] == f"{label}-shuffled"]
        assert (row["placebo"] == "–") == (not placebo)
        for each in placebo:
            assert is_ratio(row["placebo"], each)
            assert ("✓" in row["placebo"]) == (each["decided"] == "yes")
    every = rows(study, regime, "comparisons")
    left = sum(row["decided"] == "no" for row in every)
    assert re.search(rf"^- Of {len(every)} comparisons over .* {left} are not significant\.$", short, re.M)

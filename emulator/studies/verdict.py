"""The verdict of a study in at most ten sentences: who is first, by how much, why, where, and what is not decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite

from emulator.results.resampling import SLIGHT, figure
from emulator.results.summary import FEW
from emulator.results.times import Values
from emulator.results.units import counted, duration, joined
from emulator.results.why import Why
from emulator.studies.answer import Answer
from emulator.studies.cells import GUESSED, UNDECIDED, UNKNOWN, Cell, winners
from emulator.studies.comparisons import SOME, Comparison
from emulator.studies.protocol import enough_seeds, protocol_of, ranked
from emulator.studies.sensitivity import swings
from emulator.studies.words import count, goal, got_there, share
from scenarios.schema.study import Protocol

Duels = Mapping[tuple[str, str], Sequence[Cell]]
LINES = 10
NEXT_TO_NOTHING = f" by less than {100 * SLIGHT:g} %"
SIDES = ("sooner", f"sooner{NEXT_TO_NOTHING}", f"later{NEXT_TO_NOTHING}", "later", "undecided", "not known")
CHANGED = "Exploratory: the protocol was changed after records were made"


def verdict(answer: Answer) -> list[str]:
    """Each line is a sentence.  Below 5 seeds there are values, and no ranking."""
    lines = [*_warning(answer), *(_decided(answer) if enough_seeds(answer.scenario) else _values(answer))]
    return lines[:LINES]


def short(answer: Answer) -> list[str]:
    """The half of it: who is first, the first pair, all others, whether importance helps, what is undecided."""
    if not enough_seeds(answer.scenario):
        return verdict(answer)[: LINES // 2]
    parts = (_warning, _first, _pairs, _against_baseline, _importance, _undecided)
    lines = [line for part in parts for line in islice(part(answer), 1)]
    return [*lines[: LINES // 2 - 1], *lines[-1:]] if len(lines) > LINES // 2 else lines


def _decided(answer: Answer) -> Iterator[str]:
    yield from _first(answer)
    yield from _pairs(answer)
    yield from _against_baseline(answer)
    yield from _importance(answer)
    yield from _places(answer, "Of the {} links and device speeds on the map", answer.cells, answer.duels)
    yield from _places(answer, f"Of the {{}} recorded links{_guessed(answer)}", answer.traces, answer.trace_duels)
    yield from _sensitivity(answer)
    yield from _undecided(answer)


def _warning(answer: Answer) -> Iterator[str]:
    """What a reader must know before anything else, in one sentence."""
    differ = [] if answer.scenario.time_decides else [each.label for each in answer.nulls if each.differs is not None]
    wrong = list(dict.fromkeys(differ))
    said = [CHANGED] if answer.exploratory else []
    if wrong:
        said.append(
            f"{'the' if said else 'The'} study is wrong: without their penalty, {joined(wrong)} must learn exactly as "
            f"{answer.baseline} does, and did not"
        )
    if said:
        yield ", and ".join(said) + "."


def _own(answer: Answer) -> list[Values]:
    """Times to the main target on the study's own links, of those that may win; the least mean first."""
    found = [answer.value(label, answer.main) for label in ranked(answer.scenario)]
    return sorted((each for each in found if each), key=lambda each: each.mean)


def _time(each: Values) -> str:
    within = f" within {duration(each.tau)}" if isfinite(each.tau) else ""
    return f"{duration(each.mean)} ({count(each.reached, len(each.times))} seeds reached it{within})"


def _first(answer: Answer) -> Iterator[str]:
    order = _own(answer)
    if not order or not any(each.reached for each in order):
        yield f"No ranked algorithm reached {goal(answer.main)} on the study's own links."
        return
    best, baseline = order[0], answer.baseline
    said = (
        f"Of the ranked algorithms, {best.label} has the least mean time to {goal(answer.main)} on the study's own "
        f"links, {_time(best)}"
    )
    base = answer.value(baseline, answer.main)
    if best.label != baseline and base:
        said += f"; {baseline} takes {_briefly(base)}{_settled(answer, best.label)}"
    elif order[1:]:
        said += f"; {order[1].label} comes next with {_briefly(order[1])}{_settled(answer, order[1].label)}"
    yield f"{said}."


def _briefly(each: Values) -> str:
    return f"{duration(each.mean)} ({count(each.reached, len(each.times))})"


def _settled(answer: Answer, label: str) -> str:
    """Whether it is decided that the algorithm differs from the baseline; nothing if that is not known."""
    found = answer.compared(label, answer.baseline, answer.main)
    known = found is not None and found.contrast is not None
    return f", and the difference is {'decided' if found and found.decided else 'not decided'}" if known else ""


def _pairs(answer: Answer) -> Iterator[str]:
    """The first pair with its reasons; of the others how long they take."""
    pairs = protocol_of(answer.scenario).pairs
    yield from (f"{_pair(answer, *each)}." for each in pairs[:1])
    told: dict[str, list[str]] = {}
    for label, base in pairs[1:]:
        told.setdefault(label, []).append(_other(answer, label, base))
    if told:
        yield "; ".join(f"{label} takes {joined(others)}" for label, others in told.items()) + "."


def _other(answer: Answer, label: str, base: str) -> str:
    """`0.64 [0.54, 0.76] times as long as fedcurv-lean (decided)`"""
    control = "a control, " if base in protocol_of(answer.scenario).controls else ""
    compared = answer.compared(label, base, answer.main)
    if compared is None or compared.contrast is None:
        return f"an unknown multiple of {base}'s time ({control}nothing was timed for both)"
    decided = "decided" if compared.decided else "undecided"
    return f"{compared.contrast} times as long as {base} ({control}{decided})"


def _pair(answer: Answer, label: str, base: str) -> str:
    control = " (a control)" if base in protocol_of(answer.scenario).controls else ""
    compared = answer.compared(label, base, answer.main)
    if compared is None or compared.contrast is None:
        return f"How {label} compares with {base}{control} is not known, as nothing was timed for both"
    said = f"{label} takes {compared.contrast} times as long as {base}{control} to {goal(answer.main)}, which is "
    said += f"{'decided' if compared.decided else 'not decided'} after Holm's adjustment"
    why = next((w for w in answer.whys if (w.label, w.base, w.target) == (label, base, answer.main)), None)
    if why is None or why.split is None:
        return said
    return f"{said}: {why.split.rounds} times as many rounds, each {why.split.pace} times as long{_cut(answer, why)}"


def _cut(answer: Answer, why: Why) -> str:
    """Who did not get there in every seed, so that its rounds are counted up to the horizon."""
    both = (answer.value(label, answer.main) for label in (why.label, why.base))
    found = [each for each in both if each and each.reached < len(each.times)]
    if not found:
        return ""
    short = [f"{each.label} got there in only {count(each.reached, len(each.times))} seeds" for each in found]
    return f" (rounds are counted until {duration(found[0].tau)}, as {joined(short)})"


def _against_baseline(answer: Answer) -> Iterator[str]:
    baseline = answer.baseline
    others = [label for label in ranked(answer.scenario) if label != baseline]
    found = {label: answer.compared(label, baseline, answer.main) for label in others}
    groups: dict[str, list[str]] = {side: [] for side in SIDES}
    for label, each in found.items():
        known = each is not None and each.contrast is not None
        groups[_side(each, label)].append(f"{label} {_ratio(each)}{got_there(each)}" if each and known else label)
    said = [f"{name}: {joined(labels)}" for name, labels in groups.items() if labels]
    if said:
        yield f"Of the ranked algorithms, as multiples of {baseline}'s time, {'; '.join(said)}."


def _ratio(each: Comparison) -> str:
    """With its interval only if it is decided: the tables have the others'."""
    assert each.contrast is not None
    return figure(each.contrast.ratio) if each.sooner is None else str(each.contrast)


def _side(each: Comparison | None, label: str) -> str:
    if each is None or each.contrast is None:
        return "not known"
    if each.sooner is None:
        return "undecided"
    side = "sooner" if each.sooner == label else "later"
    return f"{side}{NEXT_TO_NOTHING}" if abs(each.contrast.ratio - 1) < SLIGHT else side


def _importance(answer: Answer) -> Iterator[str]:
    """Whether algorithms are sooner than their own placebos."""
    imitated: dict[str, list[Comparison]] = {}
    for placebo, original in protocol_of(answer.scenario).placebos.items():
        found = answer.compared(placebo, original, answer.main)
        imitated.setdefault(original, []).extend([found] if found and found.contrast else [])
    groups: dict[tuple[str, str], list[str]] = {}
    for original, known in imitated.items():
        groups.setdefault(_of_placebos(original, known), []).append(original)
    said = [f"importance {helps} {joined(names)}, {why}" for (helps, why), names in groups.items()]
    if told := [f"{each.label} {_ratio(each)}" for known in imitated.values() for each in known]:
        said.append(f"the placebos' times, as multiples of the originals': {joined(told)}")
    if said:
        text = "; ".join(said)
        yield f"{text[0].upper()}{text[1:]}."


def _of_placebos(original: str, known: Sequence[Comparison]) -> tuple[str, str]:
    """Whether importance helps, and how that is known."""
    if not known:
        return "is not known to help", "as no time of a placebo is known"
    if any(each.sooner == each.label for each in known):
        return "does not help", "as a placebo is sooner"
    if all(each.sooner == original for each in known):
        return "helps", "as each placebo takes longer"
    return "is not shown to help", "as it is not decided that each placebo takes longer"


def _places(answer: Answer, where: str, cells: Sequence[Cell], duels: Duels) -> Iterator[str]:
    if cells:
        said = [f"{where.format(len(cells))}, {_won(cells, [answer.baseline])}"]
        said += [f"between {one} and {other} alone, {_won(of, ())}" for (one, other), of in islice(duels.items(), 1)]
        yield f"{'; '.join(said)}."


def _guessed(answer: Answer) -> str:
    """How many of the recorded links have no uplink of their own."""
    number = sum(each.place.get("uplink") == GUESSED for each in answer.traces)
    ratio = protocol_of(answer.scenario).up_ratio
    return f" ({number} with an uplink that is assumed to be {ratio:g} of the downlink)" if number else ""


def _won(cells: Sequence[Cell], always: Sequence[str]) -> str:
    """Who is first on how many of these places; `always`: named even where they are first on none."""
    counts = winners(cells, always)
    open_ = [name for name in (UNDECIDED, UNKNOWN) if name in counts]
    first = sorted(counts.keys() - open_, key=lambda name: (-counts[name], name))
    said = [f"{name} is first on {_share(cells, name) if counts[name] else 'none'}" for name in first]
    said += [f"{share(counts[name], len(cells))} {'is' if counts[name] == 1 else 'are'} {name}" for name in open_]
    return joined(said)


def _share(cells: Sequence[Cell], name: str) -> str:
    """`15 (14 %; 3 of them by less than 1 %)`"""
    won = [each for each in cells if each.winner == name]
    slight = sum(each.slight for each in won)
    few = f"; {'all' if slight == len(won) else slight} of them{NEXT_TO_NOTHING}" if slight else ""
    return f"{share(len(won), len(cells))[:-1]}{few})"


def _sensitivity(answer: Answer) -> Iterator[str]:
    """Of each algorithm the factor that changes its ratio to the baseline most."""
    said = []
    for label in dict.fromkeys(each.label for each in answer.moved):
        ranges = swings(answer.moved, label)
        if not ranges:
            continue
        most = ranges[0]
        said.append(
            f"the ratio of {label}'s time to {answer.baseline}'s varies most with {most.factor}, from "
            f"{figure(most.low)} ({most.least}) to {figure(most.high)} ({most.most})"
        )
    if said:
        few = "" if _known(answer) else f" (means of {counted(answer.moved[0].of, 'seed')}; differences may be chance)"
        yield f"To {goal(answer.targets[0])}, {'; '.join(said)}{few}."


def _known(answer: Answer) -> bool:
    """Whether the runs with one factor changed have intervals."""
    return any(each.contrast is not None for each in answer.moved)


def _undecided(answer: Answer) -> Iterator[str]:
    total, links = len(answer.comparisons), {each.link for each in answer.comparisons}
    if not total:
        return
    left = sum(not each.decided for each in answer.comparisons)
    scope = f"{counted(len(answer.targets), 'target')} and {counted(len(links), 'link')}"
    unknown = f", and {counted(len(answer.unknown), 'time')} could not be replayed" if answer.unknown else ""
    pairs = counted(total, "comparison")
    few = sum(not each.decided and each.too_few for each in answer.comparisons)
    because = f", {few} of them as fewer than {SOME} seeds of either got there in time" if few else ""
    yield f"Of {pairs} over {scope}, {left} remain undecided{because}{unknown}."


def _values(answer: Answer) -> Iterator[str]:
    """Restricted mean times in the scenario's order, and ratios without intervals."""
    seeds = counted(len(answer.scenario.seeds), "seed")
    yield f"{seeds[0].upper()}{seeds[1:]} are fewer than the {FEW} that intervals need, so these are values only."
    found = {label: answer.value(label, answer.main) for label in ranked(answer.scenario)}
    said = [f"{label} {_time(each)}" for label, each in found.items() if each]
    if said:
        yield f"Restricted mean times to {goal(answer.main)} on the study's own links: {', '.join(said)}."
    yield from _ratios(answer, protocol_of(answer.scenario))
    yield from _sensitivity(answer)


def _ratios(answer: Answer, said: Protocol) -> Iterator[str]:
    told = []
    for label, base in said.pairs:
        mine, theirs = answer.value(label, answer.main), answer.value(base, answer.main)
        if mine and theirs and theirs.mean:
            told.append(f"{label} takes {figure(mine.mean / theirs.mean)} times as long as {base}")
    if told:
        yield f"By these means, {joined(told)}."

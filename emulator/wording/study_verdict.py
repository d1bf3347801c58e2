"""The verdict of a study, in at most eleven lines: the fastest algorithm, the size of differences, reasons, and
limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from emulator.analysis.answer import Answer
from emulator.analysis.cells import GUESSED, UNDECIDED, UNKNOWN, Cell, winners
from emulator.analysis.comparisons import ranking
from emulator.analysis.protocol import enough_seeds, protocol_of, ranked
from emulator.results.comparison import SOME, Comparison
from emulator.results.resampling import SLIGHT, bounded, figure
from emulator.results.units import counted, duration, joined
from emulator.wording.names import count, goal, share
from emulator.wording.verdict import answer as three_lines

Duels = Mapping[tuple[str, str], Sequence[Cell]]
LINES = 11
SHORT = 5
NEXT_TO_NOTHING = f" by less than {100 * SLIGHT:g} %"
CHANGED = "Exploratory: the protocol was changed after records were made"


def verdict(answer: Answer) -> list[str]:
    """Returns the lines of the verdict, each of one or two sentences.  Below 6 seeds they give values, but call no
    difference significant."""
    parts = TESTED if enough_seeds(answer.scenario) else (_warning, _first, _ratios)
    return [line for part in parts for line in part(answer)][:LINES]


def short(answer: Answer) -> list[str]:
    """Returns a short verdict: three lines on the fastest algorithm, one on importance, and one on how many comparisons
    are not significant.  A warning, if one is due, comes first; below 6 seeds it is the first lines of the verdict."""
    if not enough_seeds(answer.scenario):
        return verdict(answer)[:SHORT]
    lines = [line for part in (_warning, _first, _importance, _undecided) for line in part(answer)]
    return [*lines[: SHORT - 1], *lines[-1:]] if len(lines) > SHORT else lines


def headline(answer: Answer) -> str:
    """Returns the warning, if one is due, and the sentence on the fastest algorithm."""
    return " ".join([*_warning(answer), *islice(_first(answer), 1)])


def _warning(answer: Answer) -> Iterator[str]:
    """Yields one sentence before the verdict if the study cannot be trusted: the protocol was changed after training
    began, or algorithms without a penalty did not learn exactly as the baseline."""
    differ = [] if answer.scenario.time_decides else [each.label for each in answer.nulls if each.differs is not None]
    wrong = list(dict.fromkeys(differ))
    said = [CHANGED] if answer.exploratory else []
    if wrong:
        said.append(
            f"{'the' if said else 'The'} study is invalid: without their penalty, {joined(wrong)} must learn exactly "
            f"as {answer.baseline} does, but did not"
        )
    if said:
        yield ", and ".join(said) + "."


def _first(answer: Answer) -> Iterator[str]:
    """Yields three lines, as at the end of `compare`, on the algorithms that may win; one line if none of them reached
    the main target."""
    found = ranking(answer.values, ranked(answer.scenario), answer.main)
    if found is None:
        yield f"No ranked algorithm reached {goal(answer.main)} on the study's own links."
    else:
        yield from three_lines(found, f"{goal(answer.main)} on the study's own links")


def _pairs(answer: Answer) -> Iterator[str]:
    """Yields a line on the first pair that the study names, with reasons, and a line with the ratios of its other
    pairs."""
    pairs = protocol_of(answer.scenario).pairs
    yield from (f"{_pair(answer, *each)}." for each in pairs[:1])
    told: dict[str, list[str]] = {}
    for label, base in pairs[1:]:
        told.setdefault(label, []).append(_other(answer, label, base))
    if told:
        yield "; ".join(f"{label} takes {joined(others)}" for label, others in told.items()) + "."


def _other(answer: Answer, label: str, base: str) -> str:
    """Returns a phrase on the ratio of a pair's times, `0.64 [0.54, 0.76] times as long as fedcurv-lean (significant)`,
    or on the reason why it is not known."""
    control = "a control, " if base in protocol_of(answer.scenario).controls else ""
    compared = answer.compared(label, base, answer.main)
    if compared is None or compared.contrast is None:
        return f"an unknown multiple of {base}'s time ({control}no time is known for both)"
    known = "significant" if compared.significant else "not significant"
    return f"{compared.contrast} times as long as {base} ({control}{known})"


def _pair(answer: Answer, label: str, base: str) -> str:
    control = " (a control)" if base in protocol_of(answer.scenario).controls else ""
    compared = answer.compared(label, base, answer.main)
    if compared is None or compared.contrast is None:
        return f"It is unknown how {label} compares with {base}{control}, because no time is known for both"
    said = f"{label} takes {compared.contrast} times as long as {base}{control} to {goal(answer.main)}, which is "
    said += f"{'significant' if compared.significant else 'not significant'} after Holm's correction"
    why = answer.why(label, base, answer.main)
    if why is None or why.split is None:
        return said
    return (
        f"{said}: it needs {why.split.rounds} times as many rounds, each {why.split.pace} times as long{_cut(compared)}"
    )


def _cut(pair: Comparison) -> str:
    """Returns a phrase in parentheses on which of a pair's algorithms missed the target in some seeds, so that rounds
    are counted only up to the pair's horizon; "" if none did."""
    found = [each for each in (pair.mine, pair.theirs) if each.cut]
    if not found:
        return ""
    short = [f"{each.label} reached it in only {count(each.reached, len(each.times))} seeds" for each in found]
    return f" (rounds are counted until {duration(found[0].tau)}, because {joined(short)})"


def _ratio(each: Comparison) -> str:
    """Returns a ratio of times, with its interval only if the difference is significant; the tables have all
    intervals."""
    assert each.contrast is not None
    return bounded(figure(each.contrast.ratio), each.bound) if each.faster is None else str(each.contrast)


def _importance(answer: Answer) -> Iterator[str]:
    """Yields a line that compares algorithms with their placebos, whose importance means nothing: importance helps if
    every placebo takes significantly longer, and more rounds."""
    imitated: dict[str, list[Comparison]] = {}
    for placebo, original in protocol_of(answer.scenario).placebos.items():
        found = answer.compared(placebo, original, answer.main)
        imitated.setdefault(original, []).extend([found] if found and found.contrast else [])
    groups: dict[tuple[str, str], list[str]] = {}
    for original, known in imitated.items():
        groups.setdefault(_of_placebos(answer, original, known), []).append(original)
    said = [f"importance {helps} {joined(names)}, {why}" for (helps, why), names in groups.items()]
    if told := [f"{each.label} {_ratio(each)}" for known in imitated.values() for each in known]:
        said.append(f"the placebos' times, as multiples of the originals': {joined(told)}")
    if said:
        text = "; ".join(said)
        yield f"{text[0].upper()}{text[1:]}."


def _of_placebos(answer: Answer, original: str, known: Sequence[Comparison]) -> tuple[str, str]:
    """Returns two phrases: if importance helps an algorithm, and the reason.

    `original`: the algorithm.  `known`: comparisons of its placebos with it.  A placebo has settings of its own, for
    example more epochs, so that its rounds may take longer; that says nothing of importance.
    """
    if not known:
        return "has an unknown effect on", "because no time of a placebo is known"
    if any(each.faster == each.label for each in known):
        return "does not help", "because a placebo is faster"
    if not all(each.faster == original for each in known):
        return "has no significant effect on", "because not every placebo is significantly slower"
    if all(_more_rounds(answer, each) for each in known):
        return "helps", "because every placebo is significantly slower"
    return "is not shown to help", "because not every placebo takes significantly more rounds"


def _more_rounds(answer: Answer, pair: Comparison) -> bool:
    """Returns False if the 95 % interval of the ratio of rounds, the first algorithm's over the second's, reaches down
    to 1 or below.  Returns True if the ratio is unknown."""
    why = answer.why(pair.label, pair.base, pair.target)
    return why is None or why.split is None or why.split.rounds.low > 1


def _on_map(answer: Answer) -> Iterator[str]:
    where = f"Of the {len(answer.cells)} links and device speeds on the map"
    return _places(answer, where, answer.cells, answer.duels)


def _on_recorded_links(answer: Answer) -> Iterator[str]:
    where = f"Of the {len(answer.traces)} recorded links{_guessed(answer)}"
    return _places(answer, where, answer.traces, answer.trace_duels)


def _places(answer: Answer, where: str, cells: Sequence[Cell], duels: Duels) -> Iterator[str]:
    if cells:
        said = [f"{where}, {_won(cells, [answer.baseline])}"]
        said += [f"between {one} and {other} alone, {_won(of, ())}" for (one, other), of in islice(duels.items(), 1)]
        yield f"{'; '.join(said)}."


def _guessed(answer: Answer) -> str:
    """Returns a note in parentheses on recorded links that have no uplink, so that one is assumed; "" if there are
    none."""
    number = sum(each.place.get("uplink") == GUESSED for each in answer.traces)
    ratio = protocol_of(answer.scenario).up_ratio
    return f" ({number} with an assumed uplink of {ratio:g} times the downlink)" if number else ""


def _won(cells: Sequence[Cell], always: Sequence[str]) -> str:
    """Returns a phrase on how many of these places each algorithm wins, and how many are undecided or not known.

    `always`: algorithms to name even if they win none.
    """
    counts = winners(cells, always)
    open_ = [name for name in (UNDECIDED, UNKNOWN) if name in counts]
    first = sorted(counts.keys() - open_, key=lambda name: (-counts[name], name))
    said = [f"{name} is fastest on {_share(cells, name) if counts[name] else 'none'}" for name in first]
    said += [
        f"{counts[name]} ({share(counts[name], len(cells))}) {'is' if counts[name] == 1 else 'are'} {name}"
        for name in open_
    ]
    return joined(said)


def _share(cells: Sequence[Cell], name: str) -> str:
    """Returns how many of these places an algorithm wins, such as `15 (14 %; 3 of them by less than 1 %)`."""
    won = [each for each in cells if each.winner == name]
    slight = sum(each.slight for each in won)
    few = f"; {'all' if slight == len(won) else slight} of them{NEXT_TO_NOTHING}" if slight else ""
    return f"{len(won)} ({share(len(won), len(cells))}{few})"


def _undecided(answer: Answer) -> Iterator[str]:
    total, links = len(answer.comparisons), {each.link for each in answer.comparisons}
    if not total:
        return
    left = sum(not each.significant for each in answer.comparisons)
    scope = f"{counted(len(answer.targets), 'target')} and {counted(len(links), 'link')}"
    unknown = f", and {counted(len(answer.unknown), 'time')} could not be replayed" if answer.unknown else ""
    pairs = counted(total, "comparison")
    seeds = counted(len(answer.scenario.seeds), "seed")
    blind = "" if any(each.decidable for each in answer.comparisons) else f", because {seeds} are too few for so many"
    few = sum(not each.significant and each.too_few for each in answer.comparisons)
    because = f", {few} of them because neither algorithm reached the target in {SOME} seeds" if few else ""
    yield f"Of {pairs} over {scope}, {left} are not significant{blind}{because}{unknown}."


def _ratios(answer: Answer) -> Iterator[str]:
    """Yields one line with the ratio of mean times of each pair that the study names, without intervals."""
    told = []
    for label, base in protocol_of(answer.scenario).pairs:
        compared = answer.compared(label, base, answer.main)
        if compared and compared.ratio is not None:
            ratio = bounded(figure(compared.ratio), compared.bound)
            told.append(f"{label} takes {ratio} times as long as {base}")
    if told:
        yield f"In mean times, {joined(told)}."


TESTED = (*(_warning, _first, _pairs, _importance, _on_map, _on_recorded_links, _undecided),)

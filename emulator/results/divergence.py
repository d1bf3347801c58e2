"""Finds, from the rows of runs, training that diverged, never began to learn, or did not go as configured.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import floor, log
from typing import Any

from emulator.results.leverage import Rows, Warned

GROWTH = 1000.0  # times the first value; a run that learns stays far below it
CHANCE = 1.5  # times 1 / classes: an accuracy up to this may be chance
LEARNED = 3.0  # times 1 / classes: an accuracy above this is not chance
WORSE = 10.0  # times ln(classes), the cross-entropy of a guess; an untrained model's loss stays below it
PATIENCE = 4  # evaluated rounds before an algorithm can be said to have learned nothing
WORSENED = 1.25  # times the first loss: a run that learns never ends this much worse
STEADY = 2.0  # times the length of local training's own step: see algorithms.uga


def warnings(seeds: Mapping[int, Rows], classes: int = 0) -> Iterator[Warned]:
    """Yields warnings about the runs of one algorithm, which are given by seed.  `classes`: the number of classes in
    the data set, 0 if unknown."""
    runs = [rows for rows in seeds.values() if rows]
    rounds = list(chain.from_iterable(runs))
    yield from _refused(rounds)
    yield from _overshot(rounds)
    yield from _halved(rounds)
    grown = list(filter(None, (_divergence(rows, classes) for rows in runs)))
    if grown:
        yield Warned("diverges", f"in {_runs(grown, runs)} training diverges: {grown[0]}")
    guessed = list(filter(None, (_at_chance(rows, classes) for rows in runs)))
    if guessed:
        chance = f"{guessed[0]}, which is chance for {classes} classes"
        yield Warned("chance", f"in {_runs(guessed, runs)} {chance}")


def _refused(rows: Rows) -> Iterator[Warned]:
    """Yields a warning if there are rounds in which every reply was refused because its values were not finite."""
    refused = [row for row in rows if row.get("numbers", {}).get("not_finite") and not row["counted"]]
    if refused:
        yield Warned(
            "refused",
            f"in {len(refused)} of {len(rows)} rounds every reply was refused, because values in it are not finite: "
            "training diverges",
        )


def _overshot(rows: Rows) -> Iterator[Warned]:
    """Yields a warning if there are rounds in which the server's step along a gradient is too long to be stable."""
    steps = [row["numbers"]["server_step"] for row in rows if "server_step" in row.get("numbers", {})]
    long = [step for step in steps if step > STEADY]
    if long:
        yield Warned(
            "overshoots",
            f"in {len(long)} of {len(steps)} rounds the server's step is too long to be stable: up to "
            f"{max(long):.3g} times as long as what training moved, and above {STEADY:g} it overshoots; set a smaller "
            "eta_g, or clip_norm",
        )


def _halved(rows: Rows) -> Iterator[Warned]:
    """Yields a warning if there are rounds in which a GPU had no memory for whole stacks of devices, which are trained
    at once."""
    sizes = [row["numbers"]["stack"] for row in rows if "stack" in row.get("numbers", {})]
    if sizes:
        size = floor(min(sizes))
        yield Warned(
            "halved",
            f"in {len(sizes)} of {len(rows)} rounds a GPU had no memory for whole stacks of devices, and trained about "
            f"{size} at once: the last bits of the models depend on that; with training.stack={size} they do not",
        )


def _divergence(rows: Rows, classes: int) -> str:
    """Returns a description of how training diverged in one run; "" if it did not."""
    evaluated = (row for row in rows if row["accuracy"] is not None or row.get("initial") is not None)
    if any(row.get("loss", 0.0) is None for row in evaluated):
        return "the loss is no longer finite"
    losses = [row.get("loss") for row in rows]
    drifts = [row.get("numbers", {}).get("drift") for row in rows]
    growth = _growth("loss", losses) or _growth("drift", drifts)
    return growth or _worse_than_a_guess(rows, classes) or _worsened(losses, classes)


def _growth(name: str, values: Sequence[float | None]) -> str:
    """Returns a sentence about values that grew to more than GROWTH times the first one; "" if they did not."""
    known = [value for value in values if value is not None]
    if known and max(known) > GROWTH * known[0] > 0:
        return f"the {name} grew from {known[0]:.2g} to {max(known):.2g}"
    return ""


def _worse_than_a_guess(rows: Rows, classes: int) -> str:
    """Returns a sentence if a run ends with the accuracy of a guess and a loss far above a guess's; "" otherwise.  Such
    a run may have diverged before its first evaluation."""
    known = [row for row in rows if row["accuracy"] is not None and row.get("loss") is not None]
    if classes < 2 or not known:
        return ""
    accuracy, loss, guess = known[-1]["accuracy"], known[-1]["loss"], log(classes)
    if accuracy > CHANCE / classes or loss <= WORSE * guess:
        return ""
    return f"the loss is {loss:.3g}, while a guess among {classes} classes has {guess:.2g}, and accuracy {accuracy:.2f}"


def _worsened(losses: Sequence[float | None], classes: int) -> str:
    """Returns a sentence if the last loss is the worst of a run, above the loss of a guess and well above the first
    loss; "" otherwise."""
    known = [loss for loss in losses if loss is not None]
    if classes < 2 or len(known) < PATIENCE:
        return ""
    first, last, guess = known[0], known[-1], log(classes)
    if last < max(known) or last <= max(WORSENED * first, guess):
        return ""
    return f"the loss grew from {first:.2g} to {last:.2g}, while a guess among {classes} classes has {guess:.2g}"


def _at_chance(rows: Rows, classes: int) -> str:
    """Returns a sentence if the accuracy at the end is that of a guess, whether it fell back to it or never left it; ""
    otherwise."""
    known: Sequence[Any] = [row["accuracy"] for row in rows if row["accuracy"] is not None]
    if classes < 2 or not known or known[-1] > CHANCE / classes:
        return ""
    if max(known) >= LEARNED / classes:
        return f"accuracy fell from {max(known):.2f} back to {known[-1]:.2f}"
    learned = len(known) < PATIENCE or max(known) > CHANCE / classes
    return "" if learned else f"accuracy is still {known[-1]:.2f} after {len(rows)} rounds"


def _runs(some: Sequence[Any], all_: Sequence[Any]) -> str:
    return f"{len(some)} of {len(all_)} seeds" if len(all_) > 1 else "this run"

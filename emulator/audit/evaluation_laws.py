"""Checks the schedule of evaluations: a row has no metric that is not due, and has `personalised` if due.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.audit.expected import Declared
from emulator.audit.format import Row
from emulator.record.targets import Target, pending, reached
from scenarios.schema.training import Rounds

VALIDATION = "validation"
METRICS = ("accuracy", "loss", VALIDATION, "initial", "personalised_participants")  # of an evaluated round
TRAINED = "personalised"  # in fewer rounds, because every device trains once more for it


def faults(declared: Declared, rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
    """Yields (place of the row, fault) for each metric that breaks the schedule."""
    evaluate, last = declared.evaluate, len(rows) - 1
    often = evaluate.personalise_every if evaluate.test and evaluate.every else "never"
    for place, row in enumerate(rows):
        final = place + 1 == declared.rounds.max
        trained = often != "never" and (final or _falls(often, place))
        evaluated = bool(evaluate.every) and (final or _falls(evaluate.every, place) or trained)
        for metric in METRICS:
            due = evaluated and (evaluate.test or metric == VALIDATION)
            if row[metric] is not None and not due:
                yield place, f"{metric} is {row[metric]}, but by `evaluate` it is not known after this round"
        if place == last and often != "never":  # the run knows that it ends here before the devices train for it
            trained = trained or is_enough(declared.rounds, [*rows[:-1], row | {TRAINED: None}])
        if row[TRAINED] is not None and not trained:
            yield place, f"{TRAINED} is {row[TRAINED]}, but {_said(evaluate.personalise_every)}"
        if row[TRAINED] is None and trained and None not in (row["initial"], row["personalised_participants"]):
            yield place, f"{TRAINED} is null, but {_said(evaluate.personalise_every)}"


def is_enough(rules: Rounds, rows: Sequence[Row]) -> bool:
    """True if a run with these rows is at its end."""
    stop, until = rules.stop_at, rules.until_s
    held = any(pending(rows, Target.of(target)) for target in rules.targets)
    late = bool(until and rows and rows[-1]["time_s"] >= until) and not held
    return len(rows) == rules.max or late or bool(stop and reached(rows, Target.of(stop)))


def _falls(every: int, place: int) -> bool:
    """True if the round at this place is the last of `every` rounds; `every` = 0 is never."""
    return every > 0 and (place + 1) % every == 0


def _said(often: int | str) -> str:
    due = "never due" if often == "never" else f"due every {often} rounds and at the end" if often else "due at the end"
    return f"it is {due} (evaluate.personalise_every is {often})"

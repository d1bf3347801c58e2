"""Runs that diverged or learned nothing are told of, with a penalty or without; runs that learn are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from emulator.results.divergence import warnings


def run(
    accuracies: Sequence[float | None],
    losses: Sequence[float | None] = (),
    drifts: Sequence[float] = (),
    refused: Sequence[int] = (),
) -> list[dict[str, Any]]:
    """Rows of rounds.jsonl; a round whose replies were not finite has no others."""
    rows: list[dict[str, Any]] = []
    for number, accuracy in enumerate(accuracies):
        of = refused[number] if refused else 0
        rows.append({"accuracy": accuracy, "refused": of, "counted": 0 if of else 3, "numbers": {}})
        rows[-1]["numbers"] |= {"not_finite": of} if of else {}
        rows[-1] |= {"loss": losses[number]} if losses else {}
        rows[-1]["numbers"] |= {"drift": drifts[number]} if drifts else {}
    return rows


def kinds(*runs: list[dict[str, Any]], classes: int = 10) -> list[str]:
    return [warned.kind for warned in warnings(dict(enumerate(runs)), classes)]


LEARNS = run([0.2, 0.6, 0.9], losses=[2.1, 1.0, 0.3], drifts=[1.5, 2.0, 0.8])


def test_a_run_that_learns_is_not_warned_of() -> None:
    assert kinds(LEARNS, LEARNS) == []


def test_a_run_without_rounds_or_without_evaluations_is_not_warned_of() -> None:
    assert kinds([]) == []
    assert kinds(run([None, None], losses=[None, None])) == []


@pytest.mark.parametrize(("grown", "told"), [(999.0, []), (1001.0, ["diverges"])])
def test_a_loss_or_a_drift_that_grows_a_thousandfold_is_divergence(grown: float, told: list[str]) -> None:
    assert kinds(run([0.5, 0.5], losses=[2.0, 2.0 * grown])) == told
    assert kinds(run([0.5, 0.5], drifts=[0.1, 0.1 * grown])) == told


def test_the_least_loss_on_the_way_is_not_what_growth_is_measured_by() -> None:
    """A loss of 0.0001 that ends at 0.2 is a model that knows its data, and one mistake."""
    assert kinds(run([0.5, 0.9, 0.9], losses=[2.0, 1e-4, 0.2])) == []


def test_a_loss_that_is_no_number_any_more_is_divergence() -> None:
    (warned,) = warnings({1: LEARNS, 2: run([0.5, 0.1], losses=[2.0, None])}, 0)
    assert warned == ("diverges", "in 1 of 2 seeds training diverges: the loss is no longer finite")


def test_a_run_that_diverged_before_its_first_evaluation_is_told_by_a_guess_s_loss() -> None:
    """A guess among 10 classes has the loss ln 10 = 2.303; ten times that at chance is no lack of training."""
    (warned,) = warnings({1: run([0.1, 0.1], losses=[160.0, 23.1])}, 10)
    assert warned.kind == "diverges"
    assert warned.text.endswith(
        "training diverges: the loss is 23.1, while a guess among 10 classes has 2.3, and accuracy 0.10"
    )
    assert kinds(run([0.1, 0.1], losses=[160.0, 23.0])) == []
    assert kinds(run([0.1, 0.2], losses=[160.0, 160.0])) == []  # it knows something
    assert kinds(run([0.1, 0.1], losses=[160.0, 160.0]), classes=0) == []  # not known


def test_an_accuracy_that_falls_back_to_chance_is_told() -> None:
    (warned,) = warnings({1: run([0.5, 0.85, 0.1])}, 10)
    assert warned == ("chance", "in this run accuracy fell from 0.85 back to 0.10, which is chance for 10 classes")
    assert kinds(run([0.5, 0.85, 0.1]), classes=100) == []  # where chance is 0.01
    assert kinds(run([1.0] * 4), classes=1) == []  # nothing can be learned
    assert kinds(run([0.5, 0.85, 0.1]), classes=0) == []  # not known


def test_an_accuracy_that_never_left_chance_is_told_after_some_rounds() -> None:
    assert kinds(run([0.1] * 3)) == []
    assert kinds(run([0.1] * 4)) == ["chance"]
    assert kinds(run([*[0.1] * 3, 0.2])) == []


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        ([2.4, 2.6, 2.9, 3.1], ["diverges"]),
        ([2.4, 8.0, 5.0, 9.0], ["diverges"]),
        ([2.4, 2.6, 2.9, 2.9], []),  # not a quarter above the first
        ([2.4, 9.0, 5.0, 8.0], []),  # not at its worst
        ([0.5, 0.9, 1.4, 2.2], []),  # not above a guess's, ln 10 = 2.303: it has learned, and overfits
        ([0.5, 0.9, 1.4, 2.4], ["diverges"]),
        ([2.4, 2.9, 3.1], []),  # too short to tell
    ],
)
def test_a_loss_that_is_at_its_worst_at_the_end_of_a_short_run_is_told(losses: list[float], told: list[str]) -> None:
    assert kinds(run([0.3] * len(losses), losses=losses)) == told
    assert kinds(run([0.3] * len(losses), losses=losses), classes=0) == []  # not known


def test_rounds_in_which_every_reply_was_refused_are_counted() -> None:
    (warned,) = warnings({1: run([0.5, 0.5, 0.5], refused=[0, 4, 4])}, 10)
    assert warned.kind == "refused"
    assert "in 2 of 3 rounds every reply was refused" in warned.text


def test_one_reply_that_counts_makes_the_refusals_of_a_round_no_divergence() -> None:
    rows = run([0.5, 0.5], refused=[2, 2])
    for row in rows:
        row["counted"] = 1
    assert kinds(rows) == []


def test_refusals_for_want_of_memory_are_no_divergence() -> None:
    rows = run([0.5, 0.5], refused=[4, 4])
    for row in rows:
        row["numbers"].clear()
    assert kinds(rows) == []


def test_a_server_step_beyond_twice_what_training_moved_is_told() -> None:
    rows = run([0.5] * 3)
    for step, row in zip((0.9, 2.0, 8.0), rows, strict=True):
        row["numbers"]["server_step"] = step
    (warned,) = warnings({1: rows}, 10)
    assert warned.kind == "overshoots"
    assert "in 1 of 3 rounds" in warned.text
    assert "up to 8 times" in warned.text


def test_a_loss_that_is_no_number_is_divergence_in_a_task_without_accuracy_too() -> None:
    evaluated = [{**row, "accuracy": None, "initial": 0.9} for row in run([0.5, 0.5], losses=[2.0, None])]
    assert kinds(evaluated) == ["diverges"]
    assert kinds([{**row, "initial": None} for row in evaluated]) == []  # not evaluated

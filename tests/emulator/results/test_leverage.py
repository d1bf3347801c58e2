"""The sentences about a penalty: Ω is only the identity, the penalty has no effect, or it is too strong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from emulator.results.leverage import Leverage, Warned, leverages, warnings
from emulator.results.summary import summarise
from emulator.wording.tables import warnings as of_all


def row(p99: float, step: float = 0.1, **more: Any) -> dict[str, Any]:
    return {"leverage": {"median": 0.0, "p99": p99, "max": 1.0, "step": step}, "numbers": {}, **more}


def identity(mu: float, p99: float, share: float = 1.0) -> dict[str, Any]:
    """As FedCL tells of a round in which 1 stood for Ω, on this share of the devices."""
    found = row(p99)
    return {**found, "leverage": {**found["leverage"], "mu": mu}, "numbers": {"identity": share}}


def said(rows: Sequence[Mapping[str, Any]], momentum: float | None = 0.0) -> list[Warned]:
    return list(warnings(rows, momentum))


def test_each_round_with_a_penalty_has_its_leverage() -> None:
    rows = [{"leverage": {}, "numbers": {}}, row(0.02), identity(1.0, 2.2), identity(1.0, 0.3, share=0.4)]
    found = list(leverages("fedcl", 7, [{"round": number, **each} for number, each in enumerate(rows)]))
    assert found == [
        Leverage("fedcl", 7, 2, 0.02, 0.1, False),
        Leverage("fedcl", 7, 3, 2.2, 0.1, True),
        Leverage("fedcl", 7, 4, 0.3, 0.1, False),
    ]


def test_a_penalty_that_is_seen_and_stable_is_not_warned_of() -> None:
    assert said([row(0.01, step=2.0)] * 3) == []


def test_rounds_whose_importance_is_the_identity_are_named_for_what_they_are() -> None:
    (warned,) = said([row(0.4), *[identity(1.0, 2.2)] * 9])
    assert warned.kind == "identity"
    assert "in 9 of 10 rounds Ω is the identity: this is FedProx with mu = 1" in warned.text
    assert "(leverage 2.2; with an estimated Ω 0.4)" in warned.text


def test_with_the_identity_the_idle_rounds_are_not_warned_of_by_themselves() -> None:
    """Two warnings, and the second would point the wrong way."""
    (warned,) = said([row(0.004), *[identity(1.0, 2.2)] * 9])
    assert (warned.kind, "with an estimated Ω 0.004; there the penalty does nothing" in warned.text) == (
        "identity",
        True,
    )


@pytest.mark.parametrize(("share", "kinds"), [(0.4, []), (0.6, ["identity"])])
def test_a_round_counts_as_the_identity_if_that_stood_on_most_devices(share: float, kinds: list[str]) -> None:
    assert [warned.kind for warned in said([identity(1.0, 2.2, share)])] == kinds


def test_a_penalty_that_is_idle_in_all_rounds_is_fedavg() -> None:
    (warned,) = said([row(0.001), row(0.004)])
    assert warned.kind == "idle"
    assert "in 2 of 2 rounds the penalty does nothing: devices train as in FedAvg" in warned.text
    (warned,) = said([row(0.001), row(0.4)])
    assert "in 1 of 2 rounds the penalty does nothing (" in warned.text


def test_no_round_is_both_idle_and_too_strong() -> None:
    """Ω is 0 almost everywhere and huge in a few coordinates: those diverge, so it does not do nothing."""
    assert [warned.kind for warned in said([row(0.0, step=1e6)])] == ["stiff"]
    both = said([row(0.0, step=1e6), row(0.0, step=0.1)])
    assert [(warned.kind, warned.text[:15]) for warned in both] == [
        ("idle", "in 1 of 2 round"),
        ("stiff", "in 1 of 2 round"),
    ]


@pytest.mark.parametrize(("step", "stiff"), [(3.9, False), (4.1, True)])
def test_where_the_momentum_is_not_known_only_what_no_momentum_can_bear_is_too_strong(step: float, stiff: bool) -> None:
    """SGD with momentum m needs a step below 2 (1 + m), and m is below 1."""
    warned = said([row(0.5, step=step)], momentum=None)
    assert [each.kind for each in warned] == ["stiff"] * stiff
    assert not stiff or "SGD with any momentum needs it below 4" in warned[0].text


def test_rounds_without_a_penalty_are_not_counted() -> None:
    """FedCurv's first, and those of devices that never had an Ω."""
    (warned,) = said([{"leverage": {}}, {"leverage": {}}, row(0.001)])
    assert warned.text.startswith("in 1 of 1 rounds")


def lacking(counted: int, share: float) -> dict[str, Any]:
    return {"leverage": {}, "numbers": {"no_importance": share}, "counted": counted}


def test_trainings_without_an_importance_are_told_as_a_share_of_all() -> None:
    """By hand: none of 4, all of 2, half of 4: 4 of 10 trainings.  A round that failed trained for nothing."""
    (warned,) = said([lacking(4, 0.0), lacking(2, 1.0), lacking(4, 0.5), {"leverage": {}, "counted": 0}])
    assert warned == (
        "unpenalised",
        "in 40 % of local updates the device had not yet received Ω and trained without a penalty",
    )


@pytest.mark.parametrize(("share", "warned"), [(0.0, 0), (0.09, 0), (0.1, 1)])
def test_a_few_trainings_without_an_importance_are_not_warned_of(share: float, warned: int) -> None:
    assert len(said([lacking(100, share)])) == warned


def test_a_summary_has_the_kind_and_the_words_and_the_table_the_words() -> None:
    more = {"round": 0, "time_s": 1.0, "bytes": {}, "accuracy": 0.5, "initial": None, "personalised": None}
    fates = {"asked": 1, "counted": 1, "late": 0, "lost": 0, "refused": 0}
    summary = summarise({"x": {1: [{**identity(2.0, 3.0), **more, **fates}]}}, [], {"x": 0.0})
    (warned,) = summary["labels"]["x"]["warnings"]
    assert warned == {"kind": "identity", "text": "in 1 of 1 rounds Ω is the identity: this is FedProx with mu = 2"}
    assert of_all(summary) == [("x", warned["text"])]

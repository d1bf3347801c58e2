"""The devices that count in a round: all in, K in, or the deadline; and the fate of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.conversation.rounds import Round, RoundRules

few = settings(max_examples=25, deadline=None, derandomize=True)
NAMES = ("a", "b", "c", "d")
RULES = RoundRules(max=10, needed=4, ask=4)


def opened(**changes: int) -> Round:
    return Round(3, NAMES, replace(RULES, **changes), 0.0)  # type: ignore[arg-type]


def test_a_round_stays_open_until_all_have_replied() -> None:
    round = opened()
    for name in "cab":
        assert round.count(name) is True
        assert round.reason is None
    assert round.count("d") is True
    assert round.reason == "all"
    assert round.counted == ["c", "a", "b", "d"]  # in order of arrival


def test_the_first_k_close_a_round_and_the_others_are_late() -> None:
    round = opened(needed=2)
    round.count("c")
    round.count("a")
    assert round.reason == "first"
    assert round.count("b") is False
    assert (round.counted, round.late()) == (["c", "a"], {"b", "d"})


def test_the_deadline_closes_a_round_with_those_that_are_in() -> None:
    round = opened()
    round.count("b")
    round.expire()
    assert (round.reason, round.counted, round.late()) == ("deadline", ["b"], {"a", "c", "d"})


def test_a_deadline_after_the_close_changes_nothing() -> None:
    round = opened(needed=1)
    round.count("b")
    round.expire()
    assert round.reason == "first"


def test_a_round_waits_for_nobody_who_is_lost_or_refused() -> None:
    round = opened()
    round.count("a")
    round.lose("b")
    round.refuse("c")
    assert round.reason is None
    round.count("d")
    assert (round.counted, round.late(), round.lost, round.refused) == (["a", "d"], set(), {"b"}, {"c"})
    assert str(round.reason) == "all"


@pytest.mark.parametrize("enough", [2, 3])
def test_fewer_replies_than_min_replies_are_too_few_and_the_round_has_failed(enough: int) -> None:
    round = opened(min_replies=enough)
    round.count("a")
    round.count("b")
    round.expire()
    assert round.reason == ("deadline" if enough == 2 else "too_few")
    assert round.failed is (enough == 3)


def test_a_round_in_which_all_are_lost_is_too_few_at_once() -> None:
    round = opened()
    for name in NAMES:
        assert round.reason is None
        round.lose(name)
    assert (round.reason, round.failed) == ("too_few", True)


def test_a_deadline_with_no_reply_at_all_is_too_few() -> None:
    round = opened()
    round.expire()
    assert (round.reason, round.late()) == ("too_few", set(NAMES))


def test_who_vanishes_or_is_refused_after_the_close_stays_late() -> None:
    round = opened(needed=1)
    round.count("a")
    round.lose("b")
    round.refuse("c")
    assert (round.lost, round.refused, round.late()) == (set(), set(), {"b", "c", "d"})


@few
@given(
    order=st.permutations([*NAMES, "deadline"]),
    fates=st.lists(st.sampled_from(["count", "lose", "refuse", "silent"]), min_size=4, max_size=4),
    needed=st.integers(1, 4),
    min_replies=st.integers(1, 4),
)
def test_asked_is_counted_and_late_and_lost_and_refused_whatever_happens_when(
    order: list[str], fates: list[str], needed: int, min_replies: int
) -> None:
    round, fate = opened(needed=needed, min_replies=min_replies), dict(zip(NAMES, fates, strict=True))
    sound = 0
    for event in order:
        before = (round.reason, list(round.counted), round.late())
        if event == "deadline":
            round.expire()
        elif fate[event] == "count":
            assert round.count(event) is (before[0] is None)
            sound += before[0] is None
        elif fate[event] != "silent":
            getattr(round, fate[event])(event)
        if before[0] is not None:  # once closed, always the same
            assert (round.reason, round.counted, round.late()) == before
        groups = [round.counted, round.late(), round.lost, round.refused]
        assert sorted(name for group in groups for name in group) == list(NAMES)
    assert round.reason is not None  # the deadline came, if nothing else
    assert len(round.counted) == sound <= needed
    assert round.failed is (sound < min_replies)


def test_who_vanished_before_a_close_was_written_is_lost_and_not_late() -> None:
    round = opened(needed=2)
    round.count("a")
    round.expire()
    round.vanished({"c"})
    assert (round.reason, round.lost, round.late()) == ("deadline", {"c"}, {"b", "d"})


@pytest.mark.parametrize(("min_replies", "reason"), [(1, "all"), (2, "too_few")])
def test_a_deadline_after_which_nobody_was_missing_is_one_that_all_kept(min_replies: int, reason: str) -> None:
    round = opened(min_replies=min_replies)
    round.count("a")
    round.refuse("b")
    round.lose("c")
    round.expire()
    round.vanished({"d"})
    assert round.reason == reason


def test_a_first_k_after_whom_nobody_was_missing_are_all() -> None:
    round = opened(needed=2)
    for name in "ab":
        round.count(name)
    assert round.reason == "first"
    round.vanished({"c", "d"})
    assert (round.reason, round.late()) == ("all", set())

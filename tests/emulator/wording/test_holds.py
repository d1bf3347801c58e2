"""The verdict's line on compute errors says no more than the replays do."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.wording.holds import held
from scenarios.load import build
from tests.conftest import SMALL, merged

SCENARIO = build(merged(SMALL, {}))  # the median error of phone-mid is 45 %; that of pi, the tests' own, is not stated
ENDLESS = {"up_to": 4.0, "times": None, "first": None, "unknown": None}
HOLDS = "The order of a before b holds for compute errors up to"

UNKNOWN = "It is unknown up to which compute errors the order of a before b holds"


def said(every: dict[str, Any], **alone: dict[str, Any]) -> str:
    shown = {"best": "a", "behind": ["b"], "tried": [1.25, 1.5, 2.0, 4.0], "all": every, "alone": alone}
    [line] = held(shown, SCENARIO)
    return line


def turned(up_to: float, times: float) -> dict[str, Any]:
    return {"up_to": up_to, "times": times, "first": "b", "unknown": None}


def unknown(up_to: float, times: float) -> dict[str, Any]:
    return {"up_to": up_to, "times": times, "first": None, "unknown": "c is no longer aggregated"}


@pytest.mark.parametrize(
    ("line", "due"),
    [
        (said(ENDLESS), f"{HOLDS} 4x, slower or faster: with all profiles, and no larger error was tried"),
        (said(turned(2.0, 4.0)), f"{HOLDS} 2x, slower or faster: with all profiles 4x as slow, b is faster than a"),
        (said(turned(2.0, 0.25)), f"{HOLDS} 2x, slower or faster: with all profiles 4x as fast, b is faster than a"),
        (
            said(ENDLESS, x=turned(1.5, 2.0), y=ENDLESS),
            f"{HOLDS} 1.5x, slower or faster: with x alone 2x as slow, b is faster than a",
        ),
        (
            said(unknown(1.5, 2.0)),
            f"{HOLDS} 1.5x, slower or faster: with all profiles 2x as slow it is unknown (c",
        ),
        (
            said(turned(1.0, 0.8)),
            "The order of a before b does not hold for compute errors of 1.25x: with all profiles 1.25x as",
        ),
        (said(unknown(1.0, 1.25)), f"{UNKNOWN}: c is no longer aggregated."),
    ],
)
def test_the_range_ends_where_the_first_scan_ends(line: str, due: str) -> None:
    assert line.startswith(due)


def test_where_all_profiles_at_once_matter_most_the_worst_one_alone_is_named() -> None:
    assert "; alone, y matters most: up to 2x" in said(turned(1.5, 2.0), x=ENDLESS, y=turned(2.0, 4.0))
    assert "; no profile alone changes it up to 4x" in said(turned(1.5, 2.0), x=ENDLESS, y=ENDLESS)


def test_seconds_said_too_short_by_45_percent_are_1_82_times_as_long() -> None:
    """1 / (1 - 0.45) = 1.82 lies between the steps 1.5 and 2."""
    assert said(turned(2.0, 4.0)).endswith("; it holds within the median error of phone-mid (45 %).")
    assert said(turned(1.5, 2.0)).endswith("; it may not hold within the median error of phone-mid (45 %).")


def test_an_error_is_compared_with_the_range_of_its_own_profile() -> None:
    """Where pi alone ends the range, the error of phone-mid is not in it."""
    alone = {"phone-mid": ENDLESS, "pi": turned(1.25, 1.5)}
    assert said(turned(1.5, 2.0), **alone).endswith("; it holds within the median error of phone-mid (45 %).")
    alone = {"phone-mid": turned(1.5, 2.0), "pi": turned(1.25, 1.5)}
    assert said(ENDLESS, **alone).endswith("; it may not hold within the median error of phone-mid (45 %).")
    alone = {"phone-mid": ENDLESS, "pi": ENDLESS}
    assert said(turned(1.5, 2.0), **alone).endswith("; it may not hold within the median error of phone-mid (45 %).")


def test_what_is_within_chance_has_a_line_of_its_own() -> None:
    shown = {"best": "a", "behind": [], "within": ["b"], "tried": [1.25]}
    drawn = "The order of a before b is within the random variation of full links."
    assert held(shown, SCENARIO) == [drawn]
    lines = held({**shown, "behind": ["c"], "all": ENDLESS, "alone": {}}, SCENARIO)
    assert lines[0] == drawn
    assert lines[1].startswith("The order of a before c holds for")


def test_too_much_to_replay_is_said_and_nothing_of_no_order() -> None:
    assert held({"best": "a", "behind": ["b"], "unknown": "too many"}, SCENARIO) == [f"{UNKNOWN}: too many."]
    assert held(None, SCENARIO) == []

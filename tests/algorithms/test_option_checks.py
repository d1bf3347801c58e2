"""Options of algorithms: words and ranges."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from typing import Literal

import pytest

from algorithms.option_checks import check, preset


@dataclass(frozen=True)
class Some:
    word: Literal["one", "two", "three"] = "one"
    only: Literal["this"] = "this"
    count: int = 1
    share: float = 0.5


RANGES = {"count": (1, inf), "share": (0, 1)}


def test_what_is_allowed_passes_ends_included() -> None:
    for count, share in ((1, 0), (1000, 1), (2, 0.5)):
        check(Some("three", "this", count, share), **RANGES)


@pytest.mark.parametrize(
    ("some", "words"),
    [
        (Some(word="four"), "word is 'four'; it must be 'one', 'two' or 'three'"),  # type: ignore[arg-type]
        (Some(only="that"), "only is 'that'; it must be 'this'"),  # type: ignore[arg-type]
        (Some(count=0), "count is 0; it must be 1 or more"),
        (Some(share=1.5), "share is 1.5; it must be from 0 to 1"),
        (Some(share=nan), "share is nan; it must be from 0 to 1"),
    ],
)
def test_what_is_not_allowed_is_told(some: Some, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}$"):
        check(some, **RANGES)


def test_a_preset_sets_what_was_left_out_and_agrees_with_itself() -> None:
    some = Some()
    preset(some, "fast", word="two", count=7)
    preset(some, "fast", word="two", count=7)
    assert some == Some(word="two", count=7)


def test_a_preset_does_not_overrule() -> None:
    with pytest.raises(ValueError, match="^count is 3; it must be 7 with preset fast, or left out$"):
        preset(Some(count=3), "fast", count=7)

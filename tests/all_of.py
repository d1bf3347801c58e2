"""Assertions over many: `all` is content where there are none, so that a test may look at nothing, unnoticed."""

from __future__ import annotations

from collections.abc import Iterable


def all_of(truths: Iterable[object]) -> bool:
    """Whether all values are true.  Raises AssertionError if there are no values."""
    found = [bool(truth) for truth in truths]
    assert found, "there is nothing to look at"
    return all(found)

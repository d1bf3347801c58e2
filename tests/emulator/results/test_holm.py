"""Adjusted p-values: an example worked out by hand, the procedure as Holm wrote it down, and its laws."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.results.holm import holm
from tests.all_of import all_of

some = settings(max_examples=100, deadline=None, derandomize=True)
VALUES = st.lists(st.floats(0, 1), max_size=12)


def test_an_example_by_hand():
    # rising: 0.005, 0.01, 0.03, 0.04; times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04; and the last may not fall
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}, abs=1e-15)
    assert list(adjusted) == ["a", "b", "c", "d"]


def test_none_one_and_values_above_1():
    assert holm({}) == {}
    assert holm({"a": 0.2}) == {"a": 0.2}
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize("p", [float("nan"), -0.001, 1.001])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(ValueError, match="^p-values lie between 0 and 1$"):
        holm({"a": 0.5, "b": p})


@some
@given(VALUES, st.floats(0.001, 0.999))
def test_it_rejects_what_the_procedure_of_holm_rejects(values, level):
    """Sequentially: the least value against level / m, the next against level / (m - 1), up to the first that fails."""
    m, rejected = len(values), 0
    for i, p in enumerate(sorted(values)):
        if p * (m - i) > level:
            break
        rejected += 1
    assert sum(p <= level for p in holm(dict(enumerate(values))).values()) == rejected


@some
@given(VALUES.filter(bool))
def test_it_keeps_the_order_and_lies_between_a_value_and_that_of_bonferroni(values):
    adjusted = holm(dict(enumerate(values)))
    ranked = sorted(range(len(values)), key=lambda key: values[key])
    assert [adjusted[key] for key in ranked] == sorted(adjusted.values())
    assert all_of(p <= adjusted[key] <= min(1, p * len(values)) for key, p in enumerate(values))

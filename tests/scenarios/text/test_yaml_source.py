"""YAML text, read: values, places, and what is refused."""

import pytest

from scenarios.text.yaml_source import DEEPEST, MOST_VALUES, Unreadable, read

TEXT = """\
name: x
rounds: {max: 3, fraction: 1e-1}
fleet:
  - profile: pi-4
    link: {up_mbit_s: .inf}
"""


def test_values_are_those_of_yaml_1_2():
    assert read("a: 1e-3\nb: on\nc: 1:30\nd: 0x10\ne: ~\nf: true", "t").plain == {
        "a": 0.001,
        "b": "on",
        "c": "1:30",
        "d": 16,
        "e": None,
        "f": True,
    }


def test_a_date_stays_the_text_that_it_was():
    assert read("a: 2026-11-21", "t").plain == {"a": "2026-11-21"}


@pytest.mark.parametrize(
    ("loc", "of_key", "place"),
    [
        (("name",), False, (0, 6)),
        (("rounds", "max"), False, (1, 14)),
        (("rounds", "max"), True, (1, 9)),
        (("fleet", 0, "link", "up_mbit_s"), False, (4, 22)),
        (("fleet", 0, "link", "latency_ms"), False, (4, 10)),  # not there: what is around it
        (("fleet", 0), True, (3, 4)),
        (("model",), False, None),
    ],
)
def test_places_are_those_in_the_text(loc, of_key, place):
    assert read(TEXT, "t").mark(loc, of_key) == place


def test_an_anchor_is_its_value_wherever_it_is_used():
    assert read("a: &x {b: 1}\nc: *x\nd: [*x, *x]", "t").plain == {"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}] * 2}


def test_what_stands_in_a_mapping_wins_over_what_is_merged_into_it():
    text = "base: &base {count: 1, profile: pi-4}\none: {<<: *base, count: 2}"
    assert read(text, "t").plain["one"] == {"profile": "pi-4", "count": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [*a]", "contains itself"),
        ("a: &a {b: *a}", "contains itself"),
        ("a: 1\na: 2", "'a' is given twice"),
        ("? [1, 2]\n: 3", "a key must be a word"),
        ("a: !!set {b}", "means nothing here"),
        ("a: !!python/object/apply:os.system [ls]", "means nothing here"),
        ("a: !!int abc", "not YAML"),
        ("a: [1", "not YAML"),
        ("a: *nobody", "not YAML"),
        ("--- 1\n--- 2", "not YAML"),
        ("a: \x00", "not YAML"),
        ("<<: 3", "<< takes a mapping"),
        ("[" * 1500, "nested|not YAML"),
        ("a: " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "nested deeper"),
    ],
)
def test_what_is_no_scenario_is_refused(text, message):
    with pytest.raises(Unreadable, match=message):
        read(text, "t")


def test_anchors_that_explode_are_refused_before_they_do():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]  # a billion, written out
    with pytest.raises(Unreadable, match=f"more than {MOST_VALUES} values"):
        read("\n".join(lines), "t")


def test_an_empty_text_holds_nothing():
    assert read("", "t").plain is None
    assert read("# only a comment\n", "t").plain is None

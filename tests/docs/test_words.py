"""Words of docs/ that are written by hand: at most 50,000, and what counts as one."""

from benchmarks.words import counted, prose, sentences

PAGE = """# Two words

One [short link](index.md), and `some code`. <!-- no
comment -->

| a | table |
|---|---|

```console
$ no command
```

* An item - with a dash.
"""


def test_prose_has_no_tables_code_blocks_comments_or_addresses():
    """By hand: 2 of the heading, 6 of the sentence, 5 of the item."""
    assert prose(PAGE) == 2 + 6 + 5


def test_a_script_is_counted_by_its_sentences():
    long = "word " * 12
    assert sentences(f'"""{long}"""\n\ndef f():\n    """{long}"""\n    return "{long}" + "a label" + "{long}"\n') == 24


def test_docs_have_at_most_50_000_words():
    found = counted()
    assert found["docs/tutorial.md"] > 500
    assert "docs/keys.md" not in found
    assert sum(found.values()) <= 50_000

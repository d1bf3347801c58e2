import json
import lzma
import os
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from devices.data import reddit as communities
from devices.data.dataset import UNLABELLED
from devices.data.reddit import reddit

DATA = Path(os.environ.get("FEDLAPSE_DATA", Path(__file__).parents[2] / "../shared/data"))
REAL = DATA / "reddit" / f"{communities.FILE}.xz"
needs_reddit = pytest.mark.skipif(
    not REAL.is_file(),
    reason=f"REDDIT'S COMMENTS ARE NOT UNDER {DATA}: THE READER IS NOT TESTED ON THE REAL FILE (set $FEDLAPSE_DATA)",
)


def line(month: str, community: str, body: str) -> bytes:
    return json.dumps({"month": month, "subreddit": community, "created_utc": 1, "body": body}).encode() + b"\n"


def place(folder: Path, content: bytes, name: str = communities.FILE) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder


SMALL = b"".join(
    [
        line("2011-11", "books", "A a b"),  # cycle 0
        line("2012-01", "books", "a a a b c"),  # cycle 1
        line("2011-12", "nba", "b b b b"),  # cycle 0, of another community
        line("2011-12", "books", "b, a"),  # cycle 0, after the first
        line("2011-12", "pics", "z z z z z z z z z z z z"),  # of none that is asked for
        line("2012-02", "nba", "d d a b"),
        line("2011-10", "books", "z z z z z z z z z z z z"),  # too early
        line("2012-03", "books", "z z z z z z z z z z z z"),  # too late
    ]
)


def small(root: Path, **changed):
    asked = {"communities": ["books", "nba"], "first": "2011-11", "cycles": 2, "months_per_cycle": 2, "length": 2}
    return reddit(root, **{**asked, "words": 3, **changed})


@pytest.mark.parametrize("name", [f"{where}{communities.FILE}{e}" for where in ("", "reddit/") for e in ("", ".xz")])
def test_comments_of_a_community_and_cycle_are_one_stream_cut_into_windows(tmp_path, name):
    data = small(place(tmp_path, lzma.compress(SMALL) if name.endswith("xz") else SMALL, name))
    # $ is <eos>, | cuts windows; the last window of each is the test window
    # books 0: a a | b $ | b , | a $    books 1: a a | a b | c $    nba 0: b b | b b | $    nba 1: d d | a b | $
    # in training windows a comes 4 times, b 3, d 2: tokens 2, 3, 4; the comma and c are unknown
    none = UNLABELLED
    assert data.x.tolist() == [[2, 2], [3, 1], [2, 2], [3, 3], [4, 4]]
    assert data.y.tolist() == [[2, 3], [1, 3], [2, 2], [3, 3], [4, 2]]
    assert data.x_test.tolist() == [[3, 0], [2, 3], [3, 3], [2, 3]]
    assert data.y_test.tolist() == [[none, 2], [3, none], [3, 1], [3, 1]]
    assert (data.classes, data.owners, data.cycles) == (5, ("books", "nba"), 2)
    assert (data.owner.tolist(), data.cycle.tolist()) == ([0, 0, 0, 1, 1], [0, 0, 1, 0, 1])
    assert (data.owner_test.tolist(), data.cycle_test.tolist()) == ([0, 0, 1, 1], [0, 1, 0, 1])


def test_a_smaller_vocabulary_makes_the_rarest_words_unknown_and_drops_windows_without_a_label(tmp_path):
    content = line("2011-11", "books", "a a e f g a a a a a")
    data = small(place(tmp_path, content), communities=["books"], cycles=1, words=1)
    # a a | e f | g a | a a | a a (test) | $: of e f the labels are f and g, and only a and $ are known
    assert data.x.tolist() == [[2, 2], [0, 2], [2, 2]]
    assert data.y.tolist() == [[2, UNLABELLED], [2, 2], [2, 2]]
    assert (data.x_test.tolist(), data.y_test.tolist()) == ([[2, 2]], [[2, 1]])
    assert data.classes == 3


def test_words_are_lower_case_with_their_apostrophes_and_marks_are_words():
    said = "I don’t KNOW, <url> says 42 cats' é_x?! <b>"
    assert communities.split(said) == [
        *("i", "don't", "know", ",", "<url>", "says", "42", "cats", "'", "é", "x", "?", "!", "<", "b", ">")
    ]


def test_absent_files_are_reported_with_where_and_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        reddit(tmp_path)
    for part in (communities.FILE, str(tmp_path), str(tmp_path / "reddit"), "data.root", "$FEDLAPSE_DATA"):
        assert part in str(caught.value)


def test_a_community_with_too_few_comments_in_a_cycle_is_named(tmp_path):
    place(tmp_path, SMALL)
    with pytest.raises(ValueError, match=rf"{communities.FILE}: too few comments of pics in cycle 1 "):
        small(tmp_path, communities=["books", "pics"])
    with pytest.raises(ValueError, match="too few comments of Books in cycle 0 "):
        small(tmp_path, communities=["Books"])
    with pytest.raises(ValueError, match="too few comments of books in cycle 0 "):
        small(place(tmp_path, b""))


GOOD = line("2011-11", "books", "a")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (GOOD + b"{\n", "line 2 is not JSON"),
        (b"\xff\xfe\n", "line 1 is not JSON"),
        (b"[" * 60_000, "line 1 is not JSON"),
        (b"9" * 6_000, "line 1 is not JSON"),
        (b"\n", "line 1 is not JSON"),
        (b"[]\n", "line 1 has no month"),
        (b"null\n", "line 1 has no month"),
        (b'{"month": "2011-11"}', "line 1 is not a comment"),
        (GOOD + line("2011-13", "books", "a"), "line 2 has no month"),
        (line("11-11", "books", "a"), "line 1 has no month"),
        (b'{"month": 201111, "subreddit": "books", "body": "a"}', "line 1 has no month"),
        (b'{"month": "2011-11", "subreddit": ["books"], "body": "a"}', "line 1 is not a comment"),
        (b'{"month": "2011-11", "subreddit": "books", "body": null}', "line 1 is not a comment"),
        (GOOD + b"[" + b"[]," * 30_000, "line 2 has 90001 bytes"),
        (lzma.compress(SMALL)[:-9], "truncated xz"),
    ],
)
def test_a_file_of_another_form_is_refused_by_name_and_reason(tmp_path, content, reason):
    with pytest.raises(ValueError, match=rf"{communities.FILE}: {reason}") as caught:
        reddit(place(tmp_path, content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"first": "2011"}, "first is '2011'"),
        ({"first": "2011-00"}, "first is '2011-00'"),
        ({"communities": []}, "communities are none"),
        ({"communities": ["a", "b", "a"]}, "communities are a, b, a"),
        ({"cycles": 0}, "cycles is 0"),
        ({"months_per_cycle": 0}, "months_per_cycle is 0"),
        ({"words": 0}, "words is 0"),
        ({"length": 0}, "length is 0"),
        ({"cycles": 10**12}, "1000000000000 cycles of 2 months"),
    ],
)
def test_arguments_out_of_range_are_refused(tmp_path, changed, reason):
    with pytest.raises(ValueError, match=reason):
        small(tmp_path, **changed)


def test_a_file_that_unpacks_without_end_is_stopped_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(communities, "LIMIT", 1000)
    place(tmp_path, lzma.compress(b"\0" * 3_000_000, preset=0), f"{communities.FILE}.xz")
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more than 1000 bytes"):
        reddit(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # never a third of what it would unpack to


@needs_reddit
@pytest.mark.slow
def test_the_default_communities_are_the_twenty_with_most_words():
    words = Counter()
    for found in map(json.loads, lzma.decompress(REAL.read_bytes()).splitlines()):
        words[found["subreddit"]] += len(found["body"].split())
    assert len(words) == 32  # shared/data README
    assert tuple(name for name, _ in words.most_common(20)) == communities.COMMUNITIES


@needs_reddit
@pytest.mark.slow
def test_the_real_file_fills_ten_cycles_of_twenty_communities():
    data = reddit(DATA)
    assert (data.classes, len(data.owners), data.cycles) == (2002, 20, 10)
    for owner, cycle in ((data.owner, data.cycle), (data.owner_test, data.cycle_test)):
        assert len(set(zip(owner.tolist(), cycle.tolist(), strict=True))) == 200
    for x, y in ((data.x, data.y), (data.x_test, data.y_test)):
        known = y[:, :-1] != UNLABELLED
        np.testing.assert_array_equal(x[:, 1:][known], y[:, :-1][known])
        assert (x[:, 1:][~known] == 0).all()
        assert (y != UNLABELLED).any(axis=1).all()
    # commoner words have lower tokens, in training windows
    counts = np.bincount(data.x.ravel(), minlength=2002)[2:]
    assert (np.diff(counts) <= 0).mean() > 0.99  # windows without a label were counted too


@needs_reddit
@pytest.mark.slow
def test_the_stream_of_a_real_community_and_cycle_is_its_comments_in_order():
    data = reddit(DATA, ["books"], "2015-01", cycles=1, months_per_cycle=12, words=10**6)
    said: list[str] = []
    for found in map(json.loads, lzma.decompress(REAL.read_bytes()).splitlines()):
        if found["subreddit"] == "books" and found["month"] >= "2015":
            said += [*communities.split(found["body"]), "<eos>"]
    assert len(data.x) + len(data.x_test) == (len(said) - 1) // 20
    # the first nine windows are for training, and all their words are known: the same words have the same tokens
    tokens = data.x[:9].ravel().tolist()
    pairs = set(zip(tokens, said[:180], strict=True))
    assert len(pairs) == len(set(tokens)) == len(set(said[:180]))
    assert (1, "<eos>") in pairs

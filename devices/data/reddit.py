"""Reddit by community and month: texts that differ between communities and change over the years."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from devices.data.dataset import Dataset
from devices.data.packed import located, unpacked
from devices.data.token_windows import divided, only_known, renumbered, windows
from devices.owners import tenths

FILE = "reddit_by_subreddit_2011-2015.jsonl"
PLACES = ("", "reddit")
LIMIT = 1 << 26  # bytes, twice the file
LONGEST = 1 << 16  # bytes of a line; a comment has at most 1,000 characters
MONTHS = 1200  # longest span of all cycles together
END = 1  # the token <eos>, after each comment
# the 20 of the file's 32 with the most words; nine of the paper's twenty are in the file: worldnews, videos, gaming,
# pics, funny and movies, which are here, and Music, science and books
COMMUNITIES = (
    *("politics", "worldnews", "leagueoflegends", "AskReddit", "todayilearned", "AdviceAnimals", "atheism"),
    *("IAmA", "videos", "gaming", "nfl", "pics", "TwoXChromosomes", "funny", "movies", "buildapc", "nba"),
    *("Games", "soccer", "technology"),
)
MONTH = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])")
# the file's <url>, <user>, <email>, <num>; words with inner apostrophes; numbers; all other marks
WORD = re.compile(r"<(?:url|user|email|num)>|[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[^\w\s]")


class Comment(NamedTuple):
    """One comment, from a line of the file."""

    month: int  # since year 0
    community: str
    body: str


def reddit(
    root: Path,
    communities: Sequence[str] = COMMUNITIES,
    first: str = "2011-10",
    cycles: int = 10,
    months_per_cycle: int = 5,
    words: int = 2000,
    length: int = 20,
) -> Dataset:
    """Returns next-word prediction on Reddit; owners are the `communities` (subreddits), and a cycle is
    `months_per_cycle` months.

    Cycle 0 begins with the month `first`; by default ten cycles of five months end with the file, in 2015-11.  The
    comments of a community and cycle, in the file's order and each ended by <eos>, are cut into windows of `length`
    tokens that do not overlap, with a label for each position, and the windows are split 9:1.  Words are in lower case;
    punctuation marks are words too.  The `words` commonest of all training windows have the tokens 2 ...; 1 is <eos>, 0
    is any other word, which is UNLABELLED as a label; windows without a label are left out. The file, packed or not, is
    in `root` or `root`/reddit.  Raises FileNotFoundError if it is not, ValueError, naming the file, for another form
    and for a community with too few comments in a cycle. Source: Bian 2018 ("Continual Federated Learning"), section
    3.1, with 20 subreddits, months as cycles and windows of 20, 30 or 35; docs/design/algorithms.md §6 (months pooled,
    2,000 words).
    """
    _check(communities, first, cycles, months_per_cycle, words, length)
    [file] = located(root, PLACES, [FILE], ".xz", f"Reddit's comments ({FILE})")
    vocabulary = {"<eos>": 0}  # all words, in order of first occurrence
    streams: list[list[int]] = [[] for _ in range(len(communities) * cycles)]
    places = {name: k * cycles for k, name in enumerate(communities)}
    for comment in _comments(file):
        cycle = (comment.month - _month(first)) // months_per_cycle
        if comment.community in places and 0 <= cycle < cycles:
            stream = streams[places[comment.community] + cycle]
            stream += [vocabulary.setdefault(word, len(vocabulary)) for word in split(comment.body)]
            stream.append(0)
    parts = [windows(np.array(stream, np.int32), length) for stream in streams]
    group = np.repeat(np.arange(len(parts)), [len(x) for x, _ in parts])
    x, y, classes = _numbered(parts, group, list(vocabulary), words)
    data = divided("reddit", x, y, classes, communities, group // cycles, cycles, group % cycles)
    _check_parts(data, file)
    return data


def split(body: str) -> list[str]:
    """Returns the words and punctuation marks of a comment, in lower case and in order."""
    return WORD.findall(body.lower().replace("’", "'"))


def _check(communities: Sequence[str], first: str, cycles: int, months_per_cycle: int, words: int, length: int) -> None:
    if not MONTH.fullmatch(first):
        raise ValueError(f"first is {first!r}; it must be a month, as 2011-10")
    if not communities or len(set(communities)) < len(communities):
        raise ValueError(f"communities are {', '.join(communities) or 'none'}; there must be some, each named once")
    for name, value in (
        ("cycles", cycles),
        ("months_per_cycle", months_per_cycle),
        ("words", words),
        ("length", length),
    ):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be 1 or more")
    if cycles * months_per_cycle > MONTHS:
        raise ValueError(f"{cycles} cycles of {months_per_cycle} months; together they must be at most {MONTHS} months")


def _comments(path: Path) -> Iterator[Comment]:
    for number, line in enumerate(io.BytesIO(unpacked(path, LIMIT)), 1):
        if len(line) > LONGEST:
            raise ValueError(f"{path}: line {number} has {len(line)} bytes; a comment here has at most {LONGEST}")
        yield _comment(line, f"{path}: line {number}")


def _comment(line: bytes, where: str) -> Comment:
    try:
        said: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON ({error})") from None
    said = said if isinstance(said, dict) else {}
    month, community, body = said.get("month"), said.get("subreddit"), said.get("body")
    if not isinstance(month, str) or not MONTH.fullmatch(month):
        raise ValueError(f"{where} has no month; each must have one, as 2011-10")
    if not isinstance(community, str) or not isinstance(body, str):
        raise ValueError(f"{where} is not a comment; its subreddit and body must be texts")
    return Comment(_month(month), community, body)


def _month(text: str) -> int:
    return int(text[:4]) * 12 + int(text[5:]) - 1


def _numbered(
    parts: Sequence[tuple[NDArray[Any], NDArray[Any]]], group: NDArray[np.int64], names: Sequence[str], words: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Returns all windows and their labels, with words numbered by how common they are in training windows, and the
    size of the vocabulary.  `group`: the community and cycle of each window, as one number."""
    x, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    counts = np.bincount(x[tenths(group)[0]].ravel(), minlength=len(names))
    counts[0] = 0  # <eos> has its own number
    numbers = renumbered(counts, names, words, first=END + 1)
    numbers[0] = END
    return numbers[x], only_known(numbers[y]), max(END, int(numbers.max())) + 1


def _check_parts(data: Dataset, path: Path) -> None:
    """Raises ValueError unless each community has training and test windows in each cycle."""
    for owner, cycle in ((data.owner, data.cycle), (data.owner_test, data.cycle_test)):
        assert owner is not None
        assert cycle is not None
        counts = np.bincount(owner * data.cycles + cycle, minlength=len(data.owners) * data.cycles)
        if not counts.all():
            k, empty = divmod(int(counts.argmin()), data.cycles)
            raise ValueError(
                f"{path}: too few comments of {data.owners[k]} in cycle {empty} for 2 windows; pool more months,"
                " take shorter windows or leave it out"
            )

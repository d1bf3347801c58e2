"""The page that a run leaves."""

import re
from html.parser import HTMLParser

from emulator.report.page import page
from emulator.summary import summarise
from emulator.targets import Target


def rows(*accuracies):
    return [
        {
            "round": number,
            "time_s": 2.0 * (number + 1),
            "accuracy": accuracy,
            "initial": accuracy,
            "personalised": accuracy,
            "bytes": {"down": {"weights": 500_000}, "up": {"weights": 500_000}},
            "leverage": {},
        }
        for number, accuracy in enumerate(accuracies)
    ]


RUNS = {"fedavg": {1: rows(0.5, 0.9), 2: rows(0.9, 0.9)}, "<b>mine</b>": {1: rows(0.1, 0.2), 2: rows(0.1, 0.9)}}


def made():
    summary = summarise(RUNS, [Target("accuracy", 0.8)], dict.fromkeys(RUNS, 0.0))
    return page("trial", "name: trial\n", summary, RUNS)


class Open(HTMLParser):
    """Counts tags, and remembers what is loaded from elsewhere."""

    def __init__(self):
        super().__init__()
        self.tags, self.loaded = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href")]


def test_the_page_opens_off_line_and_names_are_text():
    reader = Open()
    reader.feed(made())
    assert reader.loaded == []
    assert "b" not in reader.tags
    assert reader.tags.count("polyline") == 4


def test_the_table_says_when_a_target_was_reached_and_by_how_many():
    """fedavg: 4 s and 2 s, median 3; mine: never and 4 s, so its median is never."""
    cells = [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", made())[1:]]
    assert cells[0] == [
        "fedavg",
        "accuracy 0.8",
        "2 of 2",
        "3.0 [2.0, 4.0]",
        "1.5 [1.0, 2.0]",
        "1.5 [1.0, 2.0]",
        "1.00",
    ]
    assert cells[1][2:4] == ["1 of 2", "∞ [4.0, ∞]"]
    assert cells[1][-1] == "-"

"""Which files of a place are recordings, and which are passed over and why: one rule for scenarios and replays."""

import pytest

from network.foreign_files import BadFile
from network.traces.trace_folders import find, gather, summed

BOTH = "time_s,down_mbit_s,up_mbit_s\n0,8,4\n10,,\n"
OPEN = "0 1\n1 1\n2 3\n3 3\n"  # seconds and Mbit/s, or ms and kbit/s


@pytest.fixture
def folder(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        return tmp_path

    return write


def names(gathered):
    return [each.path.name for each in gathered.recordings]


def reasons(gathered):
    return {each.path.name: each.why for each in gathered.passed}


def test_every_trace_of_a_folder_is_one_and_the_rest_is_named_with_the_reason(folder):
    made = gather(
        folder(
            a_csv=BOTH,
            README="about the traces\n",
            picture_png="\0",
            log="0.5 2.0\n1.0 nan\n",
            damaged_csv="time_s,down_mbit_s\n0,-1\n",
            still_csv="time_s,down_mbit_s\n0,0\n5,\n",
            _hidden="x",
        ),
        "down",
    )
    assert names(made) == ["a.csv"]
    said = reasons(made)
    assert said["README"] == "unknown format"
    assert said["picture.png"].startswith("line 1: holds a NUL character")
    assert said["log"].startswith("line 2: the rate is 'nan'")
    assert said["damaged.csv"].startswith("line 2: the down_mbit_s is '-1'")
    assert said["still.csv"] == "carries no bytes down; no transfer would ever end"
    assert [each.path.name for each in made.passed if each.damaged] == ["damaged.csv", "still.csv"]


def test_what_goes_the_other_way_is_passed_over(folder):
    place = folder(lone_up="1\n", pair_down="1\n2\n", pair_up="2\n", one_down="1\n2\n")
    down, up = gather(place, "down"), gather(place, "up")
    assert (names(down), reasons(down)) == (["one.down", "pair"], {"lone.up": "an uplink"})
    assert (names(up), reasons(up)) == (["lone.up", "pair"], {"one.down": "a downlink"})
    assert down.recordings[1].traces.keys() == {"down", "up"}


@pytest.mark.parametrize("way", ["down", "up"])
def test_a_mahimahi_file_that_does_not_tell_goes_the_way_that_is_asked_for(folder, way):
    place = folder(cell="1\n2\n")
    for where in (place / "cell", place):
        (made,) = gather(where, way).recordings
        assert (list(made.traces), made.traces[way].mean) == ([way], 1.5e6)  # 1500 bytes a ms


def test_a_format_that_content_leaves_open_must_be_named(folder):
    place = folder(log=OPEN, a_csv=BOTH)
    for where in (place, place / "log"):
        with pytest.raises(BadFile, match="could be pensieve or oboe; name its format") as error:
            gather(where, "down")
        assert error.value.lacks == "format"
        assert gather(place / "log", "down", "oboe").recordings[0].traces["down"].peak == 3e3 / 8


def test_a_file_that_is_named_is_never_passed_over(folder):
    place = folder(lone_up="1\n", still_csv="time_s,down_mbit_s,up_mbit_s\n0,0,1\n5,,\n", README="about\n")
    for name, said in (("lone.up", "the suffix|only up"), ("still.csv", "carries no bytes down"), ("README", "known")):
        with pytest.raises(BadFile, match=said):
            gather(place / name, "down")


def test_zeros_the_other_way_are_no_link(folder):
    place = folder(a_csv="time_s,down_mbit_s,up_mbit_s\n0,8,0\n5,,\n")
    assert gather(place / "a.csv", "down").recordings[0].traces.keys() == {"down"}


def test_a_folder_without_a_trace_says_what_is_in_it(folder, tmp_path):
    place = folder(a="x", b="x", c="x", d="x", e="x")
    with pytest.raises(BadFile, match=r"holds no downlink trace: left out a \(.*\), b \(.*\), c \(.*\) and 2 more$"):
        gather(place, "down")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFile, match="holds no uplink trace: it is empty"):
        gather(tmp_path / "empty", "up")
    assert summed(()) == ""


def test_a_place_is_looked_for_here_and_then_in_the_root(folder, tmp_path, monkeypatch):
    folder(walk_csv=BOTH, lte_down="1\n", lte_up="1\n")
    for name in ("walk.csv", "lte"):
        assert find(name, str(tmp_path)) == tmp_path / name
        assert find(name, None).name == name
    monkeypatch.chdir(tmp_path)
    assert str(find("walk.csv", "/nowhere")) == "walk.csv"
    assert str(find("other.csv", str(tmp_path))) == "other.csv"
    with pytest.raises(BadFile, match="too long"):
        find("x" * 4000, "/nowhere")

"""`fedlapse devices`: every number of every profile, and profiles from others' scores."""

from __future__ import annotations

import json

import pytest

from devices.device import profiles, read_profiles
from devices.profiles import NAMED
from emulator.commands.devices import COMPUTING, FURTHER
from tests.all_of import all_of

MINE = """name,quantity,value,unit,source,date
mine,speed,2.5,GFLOP/s,measured: by me,2026-11-21
mine,memory_bandwidth,3.5,GB/s,assumed,2026-11-21
mine,overhead,4.5,ms,assumed,2026-11-21
mine,memory,555,MB,measured: by me,2026-11-21
mine,power_radio,1.25,W,assumed: as a friend's,2026-11-21
"""
SCORES = [{"Model": "Google Pixel 4", "CPU_F_AI_Score": 3212}, {"Model": "Tin Can (2010)", "CPU_F_AI_Score": 241}]
CAPACITY = {"7": {"computation": 150.0, "communication": 2000}}


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.csv").write_text(MINE)


def test_every_quantity_stands_in_a_table():
    shown = [quantity for _, quantities in (*COMPUTING, *FURTHER) for quantity in quantities]
    assert sorted(shown) == sorted(NAMED)


def test_ones_own_profile_is_listed_with_its_numbers_and_who_says_them(fedlapse, mine, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = fedlapse("devices", "mine.csv")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("mine")]
    assert rows[0] == ["mine", "2.5", "-", "~3.5", "~4.5", "-", "555"]
    assert rows[1] == ["mine", "-", "/", "-", "/", "~1.25", "-", "-", "-", "-"]
    said = " ".join(done.stdout.split())
    assert "mine: speed, memory: measured: by me; memory bandwidth, overhead: assumed; power radio: assumed: as" in said
    assert all_of(f"{name}: " not in said for name in profiles())  # `devices NAME` says that of those


def test_as_json_each_number_has_unit_and_source(fedlapse, mine):
    said = json.loads(fedlapse("devices", "mine.csv", "--format", "json").stdout)
    assert said.keys() == {*profiles(), "mine"}
    assert said["mine"]["memory"] == {
        "value": 555,
        "unit": "MB",
        "source": "measured: by me",
        "date": "2026-11-21",
        "measured": True,
    }


def test_phones_that_were_scored_become_profiles(fedlapse, tmp_path):
    """A third of the least of FLASH's scores, and the greatest: proportional below, and the phone's own speed."""
    (tmp_path / "scores.json").write_text(json.dumps(SCORES))
    done = fedlapse("devices", "--score", "scores.json")
    found = read_profiles(done.stdout.splitlines())
    assert found["google-pixel-4"].flops_per_s == pytest.approx(profiles()["pixel-4"].flops_per_s)
    assert found["tin-can-2010"].flops_per_s == pytest.approx(profiles()["nexus-6"].flops_per_s / 2, rel=1e-3)
    assert found["tin-can-2010"].power == profiles()["phone-low"].power
    assert "speed: assumed: AI-Benchmark's 241" in found["tin-can-2010"].source
    only = fedlapse("devices", "--score", "scores.json", "--only", "*pixel*")
    assert read_profiles(only.stdout.splitlines()).keys() == {"google-pixel-4"}


@pytest.mark.parametrize("text", [json.dumps(CAPACITY), ",7\ncomputation,150.0\ncommunication,2000\n"])
def test_fedscales_clients_become_profiles(fedlapse, tmp_path, text):
    (tmp_path / "capacity").write_text(text)
    done = fedlapse("devices", "--score", "capacity", "--mflop", "300")
    [(name, profile)] = read_profiles(done.stdout.splitlines()).items()
    # 150 ms for the 0.3 GFLOP of a forward pass are 2 GFLOP/s
    assert (name, profile.flops_per_s) == ("client-7", pytest.approx(2e9))


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("capacity", json.dumps(CAPACITY), "give --mflop"),
        ("nowhere", None, "cannot read nowhere: No such file"),
        ("x.json", "{", "is not JSON"),
        ("x.json", "[]", "x.json has no phone that '*' matches"),
        ("x.json", '[{"Model": "a", "CPU_F_AI_Score": 0}]', "the score of a is 0; it must be a positive number"),
        ("x.csv", ",7\ncomputation,0\ncommunication,2000\n", "the computation of client 7 is 0"),
        ("x.csv", ",7\ncomputation,1\n", "does not have the rows clients"),
    ],
)
def test_files_without_scores_are_told_in_a_line(fedlapse, tmp_path, file, text, said):
    if text is not None:
        (tmp_path / file).write_text(text)
    more = [] if "mflop" in said else ["--mflop", "300"]
    done = fedlapse("devices", "--score", file, *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_profiles_that_cannot_be_read_are_told_in_a_line(fedlapse):
    done = fedlapse("devices", "nowhere.csv")
    assert (done.returncode, done.stderr) == (2, "fedlapse: cannot read nowhere.csv: No such file or directory\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("devices", "pi-44"), "there is no profile or file 'pi-44'; did you mean pi-4?"),
        (("algorithms", "fedcrv"), "there is no algorithm or scenario 'fedcrv'; did you mean fedcurv?"),
    ],
)
def test_a_misspelt_name_is_told_with_the_right_one(fedlapse, words, said):
    done = fedlapse(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"fedlapse: {said}\n")


def test_a_profile_that_no_scenario_could_name_is_not_listed_in_the_place_of_ours(fedlapse, tmp_path):
    (tmp_path / "pi.csv").write_text(MINE.replace("mine,", "pi-4,"))
    done = fedlapse("devices", "pi.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fedlapse: pi.csv: 'pi-4' is a profile that comes with fedlapse; give yours another name\n"


@pytest.mark.parametrize(
    "options",
    [("--only", "*pixel*"), ("--mflop", "600"), ("mine.csv", "--score", "x"), ("--score", "x", "--format=json")],
)
def test_options_that_would_do_nothing_are_refused(fedlapse, mine, options):
    done = fedlapse("devices", *options)
    assert done.returncode == 2
    assert "--score" in done.stderr


def test_a_profile_is_shown_alone_with_who_says_each_number(fedlapse) -> None:
    done = fedlapse("devices", "laptop")
    assert (done.returncode, done.stderr) == (0, "")
    shown = " ".join(done.stdout.split())
    assert "speed_gflop_s ~80 GFLOP/s assumed: effective in training on 8 CPU cores" in shown
    assert "phone-mid" not in shown

"""`fedlapse data`: what each device has."""

import json

import pytest

from scenarios.load import build, dump
from tests.conftest import SMALL, merged

CSV = "warm,owner,label\n" + "\n".join(f"{k},{'abcd'[k % 4]},{'yes' if k % 3 else 'no'}" for k in range(120))
OWNED = {"set": "file:t.csv", "test": 0.2, "split": {"kind": "natural", "least": 1}, "validation": 0.25}


@pytest.fixture
def asked(fedlapse, tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text(CSV)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def ask(*more, **says):
        (tmp_path / "s.yaml").write_text(dump(build(merged(SMALL, {"data": says}))))
        done = fedlapse("data", "s.yaml", *more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return ask


def test_every_device_is_told_with_its_owner_and_what_it_holds(asked):
    told = json.loads(asked("--format", "json", **OWNED))
    assert (told["train"], told["test"], told["shape"], told["owners"]) == (96, 24, [1], 4)
    assert sorted(each["owner"] for each in told["devices"].values()) == list("abcd")
    for each in told["devices"].values():
        assert sum(each["classes"]) == each["train"]
        assert each["train"] + each["validation"] <= 30  # the server's own are not held out
    assert sum(each["tests"] for each in told["devices"].values()) == 24


def test_it_tells_what_the_runs_will_use(asked):
    says = {"split": {"kind": "dirichlet", "alpha": 0.3}}
    told = json.loads(asked("--format", "json", "--seed", "7", **says))
    from emulator.lab.build import lab_of

    lab = lab_of(build(merged(SMALL, {"data": says, "seeds": [7]})))
    assert {name: each["classes"] for name, each in told["devices"].items()} == lab.label_counts(7)
    assert told["proxy"] == len(lab.splits[7].proxy)


def test_the_text_has_a_table_and_a_picture(asked):
    lines = asked(**OWNED).splitlines()
    assert max(map(len, lines)) <= 100
    rows = [line.split() for line in lines if line.startswith("pi-4-0")]
    assert rows[0][1] in "abcd"
    assert any("░ up to" in line for line in lines)
    dealt = asked(**{**OWNED, "split": {"kind": "iid"}})
    assert "data.split: {kind: natural} makes each device one of them" in " ".join(dealt.split())


def test_a_text_has_no_classes_by_device(asked):
    lines = asked("model=lstm-tiny", set="babble", options={"windows": 20}).splitlines()
    (heading,) = (line.split() for line in lines if line.startswith("device"))
    assert heading == ["device", "train", "held", "out", "test"]


def test_classes_by_device_can_be_drawn(asked, tmp_path):
    asked("--plot", "classes.svg", **OWNED)
    picture = (tmp_path / "classes.svg").read_text()
    assert picture.startswith("<svg")
    assert "pi-4-0" in picture


def test_another_name_is_no_picture(fedlapse):
    done = fedlapse("data", "quickstart", "--plot", "classes.txt")
    assert done.returncode == 2
    assert "a picture's name ends in" in done.stderr

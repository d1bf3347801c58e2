"""`resume` stops where a run comes out otherwise than its record, says why, and replaces nothing; --force goes on."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from emulator.record.repeated import Otherwise
from emulator.sessions import code
from scenarios.builders.reads import Read, sign
from scenarios.builders.sources import file_of
from scenarios.load import build
from scenarios.schema.scenario import Scenario
from tests.conftest import SMALL, digests, merged

FILE = "otherwise_net.py"
NET = """
from pathlib import Path

from torch import nn


def net(classes=10):
    layer = nn.Linear(64, classes)
    nn.init.constant_(layer.bias, {bias} * float(Path("bias.txt").read_text()))
    return nn.Sequential(nn.Flatten(), layer)
"""
CHANGES = {"model": "otherwise_net:net", "seeds": [1, 2], "evaluate": {"personalise_every": "never"}}


def content(folder: Path) -> dict[str, bytes]:
    """The contents of all files."""
    files = filter(Path.is_file, folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def net(tmp_path, monkeypatch):
    """Writes the model's module, which is imported anew."""
    monkeypatch.setattr("sys.dont_write_bytecode", True)

    def write(bias: int) -> None:
        (tmp_path / FILE).write_text(NET.format(bias=bias))
        sys.modules.pop("otherwise_net", None)

    (tmp_path / "bias.txt").write_text("1")
    write(3)
    yield write
    sys.modules.pop("otherwise_net", None)


def modules(out: Path) -> dict[str, str]:
    return json.loads((out / "code.json").read_bytes())["modules"]


def compare(fedlapse, *words):
    done = fedlapse("compare", "s.yaml", "-q", "--workers", 0, "--no-ledger", *words)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def broken_off(fedlapse, tmp_path, net):
    """A folder with a run that was killed after its first round."""
    (tmp_path / "s.yaml").write_text(json.dumps(merged(SMALL, CHANGES)))
    compare(fedlapse, "--out", "out")
    out = tmp_path / "out"
    for name in ("seal.json", "summary.json", "report.html", "fedavg-s1/seal.json"):
        (out / name).unlink()
    for name in ("events.jsonl", "rounds.jsonl"):
        lines = (out / "fedavg-s1" / name).read_bytes().splitlines(keepends=True)
        (out / "fedavg-s1" / name).write_bytes(b"".join(lines[: (len(lines) + 1) // 2]))
    return out


def resume(fedlapse, *words):
    return fedlapse("resume", "out", "-q", "--workers", 0, "--no-ledger", *words)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["module", "file"])
def test_a_model_that_has_changed_is_named_and_nothing_is_replaced(fedlapse, tmp_path, broken_off, net, what):
    before = content(broken_off)
    if what == "module":
        net(bias=4)
    else:
        (tmp_path / "bias.txt").write_text("20")
    name = {"module": FILE, "file": "bias.txt"}[what]
    done = resume(fedlapse)
    assert done.returncode == 2
    assert done.stderr == (
        f"fedlapse: out/fedavg-s1/events.jsonl, line 1 (open round 0) is different now: {name} has changed "
        "since it was begun\nnothing in the folder was replaced; `fedlapse resume --force out` replaces what differs, "
        "and continues\n"
    )
    assert content(broken_off) == before


@pytest.mark.slow
def test_force_ends_with_the_record_of_the_model_as_it_is_now(fedlapse, tmp_path, broken_off, net):
    net(bias=4)
    assert resume(fedlapse, "--force").returncode == 0
    assert fedlapse("audit", "out").returncode == 0
    compare(fedlapse, "--out", "new")
    assert digests(broken_off) == digests(tmp_path / "new")
    assert modules(broken_off) == modules(tmp_path / "new")


@pytest.mark.slow
def test_force_that_is_interrupted_goes_on_with_force_and_the_reason_stays_known(
    fedlapse, broken_off, net, monkeypatch
):
    async def interrupted(*_: object) -> None:
        raise OSError(errno.EIO, "interrupted")

    before = modules(broken_off)
    net(bias=4)
    with monkeypatch.context() as patch:
        patch.setattr("emulator.sessions.session.run_virtual", interrupted)
        done = resume(fedlapse, "--force")
    assert done.returncode == 1
    said = "fedlapse: to go on, with everything trained again: fedlapse resume --force out"
    assert done.stderr.splitlines()[-1] == said
    assert modules(broken_off) == before
    assert f"is different now: {FILE} has changed" in resume(fedlapse).stderr


@pytest.mark.slow
def test_a_change_that_changes_nothing_goes_on(fedlapse, tmp_path, broken_off, net):
    (tmp_path / FILE).write_text("# a comment\n" + NET.format(bias=3))
    assert resume(fedlapse).returncode == 0
    compare(fedlapse, "--out", "new")
    assert digests(broken_off) == digests(tmp_path / "new")
    assert modules(broken_off) == modules(tmp_path / "new")


LINE = b'{"event": "open", "round": 0}\n'


@pytest.mark.parametrize(
    ("name", "line", "goes_on"),
    [
        ("fedavg-s1/events.jsonl", b"", False),
        ("fedavg-s1/events.jsonl", LINE[:-1], False),
        ("mine/events.jsonl", LINE, False),
        ("fedavg-s1/events.jsonl", LINE, True),
        ("fedavg-s1/work.jsonl", LINE, True),
    ],
)
def test_code_json_stays_only_where_a_run_of_the_scenario_has_a_whole_line(tmp_path, name, line, goes_on):
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_bytes(line)
    (tmp_path / "code.json").write_text("then")
    assert code.begin(tmp_path, build(merged(SMALL, {"seeds": [1]})), "now", "split", force=False) is goes_on
    assert (tmp_path / "code.json").read_text() == ("then" if goes_on else "now")


def test_only_force_goes_on_with_another_split(tmp_path):
    (tmp_path / "fedavg-s1").mkdir()
    (tmp_path / "fedavg-s1" / "events.jsonl").write_bytes(LINE)
    (tmp_path / "split.json").write_text("then")
    scenario = build(merged(SMALL, {"seeds": [1]}))
    with pytest.raises(Otherwise, match=r"split\.json is different now"):
        code.begin(tmp_path, scenario, "", "now", force=False)
    assert code.begin(tmp_path, scenario, "", "now", force=True)
    assert (tmp_path / "split.json").read_text() == "now"


def said(**changes: Any) -> dict[str, Any]:
    plain = {"versions": {"torch": "2.1"}, "processor": "old", "numerics": "a", "modules": {}, "read": {}}
    return {**plain, **changes}


BITS = "the processor computes other bits: it was begun on old, and this is new"


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ({"versions": {"torch": "2.2"}}, "it was begun with torch 2.1, and this is 2.2"),
        (
            {"numerics": "b", "processor": "new"},
            "the processor computes other bits: it was begun on old, and this is new",
        ),
        (
            {"numerics": None, "processor": "new"},
            "the processor computes other bits: it was begun on old, and this is new",
        ),
        ({"processor": "new"}, None),  # it computes the same bits
        ({"numerics": None}, None),
    ],
)
def test_torch_and_the_processor_are_named(tmp_path, now, why):
    (tmp_path / "code.json").write_text(json.dumps(said()))
    found = code.why_otherwise(tmp_path, json.dumps(said(**now)))
    assert found == (why or found)
    assert found.startswith("no known file has changed, nor torch") == (why is None)


def test_without_the_file_nobody_knows_why(tmp_path):
    said_why = code.why_otherwise(tmp_path, json.dumps(said()))
    assert said_why == "the folder has no readable code.json, so the reason is unknown"


@pytest.fixture
def seen(monkeypatch) -> dict[Read, None]:
    """Takes the place of what was read so far."""
    monkeypatch.setattr(code, "SEEN", {})
    return code.SEEN


def then(folder: Path, *names: str) -> str:
    """code.json beside files that were read by then, and its text."""
    code.SEEN.update({Read("file", str(folder / name), sign(str(folder / name))): None for name in names})
    text = code.code_text(build(SMALL), None)
    (folder / "code.json").write_text(text)
    return text


def test_a_file_that_was_touched_is_no_reason_unless_its_content_is_another(tmp_path, seen):
    path = tmp_path / "a.txt"
    path.write_text("1")
    now = then(tmp_path, "a.txt")
    os.utime(path, ns=(1, 1))
    assert code.why_otherwise(tmp_path, now).startswith("no known file has changed")
    path.write_text("2")
    assert code.why_otherwise(tmp_path, now) == f"{path} has changed since it was begun"
    path.unlink()
    assert code.why_otherwise(tmp_path, now) == f"{path} has changed since it was begun"


def test_of_a_large_file_its_time_is_what_tells(tmp_path, seen, monkeypatch):
    monkeypatch.setattr(code, "LARGE", 2)
    for name in ("large", "small"):
        (tmp_path / name).write_text("12" + "3" * (name == "large"))
    now = then(tmp_path, "large", "small")
    for name in ("large", "small"):
        os.utime(tmp_path / name, ns=(1, 1))
    assert code.why_otherwise(tmp_path, now) == f"{tmp_path / 'large'} has changed since it was begun"


def test_three_files_are_named_and_the_others_counted(tmp_path, seen, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abcde":
        (tmp_path / name).write_text(name)
    now = then(tmp_path, *"abcde")
    for name in "abcde":
        (tmp_path / name).unlink()
    assert code.why_otherwise(tmp_path, now) == "a, b, c, and 2 more have changed since it was begun"


@pytest.mark.slow
def test_where_nothing_known_has_changed_the_whole_sentence_is_said(fedlapse, broken_off, monkeypatch, seen):
    seen[Read("variable", "BIAS")] = None
    events = broken_off / "fedavg-s1" / "events.jsonl"
    first, *others = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join([first.replace(b'"model":"', b'"model":"0'), *others]))
    assert resume(fedlapse).stderr == (
        "fedlapse: out/fedavg-s1/events.jsonl, line 1 (open round 0) is different now: no known file has "
        "changed, nor torch, nor the processor: your code reads or draws something else, perhaps BIAS of "
        "the environment\n"
        "nothing in the folder was replaced; `fedlapse resume --force out` replaces what differs, and "
        "continues\n"
    )


def test_the_code_of_a_record_is_that_of_own_files_alone():
    scenario = build(merged(SMALL, {"model": "tests.runs.nets:dense"}))
    modules = json.loads(code.code_text(scenario, None))["modules"]
    assert "tests.runs.nets" in modules
    assert not [name for name in modules if name.partition(".")[0] in ("emulator", "algorithms", "scenarios")]
    assert file_of("tests.runs.nets") == Path(__file__).parents[2] / "runs" / "nets.py"


PLACES = {"task": "{0}", "selection": "{0}", "training": {"optimizer": "{0}"}, "model": "{0}", "algorithms": ["{0}"]}


@pytest.mark.parametrize("place", PLACES)
def test_own_code_is_recorded_wherever_a_scenario_names_it(tmp_path, monkeypatch, place):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_part.py").write_text("")
    said = json.loads(json.dumps(PLACES[place]).replace("{0}", "own_part:thing"))
    scenario = Scenario.model_validate({**SMALL, place: said}, strict=False)
    assert [*json.loads(code.code_text(scenario, None))["modules"]] == ["own_part"]

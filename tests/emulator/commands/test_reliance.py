"""Results that cannot be relied on: the page and stderr say so, and the exit code where they are damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import results

pytestmark = pytest.mark.slow

SCENARIO = {"model": "tests.runs.network:small", "rounds": {"max": 3}, "algorithms": ["fedavg", "fedprox"]}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return results(tmp_path_factory.mktemp("results") / "out", SCENARIO)


@pytest.fixture
def out(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "out"))


def cut(path: Path, lines: int) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))


def interrupt(out: Path) -> None:
    """As Ctrl-C leaves it: no seals, and one run a round behind."""
    for seal in out.rglob("seal.json"):
        seal.unlink()
    cut(out / "fedavg-s1" / "rounds.jsonl", 2)


def test_of_a_sealed_record_there_is_nothing_to_say(fedlapse: Callable[..., Any], out: Path) -> None:
    for command in (("report", out, "--format", "markdown"), ("replay", out, "--latency", "40ms")):
        done = fedlapse(*command)
        assert (done.returncode, done.stderr) == (0, "")
        assert "This record" not in done.stdout


def test_a_page_that_is_gone_is_made_again_and_is_no_damage(fedlapse: Callable[..., Any], out: Path) -> None:
    (out / "report.html").unlink()
    assert fedlapse("report", out, "--format", "markdown").returncode == 0


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a timeline cut in half": (lambda out: cut(out / "fedprox-s1" / "events.jsonl", 9), "fedprox-s1/events.jsonl"),
    "rows that are gone": (lambda out: (out / "fedavg-s1" / "rounds.jsonl").unlink(), "fedavg-s1/rounds.jsonl"),
    "no row": (lambda out: (out / "fedavg-s1" / "rounds.jsonl").write_text(""), "fedavg-s1/rounds.jsonl"),
    "another model": (lambda out: (out / "fedavg-s1" / "final.safetensors").write_text(""), "final.safetensors"),
    "a run less": (lambda out: shutil.rmtree(out / "fedprox-s1"), "fedprox-s1/seal.json is missing"),
}


@pytest.mark.parametrize(("spoil", "file"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_record_is_told_on_the_page_and_on_stderr_and_ends_with_1(
    fedlapse: Callable[..., Any], out: Path, spoil: Callable[[Path], object], file: str
) -> None:
    spoil(out)
    done = fedlapse("report", out, "--format", "markdown", "--out", out / "report.md")
    assert done.returncode == 1
    for said in (done.stderr, (out / "report.md").read_text().replace("\\", "")):
        assert "This record is damaged: " in said
        assert file in said
    replayed = fedlapse("replay", out, "--latency", "40ms")
    assert replayed.returncode == 1
    assert "This record is damaged: " in replayed.stderr


MALFORMED = {
    "a row without its keys": ("rounds.jsonl", '{"round":0}'),
    "bytes that are a word": ("rounds.jsonl", '{"bytes":"x"}'),
    "a device that is a list": ("events.jsonl", '{"device":[1]}'),
}


@pytest.mark.parametrize(("file", "change"), MALFORMED.values(), ids=MALFORMED)
def test_a_damaged_record_that_cannot_be_read_is_no_traceback(
    fedlapse: Callable[..., Any], out: Path, file: str, change: str
) -> None:
    path = out / "fedavg-s1" / file
    first, *others = path.read_text().splitlines()
    whole = {} if change == '{"round":0}' else json.loads(first)
    path.write_text("\n".join([json.dumps({**whole, **json.loads(change)}), *others, ""]))
    for command in (("report", out), ("replay", out, "--latency", "40ms")):
        done = fedlapse(*command)
        assert done.returncode == 1
        assert "This record is damaged: " in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.pages
@pytest.mark.parametrize("line", [2, 5])
def test_an_event_that_lacks_its_keys_is_named_with_its_run_and_line(
    fedlapse: Callable[..., Any], out: Path, line: int
) -> None:
    path = out / "fedprox-s1" / "events.jsonl"
    lines = path.read_text().splitlines()
    lines[line - 1] = '{"event": "down.start"}'
    path.write_text("\n".join([*lines, ""]))
    for command in (("report", out), ("replay", out, "--latency", "40ms")):
        assert f"fedprox-s1/events.jsonl:{line} is not as `fedlapse run` writes it" in fedlapse(*command).stderr


def test_one_round_is_not_called_rounds(fedlapse: Callable[..., Any], out: Path) -> None:
    interrupt(out)
    cut(out / "fedavg-s1" / "rounds.jsonl", 1)
    done = fedlapse("replay", out, "--latency", "40ms")
    assert "The runs have 1 to 3 rounds; only the first round is compared." in done.stdout
    assert "the first round: " in done.stdout


def test_a_baseline_that_is_missing_is_not_replaced_in_silence(fedlapse: Callable[..., Any], out: Path) -> None:
    (out / "fedavg-s1" / "rounds.jsonl").unlink()
    done = fedlapse("report", out, "--format", "json")
    assert "The baseline, fedavg, has no rounds: ratios are to fedprox instead." in done.stderr
    assert json.loads(done.stdout)["notes"][-1].startswith("The baseline, fedavg")


def test_an_interrupted_record_says_so_and_is_compared_up_to_the_shortest_run(
    fedlapse: Callable[..., Any], out: Path
) -> None:
    interrupt(out)
    reported = fedlapse("report", out, "--format", "markdown")
    assert reported.returncode == 0
    for said in (reported.stderr, reported.stdout):
        assert "This record has no seal: it was interrupted." in said
        assert "The runs have 2 to 3 rounds; final values are after 2 rounds." in said
    second = json.loads((out / "fedprox-s1" / "rounds.jsonl").read_text().splitlines()[1])
    end = json.loads(fedlapse("report", out, "--format", "json").stdout)["labels"]["fedprox"]
    assert (end["rounds"], end["time_s"]["mean"]) == ({"1": 2}, second["time_s"])
    assert end["final"]["accuracy"]["mean"] == second["accuracy"]
    replayed = fedlapse("replay", out, "--latency", "40ms", "--format", "json")
    assert replayed.returncode == 0
    assert "no seal" in replayed.stderr
    recorded, _ = json.loads(replayed.stdout)["settings"]
    assert recorded["times_s"]["all rounds"]["fedprox"]["1"] == second["time_s"]
    assert "the first 2 rounds" in fedlapse("replay", out, "--latency", "40ms").stdout


def test_a_map_of_an_interrupted_record_says_so(fedlapse: Callable[..., Any], out: Path) -> None:
    interrupt(out)
    done = fedlapse("map", out, "--uplink", "1..2Mbit/s", "--points", "2")
    assert done.returncode == 0
    assert "no seal" in done.stderr
    assert "no seal" in " ".join(json.loads((out / "map.json").read_text())["notes"])

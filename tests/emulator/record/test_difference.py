"""`fedlapse diff`: which key changed, and from which simulated second two records part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from emulator.commands.diff import diff
from emulator.record.difference import ABSENT, Change, FirstDifference, changes, difference, first_difference
from emulator.record.lines import encode
from emulator.record.seal import seal_results, seal_run

app = typer.Typer()
app.command()(diff)

SCENARIO = """\
name: small
seeds: [1, 2]
rounds: {max: 5, fraction: 0.5}
fleet:
- {profile: pi-4, count: 2, link: {up_mbit_s: 2.0, down_mbit_s: 8.0}}
- {profile: phone-mid, count: 3, link: {up_mbit_s: 8.0, down_mbit_s: 8.0}}
algorithms:
- {fedavg: {}, name: fedavg}
- {fedcl: {strength: 0.5}, name: fedcl}
"""
EVENTS = [
    {"t": 0.0, "event": "open", "round": 0, "asked": ["pi-4-0"], "model": "aa"},
    {"t": 0.0, "event": "down.start", "device": "pi-4-0", "round": 0, "bytes": {"weights": 80, "frame": 9}},
    {"t": 1.5, "event": "down.end", "device": "pi-4-0", "round": 0},
    {"t": 4.25, "event": "compute.end", "device": "pi-4-0", "round": 0, "update": "1f"},
]
ROUNDS = [{"round": 0, "time_s": 6.5, "accuracy": 0.5, "bytes": {"down": {"weights": 80}}}]
INTERRUPTED = "it was interrupted"
LOST = ", bytes.frame"
MANY = ", p = {0}, q = {0}, r = {0}, s = {0} and 2 more"


def write(path: Path, lines: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(encode, lines)))
    return path


def left(out: Path, *runs: str) -> Path:
    for run in runs or ("fedavg-s1", "fedcl-s1"):
        write(out / run / "events.jsonl", EVENTS)
        write(out / run / "rounds.jsonl", ROUNDS)
        (out / run / "final.safetensors").write_bytes(b"model")
    (out / "scenario.yaml").write_text(SCENARIO)
    return out


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    return left(tmp_path / "a"), left(tmp_path / "b")


def changed(line: int, **fields: Any) -> list[dict[str, Any]]:
    """EVENTS with one line changed, from 0."""
    return [{**event, **fields} if number == line else event for number, event in enumerate(EVENTS)]


def fedlapse_diff(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def without_notes(error: str) -> str:
    """The lines of stderr but those about a missing seal."""
    return "".join(line for line in error.splitlines(keepends=True) if "has no seal" not in line)


# --- scenarios --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("max: 5", "max: 6", Change("rounds.max", 5, 6)),
        ("[1, 2]", "[1, 3]", Change("seeds", [1, 2], [1, 3])),
        ("up_mbit_s: 2.0", "up_mbit_s: 4.0", Change("fleet.0.link.up_mbit_s", 2.0, 4.0)),
        ("strength: 0.5", "strength: 0.7", Change("algorithms.fedcl.fedcl.strength", 0.5, 0.7)),
        (", fraction: 0.5", "", Change("rounds.fraction", 0.5, ABSENT)),
        ("{max: 5", "{max: 5, ask: 3", Change("rounds.ask", ABSENT, 3)),
        ("[1, 2]", "null", Change("seeds", [1, 2], None)),
        (
            "- {fedavg: {}, name: fedavg}\n",
            "- {fedprox: {mu: 1}, name: fedprox}\n- {fedavg: {}, name: fedavg}\n",
            Change("algorithms.fedprox", ABSENT, {"fedprox": {"mu": 1}, "name": "fedprox"}),
        ),
    ],
)
def test_a_changed_key_is_told_by_its_path(two: tuple[Path, Path], old: str, new: str, expected: Change) -> None:
    a, b = two
    assert old in SCENARIO
    (b / "scenario.yaml").write_text(SCENARIO.replace(old, new, 1))
    assert changes(a, b) == (expected,)
    assert changes(b, a) == (Change(expected.key, expected.b, expected.a),)
    assert changes(a, a) == ()


def test_another_order_of_algorithms_is_a_change(two: tuple[Path, Path]) -> None:
    """The first one is the baseline."""
    a, b = two
    lines = SCENARIO.splitlines()
    (b / "scenario.yaml").write_text("\n".join([*lines[:-2], lines[-1], lines[-2]]))
    assert changes(a, b) == (Change("algorithms (order)", ["fedavg", "fedcl"], ["fedcl", "fedavg"]),)


def test_the_same_written_otherwise_is_no_change(two: tuple[Path, Path]) -> None:
    a, b = two
    (b / "scenario.yaml").write_text("# a comment\n" + SCENARIO.replace("[1, 2]", "\n- 1\n- 2"))
    assert changes(a, b) == ()


# --- differences ---------------------------------------------------------------------------------------------------


def test_equal_files_do_not_part(tmp_path: Path) -> None:
    assert first_difference(write(tmp_path / "a", EVENTS), write(tmp_path / "b", EVENTS)) is None


@pytest.mark.parametrize(
    ("line", "fields", "time", "about", "a", "b"),
    [
        (3, {"update": "2e"}, 4.25, "compute.end pi-4-0 round 0", ", update = 1f", ", update = 2e"),
        (2, {"t": 1.25}, 1.25, "down.end pi-4-0 round 0", ", t = 1.5", ", t = 1.25"),
        (
            2,
            {"t": 1.25, "event": "off"},
            1.25,
            "",
            "down.end pi-4-0 round 0, at 1.5 s",
            "off pi-4-0 round 0, at 1.25 s",
        ),
        (1, {"bytes": {"weights": 80}}, 0.0, "down.start pi-4-0 round 0", f"{LOST} = 9", f"{LOST} = (absent)"),
        (0, {"more": 1}, 0.0, "open round 0", ", more = (absent)", ", more = 1"),
        (0, dict.fromkeys("pqrsuv", 1), 0.0, "open round 0", MANY.format("(absent)"), MANY.format(1)),
    ],
)
def test_records_part_at_their_first_unequal_line(
    tmp_path: Path, line: int, fields: Mapping[str, Any], time: float, about: str, a: str, b: str
) -> None:
    one = write(tmp_path / "a" / "events.jsonl", EVENTS)
    other = write(tmp_path / "b" / "events.jsonl", [*changed(line, **fields)[: line + 1], {"later": "does not count"}])
    assert first_difference(one, other) == FirstDifference("events.jsonl", line + 1, time, about + a, about + b)
    assert first_difference(other, one) == FirstDifference("events.jsonl", line + 1, time, about + b, about + a)


def test_a_record_that_goes_on_parts_after_the_end_of_the_other(tmp_path: Path) -> None:
    whole, short = write(tmp_path / "a", EVENTS), write(tmp_path / "b", EVENTS[:3])
    found = first_difference(whole, short)
    assert found == FirstDifference("a", 4, 4.25, "compute.end pi-4-0 round 0, at 4.25 s", "the end")
    with short.open("a") as file:
        file.write('{"t": 4')  # was being written
    assert first_difference(whole, short) == found


def test_a_missing_file_has_no_lines(tmp_path: Path) -> None:
    found = first_difference(write(tmp_path / "a", EVENTS), tmp_path / "gone")
    assert found == FirstDifference("a", 1, 0.0, "open round 0, at 0 s", "the end")
    assert first_difference(tmp_path / "gone", tmp_path / "gone") is None


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a", EVENTS), write(tmp_path / "b", EVENTS[:1])
    for text in ("rubbish", "[1]"):
        other.write_bytes(encode(EVENTS[0]) + f"{text}\n".encode())
        with pytest.raises(ValueError, match="b:2 (is not JSON|must hold a JSON object)"):
            first_difference(one, other)


# --- the command ------------------------------------------------------------------------------------------------


def sealed(out: Path) -> None:
    """As a command leaves it."""
    for name in ("host.json", "split.json", "summary.json", "report.html"):
        (out / name).write_text("{}")
    for run in ("fedavg-s1", "fedcl-s1"):
        write(out / run / "work.jsonl", [{}])
        seal_run(out / run)
    seal_results(out)


def test_equal_records_are_identical(two: tuple[Path, Path]) -> None:
    for out in two:
        sealed(out)
    assert fedlapse_diff(*two) == (0, "records identical (2 runs)\n", "")
    assert difference(*two).identical


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("name", ["host.json", "split.json", "summary.json", "fedcl-s1/work.jsonl"])
def test_a_damaged_record_is_not_called_identical(two: tuple[Path, Path], name: str, gone: bool) -> None:
    a, b = two
    for out in two:
        sealed(out)
    (b / name).unlink() if gone else (b / name).write_text("[]")
    code, text, error = fedlapse_diff(a, b)
    assert (code, text) == (1, "B is damaged\nruns identical (2 runs)\n")
    assert (
        error == f"fedlapse: {b}: This record is damaged: {name} is {'missing' if gone else 'not as it was sealed'}.\n"
    )
    assert json.loads(fedlapse_diff(a, b, "--format", "json")[1])["damaged"] == ["B"]
    assert fedlapse_diff(b, b)[1].startswith("A and B are damaged\n")


def test_a_record_that_was_interrupted_is_told(two: tuple[Path, Path]) -> None:
    a, b = two
    sealed(a)
    assert fedlapse_diff(a, b)[0::2] == (0, f"fedlapse: {b}: This record has no seal: {INTERRUPTED}.\n")


def test_what_a_person_reads(two: tuple[Path, Path]) -> None:
    a, b = two
    (b / "scenario.yaml").write_text(SCENARIO.replace("strength: 0.5", "strength: 0.7"))
    write(b / "fedcl-s1" / "events.jsonl", changed(3, update="2e"))
    write(b / "fedcl-s1" / "rounds.jsonl", [{**ROUNDS[0], "accuracy": 0.75}])
    (b / "fedcl-s1" / "final.safetensors").write_bytes(b"other")
    left(a, "fedavg-s2")
    assert fedlapse_diff(a, b)[:2] == (
        1,
        """\
scenario: algorithms.fedcl.fedcl.strength: 0.5 -> 0.7
✓ fedavg-s1: identical
✗ fedcl-s1: final model different
    events.jsonl parts at line 4, from 4.25 s simulated on
      A: compute.end pi-4-0 round 0, update = 1f
      B: compute.end pi-4-0 round 0, update = 2e
    rounds.jsonl parts at line 1, from 6.5 s simulated on
      A: round 0, accuracy = 0.5
      B: round 0, accuracy = 0.75
fedavg-s2: only in A
""",
    )


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("scenario.yaml", b"name: other\n"),
        ("fedcl-s1/final.safetensors", b"other"),
        ("fedcl-s1/rounds.jsonl", b""),
        ("fedcl-s1/events.jsonl", b""),
        ("fedprox-s1/events.jsonl", b""),
    ],
)
def test_any_difference_is_exit_code_one(two: tuple[Path, Path], file: str, content: bytes) -> None:
    a, b = two
    (b / file).parent.mkdir(exist_ok=True)
    (b / file).write_bytes(content)
    for pair in ((a, b), (b, a)):
        code, text, _ = fedlapse_diff(*pair)
        assert code == 1
        assert "records identical" not in text
        assert fedlapse_diff(*pair, "--format", "json")[0] == 1


def test_host_summary_and_report_may_differ(two: tuple[Path, Path]) -> None:
    for name in ("host.json", "summary.json", "report.html"):
        (two[1] / name).write_text("anything")
    assert fedlapse_diff(*two)[0] == 0


def test_two_runs_of_one_folder_can_be_compared(two: tuple[Path, Path]) -> None:
    a, _ = two
    assert fedlapse_diff(a / "fedavg-s1", a / "fedcl-s1")[:2] == (0, "records identical (1 run)\n")
    write(a / "fedcl-s1" / "events.jsonl", EVENTS[:3])
    code, text, _ = fedlapse_diff(a / "fedavg-s1", a / "fedcl-s1")
    assert code == 1
    assert text.startswith("✗ fedavg-s1 | fedcl-s1: final model equal\n")


def test_a_run_is_compared_with_its_scenario(two: tuple[Path, Path]) -> None:
    a, b = two
    (b / "scenario.yaml").write_text(SCENARIO.replace("max: 5", "max: 6"))
    code, text, _ = fedlapse_diff(a / "fedavg-s1", b / "fedavg-s1")
    assert (code, text) == (1, "scenario: rounds.max: 5 -> 6\n✓ fedavg-s1: identical\n")


def test_a_missing_model_is_told(two: tuple[Path, Path]) -> None:
    a, b = two
    (a / "fedavg-s1" / "final.safetensors").unlink()
    assert "fedavg-s1: final model only in B" in fedlapse_diff(a, b)[1]
    (b / "fedavg-s1" / "final.safetensors").unlink()
    assert fedlapse_diff(a, b)[0] == 0


def test_json_says_the_same(two: tuple[Path, Path]) -> None:
    a, b = two
    write(b / "fedcl-s1" / "events.jsonl", changed(2, t=1.25))
    (b / "scenario.yaml").write_text(SCENARIO.replace("max: 5", "max: .inf"))
    code, text, _ = fedlapse_diff(a, b, "--format", "json")
    said = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert code == 1
    assert said["identical"] is False
    assert said["scenario"] == [{"key": "rounds.max", "a": 5, "b": "Infinity"}]
    assert said["runs"][0] == {"name": "fedavg-s1", "differences": [], "model": "equal"}
    assert said["runs"][1]["differences"][0] == {
        "file": "events.jsonl",
        "line": 3,
        "time_s": 1.25,
        "a": "down.end pi-4-0 round 0, t = 1.5",
        "b": "down.end pi-4-0 round 0, t = 1.25",
    }
    assert json.loads(fedlapse_diff(a, a, "--format", "json")[1])["identical"] is True


def test_bad_input_is_one_line_and_exit_code_two(two: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = two
    (tmp_path / "empty").mkdir()
    for pair in ((a, tmp_path / "empty"), (tmp_path / "gone", b), (a, b / "fedavg-s1"), (a, a / "scenario.yaml")):
        code, text, error = fedlapse_diff(*pair)
        assert (code, text) == (2, "")
        assert without_notes(error).startswith("fedlapse: ")
        assert without_notes(error).count("\n") == 1
    for content in (b"a: [\n", b"\xff", b"{}: {}: {"):
        (b / "scenario.yaml").write_bytes(content)
        code, text, error = fedlapse_diff(a, b)
        assert (code, text, without_notes(error).count("\n")) == (2, "", 1)
        assert "scenario.yaml is not YAML" in error


@pytest.mark.slow
def test_a_scenario_that_is_nested_too_deeply_is_bad_input(two: tuple[Path, Path]) -> None:
    (two[1] / "scenario.yaml").write_text("[" * 1500)
    code, text, error = fedlapse_diff(*two)
    assert (code, text, without_notes(error).count("\n")) == (2, "", 1)

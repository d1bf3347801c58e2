"""Reading a folder of results."""

import json

import pytest

from emulator.results.results import _unmetered, read
from scenarios.load import build
from tests.conftest import FAST, SMALL, merged

SCENARIO = """
name: trial
seeds: [1, 2]
rounds: {max: 2, fraction: 1.0, targets: [{metric: accuracy, value: 0.5}]}
fleet: [{profile: phone-mid, count: 2, link: {up_mbit_s: 1, down_mbit_s: 1}}]
algorithms: [fedavg, {fedprox: {mu: 0.1}, name: mine}]
"""


def row(number, accuracy):
    return {
        "round": number,
        "time_s": 3.0 * (number + 1),
        "accuracy": accuracy,
        "initial": accuracy,
        "personalised": None,
        "validation": accuracy,
        "loss": 1.0,
        "bytes": {"down": {"weights": 100}, "up": {"weights": 50}},
        "asked": 2,
        "counted": 2,
        "late": 0,
        "lost": 0,
        "refused": 0,
        "wasted_bytes": 0,
        "leverage": {},
        "critical": {
            "device": "phone-mid-1",
            "setup_s": 0.0,
            "down_s": {"weights": 1.0},
            "compute_s": {"train": 1.0},
            "up_s": {"weights": 1.0},
            "server_s": {},
            "wait_s": 0.0,
        },
    }


OPEN = {"t": 0.0, "event": "open", "round": 0, "asked": ["a"], "model": "m"}


@pytest.fixture
def out(tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    for label in ("fedavg", "mine"):
        for seed in (1, 2):
            run = tmp_path / f"{label}-s{seed}"
            run.mkdir()
            lines = [row(0, 0.4), row(1, 0.6 if label == "mine" else 0.45)]
            (run / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            (run / "events.jsonl").write_text(json.dumps(OPEN) + "\n")
    return tmp_path


def test_runs_come_in_the_order_of_the_scenario_with_all_their_rounds(out):
    found = read(out)
    assert {label: list(seeds) for label, seeds in found.runs.items()} == {"fedavg": [1, 2], "mine": [1, 2]}
    assert [line["accuracy"] for line in found.runs["mine"][2]] == [0.4, 0.6]
    assert [event.plain for event in found.events("mine", 1)] == [OPEN]
    assert (found.name, found.host, found.split) == ("trial", {}, None)


def test_a_summary_that_was_never_written_is_worked_out(out):
    """`mine` has 0.6 at the end of its second round: 6 s, and 2 x 150 bytes."""
    target = read(out).summary["labels"]["mine"]["targets"]["accuracy 0.5"]
    assert target["seeds"]["1"] == {"time_s": 6.0, "rounds": 2, "bytes": 300}
    assert read(out).summary["labels"]["fedavg"]["targets"]["accuracy 0.5"]["reached"] == 0


def test_a_summary_that_is_there_is_taken_as_it_is(out):
    (out / "summary.json").write_text('{"labels": {}, "verdict": ["so be it"]}')
    assert read(out).summary["verdict"] == ["so be it"]


def test_a_round_that_was_being_written_is_left_out(out):
    with (out / "mine-s1" / "rounds.jsonl").open("a") as file:
        file.write('{"round": 2, "ti')
    assert len(read(out).runs["mine"][1]) == 2


def test_a_run_may_be_missing_and_another_may_have_no_round_yet(out):
    (out / "mine-s1" / "rounds.jsonl").unlink()
    (out / "mine-s2" / "rounds.jsonl").write_text("")
    (out / "fedavg-s1" / "events.jsonl").unlink()
    found = read(out)
    assert found.runs["mine"] == {2: []}
    assert found.summary["labels"]["mine"]["targets"]["accuracy 0.5"]["reached"] == 0
    assert list(found.events("fedavg", 1)) == []


def test_a_label_without_any_run_is_passed_over(out):
    for seed in (1, 2):
        (out / f"mine-s{seed}" / "rounds.jsonl").unlink()
    assert list(read(out).summary["labels"]) == ["fedavg"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("scenario.yaml", None, "scenario.yaml is missing"),
        ("scenario.yaml", "name: [", "not YAML"),
        ("summary.json", "{", "summary.json is not JSON"),
        ("host.json", "[]", "must hold a JSON object"),
        ("mine-s1/rounds.jsonl", '{"round": 0}\n', "rounds.jsonl:1 lacks time_s"),
        ("mine-s1/rounds.jsonl", "what\n", "rounds.jsonl:1 is not JSON"),
    ],
)
def test_what_is_damaged_is_named_in_one_sentence(out, name, text, said):
    if text is None:
        (out / name).unlink()
    else:
        (out / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        read(out)


def test_a_folder_without_runs_is_refused(tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    with pytest.raises(ValueError, match="holds no runs: expected folders like fedavg-s1, mine-s1"):
        read(tmp_path)


def test_devices_without_watts_are_named_by_their_group(tmp_path):
    """Groups come from the scenario's fleet, not from the names: laptop-b is a group here, and so is laptop."""
    fleet = [{"name": name, "profile": "pi-4", "count": 1, "link": FAST} for name in ("laptop", "laptop-b")]
    scenario = build(merged(SMALL, {"fleet": fleet}))
    asked = {"laptop-0": 3.0, "laptop-b-0": None, "guest": None}
    assert _unmetered(scenario, {"labels": {"x": {"joules_of_devices": asked}}}) == ["guest", "laptop-b"]

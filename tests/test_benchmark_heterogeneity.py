"""The benchmark of a mixed fleet beside an even one: its arithmetic on records made by hand, and its scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import heterogeneity
from benchmarks.devices import PHONES, SECONDS
from benchmarks.heterogeneity import Fleet, beside, busiest, even, failed, found, lengthened
from emulator.lab.build import lab_of
from emulator.record.tally import Usage, seconds
from emulator.results import results
from scenarios.load import build, dump, load
from scenarios.schema.hardware import Presence
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

LINK = {"up_mbit_s": 1, "down_mbit_s": 1}
TARGETS = [{"metric": "accuracy", "value": 0.5}, {"metric": "accuracy", "value": 0.8}]


def trial() -> Scenario:
    """Two seeds; three slow phones that come and go, and one that is twice as slow as its class."""
    habits = {"renewal": {"mean_on_s": 1800, "mean_off_s": 3600}}
    slow = {"name": "slow", "profile": "phone-low", "count": 3, "link": LINK, "presence": habits, "jitter": True}
    quick = {"name": "quick", "profile": "phone-mid", "link": {**LINK, "latency_ms": 7}, "overhead_ms": 6}
    rounds = {"max": 4, "fraction": 0.5, "deadline_s": 60, "targets": TARGETS}
    return build({"name": "trial", "seeds": [1, 2], "rounds": rounds, "fleet": [slow, quick]})


def row(number: int, accuracy: float, useful: str, wasted: str = "", pace: float = 10.0) -> dict[str, Any]:
    """A round that asked the devices a, b ... of these letters."""
    used = {name: Usage(5.0, 1.0, 2.0, 6.0, 0.0) for name in useful}
    used |= {name: Usage(0.0, 3.0, 4.0, 3.0, 0.0) for name in wasted}
    fates = {"asked": len(used), "counted": len(useful), "late": len(wasted), "lost": 0, "refused": 0}
    others: dict[str, Any] = {
        "initial": None,
        "personalised": None,
        "bytes": {},
        "wasted_bytes": 0,
        "leverage": {},
        "critical": {},
    }
    time = {"round": number, "time_s": pace * (number + 1), "accuracy": accuracy}
    return {**time, **fates, **others, "seconds": seconds(used)}


ROWS = [row(0, 0.4, "abc"), row(1, 0.6, "ab", "d"), row(2, 0.7, "a", "bc"), row(3, 0.8, "abd")]  # a 4, b 3, c 1, d 1


def test_who_did_not_count_has_failed() -> None:
    assert failed(ROWS) == pytest.approx(3 / 12)


@pytest.mark.parametrize(
    ("devices", "share"),
    [
        (4, 7 / 9),  # the busiest 30 % are 2 of 4, and useful rounds 9
        (10, 8 / 9),  # 3 of 10, of whom 6 were never asked
        (20, 1.0),
    ],
)
def test_the_busiest_are_a_part_of_all_devices(devices: int, share: float) -> None:
    assert busiest(ROWS, devices) == pytest.approx(share)


def test_a_round_that_failed_was_of_no_use() -> None:
    assert busiest([*ROWS, row(4, 0.8, "", "cd")], 4) == pytest.approx(7 / 9)


@pytest.mark.slow  # it loads a scenario
def test_a_fleet_is_read_from_its_records_seed_by_seed(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(dump(trial()), encoding="utf-8")
    for seed, rows in ((1, ROWS), (2, [row(0, 0.5, "ab"), row(1, 0.7, "ab")])):
        (tmp_path / f"fedavg-s{seed}").mkdir()
        text = "".join(json.dumps(one) + "\n" for one in rows)
        (tmp_path / f"fedavg-s{seed}" / "rounds.jsonl").write_text(text, encoding="utf-8")
    fleet = found(results.read(tmp_path))
    assert fleet.accuracy == [0.8, 0.7]
    assert fleet.time == [40.0, None]  # to the last of the targets
    assert fleet.failed == [pytest.approx(3 / 12), 0.0]
    assert fleet.busiest == [pytest.approx(7 / 9), 1.0]


EVEN = Fleet(accuracy=[0.90, 0.91, 0.92], time=[600.0, 720.0, 900.0], failed=[0.0] * 3, busiest=[0.4, 0.42, 0.44])
MIXED = Fleet(
    accuracy=[0.88, 0.92, 0.91], time=[1500.0, 1440.0, 900.0], failed=[0.1, 0.09, 0.12], busiest=[0.7, 0.75, 0.71]
)


def test_seeds_are_compared_in_pairs() -> None:
    """2.5, 2 and 1 times as long; 2 points less, 1 more, and 1 less."""
    assert lengthened(EVEN, MIXED) == {"mean": pytest.approx(5.5 / 3), "low": 1.0, "high": 2.5}
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in beside(EVEN, MIXED, "accuracy 0.9").split("\n")
    ]
    assert cells[2] == [
        *("accuracy at the end, %", "up to 9.2 points less"),
        *("91.0 [90.0, 92.0]", "90.3 [88.0, 92.0]", "-0.7 [-2.0, +1.0] points"),
    ]
    assert cells[3] == [
        *("time to accuracy 0.9, min", "up to 2.32 times"),
        *("12.3 [10.0, 15.0]", "21.3 [15.0, 25.0]", "1.83 [1.00, 2.50] times"),
    ]
    assert cells[4][1:] == ["over 10", "0.0", "10.3 [9.0, 12.0]", ""]
    assert cells[5][1:] == ["86", "42.0 [40.0, 44.0]", "72.0 [70.0, 75.0]", ""]


def test_a_fleet_that_never_got_there_took_for_ever() -> None:
    never = Fleet(MIXED.accuracy, [None] * 3, MIXED.failed, MIXED.busiest)
    assert lengthened(EVEN, never)["low"] is None
    assert beside(EVEN, never, "accuracy 0.9").count("not reached") == 2


def test_an_even_fleet_is_of_one_class_and_always_there() -> None:
    said = trial()
    made = even(said, "quick")
    assert [(group.name, group.count, group.link) for group in made.fleet] == [
        (group.name, group.count, group.link) for group in said.fleet
    ]
    assert {(group.profile, group.overhead_ms, group.jitter) for group in made.fleet} == {("phone-mid", 6, None)}
    assert {group.presence for group in made.fleet} == {Presence()}
    assert (made.rounds.deadline_s, made.rounds.max) == (None, 4)
    assert (made.data, made.seeds, made.algorithms) == (said.data, said.seeds, said.algorithms)


def test_an_unknown_class_is_told_with_those_there_are() -> None:
    with pytest.raises(BadScenario, match="--like fast: the fleet has no such group; it has slow, quick"):
        even(trial(), "fast")


def test_an_epoch_takes_a_phone_what_flash_measured() -> None:
    """So many batches of FEMNIST's, at the seconds that benchmarks/devices.py has from FLASH."""
    groups = load("flash-phones").fleet
    assert [group.profile for group in groups] == list(PHONES)
    for group, batch in zip(groups, SECONDS["FEMNIST CNN"], strict=True):
        drawn = group.overhead_ms.choice  # type: ignore[union-attr]
        assert drawn == pytest.approx([1000 * batch * batches for batches in (10, 15, 20, 25, 34)])


def test_classes_are_as_many_as_in_flash() -> None:
    weights, groups = (18820, 16428, 159), load("flash-phones").fleet
    for group, weight in zip(groups, weights, strict=True):
        assert group.count == pytest.approx(140 * weight / sum(weights), abs=0.5)


def test_the_slowest_phone_keeps_the_deadline_if_it_stays() -> None:
    """34 batches of 1.642 s, 5 times: 279 s of 310."""
    said = load("flash-phones")
    slowest = max(max(group.overhead_ms.choice) for group in said.fleet)  # type: ignore[union-attr, arg-type]
    assert said.rounds.deadline_s is not None
    assert 0.85 * said.rounds.deadline_s < said.training.epochs * slowest / 1000 < 0.95 * said.rounds.deadline_s


@pytest.mark.slow
def test_an_epoch_is_one_step() -> None:
    said = load("flash-phones", ("seeds=[1]",))
    lab = lab_of(said)
    assert {len(lab.held(1, name)) for name in lab.names} <= set(range(1, said.training.batch + 1))


@pytest.mark.slow
def test_both_fleets_are_played_and_compared() -> None:
    app = typer.Typer()
    app.command()(heterogeneity.main)
    short = ["seeds=[1]", "rounds.max=1", "rounds.targets=[{value: 0.01}]", "--workers", "0"]
    few = ["fleet.low.count=6", "fleet.mid.count=6", "rounds.fraction=0.1", "rounds.min_replies=1"]
    quick = ["training.epochs=1", "training.batch=64"]
    done = CliRunner().invoke(app, [*few, *quick, *short])
    assert done.exit_code == 0, done.output
    assert "the even fleet is like mid" in done.output
    lines = [line for line in done.output.splitlines() if line.startswith("| ")]
    assert len(lines) == 6
    assert "| asked devices that fail, % | over 10 | 0.0 |" in done.output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("rounds.targets=[]", "needs rounds.targets"),
        ("evaluate.every=0", "evaluate.every"),
        ("rounds.max=0", "rounds.max"),
    ],
)
def test_a_bad_change_ends_with_2(change: str, said: str) -> None:
    app = typer.Typer()
    app.command()(heterogeneity.main)
    done = CliRunner().invoke(app, [change])
    assert done.exit_code == 2
    assert said in done.output

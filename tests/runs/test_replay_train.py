"""Replays with --train against fresh runs there, and what scenarios share in one ledger."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from emulator.ledger.ledger import Ledger
from emulator.record.lines import read_lines
from emulator.record.record import FILES, MODEL
from emulator.record.run import RUN
from emulator.record.seal import SEAL
from emulator.sessions.computing import Playing
from emulator.sessions.one_scenario import play_scenario
from scenarios.load import build, dump
from tests.conftest import SMALL, merged
from tests.golden.scenarios import AWAY, FLEET
from tests.runs.in_turn import IN_TURN, InTurn
from tests.runs.nets import DENSE

pytestmark = pytest.mark.slow

Changes = Mapping[str, Any]
OF_RUN = (RUN, *FILES, MODEL, SEAL)
SLOW = {"up_mbit_s": 0.5, "down_mbit_s": 3, "latency_ms": 70}
FAST = {"up_mbit_s": 40, "down_mbit_s": 80, "latency_ms": 1}
ON_FAST = ("--down", "80Mbit/s", "--up", "40Mbit/s", "--latency", "1ms")
TALLY = re.compile(r"training: (\d+) of (\d+) device-rounds from the ledger, (\d+) computed(?:, (\d+) computed again)?")
SCAFFOLD = {"scaffold": {}}  # whose devices keep what they trained
ASYNC = {"rounds": {"mode": "async", "buffer": 2, "in_flight": 3}}
ALL_SLOW = [{**group, "link": SLOW} for group in FLEET]
ALL_FAST = [{**group, "link": FAST} for group in FLEET]
ELSEWHERE = [FLEET[0], {**FLEET[1], "presence": {"off": [[0.1, 2.5]]}}]


@pytest.fixture(autouse=True)
def unreported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole page takes seconds."""
    from emulator.report import page

    monkeypatch.setattr(page, "page", lambda results: "a page")


def scenario(changes: Changes, *more: Changes) -> Any:
    found = merged(SMALL, {"seeds": [1], **changes})
    for each in more:
        found = merged(found, each)
    return build(found)


def compared(out: Path, made: Any, ledger: Path | None = None) -> Path:
    """The scenario's runs, played by `compare`."""
    playing = Playing(workers=0, quiet=True, ledger=ledger, no_ledger=ledger is None)
    ended = play_scenario(made, playing, out=out)
    assert ended.code == 0
    if ended.tally:
        print(ended.tally.sentence())  # as the command does
    return out


def tally(text: str) -> tuple[int, ...]:
    """Device-rounds: known, all, computed, computed again."""
    (found,) = TALLY.findall(text)
    return tuple(int(number or 0) for number in found)


def assert_same_runs(one: Path, other: Path) -> None:
    runs = sorted(path.name for path in other.glob("*-s*"))
    assert runs
    assert sorted(path.name for path in one.glob("*-s*")) == runs
    for run in runs:
        for name in OF_RUN:
            assert (one / run / name).read_bytes() == (other / run / name).read_bytes(), (run, name)


# --- other links, exact for ever

# Subjects of the runs and of the other setting: their name on a command line, and their change to the scenario.
OTHERWISE: dict[str, tuple[Changes, tuple[str, ...] | None, Changes]] = {
    "deadline": (
        {
            "algorithms": ["fedavg", {"fedcl": {"interval": 2}}],
            "rounds": {"max": 4, "deadline_s": 1.3},
            "fleet": FLEET,
        },
        ON_FAST,
        {"fleet": ALL_FAST},
    ),
    "first": (
        {"algorithms": [{"fedcurv": {}}, SCAFFOLD], "rounds": {"max": 4, "fraction": 0.5, "ask": 3}, "fleet": FLEET},
        None,
        {"fleet": [{**FLEET[0], "link": SLOW}, FLEET[1]]},
    ),
    "finish": (
        {
            "algorithms": [{"fedprox": {"mu": 0.1}}],
            "rounds": {"max": 4, "deadline_s": 1.1, "stragglers": "finish"},
            "fleet": FLEET,
        },
        ON_FAST,
        {"fleet": ALL_FAST},
    ),
    "stacks": (
        {
            "model": DENSE,
            "training": {"stack": 3},
            "algorithms": ["fedavg", {"fedcl": {"interval": 2}}],
            "rounds": {"max": 4, "deadline_s": 0.08},
            "fleet": FLEET,
        },
        ON_FAST,
        {"fleet": ALL_FAST},
    ),
    "presence": ({"algorithms": ["fedavg", SCAFFOLD], "rounds": {"max": 4}, "fleet": AWAY}, None, {"fleet": ELSEWHERE}),
    "asynchronous": (
        {"algorithms": [{"fedbuff": ASYNC}, {"fedcurv": ASYNC}], "rounds": {"max": 3}, "fleet": FLEET},
        ON_FAST,
        {"fleet": ALL_FAST},
    ),
    "own rule": (
        {"algorithms": [IN_TURN], "rounds": {"max": 4, "fraction": 0.5}, "fleet": FLEET},
        None,
        {"fleet": AWAY},
    ),
    "early end": (
        {
            "rounds": {"max": 6, "deadline_s": 1.3, "stop_at": {"metric": "accuracy", "value": 0.3}},
            "fleet": FLEET,
        },
        ON_FAST,
        {"fleet": ALL_FAST},
    ),
}


@pytest.mark.parametrize("name", sorted(OTHERWISE))
def test_where_a_decision_differs_the_result_is_that_of_a_fresh_run(fedlapse: Any, tmp_path: Path, name: str) -> None:
    changes, options, there = OTHERWISE[name]
    other = scenario(changes, there)
    (tmp_path / "other.yaml").write_text(dump(other))
    options = options or ("--fleet", "other.yaml")
    ledger = tmp_path / "ledger"
    record = compared(tmp_path / "record", scenario(changes), ledger)
    plain = fedlapse("replay", record, *options, "--workers", 0, "--format", "json")
    assert json.loads(plain.stdout)["settings"][1]["not_exact"]
    fresh = compared(tmp_path / "fresh", other)
    arguments = ("replay", record, *options, "--train", "--quiet", "--workers", 0)
    done = fedlapse(*arguments, "--ledger", ledger, "--out", tmp_path / "new")
    assert (done.returncode, done.stderr) == (0, "")
    known, _, computed, _ = tally(done.stdout)
    assert known > 0
    assert computed > 0
    assert_same_runs(tmp_path / "new", fresh)
    assert fedlapse("audit", tmp_path / "new").returncode == 0
    alone = fedlapse(*arguments, "--no-ledger", "--out", tmp_path / "alone")
    assert "training: everything was computed, because there was no ledger\n" in alone.stdout
    assert_same_runs(tmp_path / "alone", fresh)
    for left in ("replay.json", "summary.json"):
        assert (tmp_path / "alone" / left).read_bytes() == (tmp_path / "new" / left).read_bytes()


def test_with_equal_decisions_nothing_is_computed(fedlapse: Any, tmp_path: Path) -> None:
    """Neither of several settings, nor again to have the models that they end with."""
    changes = {"algorithms": ["fedavg", SCAFFOLD], "rounds": {"max": 3}, "fleet": FLEET}
    record = compared(tmp_path / "record", scenario(changes), tmp_path / "ledger")
    options = ("--down", "1Mbit/s", "3Mbit/s", "--up", "0.5Mbit/s", "--latency", "70ms", "--events", "--train")
    done = fedlapse(
        "replay", record, *options, "--quiet", "--workers", 0, "--ledger", tmp_path / "ledger", "--out", "new"
    )
    assert (done.returncode, done.stderr) == (0, "")
    # of 4 devices, 2 runs and 2 settings: 3 rounds, and `personalised` after the last
    assert tally(done.stdout) == (4 * 4 * 2 * 2, 4 * 4 * 2 * 2, 0, 0)
    assert_same_runs(tmp_path / "new" / "3Mbit-s", compared(tmp_path / "fresh", scenario(changes, {"fleet": ALL_SLOW})))


def test_the_models_that_several_settings_end_with_are_not_trained_twice(fedlapse: Any, tmp_path: Path) -> None:
    changes = {"rounds": {"max": 3, "fraction": 0.5, "ask": 3}, "fleet": FLEET}
    record = compared(tmp_path / "record", scenario(changes))
    (tmp_path / "other.yaml").write_text(dump(scenario(changes, {"fleet": [{**FLEET[0], "link": SLOW}, FLEET[1]]})))
    options = ("--fleet", "other.yaml", "--up", "0.2Mbit/s", "20Mbit/s", "--events", "--train", "--workers", 0)
    first, second = (
        fedlapse("replay", record, *options, "--ledger", tmp_path / "ledger", "--out", f"new-{turn}") for turn in (1, 2)
    )
    assert first.stderr.startswith("fedlapse: the ledger does not have 1 run of the record: about ")
    assert tally(first.stdout)[2] > 0
    known, total, computed, again = tally(second.stdout)
    assert "does not have" not in second.stderr
    assert (known, computed, again) == (total, 0, 0)
    for setting in ("0.2Mbit-s", "20Mbit-s"):
        assert_same_runs(tmp_path / "new-2" / setting, tmp_path / "new-1" / setting)


def test_without_a_ledger_it_says_before_how_much_is_trained(fedlapse: Any, tmp_path: Path) -> None:
    record = compared(tmp_path / "record", scenario({"rounds": {"max": 2}, "fleet": FLEET}))
    options = ("--down", "3Mbit/s", "4Mbit/s", "--symmetric", "--train", "--workers", 0)
    done = fedlapse("replay", record, *options)
    # 4 devices in 2 rounds and for `personalised`
    said = "fedlapse: there is no ledger: about 12 device-rounds are trained in each of 2 settings\n"
    assert (done.returncode, done.stderr.splitlines(keepends=True)[0]) == (0, said)


@pytest.mark.parametrize("own", [{}, ASYNC], ids=["synchronous", "asynchronous"])
def test_the_cells_of_a_map_are_fresh_runs(
    fedlapse: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: Changes
) -> None:
    from emulator.report import winners

    monkeypatch.setattr(winners, "png", lambda shown: b"png")
    rounds = {"max": 3, **({} if own else {"deadline_s": 3})}
    changes = {"algorithms": [{"fedavg": own}, {"fedcurv": own}], "rounds": rounds, "fleet": FLEET}
    ledger = tmp_path / "ledger"
    record = compared(tmp_path / "record", scenario(changes), ledger)
    common = ("--workers", 0, "--ledger", ledger, "--train", "--quiet")
    done = fedlapse(
        "map", record, "--uplink", "1..50Mbit/s", "--points", 2, "--target", "all rounds", "--out", "map", *common
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert tally(done.stdout)[2] > 0
    cells = json.loads((tmp_path / "map" / "map.json").read_text())["cells"]
    both = fedlapse("replay", record, "--up", "1Mbit/s", "50Mbit/s", "--format", "json", *common)
    settings = json.loads(both.stdout)["settings"][1:]
    times = [{label: of["1"] for label, of in each["times_s"]["all rounds"].items()} for each in settings]
    assert [cell["times"] for cell in cells] == [
        {label: None if at == "not known" else at for label, at in each.items()} for each in times
    ]
    assert times[0]["fedavg"] > times[1]["fedavg"]
    again = fedlapse("map", record, "--uplink", "1..50Mbit/s", "--points", 2, "--out", "again", *common)
    assert tally(again.stdout)[2] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--train", "--anyway"), "--anyway and --train are given; --anyway assumes what --train trains"),
        (("--no-ledger",), "--no-ledger is for --train"),
        (("--ledger", "here"), "--ledger is for --train"),
        (("--keep-states", "1"), "--keep-states is for --train"),
    ],
)
@pytest.mark.parametrize("command", [("replay",), ("map", "--uplink", "1..2Mbit/s")])
def test_what_does_not_go_together_is_refused_in_one_line(
    fedlapse: Any, tmp_path: Path, command: tuple[str, ...], options: tuple[str, ...], said: str
) -> None:
    name, *links = command
    record = compared(tmp_path / "record", scenario({"algorithms": ["fedavg", SCAFFOLD], "rounds": {"max": 1}}))
    done = fedlapse(name, record, *links, *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


def test_an_own_algorithm_that_fails_now_is_told_in_one_line(
    fedlapse: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = compared(tmp_path / "record", scenario({"algorithms": [IN_TURN], "rounds": {"max": 2, "fraction": 0.5}}))

    def train(*_: object) -> None:
        raise ValueError("nothing goes")

    monkeypatch.setattr(InTurn, "train", train, raising=False)
    done = fedlapse("replay", record, "--train", "--quiet", "--workers", 0, "--out", "new")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "nothing goes" in done.stderr
    assert "in-turn-s1 ends early: in-turn, seed 1, round 0, device phone-mid-0:" in done.stdout


# --- what scenarios share in a ledger

PHONES, PIS = {**FLEET[0], "name": "phone"}, {**FLEET[1], "name": "pi"}
BASE: Changes = {
    "rounds": {"max": 3},
    "fleet": [PHONES, PIS],
    "evaluate": {"personalise_every": "never"},
    "data": {"validation": 0},
}
# The differences, and the round from which the pis no longer count.
SHARING: dict[str, tuple[Changes, int | None]] = {
    "links": ({"fleet": [{**PHONES, "link": SLOW}, {**PIS, "link": SLOW}]}, None),
    "profiles": ({"fleet": [PHONES, {**PIS, "profile": "laptop"}], "server": {"profile": "laptop"}}, None),
    "deadlines": ({"rounds": {"deadline_s": 1.3}}, 0),
    "presence": ({"fleet": [PHONES, {**PIS, "presence": {"off": [[3.9, 1e6]]}}]}, 2),
}


def trainings(run: Path) -> dict[int, int]:
    """The number of trainings that a run has begun, by round."""
    found: dict[int, int] = {}
    for line in read_lines(run / "events.jsonl"):
        if line["event"] == "compute.start":
            found[line["round"]] = found.get(line["round"], 0) + 1
    return found


def counted(run: Path) -> dict[int, set[str]]:
    return {
        line["round"]: set(line["counted"]) for line in read_lines(run / "events.jsonl") if line["event"] == "close"
    }


@pytest.mark.parametrize("name", sorted(SHARING))
def test_scenarios_share_what_they_train_up_to_the_first_difference_in_who_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    changes, differs = SHARING[name]
    one = compared(tmp_path / "one", scenario(BASE), tmp_path / "ledger") / "fedavg-s1"
    assert tally(capsys.readouterr().out) == (0, 12, 12, 0)  # 4 devices in 3 rounds
    other = compared(tmp_path / "other", scenario(BASE, changes), tmp_path / "ledger") / "fedavg-s1"
    known, total, computed, again = tally(capsys.readouterr().out)
    unlike = [round for round, who in counted(other).items() if who != counted(one)[round]]
    assert min(unlike, default=None) == differs
    last = 2 if differs is None else differs
    begun = trainings(other)
    assert known == sum(number for round, number in begun.items() if round <= last)
    assert computed == sum(number for round, number in begun.items() if round > last)
    assert total == known + computed
    assert (again > 0) == (differs is not None)  # the messages of that round are combined anew
    alone = compared(tmp_path / "alone", scenario(BASE, changes))
    assert_same_runs(tmp_path / "other", alone)


def test_a_run_that_parts_from_others_where_one_has_before_computes_that_round_alone_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model there is kept once it was made again: for the first to part by the trainings of both rounds before."""
    phones_away = {"fleet": [{**PHONES, "presence": {"off": [[3.5, 1e6]]}}, PIS]}
    for name, changes, again in (("one", {}, 0), ("two", SHARING["presence"][0], 4 + 4 + 2), ("three", phones_away, 2)):
        compared(tmp_path / name, scenario(BASE, changes), tmp_path / "ledger")
        assert tally(capsys.readouterr().out)[2:] == (0 if again else 12, again)


def test_strengths_share_round_0_and_the_evaluation_of_equal_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no penalty in round 0, so the models before and after it are equal, and those after 1 and 2 are not.

    To train on in another way takes what the 4 devices kept in round 0, which is made once more.
    """
    place = tmp_path / "ledger"
    for strength, expected, evaluated in ((1, (0, 12, 12, 0), 4), (10, (4, 12, 8, 4), 6), (100, (4, 12, 8, 4), 8)):
        made = scenario(BASE, {"algorithms": [{"fedcurv": {"strength": strength}}]})
        compared(tmp_path / f"of-{strength}", made, place)
        assert tally(capsys.readouterr().out) == expected
        ledger = Ledger(place, print)
        assert ledger.facts.counts()["evaluate"] == evaluated
        ledger.close(False)


def test_it_keeps_the_models_of_as_many_rounds_as_it_is_asked_to(fedlapse: Any, tmp_path: Path) -> None:
    record = compared(tmp_path / "record", scenario({"algorithms": ["fedavg"], "rounds": {"max": 3}}))
    for name, more in (("last", ()), ("each", ("--keep-states", 1))):
        words = ("replay", record, "--latency", "5ms", "--train", "--quiet", "--out", tmp_path / f"of-{name}")
        assert fedlapse(*words, "--workers", 0, "--ledger", tmp_path / name, *more).returncode == 0
    last, each = (len(list((tmp_path / name / "kept").iterdir())) for name in ("last", "each"))
    assert each == 3 * last > 0

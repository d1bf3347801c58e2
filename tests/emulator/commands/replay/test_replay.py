"""`fedlapse replay` and `map` as commands: tables, folders, what they refuse, and what a Ctrl-C leaves.

The record is a rehearsal's, in which nobody trains; its accuracies are written into it.
"""

import asyncio
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from emulator.forecast.rehearsal import Understudy
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.metrics import Schedule
from emulator.play.run import run_virtual
from emulator.record.run import Run
from emulator.record.seal import seal_results, seal_run
from emulator.replay import batch
from emulator.replay.replayer import Replayer
from emulator.sessions.folder import alone
from emulator.sessions.replaying import counted
from scenarios.load import build, dump
from tests.all_of import all_of
from tests.conftest import SMALL, audit_run, merged

ROOT = Path(__file__).parents[4]
CHANGES = {
    "rounds": {"max": 3, "targets": [{"value": 0.5}], "deadline_s": 60.0},
    "algorithms": ["fedavg", {"fedcurv": {}}],
    "seeds": [1],
}
ACCURACIES = {"fedavg": (0.1, 0.6, 0.6), "fedcurv": (0.6, 0.6, 0.7)}  # to 0.5 fedavg takes 2 rounds, fedcurv 1


def rehearsed(folder, scenario):
    """Plays all runs of a scenario without training, and gives their rounds these accuracies."""
    (folder / "scenario.yaml").write_text(dump(scenario))
    lab = lab_of(scenario)
    conduct = replace(Conduct.of(scenario), schedule=Schedule(0, 0), stop_at=None)
    for label in lab.algorithms:
        run, where = Run(label, 1), folder / f"{label}-s1"
        asyncio.run(run_virtual(lab, run, conduct, Understudy(lab, run), where))
        rows = [json.loads(line) for line in (where / "rounds.jsonl").read_text().splitlines()]
        for row, accuracy in zip(rows, ACCURACIES[label], strict=True):
            row["accuracy"] = accuracy
        (where / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        seal_run(where)
    seal_results(folder)


@pytest.fixture(scope="module")
def scenario():
    return build(merged(SMALL, CHANGES))


@pytest.fixture(scope="module")
def record(tmp_path_factory, scenario):
    """A folder of runs; nobody writes into it."""
    folder = tmp_path_factory.mktemp("record") / "runs"
    folder.mkdir()
    rehearsed(folder, scenario)
    return folder


@pytest.fixture
def fleet(tmp_path):
    """Writes a scenario whose fleet differs from the record's."""

    def write(**pis):
        phones, pi = SMALL["fleet"]
        path = tmp_path / "fleet.yaml"
        path.write_text(dump(build(merged(SMALL, {**CHANGES, "name": "other", "fleet": [phones, {**pi, **pis}]}))))
        return path

    return write


def times(done, number, target="accuracy 0.5"):
    """Seconds by label, of one setting of what --format json says."""
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["settings"][number]["times_s"][target]
    return {label: seeds["1"] for label, seeds in said.items()}


def refused(done):
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, ""), (done.stdout, done.stderr)
    return done.stderr


# --- the table


def test_the_table_has_a_row_for_each_setting_and_says_where_the_order_turns(fedlapse, record, tmp_path):
    """FedAvg sends the model down twice and up twice, FedCurv once down, and up thrice as much: so FedCurv is first
    where downloads are what takes long."""
    down, up = ("--down", "2Mbit/s", "1Mbit/s"), ("--up", "0.5Mbit/s", "900Mbit/s")
    done = fedlapse("replay", record, *down, *up, "--out", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    rows = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert rows["links"].split()[-3:] == ["fedcurv", "lowest", "mean"]
    assert rows["as recorded"].split()[-1] == rows["2Mbit/s"].split()[-1] == "fedavg"
    assert rows["1Mbit/s"].endswith("fedcurv (order changes)")
    assert "Order at accuracy 0.5 by mean time: fedavg, fedcurv. It changes on 1Mbit/s.\n" in done.stdout
    assert "the uplink is 0.5Mbit/s (2Mbit/s)\nthe uplink is 900Mbit/s (1Mbit/s)\n" in done.stdout


def test_an_order_that_holds_everywhere_is_said_to(fedlapse, record, tmp_path):
    done = fedlapse("replay", record, "--down", "4Mbit/s", "--up-ratio", "0.25", "--out", tmp_path / "new")
    assert "by mean time: fedavg, fedcurv. It is the same in every setting.\n" in done.stdout
    assert done.stdout.startswith("small: mean time until accuracy 0.5 in s, network model ideal\n")
    assert "order changes" not in done.stdout
    assert "tie" not in done.stdout


def test_a_tie_is_said_to_be_one_and_turns_nothing(fedlapse, record, tmp_path):
    """Where up and down are equally fast, two rounds of each take as long as one download and three uploads, apart from
    the computing."""
    done = fedlapse("replay", record, "--down", "2Mbit/s", "--symmetric", "--out", tmp_path / "new")
    rows = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert rows["2Mbit/s"].split()[-1] == "tie"
    assert "It is the same in every setting" in done.stdout
    assert "order changes" not in done.stdout
    assert "assumed: the uplink is as fast as the downlink\n" in done.stdout
    said = json.loads((tmp_path / "new" / "replay.json").read_text())
    assert said["settings"][1]["first"]["accuracy 0.5"] == "tie"


@pytest.fixture
def short(record, tmp_path):
    """The record, had it been after an accuracy that nobody reached."""
    folder = tmp_path / "short"
    shutil.copytree(record, folder)
    text = (folder / "scenario.yaml").read_text()
    assert text.count("value: 0.5") == 1
    (folder / "scenario.yaml").write_text(text.replace("value: 0.5", "value: 0.9"))
    return folder


def ends(folder):
    """By label: seconds of all rounds, as recorded."""
    rows = {label: (folder / f"{label}-s1" / "rounds.jsonl").read_text().splitlines()[-1] for label in ACCURACIES}
    return {label: json.loads(row)["time_s"] for label, row in rows.items()}


def test_where_no_target_is_reached_the_time_of_all_rounds_is_told(fedlapse, short, tmp_path):
    done = fedlapse("replay", short, "--down", "2Mbit/s", "--symmetric", "--out", tmp_path / "new")
    assert "mean time for all 3 rounds in s, network model ideal\n" in done.stdout
    assert "fastest to the end of all 3 rounds: 1 seed is too few" in done.stdout
    assert "accuracy 0.9: no run of the record reaches it\n" in done.stdout
    assert "not reached" not in done.stdout
    said = json.loads((tmp_path / "new" / "replay.json").read_text())["settings"]
    assert said[0]["times_s"]["all rounds"] == {label: {"1": at} for label, at in ends(short).items()}
    assert said[0]["times_s"]["accuracy 0.9"] == {label: {"1": None} for label in ACCURACIES}


def test_what_all_rounds_take_is_not_told_beside_targets_that_are_reached(fedlapse, record, tmp_path):
    done = fedlapse("replay", record, "--down", "2Mbit/s", "--symmetric", "--out", tmp_path / "new")
    assert "all 3 rounds" not in done.stdout


# --- another fleet


def test_the_runs_own_fleet_is_the_record(fedlapse, record, fleet, tmp_path):
    done = fedlapse("replay", record, "--fleet", fleet(), "--out", tmp_path / "new", "--format", "json")
    assert times(done, 1) == pytest.approx(times(done, 0))
    assert json.loads(done.stdout)["settings"][1]["assumptions"] == [
        "fleet and server of other; devices matched by name"
    ]


def test_another_fleet_has_its_name_and_what_algorithms_take_beside_each_other(fedlapse, record, fleet, tmp_path):
    slow = fleet(link={**SMALL["fleet"][1]["link"], "up_mbit_s": 1})
    done = fedlapse("replay", record, "--fleet", slow, "--out", tmp_path / "new")
    told = json.loads((tmp_path / "new" / "replay.json").read_text())["settings"]
    at = [of["times_s"]["accuracy 0.5"] for of in told]
    own, other = (seconds["fedcurv"]["1"] / seconds["fedavg"]["1"] for seconds in at)
    assert f"\nNot distinguishable from it: fedcurv {own:.2f}x (" in done.stdout
    assert f"\nOn other, over fedavg: fedcurv {other:.2f}x.\n" in done.stdout
    assert [line.split("  ")[0] for line in done.stdout.splitlines() if line.startswith("other  ")] == ["other"]


def test_an_uplink_of_half_the_rate_takes_twice_as_long(fedlapse, record, fleet, tmp_path):
    """The pis' replies are waited for: each of the two rounds is later by what they took."""
    link = {**SMALL["fleet"][1]["link"], "up_mbit_s": 1}
    done = fedlapse(
        "replay", record, "--fleet", fleet(link=link), "-a", "fedavg", "--out", tmp_path / "new", "--format", "json"
    )
    rows = [json.loads(line) for line in (record / "fedavg-s1" / "rounds.jsonl").read_text().splitlines()][:2]
    uploads = sum(sum(row["critical"]["up_s"].values()) for row in rows)
    assert times(done, 1)["fedavg"] - times(done, 0)["fedavg"] == pytest.approx(uploads, rel=0.05)


# --- where a replay is not exact


def some_are_late(fleet):
    """A fleet whose pis miss every deadline."""
    return fleet(link={**SMALL["fleet"][1]["link"], "up_mbit_s": 0.01})


def late(fedlapse, record, fleet, tmp_path, *more):
    """Replays on pis that miss every deadline."""
    return fedlapse("replay", record, "--fleet", some_are_late(fleet), "--out", tmp_path / "new", *more)


def test_it_stops_where_a_decision_comes_out_otherwise_and_says_how_to_go_on(fedlapse, record, fleet, tmp_path):
    done = late(fedlapse, record, fleet, tmp_path)
    assert "fedavg-s1 is not exact from round 1 on: pi-4-0 and pi-4-1 are no longer aggregated" in done.stdout
    assert "--anyway continues" in done.stdout
    assert "by mean time: fedavg, fedcurv. No other setting has a known order.\n" in done.stdout
    assert done.stdout.count("not known") == 2  # the two times
    assert "\nSignificantly slower: unknown with fewer than 6 seeds.\n" in done.stdout
    assert json.loads((tmp_path / "new" / "replay.json").read_text())["flips"]["accuracy 0.5"] == []


def test_anyway_a_round_without_replies_leaves_the_accuracy_where_it_was(fedlapse, record, fleet, tmp_path):
    """All devices are gone in round 0, which fails; the models of rounds 1 and 2 are taken for the record's first two.
    So FedAvg reaches 0.1 and 0.6 one round later than recorded, and FedCurv 0.6 in round 1."""
    gone = {"presence": {"off": [[0.1, 100.0]]}}
    phones, pis = ({**group, **gone} for group in SMALL["fleet"])
    (tmp_path / "gone.yaml").write_text(dump(build(merged(SMALL, {**CHANGES, "fleet": [phones, pis]}))))
    new = tmp_path / "new"
    done = fedlapse("replay", record, "--fleet", tmp_path / "gone.yaml", "--anyway", "--out", new, "--format", "json")
    rows = {
        label: [json.loads(line) for line in (new / f"{label}-s1" / "rounds.jsonl").read_text().splitlines()]
        for label in ACCURACIES
    }
    for of in rows.values():
        assert [row["failed"] for row in of] == [True, False, False]
    assert [row["accuracy"] for row in rows["fedavg"]] == [None, 0.1, 0.6]
    assert [row["accuracy"] for row in rows["fedcurv"]] == [None, 0.6, 0.6]
    assert times(done, 1) == {"fedavg": rows["fedavg"][2]["time_s"], "fedcurv": rows["fedcurv"][1]["time_s"]}
    assert json.loads(done.stdout)["settings"][1]["accuracies_assumed"]["accuracy 0.5"] == ["fedavg", "fedcurv"]
    assert audit_run(new / "fedavg-s1") == []


def test_anyway_a_run_without_a_reply_is_not_first(fedlapse, record, tmp_path):
    """On 2 kbit/s no reply is in time in any of the three rounds, so nobody's model ever moved."""
    links = ("--down", "0.002Mbit/s", "--symmetric")
    done = fedlapse("replay", record, *links, "--anyway", "--out", tmp_path / "new", "--format", "json")
    said = json.loads(done.stdout)["settings"][1]
    assert times(done, 1) == {"fedavg": "not known", "fedcurv": "not known"}
    assert said["first"]["accuracy 0.5"] is None
    assert [failure.split(":")[0] for failure in said["failures"]] == ["fedavg-s1 ends early", "fedcurv-s1 ends early"]


def test_anyway_it_goes_on_with_the_accuracies_of_the_record(fedlapse, record, fleet, tmp_path):
    """Each round lasts until its deadline."""
    done = late(fedlapse, record, fleet, tmp_path, "--anyway", "--format", "json")
    assert times(done, 1) == pytest.approx({"fedavg": 120.0, "fedcurv": 60.0}, rel=0.01)
    assert json.loads(done.stdout)["settings"][1]["not_exact"][0].startswith("fedavg-s1 is not exact from round 1 on")


def test_a_replay_that_ends_early_is_not_fast(fedlapse, record, fleet, tmp_path):
    """Everyone is gone for good after a tenth of a second: no round is closed, and there is no time to tell."""
    gone = {"presence": {"off": [[0.1, float("inf")]]}}
    phones, pis = ({**group, **gone} for group in SMALL["fleet"])
    other = build(merged(SMALL, {**CHANGES, "fleet": [phones, pis]}))
    (tmp_path / "gone.yaml").write_text(dump(other))
    arguments = ("--fleet", tmp_path / "gone.yaml", "--anyway", "-a", "fedavg", "--format", "json")
    done = fedlapse("replay", record, *arguments, "--out", tmp_path / "new")
    assert times(done, 1) == {"fedavg": "not known"}
    (ended,) = json.loads(done.stdout)["settings"][1]["failures"]
    assert ended.startswith("fedavg-s1 ends early: after second")


# --- folders


@pytest.mark.parametrize("where", [".", "new", "fedavg-s1", ".."])
def test_the_runs_themselves_are_no_place_for_replays(fedlapse, record, where):
    """--force would empty it."""
    before = sorted(record.parent.rglob("*"))
    out = record / where
    said = refused(fedlapse("replay", record, "--down", "1Mbit/s", "--symmetric", "--out", out, "--force"))
    assert "whose runs are replayed" in said
    assert sorted(record.parent.rglob("*")) == before


@pytest.fixture(scope="module")
def replays(record, tmp_path_factory):
    """The files that a replay wrote."""
    from typer.testing import CliRunner

    from emulator.__main__ import app

    out = tmp_path_factory.mktemp("replays") / "new"
    arguments = ["replay", record, "--down", "9Mbit/s", "--up-ratio", "0.5", "--out", out]
    assert CliRunner().invoke(app, list(map(str, arguments))).exit_code == 0
    return out


@pytest.mark.parametrize("arguments", [("replay",), ("map", "--uplink", "1..9Mbit/s")])
@pytest.mark.parametrize("of", [".", "fedavg-s1"])
def test_replays_are_no_runs_to_replay(fedlapse, replays, arguments, of):
    """Their timelines are not those of the scenario that lies beside them."""
    command, *more = arguments
    assert "holds replays; give the folder of the runs" in refused(fedlapse(command, replays / of, *more))


@pytest.mark.slow
def test_a_folder_that_another_command_writes_to_is_not_emptied(fedlapse, record, replays):
    arguments = ("replay", record, "--down", "9Mbit/s", "--symmetric", "--out", replays, "--force")
    before = sorted(replays.rglob("*"))
    with alone(replays):
        assert refused(fedlapse(*arguments)).startswith(f"fedlapse: another fedlapse is writing to {replays}; ")
    assert sorted(replays.rglob("*")) == before


@pytest.mark.slow
def test_a_report_says_that_these_are_replays_and_what_was_assumed(fedlapse, record, replays):
    done = fedlapse("report", replays, "--format", "markdown")
    assert done.returncode == 0, done.stderr
    assert f"Replays, no runs: the runs in {record}" in done.stdout.replace("\\", "")
    assert "on “9Mbit/s”" in done.stdout
    assert "assumed: uplink = 0.5 x downlink" in done.stdout


@pytest.mark.slow
def test_timelines_of_several_settings_are_kept_if_wanted_and_replaced_by_force(fedlapse, record, tmp_path):
    out = tmp_path / "new"
    arguments = ("replay", record, "--down", "1Mbit/s", "2Mbit/s", "--symmetric", "-a", "fedavg", "--out", out)
    assert fedlapse(*arguments, "--events").returncode == 0
    assert sorted(path.parent.relative_to(out).as_posix() for path in out.rglob("events.jsonl")) == [
        "1Mbit-s/fedavg-s1",
        "2Mbit-s/fedavg-s1",
    ]
    done = fedlapse("audit", out)
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            f"✓ {out}",
            *(f"✓ {out / name}" for name in ("1Mbit-s", "1Mbit-s/fedavg-s1", "2Mbit-s", "2Mbit-s/fedavg-s1")),
            "5 of 5 folders obey the laws",
        ],
    )
    slow, fast = (
        json.loads((out / name / "fedavg-s1" / "rounds.jsonl").read_text().splitlines()[-1])["time_s"]
        for name in ("1Mbit-s", "2Mbit-s")
    )
    assert slow > fast
    said = json.loads((out / "2Mbit-s" / "replay.json").read_text())
    assert [each["name"] for each in said["settings"]] == ["as recorded", "2Mbit/s"]
    assert "holds another run" in refused(fedlapse(*arguments))
    assert fedlapse(*arguments, "--force").returncode == 0
    assert sorted(path.name for path in out.iterdir()) == ["host.json", "replay.json", "scenario.yaml", "seal.json"]


# --- progress, and what is left of a replay that is broken off


def test_a_terminal_sees_how_many_are_done_and_when_the_rest_will_be():
    """4 in 8 s: the other 6 take 12."""
    screen, ticks = io.StringIO(), iter([0.0, 8.0])
    with counted(10, Console(file=screen, force_terminal=True, width=60), lambda: next(ticks)) as tell:
        tell(4)
    assert "10" in screen.getvalue()
    said = io.StringIO()
    for elsewhere in (Console(file=said), Console(file=said, force_terminal=True, quiet=True)):
        with counted(10, elsewhere) as tell:
            tell(4)
    assert said.getvalue() == ""


@pytest.mark.parametrize("command", [("replay", "--down", "1Mbit/s", "--symmetric"), ("map", "--uplink", "1..2Mbit/s")])
def test_quiet_replays_say_nothing_until_they_are_done(fedlapse, record, tmp_path, undrawn, command):
    name, *links = command
    points = ("--points", "2") if name == "map" else ()
    done = fedlapse(name, record, *links, *points, "--quiet", "--workers", "0", "--out", tmp_path / "new")
    assert (done.returncode, done.stderr) == (0, "")


def interrupted_after(monkeypatch, count):
    """A Ctrl-C in the replay that comes then."""
    made, really = [], Replayer.replay

    def play(self, script, setting, folder=None, anyway=False):
        if len(made) == count:
            if folder is not None:
                folder.mkdir(parents=True)
                (folder / "events.jsonl").write_text('{"half":')
            raise KeyboardInterrupt
        made.append(script)
        return really(self, script, setting, folder, anyway)

    monkeypatch.setattr(Replayer, "replay", play)


def test_ctrl_c_leaves_what_was_replayed_and_says_so(fedlapse, record, tmp_path, monkeypatch):
    interrupted_after(monkeypatch, 3)
    out = tmp_path / "new"
    done = fedlapse("replay", record, "--down", "1Mbit/s", "2Mbit/s", "3Mbit/s", "--symmetric", "--out", out)
    assert done.returncode == 130
    assert done.stderr == f"fedlapse: stopped; what was replayed until then is in {out}\n"
    said = json.loads((out / "replay.json").read_text())
    assert (said["finished"], [each["name"] for each in said["settings"]]) == (
        False,
        ["as recorded", "1Mbit/s", "2Mbit/s"],
    )
    at = said["settings"][2]["times_s"]["accuracy 0.5"]
    assert at["fedavg"]["1"] > 0
    assert at["fedcurv"]["1"] == "not known"
    assert "not known" in done.stdout


def test_ctrl_c_leaves_no_half_timeline(fedlapse, record, tmp_path, monkeypatch):
    interrupted_after(monkeypatch, 1)
    out = tmp_path / "new"
    assert fedlapse("replay", record, "--down", "1Mbit/s", "--symmetric", "--out", out).returncode == 130
    assert [path.parent.name for path in out.glob("*/events.jsonl")] == ["fedavg-s1"]
    assert (out / "scenario.yaml").is_file()
    assert json.loads((out / "summary.json").read_text())["interrupted"]


def test_a_worker_that_is_killed_is_told_in_one_line(fedlapse, record, tmp_path, monkeypatch):
    class Broken:
        def __init__(self, *_):
            pass

        def submit(self, function, order):
            raise BrokenProcessPool

        def close(self):
            pass

    monkeypatch.setattr(batch, "WorkerPool", Broken)
    done = fedlapse("replay", record, "--down", "1Mbit/s", "--symmetric", "--out", tmp_path / "new", "--workers", "2")
    assert done.returncode == 1
    assert done.stderr.startswith("fedlapse: a worker process was killed (out of memory?)")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_workers_find_what_one_process_does(fedlapse, record, tmp_path):
    """Traces too, which are handed to them once."""
    (tmp_path / "walk.csv").write_text("time_s,down_mbit_s,up_mbit_s\n0,4,2\n3,8,1\n5,,\n")
    arguments = ("replay", record, "--down", tmp_path / "walk.csv", "5Mbit/s", "--up-ratio", "0.5", "--format", "json")
    alone, both = (
        fedlapse(*arguments, "--out", tmp_path / workers, "--workers", workers).stdout for workers in ("0", "2")
    )
    assert json.loads(alone)["settings"][1]["times_s"] == json.loads(both)["settings"][1]["times_s"]
    assert alone == both


@pytest.mark.slow
def test_ctrl_c_while_workers_come_is_told_in_one_line(record, tmp_path):
    out = tmp_path / "new"
    arguments = ["replay", record, "--down", *[f"{n}Mbit/s" for n in range(1, 400)], "--symmetric", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "emulator", *map(str, arguments), "--out", str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 300
    while not (out / "replay.json").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to the workers too
    _, told = process.communicate(timeout=300)
    assert (process.returncode, told.count("\n")) == (130, 1), told
    assert json.loads((out / "replay.json").read_text())["finished"] is False


# --- map


@pytest.fixture
def undrawn(monkeypatch):
    """A picture takes a second."""
    from emulator.report import winners

    monkeypatch.setattr(winners, "png", lambda shown: b"png")
    monkeypatch.setattr(winners, "page", lambda shown, about: f"{shown.caption} {about}")


MAP = ("--uplink", "0.002..2000Mbit/s", "--points", "2", "--workers", "0")


def test_a_map_says_why_cells_are_not_known_and_what_would_make_them(fedlapse, record, tmp_path, undrawn):
    """On 2 kbit/s the first deadline is missed."""
    done = fedlapse("map", record, *MAP, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "  unknown in 1\n    in 1: fedavg-s1 is not exact from round 1 on: " in done.stdout
    assert "--anyway continues" in done.stdout
    assert [cell["winner"] for cell in json.loads((tmp_path / "map.json").read_text())["cells"]] == [None, "fedcurv"]


def test_a_map_of_targets_that_nobody_reaches_is_of_all_rounds_and_says_so(fedlapse, short, tmp_path, undrawn):
    done = fedlapse("map", short, "--uplink", "20..2000Mbit/s", *MAP[2:], "--out", tmp_path / "map")
    assert "first to the end of all 3 rounds, in 2 cells, network model ideal\n" in done.stdout
    why = "o run of the record reaches accuracy 0.9, so this is the time to the end of all 3 rounds"
    assert f"  n{why}\n" in done.stdout
    page = (tmp_path / "map" / "map.html").read_text()
    assert f" N{why}." in page
    assert "Times are computed with network model ideal." in page
    said = json.loads((tmp_path / "map" / "map.json").read_text())
    assert (said["target"], said["network"]) == ("the end of all 3 rounds", "ideal")
    assert all_of(cell["winner"] for cell in said["cells"])


def test_a_target_that_is_named_is_mapped_though_nobody_reaches_it(fedlapse, short, tmp_path, undrawn):
    done = fedlapse("map", short, "--uplink", "20..2000Mbit/s", *MAP[2:], "--target", "accuracy 0.9", "--out", tmp_path)
    assert "which algorithm is first to accuracy 0.9, in 2 cells" in done.stdout
    assert "no algorithm reaches it in 2" in done.stdout


def test_a_map_that_went_on_says_so_in_its_caption(fedlapse, record, fleet, tmp_path, undrawn):
    """The pis miss every deadline, and the phones do not."""
    arguments = ("--latency", "1..2ms", *MAP[2:], "--anyway", "--fleet", some_are_late(fleet))
    done = fedlapse("map", record, *arguments, "--out", tmp_path)
    assert "--anyway continues" not in done.stdout
    assert "  accuracies are assumed in 2\n" in done.stdout
    assert "Assumed in 2 cells: from the first decision that differs" in (tmp_path / "map.html").read_text()


def test_a_map_does_not_claim_to_go_on_where_no_round_had_a_reply(fedlapse, record, tmp_path, undrawn):
    """On 2 kbit/s every reply misses every deadline: three rounds fail, and a run would end."""
    fedlapse("map", record, *MAP, "--anyway", "--out", tmp_path)
    said = json.loads((tmp_path / "map.json").read_text())
    assert [cell["winner"] for cell in said["cells"]] == [None, "fedcurv"]
    assert said["cells"][0]["times"] == {"fedavg": None, "fedcurv": None}
    (note,) = (note for note in said["notes"] if "not known" in note)
    assert note.startswith("not known in 1 cell (fedavg-s1 ends early: 3 rounds in a row had fewer than min_replies")
    assert "ssumed" not in (tmp_path / "map.html").read_text()


def test_ctrl_c_leaves_a_map_of_the_cells_that_are_done(fedlapse, record, tmp_path, undrawn, monkeypatch):
    interrupted_after(monkeypatch, 3)
    done = fedlapse("map", record, *MAP, "--out", tmp_path)
    assert (done.returncode, done.stderr) == (130, "fedlapse: stopped; 1 of 2 cells are drawn\n")
    said = json.loads((tmp_path / "map.json").read_text())
    assert (len(said["cells"]), said["notes"][-2]) == (1, "stopped after 1 of 2 cells")
    assert "which algorithm is first to accuracy 0.5, in the 1 of 2 cells that were replayed" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.html", "map.json", "map.png"]


def test_ctrl_c_before_the_first_cell_leaves_nothing(fedlapse, record, tmp_path, undrawn, monkeypatch):
    interrupted_after(monkeypatch, 1)
    done = fedlapse("map", record, *MAP, "--out", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (130, 1)
    assert list(tmp_path.iterdir()) == []

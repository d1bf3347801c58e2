"""`fedlapse papers run` and `report`: one CSV for each algorithm and seed, never played twice."""

import csv
import json

import pytest

from emulator.play.progress import about
from emulator.results.full_runs import FullRun, digest, finished, read, setting
from emulator.results.summary import FINALS
from emulator.sessions.full_runs import FullRuns, runs_of, settings
from emulator.sessions.trials import Trials
from emulator.terminal.errors import Unfinished
from scenarios.load import load
from scenarios.text.faults import BadScenario

NAME = "agentimportance-table1-mnist-mlp"
TINY = (
    *("data.set=digits", "model=digits-cnn", "fleet.0.count=6", "rounds.max=3", "rounds.fraction=0.5"),
    *("training.epochs=1", "algorithms.agentimportance.strength=1.0"),
)
HERE = ("--rows", "fedavg,agentimportance", "--out", "full", "--workers", "0")


@pytest.fixture
def forecast(monkeypatch):
    """Ten core-seconds for each run: what the forecast says is tested elsewhere."""
    monkeypatch.setattr(FullRuns, "_forecast", lambda _, name, scenario: dict.fromkeys(labels(scenario), 10.0))


def labels(scenario):
    return [entry.name for entry in scenario.algorithms]


@pytest.mark.slow
@pytest.mark.usefixtures("forecast")
def test_each_run_leaves_one_csv_and_is_not_played_again(fedlapse, tmp_path, monkeypatch):
    done = fedlapse("papers", "run", NAME, *TINY, *HERE, "--seeds", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 of 4 runs are done")
    files = sorted((tmp_path / "full" / NAME).iterdir())
    assert [file.name for file in files] == [f"{x}-s{n}.csv" for x in ("agentimportance", "fedavg") for n in (1, 2)]
    assert not (tmp_path / "full" / ".running").exists()
    fedlapse("run", f"papers/{NAME}", *TINY, "seeds=[2]", "-a", "fedavg", "--workers", "0", "--out", "alone")
    rows = [json.loads(line) for line in (tmp_path / "alone/fedavg-s2/rounds.jsonl").read_text().splitlines()]
    facts, *table = files[3].read_text().splitlines()
    for said, row in zip(csv.DictReader(table), rows, strict=True):
        assert (int(said["round"]), float(said["accuracy"])) == (row["round"] + 1, pytest.approx(row["accuracy"]))
        assert "personalised" not in said  # the setting has no number of it
        so_far = [each["bytes"] for each in rows[: row["round"] + 1]]
        for way in ("down", "up"):
            assert int(said[f"{way}_bytes"]) == sum(size for of in so_far for size in of[way].values())
    assert json.loads(facts.removeprefix("# "))["cpu_s"] > 0
    monkeypatch.setattr(Trials, "play", lambda *_: pytest.fail("played again"))
    assert fedlapse("papers", "run", NAME, *TINY, *HERE, "--seeds", "2").returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--ledger", "ledger"), "what others have run is kept"), (("--no-ledger",), "others begin anew (no ledger)")],
)
@pytest.mark.usefixtures("forecast")
def test_a_stopped_run_leaves_no_csv_and_the_command_says_how_to_go_on(fedlapse, tmp_path, monkeypatch, words, said):
    def stopped(self, scenario, out, title):
        (out / "scenario.yaml").write_text("begun")
        raise Unfinished(130)

    monkeypatch.setattr(Trials, "play", stopped)
    done = fedlapse("papers", "run", NAME, *TINY, *HERE, *words)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].endswith(f"0 of 6 runs are done, and {said}; the same command goes on")
    assert not list((tmp_path / "full").glob("*/*.csv"))
    assert (tmp_path / "full/.running" / NAME / "fedavg-s1" / "scenario.yaml").read_text() == "begun"


@pytest.mark.parametrize("minutes", ["0.1", "0"])
@pytest.mark.usefixtures("forecast")
def test_no_run_begins_that_would_not_fit(fedlapse, monkeypatch, minutes):
    monkeypatch.setattr(Trials, "play", lambda *_: pytest.fail("begun"))
    done = fedlapse("papers", "run", NAME, *TINY, *HERE, "--seeds", "1", "--minutes", minutes)
    assert done.returncode == 0
    assert f"not begun: {NAME} fedavg seed 1, {about(10)}" in done.stdout
    assert "0 of 2 runs are done" in done.stdout


@pytest.mark.usefixtures("forecast")
def test_a_csv_of_another_version_is_replaced_with_force_only(fedlapse, tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(FullRuns, "_play", lambda _, run, title: begun.append(run.text))
    real = FullRun.of(NAME, load(f"papers/{NAME}"), "fedavg", 1)
    write(real, tmp_path / "full")
    text = real.file(tmp_path / "full").read_bytes()
    done = fedlapse("papers", "run", NAME, *TINY, *HERE)
    assert done.returncode == 2
    assert f"full/{NAME}/fedavg-s1.csv is of another version of the setting" in " ".join(done.stderr.split())
    assert begun == []
    assert real.file(tmp_path / "full").read_bytes() == text
    assert fedlapse("papers", "run", NAME, *TINY, *HERE, "--seeds", "1", "--force").returncode == 0
    assert begun == [f"{NAME} {label} seed 1" for label in ("fedavg", "agentimportance")]


def write(run, out, end=2, **facts):
    """The CSV of a run, with two rounds and an accuracy of 0.25 after the second, which is the round `end`."""
    known = {"fedlapse": "1", "torch": "2", "commit": None, "processor": "P", "cores": 2, "gpu": None, "workers": 0}
    said = {"run": run.digest, **known, "host_s": 2.0, "cpu_s": 1.0, "forecast_s": 1.0, **facts}
    rows = ["round,time_s,down_bytes,up_bytes,accuracy", f"{end - 1},2.5,5,10,0.2", f"{end},5.5,10,20,0.25", ""]
    run.file(out).parent.mkdir(parents=True, exist_ok=True)
    run.file(out).write_text("\n".join([f"# {json.dumps(said)}", *rows]))


def test_a_run_is_expected_to_take_what_others_of_its_setting_took_over_their_forecast(tmp_path, forecast):
    runs = FullRuns(settings([NAME], TINY), (), 1, tmp_path, playing(tmp_path))
    one = runs.runs[0]
    assert runs.expected(one) == 10.0
    mine = {key: runs.here[key] for key in ("processor", "gpu", "workers")}
    runs.computed += [("another", {**mine, "host_s": 1.0, "forecast_s": 0.0})]  # too short to say anything
    assert runs.expected(one) == 10.0
    runs.computed = [("another", {**mine, "host_s": 400.0, "forecast_s": 10.0})]
    assert runs.expected(one) == 400.0
    runs.computed += [(NAME, {**mine, "host_s": 30.0, "forecast_s": 20.0})]
    assert runs.expected(one) == 15.0
    runs.computed += [(NAME, {**mine, "gpu": "another", "host_s": 1.0, "forecast_s": 20.0})]
    assert runs.expected(one) == 15.0


def test_a_run_that_was_stopped_or_known_says_nothing_of_the_time_that_others_take(tmp_path, forecast):
    found = settings([NAME], TINY)
    runs = FullRuns(found, (), 5, tmp_path, playing(tmp_path))
    one, two, three, four, five = runs_of(found, ("fedavg",), 5)
    last, warned = one.scenario.rounds.max, ["the penalty does nothing"]
    write(one, tmp_path, last, **runs.here, host_s=30.0, forecast_s=20.0, told=warned)
    write(two, tmp_path, last - 1, **runs.here, host_s=1.0, forecast_s=20.0, told=["training diverges"])
    write(three, tmp_path, last, **runs.here, host_s=1.0, forecast_s=20.0, known=90)  # the ledger had it
    write(FullRun("unknown", four.scenario), tmp_path, last, **runs.here, host_s=1.0, forecast_s=20.0, told=warned)
    again = FullRuns(found, (), 5, tmp_path, playing(tmp_path))
    assert [name for name, _ in again.computed] == [NAME]
    assert again.expected(five) == 15.0


@pytest.mark.parametrize(("rounds", "failures", "computed"), [(3, [], 1), (3, ["it is slow"], 1), (1, ["diverges"], 0)])
def test_what_a_run_took_is_known_to_those_after_it(tmp_path, forecast, monkeypatch, rounds, failures, computed):
    def played(self, scenario, out, title):
        (out / "summary.json").write_text(json.dumps({"labels": {}, "failures": {"fedavg": failures}}))
        bare = {**dict.fromkeys(FINALS), "accuracy": 0.5, "bytes": {"down": {}, "up": {}}}
        return {"fedavg": {1: [{**bare, "round": number, "time_s": number + 1.0} for number in range(rounds)]}}

    monkeypatch.setattr(Trials, "play", played)
    runs = FullRuns(settings([NAME], TINY), ("fedavg",), 1, tmp_path, playing(tmp_path))
    assert runs.play() == []
    assert len(runs.computed) == computed


def playing(out):
    from emulator.sessions.computing import Playing

    return Playing(workers=0, no_ledger=True, quiet=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((NAME, "--rows", "fedavgg"), "--rows fedavgg: no algorithm of agentimportance-table1-mnist-mlp; did you mean"),
        (("agentimportance-tabel1-mnist-mlp",), "did you mean agentimportance-table1-mnist-mlp?"),
        ((NAME, "rounds.max=0"), "rounds.max"),
        (("",), "no setting of the papers"),
    ],
)
def test_a_mistake_is_told(fedlapse, tmp_path, words, said):
    done = fedlapse("papers", "run", *words, "--out", "full", "--workers", "0")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "full").exists()


def test_a_faulty_forecast_is_named(fedlapse, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/forecast.json").write_text("[]")
    done = fedlapse("papers", "run", NAME, *TINY, *HERE)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "fedlapse: full/forecast.json must hold a JSON object; it holds list"


def test_names_may_be_beginnings_and_runs_come_seed_by_seed():
    found = settings(["fedcurv-table1"])
    assert list(found) == ["fedcurv-table1-e10", "fedcurv-table1-e50"]
    runs = [(run.run.label, run.run.seed) for run in runs_of(found, ["fedcurv", "fedavg"], 4)[:8]]
    assert runs == [(label, seed) for seed in (1, 2, 3, 4) for label in ("fedavg", "fedcurv")]
    with pytest.raises(BadScenario, match="no setting of the papers"):
        settings(["papers/fedcurve"])


def test_a_run_depends_on_its_row_but_not_on_numbers_beside_it(tmp_path):
    full = load(f"papers/{NAME}")
    one = FullRun.of(NAME, full, "fedavg", 1).digest
    for same in ("published=[]", "rounds.targets=[]", "name=other", "algorithms.agentimportance.strength=1.0"):
        assert FullRun.of(NAME, load(f"papers/{NAME}", [same]), "fedavg", 1).digest == one
    for other in ("training.lr=0.02", "rounds.max=10", "fleet_seed=2"):
        assert FullRun.of(NAME, load(f"papers/{NAME}", [other]), "fedavg", 1).digest != one
    assert FullRun.of(NAME, full, "fedavg", 2).digest != one
    assert FullRun.of(NAME, full, "fedprox", 1).digest != one
    assert digest(full) != one


def test_a_csv_of_another_version_of_the_row_is_stale(tmp_path):
    full = load(f"papers/{NAME}")
    run = FullRun.of(NAME, full, "fedavg", 1)
    write(run, tmp_path, full.rounds.max)
    row = finished(run, tmp_path).rows[-1]
    assert (row["round"], row["accuracy"], row["personalised"]) == (full.rounds.max - 1, 0.25, None)
    write(FullRun.of(NAME, load(f"papers/{NAME}", ["training.lr=0.02"]), "fedavg", 1), tmp_path)
    assert finished(run, tmp_path) is None
    write(run, tmp_path, 2)
    with pytest.raises(ValueError, match=r"fedavg-s1.csv ends with round 2 of"):
        finished(run, tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *(("0.25", each) for each in ("nan", "inf", "17", "-1", "x")),
        *((key, "other") for key in ("commit", "host_s", "forecast_s", "fedlapse", '"gpu', "workers")),
        ('"host_s": 2.0', '"host_s": "long"'),
        ('"host_s": 2.0', '"host_s": NaN'),
        ('"host_s": 2.0', '"told": 3, "host_s": 2.0'),
        ("\n2,5.5", "\n1,5.5"),
        ("0.25\n", "0.2"),
        ("\nround", "\n\xff"),
    ],
)
def test_a_faulty_csv_is_named(tmp_path, old, new):
    run = FullRun.of(NAME, load(f"papers/{NAME}"), "fedavg", 1)
    write(run, tmp_path)
    path = run.file(tmp_path)
    assert old in path.read_text()
    path.write_bytes(path.read_text().replace(old, new).encode("latin-1"))
    with pytest.raises(ValueError, match="fedavg-s1.csv is not as `fedlapse papers run` writes it"):
        read(path)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (f"{NAME}/fedavg-sx.csv", b""),
        (f"{NAME}/why.txt", b"\xff"),
        *(("forecast.json", text) for text in (b"[]", b"{", b'{"%s": 3}' % NAME.encode())),
    ],
)
def test_a_report_names_a_faulty_file(tmp_path, file, text):
    (tmp_path / NAME).mkdir()
    (tmp_path / file).write_bytes(text)
    with pytest.raises(ValueError, match=file):
        setting(NAME, load(f"papers/{NAME}"), tmp_path)

"""`fedlapse tune`: what it chooses, by which examples, and the same bytes however it is played."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.record.folders import run_folders
from emulator.report.tuned import page
from emulator.sessions.computing import Playing
from emulator.sessions.tuning import Tuning
from scenarios.load import load
from tests.all_of import all_of
from tests.conftest import FAST, audit_run
from tests.emulator.commands.processes import Command
from tests.runs.tuning import TINY, Tuned, better_halves, rungs, tuned, written

SLOW = "slow-uplink"
LR = {"training.lr": [0.1, 1.0]}
SHORT = {"rounds": {"max": 1}, "algorithms": ["fedavg"]}
ONE = {"rungs": 1, "budget": 2, "grid": {"training.epochs": [1, 5]}}  # all of a grid of two, to the end


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    """TINY, undisturbed, with a ledger beside it."""
    folder = tmp_path_factory.mktemp("whole")
    return tuned(folder, {}, "--ledger", folder / "ledger")


@pytest.mark.slow
def test_a_ledger_changes_no_byte(tmp_path: Path, whole: Tuned) -> None:
    again = tuned(tmp_path, {}, "--no-ledger")
    assert again.decided == whole.decided
    tables = [said.replace(str(tmp_path), "").partition("\ntraining: ")[0] for said in (again.said, whole.said)]
    assert tables[0].partition("\nnext: ")[0] == tables[1]
    assert "training: " not in again.said  # there is nothing to say


@pytest.mark.slow
def test_what_was_tuned_obeys_the_laws(whole: Tuned) -> None:
    folders = [folder for step in sorted((whole.out / "trials").iterdir()) for folder in run_folders(step)]
    assert len(folders) > 20
    assert [fault for folder in folders for fault in audit_run(folder)] == []


@pytest.mark.slow
def test_every_algorithm_gets_its_budget_and_the_better_half_goes_on(whole: Tuned) -> None:
    found = whole.found
    assert found["budget"] == 6
    for label, of in found["algorithms"].items():
        assert len(of["tried"]) == 6 == len({json.dumps(each) for each in of["tried"]})
        halvings = 0
        for rung, later in rungs(of):
            compared = {int(number) for number in rung["scores"]}
            if later is None:  # the last of a halving: with all rounds, or nobody new goes on
                assert rung["rounds"] == 4 or set(rung["survivors"]) <= better_halves(rung["scores"]), label
                continue
            halvings += 1
            assert set(rung["survivors"]) == better_halves(rung["scores"])
            assert set(rung["survivors"]) <= {int(number) for number in later["scores"]} | compared
            assert later["rounds"] == 2 * rung["rounds"]
        assert halvings
        for clock, best in of["best"].items():
            final = {int(number): (score["time"], score["error"]) for number, score in of["final"][clock].items()}
            assert final[best] == min(final.values())


@pytest.mark.slow
def test_the_table_tells_of_rungs_and_who_went_on(whole: Tuned) -> None:
    for label, of in whole.found["algorithms"].items():
        first, second = of["rungs"][:2]
        on = ", ".join(sorted(second["scores"], key=int))
        line = f"{label}: {len(first['scores'])} configurations after 2 rounds, {len(second['scores'])} after 4 ({on})"
        assert f"{line}; then {6 - len(first['scores'])} more" in whole.said.splitlines()
    assert {"own links", "rounds", SLOW} <= set(whole.found["algorithms"]["prox"]["best"])


@pytest.mark.slow
def test_a_budget_beyond_all_there_is_to_try_is_told(tmp_path: Path) -> None:
    """A grid of one value has no neighbours."""
    made = tuned(tmp_path, {**SHORT, "tune": {"grid": {"training.lr": [0.1]}, "budget": 4, "links": {}}})
    assert len(made.found["algorithms"]["fedavg"]["tried"]) == 1
    assert "fedavg: the only configuration that there can be, fewer than the budget of 4" in made.said


@pytest.mark.slow
def test_nothing_is_chosen_by_test_examples(tmp_path: Path) -> None:
    """Test images of noise and wrong labels change nothing, as no trial is evaluated on them."""
    made = []
    for flawed in (False, True):
        folder = tmp_path / str(flawed)
        folder.mkdir()
        data = {"set": "tests.runs.tuning:other_tests", "options": {"flawed": flawed}}
        made.append(tuned(folder, {"data": data}))
    assert made[0].found == made[1].found
    lines = [path.read_text().splitlines() for each in made for path in each.out.glob("trials/*/*/rounds.jsonl")]
    rows = [json.loads(line) for of in lines for line in of]
    assert len(rows) > 100
    assert {row[key] for row in rows for key in ("accuracy", "loss", "initial")} == {None}
    assert max(row["validation"] for row in rows) > 0.4


ELSEWHERE = {  # what `tune.links` says, the fleet of which that is true, and the epochs that are best there
    "uplink": ({"up_mbit_s": 0.02}, {"link": {**FAST, "up_mbit_s": 0.02}}, 5),
    "both-ways": ({"up_mbit_s": 0.1, "down_mbit_s": 0.05}, {"link": {"up_mbit_s": 0.1, "down_mbit_s": 0.05}}, 5),
    "latency": ({"latency_ms": 500}, {"link": {**FAST, "latency_ms": 500}}, 5),
    "slow-devices": ({"speed_gflop_s": 0.001}, {"speed_gflop_s": 0.001}, 1),
}


@pytest.mark.slow
def test_the_best_of_another_link_is_what_a_search_there_finds(tmp_path: Path) -> None:
    """With slow messages more epochs are better, on slow devices fewer; each choice is compared with real trainings
    there."""
    common = {"rounds": {"max": 8}, "algorithms": ["fedavg"]}
    tune = {**ONE, "target": {"value": 0.5, "hold": 1}}
    links = {name: said for name, (said, _, _) in ELSEWHERE.items()}
    found = tuned(folder_of(tmp_path, "afar"), {**common, "tune": {**tune, "links": links}}).found["algorithms"][
        "fedavg"
    ]
    for name, (_, fleet, epochs) in ELSEWHERE.items():
        there = [{"profile": "pi-4", "count": 3, "link": FAST, **fleet}]
        changes = {**common, "fleet": there, "tune": {**tune, "links": {}}}
        own = tuned(folder_of(tmp_path, name), changes).found["algorithms"]["fedavg"]
        assert own["tried"] == found["tried"]
        assert own["best"]["own links"] == found["best"][name]
        assert own["tried"][own["best"]["own links"] - 1] == {"training.epochs": epochs}
        for number, score in own["final"]["own links"].items():
            assert found["final"][name][number] == pytest.approx(score, rel=1e-9)


def folder_of(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


@pytest.mark.slow
def test_tuned_yaml_plays_with_the_best_options_and_says_where_they_come_from(fedlapse, whole: Tuned) -> None:
    path = whole.out / "tuned.yaml"
    text = path.read_text()
    scenario = load(str(path))
    for entry in scenario.algorithms:
        of = whole.found["algorithms"][entry.name]
        number = of["best"]["own links"]
        best = of["tried"][number - 1]
        for option, value in best.items():
            said = entry.options["training"]["lr"] if option == "training.lr" else entry.options[option]
            assert said == value
        assert scenario.tuned[entry.name].startswith("best of 6: ")
        assert scenario.tuned[entry.name].endswith(" to validation 0.6 under seeds 11, 12")
    assert "under seeds 11, 12, out of 6 configurations of each algorithm" in text
    plain = load(str(whole.out.parent / "tiny.yaml"))
    others = {"algorithms", "tuned"}
    assert scenario.model_dump(exclude=others) == plain.model_dump(exclude=others)
    done = fedlapse("compare", path, "--rounds", 1, "--workers", 0, "--quiet", "--out", "compared")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_dry_run_says_what_is_known_and_trains_nothing(fedlapse, tmp_path: Path, whole: Tuned) -> None:
    words = ("tune", written(tmp_path), "--dry-run", "--workers", 0, "--ledger")
    done = fedlapse(*words, tmp_path / "ledger")
    assert done.returncode == 0, done.stderr
    assert ", of which 0 are in the ledger" in done.stdout
    assert [path for path in (tmp_path / "ledger" / "kept").rglob("*") if path.is_file()] == []
    assert not (tmp_path / "runs").exists()
    assert ", of which 0 are in the ledger" in fedlapse(*words, tmp_path / "ledger").stdout
    known = fedlapse(*words, whole.out.parent / "ledger").stdout
    again = tuned(tmp_path, {}, "--ledger", whole.out.parent / "ledger")
    (line,) = (line for line in again.said.splitlines() if line.startswith("training: "))
    total = line.split()[3]
    assert line == f"training: {total} of {total} device-rounds from the ledger, 0 computed"
    assert f"\n{total} device-rounds to train, of which {total} are in the ledger" in known
    assert again.decided == whole.decided


@pytest.mark.slow
def test_a_dry_run_says_about_how_much_is_trained(fedlapse, tmp_path: Path) -> None:
    """By hand: nobody gets there, so that all rounds are played, each by one device of each of two seeds.

    Half of the six go on by the rule: 6 x 2 + 3 x 4 = 24 rounds.  In truth three of the grid begin and one of them goes
    on, and after that come its neighbours, of which none or each may.
    """
    tune = {"grid": {"training.lr": [0.01, 0.1, 1.0]}, "target": {"value": 0.99, "hold": 1}}
    changes = {"algorithms": ["fedavg"], "rounds": {"fraction": 0.1}, "tune": tune}
    done = fedlapse("tune", written(tmp_path, changes), "--dry-run", "--workers", 0, "--ledger", tmp_path / "ledger")
    assert "\nabout 48 device-rounds to train, of which 0 are in the ledger\n" in done.stdout
    (line,) = (
        line
        for line in tuned(tmp_path, changes, "--ledger", tmp_path / "ledger").said.splitlines()
        if line.startswith("training: ")
    )
    assert 2 * (6 * 2 + 1 * 4) <= int(line.split()[3]) <= 2 * (6 * 2 + 4 * 4)


@pytest.mark.slow
def test_fixed_algorithms_keep_their_settings(tmp_path: Path) -> None:
    made = tuned(
        tmp_path, {"tune": {"fixed": ["prox"], "budget": 2, "rungs": 1, "links": {}, "grid": LR}, "rounds": {"max": 1}}
    )
    assert made.found["algorithms"].keys() == {"fedavg"}
    (prox,) = (entry for entry in load(str(made.out / "tuned.yaml")).algorithms if entry.name == "prox")
    assert prox.options == {"mu": 0.1}
    assert load(str(made.out / "tuned.yaml")).tuned["prox"] == "from the scenario, not tuned"
    assert list(made.out.glob("trials/*/prox*")) == []


@pytest.mark.slow
def test_json_is_one_object_and_that_of_the_file(tmp_path: Path) -> None:
    made = tuned(tmp_path, {**SHORT, "tune": {**ONE, "links": {}}}, "--format", "json")
    assert json.loads(made.said) == {"out": str(made.out), **made.found}


@pytest.mark.slow
def test_a_configuration_that_diverges_loses_and_breaks_nothing(tmp_path: Path) -> None:
    tune = {"budget": 3, "rungs": 1, "grid": {"training.lr": [0.3, 1e6]}, "links": {SLOW: {"up_mbit_s": 0.05}}}
    made = tuned(tmp_path, {"algorithms": ["fedavg"], "tune": tune})
    of = made.found["algorithms"]["fedavg"]
    assert of["tried"][of["best"]["own links"] - 1]["training.lr"] != 1e6
    number = str(1 + [each["training.lr"] for each in of["tried"]].index(1e6))
    assert of["final"]["own links"][number]["reached"] == 0
    assert all_of(math.isfinite(score["time"]) for score in of["final"]["own links"].values())


@pytest.mark.slow
def test_where_decisions_depend_on_time_other_links_are_not_guessed_at(tmp_path: Path) -> None:
    """Under a deadline other links would close rounds with other replies."""
    rounds = {"max": 2, "deadline_s": 0.5}
    tune = {"grid": LR, "budget": 2, "rungs": 1}
    made = tuned(tmp_path, {"rounds": rounds, "algorithms": ["fedavg"], "tune": tune})
    assert made.found["algorithms"]["fedavg"]["best"].keys() == {"own links", "rounds"}
    assert f"fedavg: on {SLOW} its time is unknown, because a replay there is not exact" in made.said


STOPPED = {"algorithms": ["fedavg"], "rounds": {"max": 2}, "tune": {"grid": LR | {"training.batch": [32, 64]}}}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return tuned(tmp_path_factory.mktemp("undisturbed"), STOPPED).decided


def tuning(folder: Path, workers: int) -> Command:
    words = ("--workers", workers, "--ledger", folder / "ledger", "--quiet")
    return Command(folder / "out", "tune", written(folder, STOPPED), *words)


def has(pattern: str) -> Callable[[Path], bool]:
    """Says if OUT has such a file or folder."""
    return lambda out: any(out.glob(pattern))


INSTANTS = {
    "begun": has("asked.json"),
    "a first run": has("trials/*/*-s*"),
    "amid the second": has("trials/02-*/*-s*"),
    "nearly": has("tuned.yaml*"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("instant", "workers"), [("begun", 0), ("amid the second", 2), ("nearly", 0)])
def test_what_was_killed_goes_on_to_the_same_bytes(
    tmp_path: Path, undisturbed: dict[str, bytes], instant: str, workers: int
) -> None:
    with tuning(tmp_path, workers) as command:
        command.until(lambda: INSTANTS[instant](command.out))
        command.send(signal.SIGKILL)
        command.ended(60)
    assert not (command.out / "tune.json").exists()
    assert tuned(tmp_path, STOPPED, "--ledger", tmp_path / "ledger").decided == undisturbed


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    with tuning(tmp_path, 2) as command:
        command.until(lambda: INSTANTS["a first run"](command.out))
        command.send(signal.SIGINT)
        code, text = command.ended(60)
    assert (code, "Traceback" in text) == (130, False), text
    last = f"fedlapse: what was tried is in {command.out}; the same command with --out {command.out} goes on"
    assert text.splitlines()[-1] == last
    assert tuned(tmp_path, STOPPED, "--ledger", tmp_path / "ledger").decided == undisturbed


@pytest.mark.slow
def test_ctrl_c_in_a_dry_run_leaves_nothing(tmp_path: Path, whole: Tuned) -> None:
    words = ("--dry-run", "--workers", 0, "--ledger", whole.out.parent / "ledger", "--quiet")
    with Command(tmp_path / "out", "tune", written(tmp_path), *words) as command:
        command.until(lambda: bool(command.left()))
        time.sleep(0.2)
        command.send(signal.SIGINT)
        code, text = command.ended(60)
    assert (code, text.splitlines()[-1]) == (130, "fedlapse: stopped")
    assert "Traceback" not in text
    assert command.left() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tune": None}, "the scenario has no `tune:`"),
        ({"tune": {"grid": {}, "seeds": [1]}}, "tune.seeds: seed 1 is one of the scenario's"),
        ({"tune": {"grid": {"fedavgg.mu": [1]}}}, "no algorithm is called 'fedavgg'; did you mean fedavg?"),
        ({"tune": {"grid": {"prox.muu": [1]}}}, "muu"),
        ({"tune": {"grid": {"training.lrr": [1]}}}, "lrr"),
        ({"tune": {"grid": {"training.lr": [0.1, -1]}}}, "fedavg does not take training.lr = -1"),
        ({"tune": {"grid": {"prox.mu": ["much"]}}}, "prox: "),
        ({"tune": {"grid": LR, "fixed": ["fedprox"]}}, "there is no algorithm 'fedprox'"),
        ({"tune": {"grid": {"training.lr": [0.1, 0.1]}}}, "grid.training.lr has a value twice"),
        ({"tune": {"grid": LR, "links": {"a": {}}}}, "nothing differs from the scenario"),
        ({"tune": {"grid": LR, "links": {"rounds": {"up_mbit_s": 1}}}}, "give these links another name"),
        ({"tune": {"grid": LR, "links": {"a": {"trace": "nowhere.csv"}}}}, "nowhere.csv"),
        ({"tune": {"grid": LR}, "data": {"validation": 0}}, "settings are chosen on validation data"),
        ({"tune": {"grid": LR, "target": None}}, "the scenario has no target"),
    ],
)
def test_a_tuning_that_cannot_be_is_one_message_and_exit_code_2(fedlapse, tmp_path, change, words):
    path = written(tmp_path, {**change, "tune": change["tune"] or {}})
    if change["tune"] is None:
        path.write_text(json.dumps({key: value for key, value in TINY.items() if key != "tune"}))
    done = fedlapse("tune", path, "--workers", 0, "--out", "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1 or (len(lines) == 3 and lines[2].strip("| ") == "^")  # the message; the line, and a caret
    assert not (tmp_path / "out" / "asked.json").exists()


def test_a_folder_that_holds_something_else_is_left_alone(fedlapse, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    done = fedlapse("tune", written(tmp_path), "--workers", 0, "--out", "out")
    assert done.returncode == 2
    assert done.stderr == "fedlapse: --out out holds files that are not a tuning's; give a new folder\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_a_folder_that_holds_another_tuning_is_left_alone_unless_forced(fedlapse, tmp_path):
    tune = {**ONE, "grid": LR, "links": {}}
    made = tuned(tmp_path, {**SHORT, "tune": {**tune, "budget": 4}})
    before = made.decided
    (made.out / "trials" / "notes.txt").write_text("mine")
    changed = written(tmp_path, {**SHORT, "tune": {**tune, "grid": {"training.lr": [0.2, 0.4]}}})
    done = fedlapse("tune", changed, "--workers", 0, "--out", "out")
    assert (done.returncode, made.decided) == (2, before)
    assert "holds another tuning" in done.stderr
    forced = tuned(tmp_path, {**SHORT, "tune": {**tune, "grid": {"training.lr": [0.2, 0.4]}}}, "--force")
    assert forced.found["algorithms"]["fedavg"]["tried"] == [{"training.lr": 0.2}, {"training.lr": 0.4}]
    fresh = tuned(folder_of(tmp_path, "fresh"), {**SHORT, "tune": {**tune, "grid": {"training.lr": [0.2, 0.4]}}})
    assert forced.decided == fresh.decided
    assert (forced.out / "trials" / "notes.txt").read_text() == "mine"
    assert [{path.name for path in (each.out / "trials").glob("*/")} for each in (forced, fresh)] == [
        {"01-1-rounds"}
    ] * 2


@pytest.mark.slow
def test_a_configuration_that_can_never_meet_the_deadline_loses_and_breaks_nothing(tmp_path: Path) -> None:
    """A round of one epoch takes 33 ms, and one of 50 takes 0.69 s."""
    tune = {"budget": 2, "rungs": 1, "grid": {"training.epochs": [50, 1]}, "links": {}}
    made = tuned(tmp_path, {"algorithms": ["fedavg"], "rounds": {"deadline_s": 0.035}, "tune": tune})
    of = made.found["algorithms"]["fedavg"]
    assert of["tried"][of["best"]["own links"] - 1] == {"training.epochs": 1}
    assert [of["final"]["own links"][number]["reached"] for number in "12"] == [0, 2]


@pytest.mark.slow
def test_cheap_rounds_that_lead_nowhere_do_not_win(tmp_path: Path) -> None:
    """With 50 epochs 0.85 is reached in round 1, after 0.69 s; with one the four rounds are over after 0.13 s."""
    tune = {"budget": 2, "rungs": 1, "grid": {"training.epochs": [1, 50]}, "target": {"value": 0.85, "hold": 1}}
    of = tuned(tmp_path, {"algorithms": ["fedavg"], "tune": tune}).found["algorithms"]["fedavg"]
    assert of["tried"][of["best"]["own links"] - 1] == {"training.epochs": 50}
    assert [of["final"]["own links"][number]["reached"] for number in "12"] == [0, 2]


@pytest.mark.slow
def test_the_page_draws_all_that_was_tried(tmp_path: Path, whole: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parallel coordinates of each algorithm; a heat-map where two options have several values, which only prox has."""
    drawn = []
    monkeypatch.setattr("vl_convert.vegalite_to_svg", lambda chart: drawn.append(chart) or "<svg/>")
    scenario = load(str(whole.out.parent / "tiny.yaml"))
    tuning = Tuning(scenario, Playing(workers=0, quiet=True, no_ledger=True))
    page_of = page(scenario, tuning.run(whole.out))
    assert len(drawn) == 3
    assert page_of.count("<svg/>") == 3
    assert "src=" not in page_of  # it opens offline
    for label in ("fedavg", "prox"):
        assert f"<h2>{label}</h2>" in page_of


def test_the_time_left_is_that_of_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study makes the searches of all regimes first, and plays them hours later: half of this one took 60 s."""
    clock = [0.0]
    monkeypatch.setattr("emulator.sessions.tuning.time.monotonic", lambda: clock[0])
    tuning = Tuning(load(str(written(tmp_path))), Playing(workers=0, quiet=True, no_ledger=True))

    def half(*_: object) -> dict[str, object]:
        tuning.done, clock[0] = tuning.due // 2, clock[0] + 60.0
        assert tuning._title({}, 3).endswith("; ~1 min left")
        return {}

    clock[0] = 9000.0
    monkeypatch.setattr("emulator.sessions.tuning.searched", half)
    assert tuning.run(tmp_path) == {}

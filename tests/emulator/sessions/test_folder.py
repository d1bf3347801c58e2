"""The folder of a command's results: while one command writes to it, no other changes anything there."""

import errno
import json
from pathlib import Path

import pytest

from emulator.lab.build import built
from emulator.record.host import note, of_scenario
from emulator.sessions.computing import Playing
from emulator.sessions.folder import alone, clear, make_ready, replaced
from emulator.sessions.trials import Trials
from scenarios.load import dump, load
from scenarios.text.faults import BadScenario


@pytest.fixture
def under_way(tmp_path):
    """The folder of a command whose first run is done; the lock is held as this command holds it."""
    run = tmp_path / "out" / "fedavg-s1"
    run.mkdir(parents=True)
    (tmp_path / "out" / "scenario.yaml").write_text(dump(load("quickstart", [])))
    for file in (tmp_path / "out" / "split.json", run / "events.jsonl", run / "seal.json"):
        file.write_text("{}")
    with alone(tmp_path / "out"):
        yield tmp_path / "out"


@pytest.mark.slow
@pytest.mark.parametrize("words", [["compare", "--out"], ["compare", "rounds.max=1", "--force", "--out"], ["resume"]])
def test_what_another_command_writes_to_is_left_as_it_is(fedlapse, under_way, words):
    before = {path: path.read_bytes() for path in under_way.rglob("*") if path.is_file()}
    done = fedlapse(*words, under_way)
    assert done.returncode == 2
    assert done.stderr == f"fedlapse: another fedlapse is writing to {under_way}; wait for its end, or stop it\n"
    assert {path: path.read_bytes() for path in under_way.rglob("*") if path.is_file()} == before


def test_a_folder_is_free_again_when_its_command_has_ended(tmp_path):
    with alone(tmp_path), pytest.raises(BadScenario), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass


# --- --force: files whose names fedlapse writes, in folders that its host.json names, and nothing else

COMING = {"fedavg-s1": "run", "charts": "charts"}
RUN = ("run.json", "events.jsonl", "rounds.jsonl", "work.jsonl", "final.safetensors", "seal.json")
RESULTS = ("scenario.yaml", "split.json", "host.json", "summary.json", "report.html", "seal.json")
OURS = {*RESULTS, *(f"fedavg-s1/{name}" for name in RUN), "charts/times.png", "charts/split-2.svg"}
MINE = {  # on top, in ours, in folders that look like ours
    *("thesis.txt", "mine/thesis.txt", "charts/my.png", "charts/times.pdf", "fedavg-s1/notes.txt"),
    *("fedavg-s1/report.html", "backup/events.jsonl", "fedavg-s2/events.jsonl", "fedavg-s1/more/events.jsonl"),
}


def write(out, names):
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(name)


def files(out):
    return {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_symlink() or path.is_file()}


@pytest.fixture
def results(tmp_path):
    """Results with a user's own files among them."""
    out = tmp_path / "out"
    write(out, OURS | MINE)
    (out / "host.json").write_text(json.dumps({"folders": COMING}))
    (out / "empty").mkdir()
    return out


def test_force_removes_what_fedlapse_wrote_and_lists_it_first(results, capsys):
    clear(results, True, COMING)
    assert files(results) == MINE
    assert {path.name for path in results.iterdir()} == {name.split("/")[0] for name in MINE} | {"empty"}
    said = capsys.readouterr().err
    assert said.startswith(f"fedlapse: --force removes from {results}: report.html, scenario.yaml, ")
    assert "6 files in fedavg-s1" in said
    assert "2 files in charts" in said
    assert not any(name in said for name in ("thesis", "my.png", "notes", "backup"))


def test_folders_that_are_empty_then_go_too(results):
    for name in MINE:
        (results / name).unlink()
    clear(results, True, COMING)
    assert sorted(path.name for path in results.iterdir()) == ["backup", "empty", "fedavg-s1", "fedavg-s2", "mine"]
    assert [path.name for path in (results / "fedavg-s1").iterdir()] == ["more"]


@pytest.mark.parametrize("stuck", ["fedavg-s1/events.jsonl", "charts/times.png", "host.json"])
def test_where_one_file_cannot_be_removed_nothing_is(results, monkeypatch, stuck):
    before, rename = {path: (results / path).read_text() for path in files(results)}, Path.rename

    def renamed(path, target):
        if path == results / stuck:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", renamed)
    with pytest.raises(BadScenario, match=rf"^cannot remove {results / stuck}: permission denied; nothing was removed"):
        clear(results, True, COMING)
    assert {path: (results / path).read_text() for path in files(results)} == before


def test_a_removal_that_was_killed_is_finished_by_the_next(results):
    write(results, [".fedlapse-removed/0", ".fedlapse-removed/1"])
    (results / "report.html").unlink()
    clear(results, True, COMING)
    assert files(results) == MINE


def test_a_removal_that_was_killed_at_its_end_is_finished_by_the_next(tmp_path):
    write(tmp_path, ["mine.txt", ".fedlapse-removed/0", ".fedlapse-removed/mine.txt"])
    with pytest.raises(BadScenario, match="holds another run; give a new folder, or --force"):
        clear(tmp_path, False, COMING)
    clear(tmp_path, True, COMING)
    assert files(tmp_path) == {"mine.txt", ".fedlapse-removed/mine.txt"}


def test_files_are_not_put_aside_into_a_folder_of_the_users(results, tmp_path):
    write(tmp_path, ["theirs/0", "theirs/1"])
    (results / ".fedlapse-removed").symlink_to(tmp_path / "theirs")
    before = files(tmp_path)
    with pytest.raises(BadScenario, match=r"\.fedlapse-removed is in the way, and not fedlapse's; nothing was removed"):
        clear(results, True, COMING)
    assert files(tmp_path) == before


def test_a_link_is_removed_and_what_it_leads_to_stays(results, tmp_path):
    write(tmp_path, ["theirs/report.html"])
    (results / "report.html").unlink()
    (results / "report.html").symlink_to(tmp_path / "theirs" / "report.html")
    clear(results, True, COMING)
    assert files(results) == MINE
    assert files(tmp_path / "theirs") == {"report.html"}


@pytest.mark.parametrize("name", ["fedavg-s1", "charts"])
def test_a_link_to_a_folder_is_not_followed_and_nobody_writes_through_it(results, tmp_path, name):
    (results / name).rename(tmp_path / "elsewhere")
    (results / name).symlink_to(tmp_path / "elsewhere")
    before = files(tmp_path)
    with pytest.raises(BadScenario, match=f"{results / name} is in the way, and not fedlapse's; nothing was removed"):
        clear(results, True, COMING)
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["..", "../beside", "/", ".", "mine/../../beside"])
def test_a_damaged_host_json_leads_nowhere_else(results, tmp_path, name):
    write(tmp_path, ["beside/events.jsonl", "events.jsonl"])
    (results / "host.json").write_text(json.dumps({"folders": {**COMING, name: "run", "thesis.txt": "run", "mine": 3}}))
    clear(results, True, COMING)
    assert files(tmp_path) == {f"out/{name}" for name in MINE} | {"beside/events.jsonl", "events.jsonl"}


def test_a_run_does_not_write_over_a_file_of_the_users(results):
    before = files(results)
    with pytest.raises(BadScenario, match=f"{results / 'fedavg-s2' / 'events.jsonl'} is in the way"):
        clear(results, True, {"fedavg-s2": "run"})
    assert files(results) == before


def test_where_nothing_tells_which_folders_are_runs_all_of_them_stay(results):
    (results / "host.json").write_text("[]")
    clear(results, True, {})
    assert files(results) == (MINE | OURS) - set(RESULTS)


def test_settings_of_a_replay_are_results_of_their_own(tmp_path):
    """One was killed as its first run began."""
    write(tmp_path, ["scenario.yaml", "replay.json", "mine.txt", "5Mbit-s/replay.json", "5Mbit-s/fedavg-s1/run.json"])
    note(tmp_path, {"5Mbit-s": "results"})
    note(tmp_path / "5Mbit-s", {"fedavg-s1": "run", "fedavg-s2": "run"})
    (tmp_path / "5Mbit-s" / "fedavg-s2").mkdir()
    (tmp_path / "empty").mkdir()
    clear(tmp_path, True, {})
    assert {path.name for path in tmp_path.iterdir()} == {"mine.txt", "empty"}


def test_of_a_study_all_its_folders_are_emptied_of_what_it_wrote(tmp_path):
    ours = ["protocol.yaml", "study.md", "replays.npz", "tables/map-times.csv", "tables/map-fedavg-fedcl.csv"]
    ours += ["figures/ratios.svg", "tuning/tune.json", "tuning/trials/01-5-rounds/scenario.yaml"]
    ours += ["tuning/trials/01-5-rounds/fedavg.01-s1/work.jsonl", "tops/seal.json"]
    mine = ["notes.md", "tables/mine.csv", "figures/photo.png", "tuning/trials/mine/events.jsonl", "tuning/study.md"]
    write(tmp_path, [*ours, *mine])
    folders = {"tuning": "search", "tops": "results", "tables": "tables", "figures": "figures"}
    note(tmp_path, folders)
    note(tmp_path / "tuning", {"trials/01-5-rounds": "results"})
    note(tmp_path / "tuning/trials/01-5-rounds", {"fedavg.01-s1": "run"})
    replaced(tmp_path, "study", folders)
    assert files(tmp_path) == set(mine)
    assert not (tmp_path / "tops").exists()


# --- one that was interrupted goes on, and is never destroyed unasked


@pytest.fixture
def broken_off(tmp_path):
    """A folder with a run of the quickstart that was interrupted, and its scenario."""
    scenario, out = load("quickstart", ["seeds=[1]"]), tmp_path / "out"
    write(out, ["split.json", "fedavg-s1/events.jsonl", "fedavg-s1/seal.json"])
    (out / "scenario.yaml").write_text(dump(scenario))
    note(out, of_scenario(scenario))
    return scenario, out


def test_over_sockets_an_interrupted_record_is_replaced_with_force_only(broken_off):
    scenario, out = broken_off
    before = files(out)
    with pytest.raises(BadScenario, match="holds another run; give a new folder, or --force to replace it"):
        make_ready(out, scenario, False, over_sockets=True)
    assert files(out) == before
    assert make_ready(out, scenario, False) is False
    assert files(out) == before
    assert make_ready(out, scenario, True, over_sockets=True) is False
    assert files(out) == set()


def test_force_says_that_an_interrupted_record_goes_on_and_takes_its_seals(broken_off, capsys):
    scenario, out = broken_off
    assert make_ready(out, scenario, True) is True
    assert files(out) == {"scenario.yaml", "split.json", "host.json", "fedavg-s1/events.jsonl"}
    said = f"fedlapse: --force continues the runs in {out}, and replaces what differs\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["fedavg-s1", "fedavg-s1/events.jsonl", "charts"])
def test_no_run_goes_on_through_a_link(broken_off, tmp_path, name, force):
    scenario, out = broken_off
    write(tmp_path, ["theirs/seal.json", "theirs/events.jsonl"])
    if (out / name).exists():
        (out / name).rename(tmp_path / "before")
    (out / name).symlink_to(tmp_path / "theirs" / Path(name).name if "/" in name else tmp_path / "theirs")
    before = files(tmp_path)
    with pytest.raises(BadScenario, match=rf"^{out / name} is a link, .*nothing was changed"):
        make_ready(out, scenario, force)
    assert files(tmp_path) == before


@pytest.mark.slow
def test_nor_does_a_trial_of_a_search_or_a_study(broken_off, tmp_path):
    scenario, out = broken_off
    write(tmp_path, ["theirs/events.jsonl"])
    (out / "scenario.yaml").write_text(dump(built(scenario)[0]))  # as a trial writes it
    (out / "fedprox-s1").symlink_to(tmp_path / "theirs")
    before = files(tmp_path)
    with pytest.raises(BadScenario, match=r"fedprox-s1 is a link, .*nothing was changed"):
        Trials(Playing(workers=0, quiet=True, no_ledger=True)).play(scenario, out)
    assert files(tmp_path) == before


@pytest.mark.parametrize("names", [[], ["given.yaml"], ["given.yaml", "scenario.yaml"]])
def test_what_was_killed_at_once_makes_room_with_force(tmp_path, names):
    note(tmp_path, COMING)
    write(tmp_path, names)
    clear(tmp_path, True, COMING)
    assert files(tmp_path) == set()


def test_a_search_is_not_taken_for_runs_that_were_killed_at_once(tmp_path):
    note(tmp_path, {"trials/01-5-rounds": "results"})
    with pytest.raises(BadScenario, match="holds files that are not fedlapse's"):
        clear(tmp_path, True, COMING)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["virtual", "sockets"])
def test_its_world_is_known_before_its_scenario(fedlapse, monkeypatch, tmp_path, world):
    def killed(path, data):
        assert path.name == "scenario.yaml"
        raise OSError(errno.EIO, "killed", str(path))

    monkeypatch.setattr("emulator.sessions.one_scenario.replace_file", killed)
    assert fedlapse("run", "quickstart", "-a", "fedavg", "--world", world, "--out", "out").returncode == 2
    host = json.loads((tmp_path / "out" / "host.json").read_text())
    assert (host.get("world"), host["folders"]["fedavg-s1"]) == ({"virtual": None, "sockets": "sockets"}[world], "run")

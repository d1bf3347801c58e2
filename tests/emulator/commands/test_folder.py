"""The folder of a command's results: while one command writes to it, no other changes anything there."""

import pytest

from emulator.commands.folder import alone, clear
from scenarios.load import dump, load
from scenarios.text.faults import BadScenario


@pytest.fixture
def under_way(tmp_path):
    """What a command has written whose first run is done; the lock is held as that command holds it."""
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


def test_force_takes_away_what_a_killed_command_left_and_nothing_else(tmp_path):
    """Of a replay on one more link: the folder of a run in which nothing stands yet."""
    for name in ("scenario.yaml", "replay.json", "mine.txt", "5Mbit-s/replay.json", "5Mbit-s/fedavg-s1/events.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "5Mbit-s" / "fedavg-s2").mkdir()
    (tmp_path / "empty").mkdir()
    clear(tmp_path, force=True)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.txt", "empty"}

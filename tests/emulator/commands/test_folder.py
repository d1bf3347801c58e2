"""The folder of a command's results: while one command writes to it, no other changes anything there."""

import pytest

from emulator.commands.folder import alone
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

"""`fedlapse resume` goes on with what `compare` and `run` have begun, and touches nothing else."""

import json
from concurrent.futures.process import BrokenProcessPool

import pytest

from emulator.compute.remembering import Disagreed
from scenarios.load import dump, load


@pytest.fixture
def begun(tmp_path):
    """A folder with no more than the scenario of a run that was broken off."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "scenario.yaml").write_text(dump(load("quickstart", [])))
    return tmp_path / "out"


@pytest.mark.parametrize("name", ["quickstart", "flash-phones", "papers/agentimportance-fig2-cifar-cnn-c20"])
def test_a_scenario_is_read_as_it_was_written(tmp_path, name):
    try:
        text = dump(load(name, []))
    except Exception as missing:  # its data or links are not here
        pytest.skip(str(missing))
    (tmp_path / "scenario.yaml").write_text(text)
    assert dump(load(str(tmp_path / "scenario.yaml"), [])) == text


def test_a_scenario_of_the_user_is_not_taken_for_a_run(fedlapse, tmp_path):
    mine = "# my own words\n" + dump(load("quickstart", []))
    (tmp_path / "scenario.yaml").write_text(mine)
    done = fedlapse("resume", tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"fedlapse: {tmp_path} holds a scenario.yaml that this version of fedlapse did not write\n"
    assert (tmp_path / "scenario.yaml").read_text() == mine


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("replay.json", "{}", "holds a replay, which cannot be resumed; run it again"),
        (
            "host.json",
            json.dumps({"world": "sockets"}),
            "holds runs over sockets, which cannot be resumed; run them again",
        ),
    ],
)
def test_replays_and_runs_over_sockets_are_not_resumed(fedlapse, begun, name, text, said):
    (begun / name).write_text(text)
    done = fedlapse("resume", begun)
    assert (done.returncode, done.stderr) == (2, f"fedlapse: {begun} {said}\n")
    assert {path.name for path in begun.iterdir()} == {"scenario.yaml", name}


def test_what_is_complete_is_not_played_again(fedlapse, begun):
    (begun / "seal.json").write_text("{}")
    done = fedlapse("resume", begun)
    assert (done.returncode, done.stdout) == (0, f"{begun} is complete; there is nothing to resume\n")


def test_a_folder_without_a_scenario_is_refused(fedlapse, tmp_path):
    done = fedlapse("resume", tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"fedlapse: {tmp_path} holds no scenario.yaml; give the folder that `fedlapse compare` made\n"


@pytest.mark.slow
@pytest.mark.parametrize("error", [Disagreed("combine fedavg 1 0"), BrokenProcessPool()])
def test_resume_is_advised_unless_it_would_fail_in_the_same_way(fedlapse, monkeypatch, error):
    async def play(_):
        raise error

    monkeypatch.setattr("emulator.sessions.session.Session.play", play)
    done = fedlapse("compare", "--out", "out", "--workers", 0, "--ledger", "mine")
    assert done.returncode == 1
    why, *advice = done.stderr.splitlines()
    if isinstance(error, Disagreed):
        assert why.startswith("fedlapse: combine fedavg 1 0: done again, it gave other bits than the ledger has; ")
        assert advice == []
    else:
        assert advice == ["fedlapse: to go on, with nothing trained twice: fedlapse resume out --ledger mine"]

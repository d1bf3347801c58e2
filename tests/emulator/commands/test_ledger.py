"""`fedlapse ledger`: what lies there is counted and removed, and nothing of the user's."""

import errno
import json
import sqlite3
from hashlib import sha256

import pytest

from emulator.ledger.facts import Fact, today
from emulator.ledger.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    """A ledger in a folder where the user has files, too: two results, and a message of 1000 bytes."""
    folder = tmp_path / "mine"
    (folder / "kept").mkdir(parents=True)
    for name in ("thesis.tex", "kept/thesis.tex"):
        (folder / name).write_text("mine")
    made = Ledger(folder, pytest.fail)
    for key, job in (("1", "start"), ("2", "train")):
        made.facts.put(Fact(key, job, "lab", [], [0]))
    data = bytes(1000)
    (folder / "kept" / sha256(data).hexdigest()).write_bytes(data)
    made.close(broken_off=False)
    return folder


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_stats_count_results_and_messages(fedlapse, ledger):
    found = json.loads(fedlapse("ledger", "stats", "--ledger", ledger, "--format", "json").stdout)
    assert found["results"]["count"] == {"start": 1, "train": 1}
    assert found["results"]["bytes"] == (ledger / "facts.sqlite").stat().st_size
    nothing = {"count": 0, "bytes": 0}
    assert found["messages"] == {"kept": {"count": 1, "bytes": 1000}, "left": nothing, "quarantine": nothing}


def test_stats_say_in_one_line_what_own_code_has_read(fedlapse, ledger):
    made = Ledger(ledger, pytest.fail)
    for key, job in (("3", "train"), ("4", "reads"), ("5", "reads"), ("6", "names"), ("7", "file")):
        made.facts.put(Fact(key, job, "lab", [], [0]))
    made.close(broken_off=False)
    said = [line.split() for line in fedlapse("ledger", "stats", "--ledger", ledger).stdout.splitlines()[1:]]
    read = ["inputs", "4", *["notes", "of", "what", "your", "code", "has", "read"]]
    assert said[:3] == [["start", "1", "result"], ["train", "2", "results"], read]
    assert said[3][:3] == ["kept", "1", "message,"]


def test_gc_removes_messages_beyond_the_cap_and_no_file_of_others(fedlapse, ledger):
    done = fedlapse("ledger", "gc", "--cap", 0, "--ledger", ledger)
    assert done.returncode == 0
    assert {path.name for path in (ledger / "kept").iterdir()} == {"thesis.tex"}
    found = json.loads(fedlapse("ledger", "stats", "--ledger", ledger, "--format", "json").stdout)
    assert found["results"]["count"] == {"start": 1, "train": 1}


def test_gc_removes_results_that_nobody_used_for_so_long_and_what_was_set_aside(fedlapse, ledger):
    long_ago = today() - 90
    with sqlite3.connect(ledger / "facts.sqlite") as file:
        file.execute("UPDATE facts SET day = ? WHERE key = '1'", (long_ago,))
        file.execute("UPDATE facts SET day = ? WHERE key = '2'", (long_ago + 1,))
    file.close()
    (ledger / "facts.sqlite.damaged-1").write_bytes(bytes(10**6))
    assert fedlapse("ledger", "gc", "--ledger", ledger).stdout == "1.0 MB removed\n"
    assert not (ledger / "facts.sqlite.damaged-1").exists()
    assert fedlapse("ledger", "gc", "--unused", 89, "--ledger", ledger).returncode == 0
    found = json.loads(fedlapse("ledger", "stats", "--ledger", ledger, "--format", "json").stdout)
    assert found["results"]["count"] == {"train": 1}


def test_gc_leaves_results_alone_while_another_command_uses_the_ledger(fedlapse, ledger):
    used = Ledger(ledger, pytest.fail)
    done = fedlapse("ledger", "gc", "--cap", 0, "--ledger", ledger)
    assert (done.returncode, done.stdout) == (0, "0.0 MB removed\n")
    assert done.stderr == f"fedlapse: {ledger} is in use by another command; its results stay as they are\n"
    assert {path.name for path in (ledger / "kept").iterdir()} == {"thesis.tex"}
    used.close(broken_off=False)


def test_clear_removes_the_ledger_and_no_file_of_others(fedlapse, ledger):
    assert fedlapse("ledger", "clear", "--ledger", ledger).returncode == 0
    assert files(ledger) == {"thesis.tex", "kept", "kept/thesis.tex"}


def test_clear_removes_a_folder_that_is_empty_then(fedlapse, tmp_path):
    Ledger(tmp_path / "own", pytest.fail).close(broken_off=False)
    assert fedlapse("ledger", "clear", "--ledger", "own").returncode == 0
    assert not (tmp_path / "own").exists()


def test_a_ledger_in_use_is_not_cleared(fedlapse, ledger):
    used = Ledger(ledger, pytest.fail)
    before = files(ledger)
    done = fedlapse("ledger", "clear", "--ledger", ledger)
    assert (done.returncode, files(ledger)) == (2, before)
    assert done.stderr == f"fedlapse: {ledger} is in use by another command; clear it once that has ended\n"
    used.close(broken_off=False)


@pytest.mark.parametrize("command", ["stats", "verify", "gc", "clear"])
@pytest.mark.parametrize("place", ["nowhere", "empty"])
def test_where_no_ledger_is_none_is_made(fedlapse, tmp_path, command, place):
    (tmp_path / "empty").mkdir()
    done = fedlapse("ledger", command, "--ledger", place)
    assert done.returncode == 2
    assert done.stderr == f"fedlapse: {place} holds no ledger; `fedlapse compare` makes one\n"
    assert files(tmp_path) == {"empty"}


def test_the_environment_may_say_that_there_is_none(fedlapse, monkeypatch):
    monkeypatch.setenv("FEDLAPSE_LEDGER", "off")
    done = fedlapse("ledger", "stats")
    assert done.returncode == 2
    assert done.stderr == "fedlapse: FEDLAPSE_LEDGER is off: there is no ledger; say which with --ledger\n"


@pytest.mark.parametrize("command", ["stats", "verify", "gc", "clear"])
def test_a_file_is_no_ledger(fedlapse, tmp_path, command):
    (tmp_path / "file").write_text("mine")
    done = fedlapse("ledger", command, "--ledger", "file")
    assert (done.returncode, done.stderr) == (2, "fedlapse: file is a file; give the folder of a ledger\n")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("place", ["file", "file/below"])
@pytest.mark.parametrize("command", [["compare"], ["run", "-a", "fedavg"]], ids=["compare", "run"])
def test_a_file_where_the_ledger_should_be_is_refused_before_anything_is_played(
    fedlapse, monkeypatch, tmp_path, command, place
):
    (tmp_path / "file").write_text("mine")
    said = f"{place} is a file, or lies in one; give a folder\n"
    done = fedlapse(*command, "quickstart", "--ledger", place)
    assert (done.returncode, done.stderr) == (2, f"fedlapse: --ledger {said}")
    monkeypatch.setenv("FEDLAPSE_LEDGER", place)
    done = fedlapse(*command, "quickstart")
    assert (done.returncode, done.stderr) == (2, f"fedlapse: FEDLAPSE_LEDGER={said}")
    assert files(tmp_path) == {"file"}


def test_a_folder_without_permission_is_refused_before_anything_is_played(fedlapse, monkeypatch, tmp_path):
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", denied)  # root may go everywhere
    done = fedlapse("compare", "quickstart", "--ledger", "others")
    said = "fedlapse: --ledger others: permission denied; give a folder that is yours\n"
    assert (done.returncode, done.stderr) == (2, said)

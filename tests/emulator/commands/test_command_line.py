"""A mistake in a command line is reported in one line that names the value, with exit code 2."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from typer.main import get_command

from emulator.__main__ import COMMANDS, app
from emulator.sessions.computing import Computing, ExecutorName, workers_of
from tests.all_of import all_of
from tests.emulator.commands.processes import Command, wait_for


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nope"], "'nope'"),
        (["comparee"], "Did you mean 'compare'"),
        (["--nope"], "--nope"),
        (["run", "--nope"], "--nope"),
        (["run", "--workers"], "fedlapse: option '--workers' requires an argument; see `fedlapse run --help`"),
        (["run", "--workers", "-3"], "'--workers': should be greater than or equal to 0, not '-3'"),
        (["run", "--workers", "1.5"], "not '1.5'"),
        (["run", "--workers", "9" * 30], "not '999999"),
        (["run", "--workers", "a\nb"], r"not 'a\nb'"),
        (["run", "--workers", "\x1b[31m"], r"not '\x1b[31m'"),
        (["compare", "--format", "xml"], "'xml' is not one of 'text', 'json'"),
        (["calibrate", "--name", "a b"], "'a b'"),
        (["map"], "missing argument 'RUN'"),
        (["report"], "missing argument 'RUN'"),
        (["diff"], "missing argument 'RUN'"),
        (["diff", "a"], "missing argument 'OTHER'"),
        (["trace", "nope"], "'nope'"),
        (["trace", "info", "--format"], "fedlapse: option '--format' requires"),
        (["trace", "transfer", "x", "--nope=\n"], "--nope"),
    ],
)
def test_a_mistake_is_one_line(fedlapse, words, named) -> None:
    done = fedlapse(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fedlapse: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("--help`\n")
    assert named in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["devices", "schema", "papers"])
def test_output_that_does_not_fit_on_the_disk_is_one_line(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "emulator", command], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (1, "fedlapse: no space left on the disk\n")


def test_a_group_without_a_command_shows_its_help(fedlapse) -> None:
    alone, asked = fedlapse("trace"), fedlapse("trace", "--help")
    assert alone.stdout == asked.stdout != ""
    assert (alone.returncode, asked.returncode) == (2, 0)


def test_fedlapse_alone_shows_first_steps(fedlapse, tmp_path) -> None:
    alone = fedlapse()
    assert alone.returncode == 2
    steps = [line.split("   ")[0].split() for line in alone.stdout.splitlines() if line.startswith("  fedlapse")]
    assert [step[1] for step in steps] == ["compare", "new", "check", "compare"]
    assert fedlapse(*steps[1][1:]).returncode == 0
    assert [(tmp_path / step[2]).exists() for step in steps[2:]] == [True, True]


def test_which_version_this_is(fedlapse) -> None:
    done = fedlapse("--version")
    assert (done.returncode, done.stdout) == (0, f"fedlapse {metadata.version('fedlapse')}\n")


@pytest.mark.parametrize("command", [["compare", "quickstart"], ["run", "quickstart", "-a", "fedavg"]])
def test_a_file_in_the_place_of_a_folder_is_named(fedlapse, tmp_path, command) -> None:
    (tmp_path / "afile").touch()
    done = fedlapse(*command, "--out", "afile")
    assert done.returncode == 2
    assert done.stderr == "fedlapse: cannot make the output folder afile: it is a file, or lies in one; give a folder\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "--no-ledger"], "--ledger x and --no-ledger are given; give one of them"),
        (["run", "-a", "fedavg", "--no-ledger"], "--ledger x and --no-ledger are given; give one of them"),
        (
            ["run", "-a", "fedavg", "--world", "sockets"],
            "--ledger x is for --world virtual; over sockets every device trains for real",
        ),
    ],
)
def test_a_ledger_that_would_not_be_used_is_refused(fedlapse, tmp_path, words, said) -> None:
    done = fedlapse(*words, "--ledger", "x", "--out", "out")
    assert (done.returncode, done.stderr) == (2, f"fedlapse: {said}\n")
    assert not list(tmp_path.iterdir())


def test_a_pace_that_would_not_be_kept_is_refused(fedlapse, tmp_path) -> None:
    done = fedlapse("run", "-a", "fedavg", "--speedup", "10", "--out", "out")
    said = "--speedup 10 is for --world sockets; virtual time passes as fast as it is computed"
    assert (done.returncode, done.stderr) == (2, f"fedlapse: {said}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["replay", "gone"], ["report", "gone"], ["diff", "gone", "gone"], ["audit", "gone"]])
def test_every_command_has_one_prefix_for_errors(fedlapse, words) -> None:
    done = fedlapse(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("fedlapse: gone holds no ")


@pytest.mark.parametrize(
    ("count", "cores", "found", "warned"), [(None, 4, 4, 0), (4, 4, 4, 0), (5, 4, 5, 1), (0, 4, 0, 0)]
)
def test_more_workers_than_cores_are_warned_of(monkeypatch, capsys, count, cores, found, warned):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert workers_of(count) == found
    assert capsys.readouterr().err.count("--workers 5 is more than the 4 cores") == warned


@pytest.mark.parametrize(
    ("count", "device", "executor", "ready"),
    [
        (None, "cpu", "processes", True),
        (1, "cpu", "processes", True),
        (0, "cpu", "processes", False),
        (2, "cuda:0,cuda:1", "processes", False),
        (None, "auto", "processes", False),
        (2, "cpu", "ray", False),
    ],
)
def test_what_workers_need_is_imported_early_where_there_will_be_worker_processes(
    monkeypatch, count, device, executor, ready
):
    asked = []
    monkeypatch.setattr("emulator.compute.ready.be_ready", lambda: asked.append(True))
    Computing(count, device, ExecutorName(executor)).have_workers_ready()
    assert bool(asked) is ready


@pytest.mark.parametrize(
    ("words", "ready"),
    [
        (["compare", "gone.yaml"], True),
        (["compare", "gone.yaml", "--workers", "0"], False),
        (["run", "--algorithm", "fedavg", "gone.yaml"], True),
        (["resume", "begun"], True),
        (["tune", "gone.yaml"], True),
        (["tune", "gone.yaml", "--dry-run"], False),
        (["study", "gone.yaml"], True),
        (["study", "gone.yaml", "--dry-run"], False),
        (["replay", "gone", "--train"], True),
        (["replay", "gone"], False),
        (["map", "gone", "--train"], True),
        (["map", "gone"], False),
    ],
    ids=str,
)
def test_commands_that_train_import_what_workers_need_before_they_read(fedlapse, tmp_path, monkeypatch, words, ready):
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "scenario.yaml").write_text("rounds: {max: many}")
    asked = []
    monkeypatch.setattr("emulator.compute.ready.be_ready", lambda: asked.append(True))
    assert fedlapse(*words).returncode == 2
    assert bool(asked) is ready


@pytest.mark.slow
def test_a_scenario_that_is_wrong_leaves_no_process(tmp_path):
    (tmp_path / "wrong.yaml").write_text("rounds: {max: many}")
    with Command(tmp_path / "out", "compare", tmp_path / "wrong.yaml", "--workers", 2) as command:
        code, text = command.ended(60)
    assert code == 2, text
    assert "Traceback" not in text
    wait_for(lambda: command.living() == [], 20)


def test_no_worker_is_started_that_could_never_have_anything_to_do(fedlapse, tmp_path, monkeypatch):
    """One algorithm, two seeds, three devices: six trainings at once, and never more."""
    started = []

    def executor(lab, count):
        started.append(count)
        raise KeyboardInterrupt

    monkeypatch.setattr("emulator.sessions.pool.executor", executor)
    (tmp_path / "three.yaml").write_text(
        "name: three\nfleet: [{name: pis, profile: pi-4, count: 3, link: {up_mbit_s: 5, down_mbit_s: 5}}]\n"
        "algorithms: [fedavg]\nseeds: [1, 2]\n"
    )
    done = fedlapse("compare", "three.yaml", "--workers", "40", "--out", "new")
    assert (done.returncode, started) == (130, [6]), done.stderr


@pytest.mark.parametrize(
    "words",
    [
        *(["compare"], ["check"], ["run", "-a", "fedavg"], ["algorithms"], ["devices"], ["trace", "info"]),
        *(["map", "--uplink", "1..2Mbit/s"]),
    ],
    ids=str,
)
def test_a_file_that_is_not_there_is_told_with_that_prefix_too(fedlapse, words) -> None:
    done = fedlapse(*words, "gone")
    assert done.returncode == 2
    assert re.fullmatch(r"fedlapse: (?!fedlapse).*\n", done.stderr)


GROUP = get_command(app)
BELOW = [[name, each] for name in COMMANDS for each in getattr(GROUP.get_command(None, name), "commands", ())]
PAGES = [[], *([name] for name in COMMANDS), *BELOW]


@pytest.mark.parametrize("words", PAGES, ids=str)
def test_an_option_that_no_command_has_is_told_with_that_prefix(fedlapse, words) -> None:
    done = fedlapse(*words, "--nope")
    assert done.returncode == 2
    assert done.stderr.startswith("fedlapse: no such option: --nope")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_sentence_that_a_list_of_commands_shows_is_the_commands_own(command: str) -> None:
    own = GROUP.get_command(None, command).help
    assert COMMANDS[command][1] == " ".join(own.split("\n\n")[0].split())


@pytest.mark.parametrize("words", PAGES, ids=str)
def test_help_is_plain_and_has_an_example_that_is_right(fedlapse, words) -> None:
    told = fedlapse(*words, "--help").stdout
    assert not re.search(r"<\w|\[default|\bPython\b|[╭│]", told)
    assert all_of(len(line) <= 100 for line in told.splitlines())
    examples = [shlex.split(line.partition(" > ")[0]) for line in told.splitlines() if line.startswith("    fedlapse ")]
    if not hasattr(command := within(words), "commands"):
        known = {name for each in command.params for name in each.opts}
        assert all_of(example[1 : 1 + len(words)] == words for example in examples)
        assert {word for example in examples for word in example if re.match("--?[a-z]", word)} <= known


def within(words):
    command = GROUP
    for word in words:
        command = command.get_command(None, word)
    return command


@pytest.mark.parametrize("words", PAGES, ids=str)
def test_help_names_no_document_that_an_installed_fedlapse_lacks(fedlapse, words) -> None:
    assert not re.search(r"docs/|\.md\b", fedlapse(*words, "--help").stdout)


@pytest.mark.parametrize("words", [["trace", "synth"], ["papers"], ["scenarios"], ["devices"]], ids=str)
def test_neither_do_lists(fedlapse, words) -> None:
    assert not re.search(r"docs/|\.md\b|benchmarks", fedlapse(*words).stdout)

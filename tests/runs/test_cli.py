"""The command line as a person meets it: help, errors in one line, exit codes, files."""

import csv
import json
import os
import subprocess
import sys

import pytest

from emulator.__main__ import COMMANDS

pytestmark = pytest.mark.slow

QUICK = ("--workers", "0", "-q", "rounds.max=1", "seeds=[1]", "training.epochs=1", "training.batch=64")


def refused(done):
    """Asserts that the input was refused: exit code 2, a short message, nothing on stdout.  Returns the message."""
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


HELP = """
import sys
from contextlib import suppress
from emulator.__main__ import COMMANDS, main

HEAVY = {"torch", "altair", "aiohttp", "sklearn"}
LIST = {"numpy", "simpy", "ruamel.yaml", "jinja2"}  # which a command may need, and the list of commands does not
for words in ([], *([name] for name in COMMANDS)):
    for flag in ("-h", "--help"):
        sys.argv = ["fedlapse", *words, flag]
        print("asked", *words, flag, flush=True)
        with suppress(SystemExit):
            main()
        print("loaded", sorted((HEAVY if words else HEAVY | LIST) & sys.modules.keys()), flush=True)
"""


def test_help_is_there_and_imports_nothing_heavy(tmp_path):
    """In a process of its own: this one has imported everything."""
    words = [sys.executable, "-c", HELP]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    helps = done.stdout.split("asked ")[1:]
    assert len(helps) == 2 * (1 + len(COMMANDS))
    for said in helps:
        assert "Usage" in said, said
        assert said.splitlines()[-1] == "loaded []", said


@pytest.mark.pages
def test_an_own_scenario_from_new_to_report(fedlapse, tmp_path):
    made = fedlapse("new", "campus")
    assert made.returncode == 0, made.stderr
    assert "fedlapse check campus.yaml" in made.stdout
    assert (tmp_path / "campus.yaml").read_text().startswith("# yaml-language-server: $schema=scenario.schema.json\n")
    assert json.loads((tmp_path / "scenario.schema.json").read_text())["$schema"].startswith("http://json-schema.org")
    again = refused(fedlapse("new", "campus"))
    assert "exists already" in again
    checked = fedlapse("check", "campus.yaml")
    assert checked.returncode == 0, checked.stderr
    assert "a round of fedcurv takes" in checked.stdout
    played = fedlapse("compare", "campus.yaml", *QUICK)
    assert played.returncode == 0, played.stderr
    out = tmp_path / "runs" / "campus-0001"
    assert {"scenario.yaml", "split.json", "host.json", "summary.json", "report.html"} <= {
        p.name for p in out.iterdir()
    }
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    reported = fedlapse("report", "runs/campus-0001")
    assert reported.returncode == 0, reported.stderr
    assert (out / "report.html").read_bytes() == page
    same = fedlapse("compare", "campus.yaml", *QUICK)
    assert "record identical to runs/campus-0001" in same.stdout
    assert fedlapse("diff", "runs/campus-0001", "runs/campus-0002").returncode == 0


def test_new_writes_a_study_that_says_what_it_costs(fedlapse):
    made = fedlapse("new", "--study", "mine")
    assert made.returncode == 0
    assert "fedlapse study mine.yaml" in made.stdout
    planned = fedlapse("study", "mine.yaml", "--dry-run", "--workers", "0", "training.epochs=1")
    assert planned.returncode == 0, planned.stderr
    assert "with the reported seeds" in planned.stdout


def test_what_is_tracked_changes_no_byte_of_the_results(fedlapse, tmp_path):
    plain = fedlapse("compare", "--out", "plain", *QUICK)
    done = fedlapse("compare", "--out", "o", "--track", "csv:logs", *QUICK)
    assert (done.returncode, plain.returncode) == (0, 0), done.stderr
    for name in ("scenario.yaml", "summary.json", "fedcurv-s1/events.jsonl", "fedcurv-s1/rounds.jsonl"):
        assert (tmp_path / "o" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "o/fedcurv-s1/rounds.jsonl").read_text().splitlines()]
    with (tmp_path / "logs/o/fedcurv-s1/metrics.csv").open() as file:
        logged = [(int(row["step"]), float(row["accuracy"])) for row in csv.DictReader(file)]
    assert logged == [(row["round"], row["accuracy"]) for row in rows if row["accuracy"] is not None]
    inside = fedlapse("compare", "--out", "o", "--track", "csv:o/logs", *QUICK)
    assert inside.returncode == 2
    assert "lies in the folder of the results" in inside.stderr


def test_json_is_one_object_on_stdout(fedlapse, tmp_path):
    done = fedlapse("compare", "--format", "json", "--out", "o", *QUICK)
    said = json.loads(done.stdout)
    assert said["out"] == "o"
    assert said["labels"].keys() == {"fedavg", "fedprox", "fedcl-n10", "fedcurv"}
    assert said["digest"] == json.loads((tmp_path / "o" / "summary.json").read_text())["digest"]
    for command in ("check", "algorithms quickstart", "devices", "scenarios", "audit o", "diff o o"):
        done = fedlapse(*command.split(), "--format", "json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)


@pytest.mark.parametrize(
    ("claim", "code", "said"),
    [
        ("{label: fedavg, reach: 0.05, time_s: 100}", 0, "✓"),
        ("{label: fedavg, reach: 0.05, time_s: 0.001}", 3, "✗"),
        ("{label: fedavg, final: 0.99}", 3, "✗"),
    ],
)
def test_an_expectation_sets_the_exit_code(fedlapse, claim, code, said, tmp_path):
    done = fedlapse("run", "-a", "fedavg", f"expect=[{claim}]", *QUICK)
    assert done.returncode == code, done.stderr
    assert said in done.stdout


def test_results_are_not_overwritten_unless_forced(fedlapse, tmp_path):
    assert fedlapse("run", "-a", "fedavg", "--out", "o", *QUICK).returncode == 0
    (tmp_path / "o" / "mine.txt").write_text("keep")
    assert "holds another run" in refused(fedlapse("run", "-a", "fedprox", "--out", "o", *QUICK))
    assert (tmp_path / "o" / "fedavg-s1").is_dir()
    assert fedlapse("run", "-a", "fedprox", "--out", "o", "--force", *QUICK).returncode == 0
    assert {p.name for p in (tmp_path / "o").iterdir() if p.is_dir()} == {"fedprox-s1"}
    assert (tmp_path / "o" / "mine.txt").read_text() == "keep"
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "scenario.yaml").write_text("name: my own")  # no results
    assert "not fedlapse's" in refused(fedlapse("run", "-a", "fedavg", "--out", "q", "--force", *QUICK))
    assert (tmp_path / "q" / "scenario.yaml").read_text() == "name: my own"
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "thesis.tex").write_text("keep")
    assert "not fedlapse's" in refused(fedlapse("run", "-a", "fedavg", "--out", "p", "--force", *QUICK))


@pytest.mark.parametrize("command", ["compare", "check"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.yaml"], "cannot read nowhere.yaml"),
        (["rounds.mx=3"], "did you mean max?"),
        (["quickstart", "twice"], "one is enough"),
        (["rounds.deadline_s=0.01"], "rounds.deadline_s: it is 0.01"),
        (["fleet.pi-4.count=100000", "rounds.fraction=0.001"], "training examples"),
        (["data.set=mnist"], "data: "),
        (["data.set=mnist", "model=mnist-cnn"], "data: "),
        (["model=mlp"], "takes examples of shape"),
        (["fleet=[]"], "must not be empty"),
        (["fleet.pi-4.count=0"], "greater than or equal to 1"),
        (["rounds.ask=99"], "the fleet has 16"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(fedlapse, command, arguments, message, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLAPSE_DATA", "")
    done = fedlapse(command, *arguments)
    assert message in refused(done)
    assert done.stderr.count("\n") <= 3  # the message, the line, the caret
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_data_file_is_named(fedlapse, tmp_path, shared_data, monkeypatch):
    folder = tmp_path / "mnist"
    folder.mkdir()
    for file in (shared_data / "mnist").iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes()[:1000])
    monkeypatch.setenv("FEDLAPSE_DATA", str(tmp_path))
    done = fedlapse("check", "fedcl-mnist")
    assert "mnist" in refused(done)
    assert done.stderr.startswith("fedlapse: fedcl-mnist:")  # with its line
    assert " data: " in done.stderr.splitlines()[0]


@pytest.mark.parametrize("content", [b"", b"- 1\n", b"\xff\xfe\x00", b"a: &a [*a]\n", b"name: [\n", b"\x00"], ids=repr)
def test_a_file_that_is_no_scenario_is_refused_in_one_line(fedlapse, content, tmp_path):
    (tmp_path / "x.yaml").write_bytes(content)
    assert "x.yaml" in refused(fedlapse("check", "x.yaml"))


def test_completion_is_offered(tmp_path):
    env = {"_FEDLAPSE_COMPLETE": "complete_bash", "COMP_WORDS": "fedlapse check qu", "COMP_CWORD": "2"}
    code = "import sys; sys.argv = ['fedlapse']; from emulator.__main__ import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True, timeout=300)
    assert "quickstart" in done.stdout, done.stderr

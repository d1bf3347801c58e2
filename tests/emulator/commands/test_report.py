"""`fedlapse report`: where things go, and what it refuses."""

import json

import pytest
from typer.testing import CliRunner

from emulator.__main__ import app
from emulator.report.comparison import MADE_BY
from emulator.results.results import read
from emulator.wording.terminal import table
from scenarios.load import load
from tests.emulator.results.test_results import row

SCENARIO = """
name: trial
rounds: {max: 1, fraction: 1.0}
fleet: [{profile: phone-mid, count: 1, link: {up_mbit_s: 1, down_mbit_s: 1}}]
"""
ROW = {**row(0, 0.5), "asked": 1, "counted": 1}


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "out" / "fedavg-s1"
    run.mkdir(parents=True)
    (run.parent / "scenario.yaml").write_text(SCENARIO)
    (run / "rounds.jsonl").write_text(json.dumps(ROW) + "\n")
    return run.parent


def report(*words):
    return CliRunner().invoke(app, ["report", *map(str, words)])


def test_markdown_and_json_go_to_the_screen(out):
    assert report(out, "--format", "markdown").stdout.startswith(f"<!-- {MADE_BY} -->\n## trial")
    assert json.loads(report(out, "--format", "json").stdout)["critical_s"]["fedavg"]["compute train"] == 1.0
    assert not (out / "report.html").exists()


@pytest.mark.slow
def test_the_page_goes_into_the_folder_of_one_and_beside_several(out, tmp_path):
    assert report(out).exit_code == 0
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert report(out, out).exit_code == 0
    assert "out#2/fedavg" in (tmp_path / "report.html").read_text()
    assert report(out, out).exit_code == 0  # its own page it replaces


def test_a_file_of_someone_else_is_not_overwritten_unless_told(out, tmp_path):
    theirs = tmp_path / "notes.md"
    theirs.write_text("dear diary")
    refused = report(out, "--format", "markdown", "--out", theirs)
    assert refused.exit_code == 2
    assert "was not made by fedlapse" in refused.stderr
    assert theirs.read_text() == "dear diary"
    assert report(out, "--format", "markdown", "--out", theirs, "--force").exit_code == 0
    assert MADE_BY in theirs.read_text()


def test_what_cannot_be_read_is_told_in_one_line(tmp_path):
    refused = report(tmp_path / "nowhere")
    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1
    assert "scenario.yaml is missing" in refused.stderr


@pytest.mark.parametrize("more", [("--out", "page"), ("--format", "html"), ("--png",)], ids=lambda more: more[0])
def test_options_of_a_report_are_refused_beside_a_trace(out, tmp_path, more):
    refused = report(out, "--perfetto", tmp_path / "trace.json", *more)
    assert refused.exit_code == 2
    assert refused.stderr == f"fedlapse: --perfetto OUT.json writes no report; leave out {more[0]}\n"
    assert not (tmp_path / "trace.json").exists()


def test_a_trace_is_written_in_place_of_the_report_and_over_no_file_of_another(out, tmp_path):
    done = report(out, "--perfetto", tmp_path / "trace.json")
    assert done.stdout == f"trace: {tmp_path / 'trace.json'}\n"
    assert json.loads((tmp_path / "trace.json").read_text())["otherData"]["about"] == MADE_BY
    assert not (out / "report.html").exists()
    assert report(out, "--perfetto", tmp_path / "trace.json").exit_code == 0  # its own it replaces
    (tmp_path / "theirs.json").write_text("{}")
    assert "was not made by fedlapse" in report(out, "--perfetto", tmp_path / "theirs.json").stderr


@pytest.mark.slow
def test_pictures_are_svg_and_png_of_every_chart(out):
    assert report(out, "--format", "markdown", "--out", out / "report.md", "--png").exit_code == 0
    names = {file.name for file in (out / "charts").iterdir()}
    assert {"accuracy-time.svg", "accuracy-time.png", "seconds.svg", "seconds.png", "bytes.png"} <= names
    assert (out / "charts" / "seconds.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "charts" / "seconds.svg").read_text().startswith("<svg")


def test_a_file_beside_a_scenario_is_not_overwritten(out):
    for name in ("notes.txt", "scenario.yaml"):
        before = (out / name).read_text() if name == "scenario.yaml" else "keep"
        (out / name).write_text(before)
        assert report(out, "--out", out / name).exit_code == 2
        assert (out / name).read_text() == before


def test_the_network_model_stands_beside_the_seconds(tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "fedavg-s1").mkdir()
    (tmp_path / "fedavg-s1" / "rounds.jsonl").write_text(json.dumps(ROW) + "\n")
    model = load(str(tmp_path / "scenario.yaml")).network_model
    for kind, said in (("markdown", f"network model {model}"), ("json", f'"network": "{model}"')):
        done = CliRunner().invoke(app, ["report", str(tmp_path), "--format", kind])
        assert said in done.stdout
    found = read(tmp_path)
    assert f"1 seed, network model {model}" in table(found.scenario, found.summary)

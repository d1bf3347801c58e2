"""The page for a PyTorch project: its blocks are run in order, in one folder, cut short."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import fedlapse
from algorithms.tasks.task import METRICS, named
from scenarios.load import parse
from tests.docs.test_readme import blocks, commands

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "bring-your-own.md").read_text(encoding="utf-8")
FILES = {
    name[1]: body for kind, body in blocks(PAGE) if (name := re.search(r"^# (\S+\.(?:py|yaml))$", body, re.MULTILINE))
}
SHORT = ["training.steps=2", "training.epochs=1", "evaluate.personalise_every=never", "seeds=[1]"]
PLAYED = [*SHORT, "rounds.max=1", "--workers", "0", "-q"]


@pytest.fixture
def folder(tmp_path):
    for name, body in FILES.items():
        (tmp_path / name).write_text(body, encoding="utf-8")
    return tmp_path


def test_the_page_is_short_and_names_all_examples_and_tasks():
    assert len(PAGE.split()) <= 1300
    assert set(re.findall(r"\]\(examples/(\w+\.py)\)", PAGE)) == {
        file.name for file in (ROOT / "docs" / "examples").glob("*.py")
    }
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", PAGE, re.MULTILINE))
    assert {task: tuple(re.findall(r"`(\w+)`", said)) for task, said in rows.items()} == METRICS


def test_every_block_is_a_file_a_part_of_a_scenario_or_commands():
    others = [(kind, body) for kind, body in blocks(PAGE) if body not in FILES.values()]
    assert [kind for kind, _ in others] == ["console", "yaml", "yaml"]
    parts = others[1][1] + others[2][1]
    rest = [line for line in FILES["project.yaml"].splitlines(True) if not line.startswith(("rounds:", "model:"))]
    found = parse("".join(rest) + parts, "page")
    assert found.task.measured == ("mae", "r2")
    assert found.model.train == "head.*"


@pytest.mark.slow
def test_the_commands_run(fedlapse, folder):
    told = [command for kind, body in blocks(PAGE) if kind == "console" for command in commands(body)]
    told += [shlex.split(said) for said in re.findall(r"`(fedlapse compare [^`]+)`", PAGE)]
    assert [command[1] for command in told] == ["data", "check", "compare", "compare"]
    for command in told:
        done = fedlapse(*command[1:], *(PLAYED if command[1] == "compare" else ()))
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_program_runs(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr("emulator.report.page.page", lambda results: "a page")
    played = fedlapse.compare
    monkeypatch.setattr(fedlapse, "compare", lambda said, **how: played(said, *SHORT, **how, workers=0, quiet=True))
    runpy.run_path("program.py", run_name="__main__")
    assert len(re.findall(r"^fed\w+ 1 [\d.]+ [\d.]+$", capsys.readouterr().out, re.MULTILINE)) == 4 * 2


@pytest.mark.slow
def test_the_median_of_one_device_is_fedavg_and_that_of_three_is_not(fedlapse, folder):
    both = 'algorithms=[fedavg, "median:Median"]'
    for devices, alike in ((1, True), (3, False)):
        out = folder / str(devices)
        done = fedlapse("compare", "project.yaml", both, *PLAYED, f"rounds.fraction={devices / 12:.3f}", "--out", out)
        assert done.returncode == 0, done.stderr
        found = [(out / f"{name}-s1" / "final.safetensors").read_bytes() for name in ("fedavg", "median")]
        assert (found[0] == found[1]) == alike


def test_the_loss_of_the_page_smooths_labels(folder, monkeypatch):
    """By hand: the target is 0.9 of the label and 0.1 of all classes in equal shares."""
    monkeypatch.syspath_prepend(folder)
    logits, labels = torch.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]]), torch.tensor([1, 0])
    wanted = -(logits.log_softmax(1) * (0.9 * F.one_hot(labels, 3) + 0.1 / 3)).sum(1)
    assert torch.allclose(named("tasks:Smoothed").loss(logits, labels), wanted)

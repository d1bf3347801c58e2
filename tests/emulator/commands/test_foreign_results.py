"""Results of somebody else may name any code: what only reads them runs none of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.results.results import momentum
from scenarios.load import build
from scenarios.schema.entries import Entry
from tests.conftest import SMALL, merged
from tests.emulator.audit.straggling import Body, declare, events, rows, write

Command = Callable[..., Any]
EVIL = "from pathlib import Path\n\nPath(__file__).with_name('imported').touch()\nraise SystemExit\n"
PRESET = {"preset": "paper", "training": {"lr": 0.1}}
OWN: dict[str, Body] = {
    "a module": {
        "model": "evil:net",
        "data": {"set": "evil:data"},
        "algorithms": [{"key": "evil:Mine", "options": PRESET, "name": "fedavg"}],
    },
    "an installed algorithm": {"algorithms": [{"key": "evil", "options": PRESET, "name": "fedavg"}]},
}
TRAINING = {"training": {"momentum": 0.5}}
READERS: dict[str, tuple[str, ...]] = {
    "report": ("report", "OUT"),
    "markdown": ("report", "OUT", "--format", "markdown"),
    "json": ("report", "OUT", "--format", "json"),
    "perfetto": ("report", "OUT", "--perfetto", "trace.json"),
    "several": ("report", "OUT", "OUT", "--format", "json"),
    "export": ("export", "OUT"),
    "cite": ("cite", "OUT"),
    "audit": ("audit", "OUT"),
    "diff": ("diff", "OUT", "OUT"),
}


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that can be imported and an installed algorithm; the file that is there if one was."""
    (tmp_path / "evil.py").write_text(EVIL)
    info = tmp_path / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fedlapse.algorithms]\nevil = evil:Mine\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    return tmp_path / "imported"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    write(folder, events(), rows())
    return folder


@pytest.mark.slow
@pytest.mark.pages
@pytest.mark.parametrize("command", READERS.values(), ids=READERS)
@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_a_command_that_reads_results_runs_no_code_that_they_name(
    fedlapse: Command, evil: Path, out: Path, command: tuple[str, ...], own: Body
) -> None:
    declare(out, **own)
    done = fedlapse(*(str(out) if word == "OUT" else word for word in command))
    assert done.returncode == 0, done.stderr
    assert not evil.exists()


@pytest.mark.slow
def test_what_trains_does_run_it(fedlapse: Command, evil: Path, out: Path) -> None:
    """So the module above can be found, and is run where it is asked for."""
    declare(out, **OWN["a module"])
    assert fedlapse("check", out / "scenario.yaml").returncode == 2
    assert evil.exists()


@pytest.mark.slow
@pytest.mark.parametrize(("command", "found"), [("report", False), ("export", False), ("scenarios", True)])
def test_the_folder_where_it_starts_is_searched_for_code_only_by_what_may_run_it(
    fedlapse: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, found: bool
) -> None:
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(tmp_path)])
    fedlapse(command, *(() if found else (tmp_path,)))
    assert (str(tmp_path) in sys.path) is found


def test_the_momentum_of_a_preset_that_only_its_own_code_knows_is_not_known() -> None:
    scenario = build(
        merged(
            SMALL,
            {
                "training": {"momentum": 0.1},
                "algorithms": ["fedavg", {"fedcl": {"preset": "author_code"}, "name": "code"}],
            },
        )
    )
    options: dict[str, Body] = {"plain": {}, "preset": {"preset": "x"}, "both": {"preset": "x", **TRAINING}}
    own = tuple(Entry(key="evil:Mine", options=said, name=name) for name, said in options.items())
    found = momentum(scenario.model_copy(update={"algorithms": (*scenario.algorithms, *own)}))
    assert found == {"fedavg": 0.1, "code": 0.9, "plain": 0.1, "preset": None, "both": 0.5}

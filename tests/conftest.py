"""Shared by the tests of whole runs: small scenarios, played in this process, and always audited."""

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import settings
from typer.testing import CliRunner

from emulator.__main__ import app
from emulator.audit.audit import audit
from emulator.compute.executors import Inline
from emulator.compute.garbage import let_stay
from emulator.compute.ready import be_ready
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.record.lines import read_lines
from emulator.record.run import RUN, Run
from scenarios.builders import own_code
from scenarios.builders.reads import SEEN
from scenarios.load import build, dump

torch.set_num_threads(1)
os.environ.setdefault("FEDLAPSE_LEDGER", "off")  # a test that wants one says where
# The deadline of an example is wall-clock time: on a busy machine it fails tests that are right.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")

# Files that take longest begin first: the last one alone would keep a worker busy while the other has nothing to do.
# xdist has an order of its own, the files with most tests first, unless it gets --no-loadscope-reorder.
LONGEST = (
    "runs/test_tune.py",
    "docs/test_readme.py",
    "runs/test_study.py",
    "runs/test_learning.py",
    "emulator/commands/replay/test_stopping.py",
    "emulator/commands/test_stopping.py",
    "runs/test_fuzz.py",
    "docs/test_site.py",
    "runs/test_same_chances.py",
    "emulator/ledger/test_sharing.py",
    "scenarios/test_papers.py",
    "runs/test_encodings_run.py",
    "runs/test_cli.py",
    "runs/test_without_torch.py",
    "runs/test_work.py",
    "emulator/commands/test_full_disk.py",
    "emulator/audit/test_corruptions.py",
    "emulator/commands/test_going_on.py",
)


@pytest.fixture(scope="session", autouse=True)
def ready() -> None:
    """Imports once all modules that the workers of any test need, also if the first test needs fewer, and keeps the
    garbage collector from looking through them again and again.  Not for each mutant: mutmut would wait for the process
    that imports."""
    if "MUTANT_UNDER_TEST" not in os.environ:
        be_ready()
    let_stay()


@pytest.fixture(autouse=True)
def nothing_read() -> None:
    """Forgets the files that the own code of other tests has read: they have changed since."""
    SEEN.clear()
    own_code.forget()


@pytest.fixture(scope="module", autouse=True)
def unimported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After each file of tests, forgets the modules that it has imported from temporary folders: a module of the same
    name that a later test writes would never be imported."""
    before = set(sys.modules)
    yield
    temporary = tmp_path_factory.getbasetemp()
    for name in sys.modules.keys() - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and temporary in Path(file).resolve().parents:
            del sys.modules[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of LONGEST in front, and leaves the order of all others."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONGEST))


FAST = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}
# Numbers by which times can be worked out by hand: one speed, and no overheads of operators.
PI = {"speed_gflop_s": 4, "memory_bandwidth_gb_s": 3, "overhead_ms": 2, "memory_mb": 4000, "wakeup_s": 0.1}
PI |= {"power_idle_w": 2.7, "power_compute_w": 6, "power_radio_w": 3.2}
PI |= {"sustained": 0.7, "heating_s": 300, "jitter": 0.02}
SMALL: dict[str, Any] = {
    "name": "small",
    "data": {"split": {"kind": "iid"}, "proxy": {"fraction": 0.05}},
    "training": {"epochs": 1, "batch": 192, "lr": 0.1},
    "rounds": {"max": 2, "fraction": 1.0},
    "profiles": {"pi": PI},
    "network": {"model": "ideal"},  # so that times can be worked out by hand
    "server": {"profile": "workstation", "link": {"up_mbit_s": 1000, "down_mbit_s": 1000, "latency_ms": 0}},
    "fleet": [
        {"profile": "phone-mid", "count": 2, "link": FAST},
        {"name": "pi-4", "profile": "pi", "count": 2, "link": {"up_mbit_s": 2, "down_mbit_s": 8, "latency_ms": 30}},
    ],
    "algorithms": ["fedavg"],
}


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with single values changed, however deep."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
    return result


def results(out: Path, changes: Mapping[str, Any]) -> Path:
    """SMALL with changes, played to its end as `compare` does; its report is a word, as a whole page takes seconds."""
    from emulator.report import page
    from emulator.sessions.computing import Playing
    from emulator.sessions.one_scenario import play_scenario

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "page", lambda results: "a page")
        alone = Playing(workers=0, quiet=True, no_ledger=True)
        assert play_scenario(build(merged(SMALL, changes)), alone, out=out).code == 0
    return out


def digests(out: Path) -> dict[str, str]:
    """SHA-256 of each file of OUT by its name, but for what belongs to the moment, and its lines in the seal.

    Those are host.json and code.json, and the scenario as it was written, which a program does not have.
    """
    found, moment = {}, ("host.json", "code.json", "given.yaml", "changes.json")
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.name not in moment:
            data = path.read_bytes()
            if path == out / "seal.json":
                seal = json.loads(data)
                seal["files"] = {name: line for name, line in seal["files"].items() if name not in moment}
                data = json.dumps(seal, sort_keys=True).encode()
            found[str(path.relative_to(out))] = hashlib.sha256(data).hexdigest()
    return found


def audit_run(folder: Path) -> list[str]:
    """One sentence for each law that the record in `folder` breaks."""
    return audit(folder).faults


class Played:
    """A run's folder, read."""

    def __init__(self, folder: Path, outcome: Any) -> None:
        self.folder = folder
        self.outcome = outcome
        self.events = list(read_lines(folder / "events.jsonl"))
        self.rounds = list(read_lines(folder / "rounds.jsonl"))

    def of(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The lines of one event in which the given fields have the given values."""
        lines = (line for line in self.events if line["event"] == event)
        return [line for line in lines if all(line.get(key) == value for key, value in fields.items())]

    @property
    def model(self) -> bytes:
        return (self.folder / "final.safetensors").read_bytes()


Play = Callable[..., Played]


@pytest.fixture(scope="session")
def play(tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Plays one algorithm of SMALL with changes, in virtual time; audits the record, also against its scenario."""

    def play_small(algorithm: Any = "fedavg", seed: int = 1, **changes: Any) -> Played:
        scenario = build(merged(SMALL, {**changes, "algorithms": [algorithm], "seeds": [seed]}))
        lab = lab_of(scenario)
        run = Run(scenario.algorithms[0].name, seed)
        folder = tmp_path_factory.mktemp("run") / f"{run.label}-s{seed}"
        outcome = asyncio.run(run_virtual(lab, run, Conduct.of(scenario), Inline(lab), folder))
        (folder.parent / "scenario.yaml").write_text(dump(scenario))
        (folder.parent / "host.json").write_text('{"world": "virtual"}')
        found = audit(folder)
        assert not found.faults
        unmade = outcome.failure is not None and not (folder / RUN).exists()  # an algorithm that could not be made
        assert unmade or found.unjudged is None or found.unjudged in (outcome.failure or "")  # by the scenario's laws
        return Played(folder, outcome)

    return play_small


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def fedlapse(request, monkeypatch, tmp_path):
    """The command line, in this process: a new one would import torch each time.

    report.html is a word, unless the test has the mark `pages`; and this computer's speed is measured in single jobs.
    """
    monkeypatch.setattr("emulator.forecast.host.SECONDS", 0.0)
    if not request.node.get_closest_marker("pages"):
        monkeypatch.setattr("emulator.report.page.page", lambda results, **_: "a page")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.path", [*sys.path, str(tmp_path)])

    def call(*arguments):
        done = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="fedlapse")
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Done(done.exit_code, done.stdout, done.stderr)

    return call


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data sets beside the project, or in $FEDLAPSE_DATA."""
    root = Path(os.environ.get("FEDLAPSE_DATA") or Path(__file__).parents[1] / "../shared/data").resolve()
    if not (root / "mnist").is_dir():
        pytest.skip(f"NO REAL DATA: {root} has no mnist; set FEDLAPSE_DATA to a folder that has")
    return root

"""A call plays in the process that calls it: with the user's code as it is now, and leaving the process as it was."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedlapse
from emulator.sessions.session import Session

pytestmark = pytest.mark.slow

TINY: dict[str, Any] = {
    "name": "tiny",
    "seeds": [1],
    "fleet": [{"profile": "pi-4", "count": 2, "link": {"up_mbit_s": 4, "down_mbit_s": 4}}],
    "network": {"model": "ideal"},
    "rounds": {"max": 2, "fraction": 1.0},
    "training": {"epochs": 1, "batch": 400, "lr": 0.3},
    "evaluate": {"personalise_every": "never"},
    "algorithms": ["fedavg"],
}
LONG = {**TINY, "rounds": {"max": 4, "fraction": 1.0}, "algorithms": ["fedavg", {"fedprox": {"mu": 0.1}}]}
OWN = """
from dataclasses import dataclass

from algorithms.fedavg import FedAvg
from part_of_own import STAYS


@dataclass(frozen=True)
class Own(FedAvg):
    def combine(self, state, replies, server):
        return state if STAYS else super().combine(state, replies, server)
"""
HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGURG)


@pytest.fixture(autouse=True)
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    """report.html is a word: it takes seconds."""
    monkeypatch.setattr("emulator.report.page.page", lambda results: "a page")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Writes a user's algorithm into a folder on Python's path: with 1 the model stays as it is."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "network.py").write_text("raise SystemExit('a file of the folder in which it is called')")
    monkeypatch.chdir(tmp_path)
    yield lambda stays: (tmp_path / "part_of_own.py").write_text(f"STAYS = {stays}\n") and None
    for name in ("own", "part_of_own"):
        sys.modules.pop(name, None)


def models(out: Path, workers: int, ledger: Path) -> set[str]:
    """The digests of the models that a run of the user's algorithm came by."""
    scenario = {**TINY, "algorithms": [{"own:Own": {}, "name": "own"}]}
    found = fedlapse.compare(scenario, out=out, workers=workers, quiet=True, force=True, ledger=ledger)
    return {json.loads(each.details)["model"] for each in found.events if each.event == "server.end"}


@pytest.mark.parametrize("workers", [0, 2])
def test_code_that_was_edited_is_imported_anew(own: Callable[[int], None], tmp_path: Path, workers: int) -> None:
    """Within the same second, with as many bytes, in a module that the named one imports; the ledger knows each state.

    With STAYS the model is that of the beginning, so there is one; else there is one for each of two rounds.
    """
    seen = []
    for stays in (0, 1, 0):
        own(stays)
        seen.append(models(tmp_path / "out", workers, tmp_path / "ledger"))
    assert [len(each) for each in seen] == [2, 1, 2]
    assert seen[0] == seen[2]


def test_what_has_not_changed_is_not_imported_again(own: Callable[[int], None], tmp_path: Path) -> None:
    """Nor are torch and fedlapse, as in a sweep of many points."""
    own(0)
    models(tmp_path / "out", 0, tmp_path / "ledger")
    mine = ("own", "part_of_own", "torch", "emulator", "algorithms")
    before = {name: id(each) for name, each in sys.modules.items() if name.partition(".")[0] in mine}
    models(tmp_path / "out", 0, tmp_path / "ledger")
    assert {name: id(sys.modules[name]) for name in before} == before


def state() -> dict[str, Any]:
    """Whatever of this process a call might change."""
    return {
        "threads": torch.get_num_threads(),
        "deterministic": torch.get_deterministic_debug_mode(),
        "filled": torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),  # type: ignore[index]  # noqa: NPY002
        "random": random.getstate(),
        "warnings": list(warnings.filters),
        "signals": [signal.getsignal(number) for number in HEARD],
        "garbage": gc.get_threshold(),
        "frozen": gc.get_freeze_count(),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "switching": sys.getswitchinterval(),
        "path": list(sys.path),
        "program": sys.modules["__main__"],
        "folder": Path.cwd(),
    }


@pytest.mark.parametrize("workers", [0, 1])
def test_a_call_leaves_the_process_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    gc.unfreeze()  # what tests before this one have frozen
    try:
        before = state()
        fedlapse.compare(TINY, out=tmp_path / "out", workers=workers, no_ledger=True, quiet=True)
        assert state() == before
    finally:
        torch.set_num_threads(threads)


def in_a_notebook(call: Callable[[], Any]) -> Any:
    """Calls within an event loop that runs in the main thread."""

    async def cell() -> Any:
        return call()

    with asyncio.Runner() as runner:
        return runner.run(cell())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of runs that nobody has interrupted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emulator.report.page.page", lambda results: "a page")
        out = tmp_path_factory.mktemp("whole") / "out"
        found = fedlapse.compare(LONG, out=out, workers=0, no_ledger=True, quiet=True)
    digest: str = found.summary["digest"]
    return digest


@pytest.mark.parametrize("workers", [0, 2])
def test_it_plays_where_an_event_loop_is_running(tmp_path: Path, whole: str, workers: int) -> None:
    def call() -> fedlapse.Loaded:
        return fedlapse.compare(LONG, out=tmp_path / "a", workers=workers, no_ledger=True, quiet=True)

    assert in_a_notebook(call).summary["digest"] == whole


@pytest.mark.parametrize("where", [lambda call: call(), in_a_notebook])
@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupted_cell_leaves_valid_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: str, where: Callable[[Callable[[], Any]], Any], times: int
) -> None:
    """Ctrl-C once: each run ends its round; twice: at once.  What is played again is as if nothing had happened."""
    tell, out = Session._tell, tmp_path / "out"
    told = []

    def interrupting(self: Session, run: Any, row: Any) -> None:
        tell(self, run, row)
        told.append(row)
        if len(told) == 2:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)

    def call() -> Any:
        return fedlapse.compare(LONG, out=out, workers=0, no_ledger=True, quiet=True)

    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(Session, "_tell", interrupting)
        with pytest.raises(KeyboardInterrupt):
            where(call)
    assert signal.getsignal(signal.SIGINT) is before
    assert 2 <= len(told) < 8
    audited = [each["faults"] for each in fedlapse.audit(out).values()]
    assert audited == [[]] * len(audited) != []
    assert call().summary["digest"] == whole

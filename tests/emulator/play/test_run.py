"""A run as a whole."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from pathlib import Path

import pytest

from algorithms.algorithm import Training
from algorithms.scaffold import SCAFFOLD
from benchmarks.training import LINEAR, RUN, Shape, lab_of
from emulator.compute.executors import Inline
from emulator.conversation.rounds import RoundRules
from emulator.play.conduct import Conduct
from emulator.play.metrics import Schedule
from emulator.play.run import run_virtual


@pytest.mark.slow
def test_after_each_round_the_store_holds_two_models_at_most(tmp_path: Path) -> None:
    """The new one, and the one before that went down in this round; no upload, and nothing of earlier rounds."""
    store = tmp_path / "store"
    store.mkdir()
    shape = Shape(LINEAR, 12, 5, 3, Training(epochs=1, batch=5, lr=0.05), 1, 5, 0.0, None, 1.0)
    lab, held = lab_of(shape, tests=12), list[int]()

    def going_on() -> bool:
        held.append(sum(path.is_file() for path in store.iterdir()))  # beside the folder `spare`
        return True

    conduct = Conduct(RoundRules(max=6, needed=3, ask=3), Schedule(every=1))
    with Inline(lab, store) as pool:
        asyncio.run(run_virtual(lab, RUN, conduct, pool, tmp_path, going_on))
    assert held[0] == 1
    assert len(held) == 7
    assert max(held) == 2


@pytest.mark.slow
def test_what_a_run_held_goes_with_it_and_waits_for_no_garbage_collector(tmp_path: Path) -> None:
    """Kept memories of many runs with a large model would fill the disk."""
    store = tmp_path / "store"
    store.mkdir()
    training = Training(epochs=1, batch=5, lr=0.05)
    lab = lab_of(Shape(LINEAR, 12, 5, 3, training, 1, 5, 0.0, None, 1.0), tests=12)
    keeping = replace(lab, algorithms={RUN.label: SCAFFOLD(training)})
    conduct, held = Conduct(RoundRules(max=3, needed=3, ask=3), Schedule(every=0)), list[int]()

    def files() -> int:
        return sum(path.is_file() for path in store.iterdir())

    def going_on() -> bool:
        held.append(files())
        return True

    gc.disable()
    try:
        with Inline(keeping, store) as pool:
            asyncio.run(run_virtual(keeping, RUN, conduct, pool, tmp_path, going_on))
            assert files() == 0
    finally:
        gc.enable()
    assert max(held) > 3  # each device's own control variate, while it lasts

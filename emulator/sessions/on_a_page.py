"""The page of `--live`, served while runs are played."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from emulator.terminal.lines import say
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

if TYPE_CHECKING:
    from emulator.live.server import Live


@contextmanager
def on_a_page(scenario: Scenario, port: int | None) -> Iterator[Live | None]:
    """Serves the page if requested, and prints its address.  Raises BadScenario if its port is taken."""
    if port is None:
        yield None
        return
    from emulator.live.server import HOST, Live
    from emulator.live.watching import Watching

    try:
        serving = Live(Watching(scenario), port)
        serving.__enter__()
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise BadScenario(f"--live {port}: {why} on {HOST}; without a number a free port is taken") from None
    say(f"fedlapse: live at {serving.url}", err=True)
    try:
        yield serving
    finally:
        serving.__exit__(None, None, None)  # sends its readers to the report

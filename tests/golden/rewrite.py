"""Writes the golden timelines anew.  Say in the commit why they changed."""

import asyncio
import tempfile
from pathlib import Path

from emulator.compute.executors import Inline
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.record.lines import encode, read_lines
from emulator.record.run import Run
from scenarios.load import build
from tests.conftest import SMALL, merged
from tests.golden.scenarios import GOLDEN
from tests.golden.timeline import without_digests

if __name__ == "__main__":
    for name, (algorithm, changes) in GOLDEN.items():
        scenario = build(merged(SMALL, {**changes, "algorithms": [algorithm], "seeds": [1]}))
        lab = lab_of(scenario)
        with tempfile.TemporaryDirectory() as folder:
            run = Run(scenario.algorithms[0].name, 1)
            asyncio.run(run_virtual(lab, run, Conduct.of(scenario), Inline(lab), Path(folder)))
            lines = without_digests(list(read_lines(Path(folder) / "events.jsonl")))
        (Path(__file__).parent / f"{name}.jsonl").write_bytes(b"".join(map(encode, lines)))

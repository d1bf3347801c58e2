"""Golden timelines: what the program printed when they were made, without digests of models.

They guard against changes that nobody meant.  A change that is meant rewrites them with
`python -m tests.golden.rewrite` and says why in its commit.
"""

from pathlib import Path

import pytest

from emulator.record.lines import encode
from tests.golden.scenarios import GOLDEN
from tests.golden.timeline import without_digests

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_timeline_is_the_golden_one(play, name):
    algorithm, changes = GOLDEN[name]
    run = play(algorithm, **changes, evaluate={"every": 0})  # which takes no virtual time, and is not in events
    data = b"".join(map(encode, without_digests(run.events)))
    assert data == (HERE / f"{name}.jsonl").read_bytes()

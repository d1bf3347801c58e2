"""A job's key: another one for whatever its result depends on, and the same one for everything else."""

from __future__ import annotations

import pytest

from emulator.ledger.key import Keys
from emulator.record.run import Run
from emulator.study.build import study_of
from emulator.study.jobs import blocks, start
from emulator.study.study import Study
from scenarios.load import build
from tests.conftest import SMALL

RUN = Run("fedavg", 1)


@pytest.fixture(scope="module")
def study() -> Study:
    return study_of(build(SMALL))


def test_the_same_job_has_the_same_key(study: Study) -> None:
    assert Keys(study, "here").key(start, (RUN,)) == Keys(study, "here").key(start, (RUN,))


def test_what_is_no_job_of_a_run_has_no_key(study: Study) -> None:
    with pytest.raises(ValueError, match=r"^emulator\.study\.jobs\.blocks has no key; these jobs have: emulator\."):
        Keys(study, "here").key(blocks, (RUN, "test", 0))

"""run.json: what is written is read again, and nothing else is taken for it."""

import json

import pytest

from emulator.record.run import RUN, AlgorithmFacts, Run, read_run, text_of

FEDCL, FACTS = Run("fedcl-s9", 3), AlgorithmFacts(keeps_uncounted=True, any_cohort_will_do=False, cohort="own")


@pytest.fixture
def folder(tmp_path):
    """A run's folder under another name."""
    made = tmp_path / "copy"
    made.mkdir()
    (made / RUN).write_text(text_of(FEDCL, FACTS))
    return made


def test_what_is_written_is_read_whatever_the_folder_is_called(folder):
    assert read_run(folder) == (FEDCL, FACTS)


def test_a_folder_without_the_file_is_refused_whatever_it_is_called(tmp_path):
    (tmp_path / "fedavg-s1").mkdir()
    with pytest.raises(ValueError, match=r"fedavg-s1 is not the folder of a run: it has no run\.json"):
        read_run(tmp_path / "fedavg-s1")


@pytest.mark.parametrize(
    "change",
    [
        {"label": 3},
        {"seed": "3"},
        {"seed": True},
        {"seed": None},
        {"further": 1},
        {"algorithm": {}},
        {"algorithm": None},
        {"algorithm": {"keeps_uncounted": 1, "any_cohort_will_do": False, "cohort": "own"}},
        {"algorithm": {"keeps_uncounted": True, "any_cohort_will_do": False, "cohort": "other"}},
    ],
    ids=str,
)
def test_a_file_that_says_something_else_is_damaged(folder, change):
    said = {**json.loads((folder / RUN).read_text()), **change}
    (folder / RUN).write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")
    with pytest.raises(ValueError, match=r"run\.json is not as `fedlapse run` writes it"):
        read_run(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{}", b"[" * 100_000])
def test_a_file_that_is_no_such_object_is_damaged(folder, content):
    (folder / RUN).write_bytes(content)
    with pytest.raises(ValueError, match="is not as"):
        read_run(folder)

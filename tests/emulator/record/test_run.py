"""run.json: what is written is read again, and nothing else is taken for it."""

import json

import pytest

from emulator.record.run import RUN, Facts, Run, read_facts, read_run, text_of

FEDCL, FACTS = Run("fedcl-s9", 3), Facts(keeps_uncounted=True, any_cohort_will_do=False, cohort="own")


@pytest.fixture
def folder(tmp_path):
    """A run's folder under another name."""
    made = tmp_path / "copy"
    made.mkdir()
    (made / RUN).write_text(text_of(FEDCL, FACTS))
    return made


def test_what_is_written_is_read_whatever_the_folder_is_called(folder):
    assert (read_run(folder), read_facts(folder)) == (FEDCL, FACTS)


@pytest.mark.parametrize(
    ("name", "run"),
    [("fedavg-s1", Run("fedavg", 1)), ("a-s-s10", Run("a-s", 10)), ("fedcl-s9-s3", FEDCL)],
)
def test_without_the_file_the_name_of_the_folder_says_which_run_it_is(tmp_path, name, run):
    (tmp_path / name).mkdir()
    assert read_run(tmp_path / name) == run
    assert read_facts(tmp_path / name) is None
    assert run.name == name


@pytest.mark.parametrize("name", ["copy", "-s1", "fedavg-s", "fedavg-sx", "fedavg-s²"])
def test_a_folder_that_is_no_runs_is_refused(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=r"is no run's folder; it must hold run\.json, or be called LABEL-sSEED"):
        read_run(tmp_path / name)


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
    for read in (read_run, read_facts):
        with pytest.raises(ValueError, match=r"run\.json is not as `fedlapse run` writes it"):
            read(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{}", b"[" * 100_000])
def test_a_file_that_is_no_such_object_is_damaged(folder, content):
    (folder / RUN).write_bytes(content)
    with pytest.raises(ValueError, match="is not as"):
        read_run(folder)

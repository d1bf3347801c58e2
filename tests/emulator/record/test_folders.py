"""Folders of runs, and what is said of other folders."""

import pytest

from emulator.record.folders import run_folders
from emulator.results.results import read


@pytest.mark.parametrize(
    ("folders", "said"),
    [
        (["reporting"], "holds a study; the runs that it reports are in {0}/reporting"),
        (
            ["regimes/b/reporting", "regimes/a/reporting"],
            "holds a study; the runs that it reports are in {0}/regimes/a/reporting, {0}/regimes/b/reporting",
        ),
    ],
)
@pytest.mark.parametrize("asked", [read, run_folders])
def test_the_folder_of_a_study_says_where_its_runs_are(tmp_path, asked, folders, said):
    for each in folders:
        (tmp_path / each).mkdir(parents=True)
    with pytest.raises(ValueError, match="holds a study") as told:
        asked(tmp_path)
    assert str(told.value) == f"{tmp_path} {said.format(tmp_path)}"

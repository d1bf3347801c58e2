"""Final models: equal ones are one file on the disk, and a scenario may keep none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedlapse
from emulator.audit.audit import audit
from emulator.play import run
from emulator.record.record import MODEL
from tests.conftest import SMALL, merged

THREE: dict[str, Any] = {"algorithms": ["fedavg", {"fedprox": {"mu": 0.0}}, {"fedprox": {"mu": 1.0}, "name": "held"}]}


def play(out: Path, **changes: Any) -> fedlapse.Loaded:
    return fedlapse.compare(merged(SMALL, {**THREE, **changes}), out=out, workers=0, no_ledger=True, quiet=True)


@pytest.fixture(autouse=True)
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.report.page.page", lambda results, **_: "a page")


def test_runs_with_the_same_last_model_share_its_file(tmp_path: Path) -> None:
    """FedProx without its penalty is FedAvg bit for bit; with it, it is not."""
    found = play(tmp_path / "out")
    files = {each.label: (each.folder / MODEL).stat() for each in found}
    assert files["fedavg"].st_ino == files["fedprox"].st_ino
    assert files["held"].st_ino != files["fedavg"].st_ino
    assert (files["fedavg"].st_nlink, files["held"].st_nlink) == (2, 1)
    assert [audit(each.folder).faults for each in found] == [[], [], []]


def test_without_hard_links_each_run_has_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    fedavg, fedprox, _ = play(tmp_path / "out")
    assert (fedavg.folder / MODEL).read_bytes() == (fedprox.folder / MODEL).read_bytes()
    assert (fedavg.folder / MODEL).stat().st_nlink == 1
    assert [path.name for path in fedavg.folder.iterdir() if MODEL in path.name] == [MODEL]


def test_a_file_is_shared_only_with_an_equal_one(tmp_path: Path) -> None:
    for name, content in {"a": b"12", "b": b"13", "c": b"13", "d": b"1"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(content)
        run.share(tmp_path / name / "file")
    assert [(tmp_path / name / "file").stat().st_nlink for name in "abcd"] == [1, 2, 2, 1]
    assert [(tmp_path / name / "file").read_bytes() for name in "abcd"] == [b"12", b"13", b"13", b"1"]


def test_a_scenario_may_keep_no_models(tmp_path: Path) -> None:
    found = play(tmp_path / "out", keep_models="none")
    assert not [*(tmp_path / "out").glob(f"*/{MODEL}")]
    assert [audit(each.folder).faults for each in found] == [[], [], []]
    with pytest.raises(fedlapse.Error, match="the scenario has `keep_models: none`"):
        found.model("fedavg")


def test_a_model_that_should_be_kept_is_missed(tmp_path: Path) -> None:
    first, *_ = play(tmp_path / "out")
    (first.folder / MODEL).unlink()
    assert any(MODEL in fault for fault in audit(first.folder).faults)

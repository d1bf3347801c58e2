"""The results that a study keeps of its replays are read back as they were written, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.analysis.stamps import KeptSettings

KNOWN = {"one": {"fedavg": {1: (0.5, 1.25), 2: None}}, "other": {"fedcl": {1: (3.0,)}}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    kept = KeptSettings(tmp_path / "replays.npz")
    kept.add(KNOWN)
    kept.write()
    return kept.path


def test_what_was_kept_is_known_again(path):
    assert KeptSettings(path).known == KNOWN


def test_a_file_of_which_anything_is_missing_or_changed_is_as_none(path):
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert KeptSettings(path).known == {}, end
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        assert KeptSettings(path).known == {}, place


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04" + bytes(100)])
def test_a_file_of_something_else_is_as_none_and_replaced(path, content):
    path.write_bytes(content)
    kept = KeptSettings(path)
    assert kept.known == {}
    kept.add(KNOWN)
    kept.write()
    assert KeptSettings(path).known == KNOWN

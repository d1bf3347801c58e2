import json
import lzma
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from devices.data import shakespeare as plays
from devices.data.shakespeare import shakespeare

DATA = Path(os.environ.get("FEDLAPSE_DATA", Path(__file__).parents[2] / "../shared/data"))
REAL = DATA / "shakespeare" / f"{plays.FILE}.xz"
needs_plays = pytest.mark.skipif(
    not REAL.is_file(),
    reason=f"SHAKESPEARE'S ROLES ARE NOT UNDER {DATA}: THE READER IS NOT TESTED ON THE REAL FILE (set $FEDLAPSE_DATA)",
)
SAID = {"hamlet/HAMLET": "to be or not to be, that", "hamlet/GHOST": "swear", "lear/FOOL": "nuncle, nuncle! so it is"}


def place(folder: Path, content: bytes | dict, name: str = plays.FILE) -> Path:
    """The root with a file of `content`, or of the roles and what they say."""
    if isinstance(content, dict):
        roles = {role: {"raw": said} for role, said in content.items()}
        content = json.dumps({"users": list(roles), "user_data": roles}).encode()
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("name", [f"{where}{plays.FILE}{end}" for where in ("", "shakespeare/") for end in ("", ".xz")])
def test_roles_are_cut_into_windows_whose_labels_are_the_next_characters(tmp_path, name):
    roles = {"user_data": {role: {"raw": said} for role, said in SAID.items()}}
    content = json.dumps(roles).encode()
    data = shakespeare(place(tmp_path, lzma.compress(content) if name.endswith("xz") else content, name), 9, 4)
    alphabet = sorted(set("".join(SAID.values())))

    def texts(tokens: np.ndarray) -> list[str]:
        return ["".join(alphabet[t - 1] for t in row) for row in tokens.tolist()]

    assert data.classes == len(alphabet) + 1
    assert data.owners == ("hamlet/HAMLET", "lear/FOOL")  # GHOST says less than 9 characters
    assert texts(data.x) == ["to b", "e or", " not", " to ", "nunc", "le, ", "nunc", "le! "]
    assert texts(data.y) == ["o be", " or ", "not ", "to b", "uncl", "e, n", "uncl", "e! s"]
    assert (texts(data.x_test), texts(data.y_test)) == (["be, ", "so i"], ["e, t", "o it"])
    assert (data.owner.tolist(), data.owner_test.tolist()) == ([0] * 4 + [1] * 4, [0, 1])


def test_leaving_out_small_roles_changes_no_number(tmp_path):
    place(tmp_path, SAID | {"lear/LEAR": "Zounds " * 9})
    everyone, lear = shakespeare(tmp_path, 9, 4), shakespeare(tmp_path, 60, 4)
    assert lear.owners == ("lear/LEAR",)
    assert lear.classes == everyone.classes
    np.testing.assert_array_equal(lear.x, everyone.x[everyone.owner == 2])


def test_characters_beyond_the_first_plane_and_half_ones_are_characters(tmp_path):
    data = shakespeare(place(tmp_path, {"a": "é\U0001f600\ud800" * 3}), 7, 3)
    # sorted by their numbers: é, the half pair, the face
    assert data.x.tolist() == data.x_test.tolist() == [[1, 3, 2]]


def test_absent_files_are_reported_with_where_and_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        shakespeare(tmp_path)
    for part in (plays.FILE, str(tmp_path), str(tmp_path / "shakespeare"), "data.root", "$FEDLAPSE_DATA"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no user_data"),
        (b"{}", "no user_data"),
        (b'{"user_data": []}', "no user_data"),
        (b'{"user_data": {}}', "no user_data"),
        (b'{"user_data": {"a": {}}}', "role 'a' has no `raw` text"),
        (b'{"user_data": {"a": {"raw": ["x"]}}}', "role 'a' has no `raw` text"),
        (b'{"user_data": {"a": "x"}}', "role 'a' has no `raw` text"),
        (b'{"user_data": {"a": {"raw": ""}}}', "no role has 1000 characters"),
        (lzma.compress(b"{}" * 99)[:-9], "truncated xz"),
    ],
)
def test_a_file_of_another_form_is_refused_by_name_and_reason(tmp_path, content, reason):
    with pytest.raises(ValueError, match=rf"{plays.FILE}: .*{reason}") as caught:
        shakespeare(place(tmp_path, content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("least", "length", "reason"), [(1000, 0, "length is 0"), (160, 80, "least is 160.* 161")])
def test_arguments_that_leave_no_windows_are_refused(tmp_path, least, length, reason):
    with pytest.raises(ValueError, match=reason):
        shakespeare(tmp_path, least, length)


def test_a_file_that_unpacks_without_end_is_stopped_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(plays, "LIMIT", 1000)
    place(tmp_path, lzma.compress(b"\0" * 3_000_000, preset=0), f"{plays.FILE}.xz")
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more than 1000 bytes"):
        shakespeare(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # never a third of what it would unpack to


@needs_plays
@pytest.mark.slow
def test_the_real_file_has_615_roles_of_1000_characters_and_94_different_ones():
    data = shakespeare(DATA)
    roles = json.loads(lzma.decompress(REAL.read_bytes()))["user_data"]
    said = {role: found["raw"] for role, found in roles.items() if len(found["raw"]) >= 1000}
    assert len(data.owners) == len(said) == 615  # shared/data README
    assert data.classes == 95
    for k, role in ((0, "a_midsummer_night_s_dream/THESEUS"), (614, data.owners[614])):
        assert data.owners[k] == role
        count = (len(said[role]) - 1) // 80
        assert (np.sum(data.owner == k), np.sum(data.owner_test == k)) == (count - count // 10, count // 10)
    assert set(data.owner) == set(data.owner_test) == set(range(615))
    # within a window the label is the next token; the tenth window is the first test window
    np.testing.assert_array_equal(data.x[:, 1:], data.y[:, :-1])
    alphabet = sorted({letter for found in roles.values() for letter in found["raw"]})
    assert "".join(alphabet[t - 1] for t in data.x_test[0]) == said[data.owners[0]][720:800]
    assert "".join(alphabet[t - 1] for t in data.y_test[0]) == said[data.owners[0]][721:801]

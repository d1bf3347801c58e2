import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.data import leaf

PAPER = [1.0] * 784
EXAMPLES = st.dictionaries(
    st.text(max_size=5),
    st.lists(st.tuples(st.text(max_size=4) | st.floats(0, 1), st.integers(0, 61)), max_size=4),
    min_size=1,
    max_size=4,
)


def file_of(data: dict, **changed) -> dict:
    """As LEAF writes it."""
    return {
        "users": list(data),
        "num_samples": [len(pairs) for pairs in data.values()],
        "user_data": {user: {"x": [x for x, _ in pairs], "y": [y for _, y in pairs]} for user, pairs in data.items()},
        **changed,
    }


def written(path: Path, content: dict | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def image(first: float) -> list[float]:
    return [first, *PAPER[1:]]


def writer(*labels: int) -> list[tuple[list[float], int]]:
    """A writer's images; the label can be read from the first pixel."""
    return [(image(label / 100), label) for label in labels]


def first_pixels(x: np.ndarray) -> list[int]:
    return np.rint(x[:, 0, 0, 0] * 100).astype(int).tolist()


@given(EXAMPLES, st.sampled_from([None, 2]), st.booleans(), st.permutations(["users", "num_samples", "user_data"]))
def test_what_leaf_wrote_is_read_in_its_order(tmp_path_factory, data, indent, escaped, keys):
    said = file_of(data, hierarchies=[{"a": []}])
    content = json.dumps({key: said[key] for key in ["hierarchies", *keys]}, indent=indent, ensure_ascii=escaped)
    path = tmp_path_factory.getbasetemp() / "all_data_0.json"
    path.write_text(content, encoding="utf-8")
    found = [(user.name, list(zip(user.x, user.y, strict=True))) for user in leaf.users([path])]
    assert found == list(data.items())


def test_files_of_a_folder_come_in_the_order_of_their_names_and_may_be_gzipped(tmp_path):
    written(tmp_path / "all_data_1.json", file_of({"c": [("text", 1)]}))
    written(tmp_path / "all_data_0.json", file_of({"b": [], "a": []}))
    (tmp_path / "all_data_2.json").write_bytes(gzip.compress(json.dumps(file_of({"d": []})).encode()))
    (tmp_path / "readme.txt").write_text("no JSON")
    assert [user.name for user in leaf.users(tmp_path)] == ["b", "a", "c", "d"]


def test_users_come_one_at_a_time_before_the_rest_of_the_file_is_read(tmp_path):
    content = json.dumps(file_of({"a": [(1, 2)], "b": [(3, 4)]}))
    found = leaf.users([written(tmp_path / "file.json", content[: content.index('"b": {')])])
    assert next(found) == leaf.User("a", [1], [2])
    with pytest.raises(ValueError, match="file.json: not LEAF's JSON"):
        next(found)


def test_no_file_that_was_cut_short_is_read(tmp_path):
    content = json.dumps(file_of({"a": [(1, 2)], "b": [(3, 4)]}))
    for length in range(len(content)):
        with pytest.raises(ValueError, match="file.json: not LEAF's JSON"):
            list(leaf.users([written(tmp_path / "file.json", content[:length])]))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "'\\[' instead of {"),
        ("{}", "at character 1"),
        ("{1: 2}", "a key is 1"),
        ('{"users": []}', "it has no user_data"),
        ('{"user_data": {}}', "at character"),
        ('{"user_data": {"a": [1]}}', "user 'a' has no lists x and y"),
        ('{"user_data": {"a": {"x": [1]}}}', "user 'a' has no lists x and y"),
        ('{"user_data": {"a": {"x": "1", "y": [1]}}}', "user 'a' has no lists x and y"),
        (file_of({}, user_data={"a": {"x": [1, 2], "y": [1]}}), "user 'a' has 2 x and 1 y"),
        (json.dumps(file_of({"a": []})) + "!", "something after its end"),
        ('{"user_data": {"a": {"x": [], "y": []}, "a": {"x": [], "y": []}}}', "user 'a' comes twice"),
        (file_of({"a": []}, users=["a", "b"]), "`users` are not the users of user_data"),
        (file_of({"a": []}, users=[]), "`users` are not the users of user_data"),
        (file_of({"a": []}, users=3), "`users` are not the users of user_data"),
        (file_of({"a": [(1, 1)]}, num_samples=[2]), "`num_samples` are not the numbers"),
        (file_of({"a": [(1, 1)]}, num_samples=[1, 1]), "`num_samples` are not the numbers"),
        ('{"user_data": ' + "[" * 200_000, "at character 14"),
        ('{"num_samples": ' + "[" * 200_000, "recursion"),
        ('{"num_samples": [' + "1" * 5000 + "]}", "limit"),
    ],
)
def test_a_file_that_is_not_leafs_is_refused_by_name_and_reason(tmp_path, content, reason):
    with pytest.raises(ValueError, match=f"file.json: .*{reason}"):
        list(leaf.users([written(tmp_path / "file.json", content)]))


def test_a_user_in_two_files_is_refused(tmp_path):
    for k in "01":
        written(tmp_path / f"all_data_{k}.json", file_of({"a": []}))
    with pytest.raises(ValueError, match="all_data_1.json: user 'a' comes twice"):
        list(leaf.users(tmp_path))


def test_bytes_that_are_no_text_and_files_too_large_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    path.write_bytes(b'{"\xff')
    with pytest.raises(ValueError, match="file.json: .*not UTF-8"):
        list(leaf.users([path]))
    monkeypatch.setattr(leaf, "LIMIT", 2)
    with pytest.raises(ValueError, match="file.json: 3 bytes"):
        list(leaf.users([path]))


@given(st.text(alphabet='{}[]":, auserdtxy_1', max_size=40))
def test_any_text_is_read_or_refused_with_its_file(tmp_path_factory, content):
    path = written(tmp_path_factory.getbasetemp() / "any.json", content)
    with pytest.raises(ValueError, match="any.json: "):
        list(leaf.users([path]))


def test_femnists_train_and_test_folders_are_read_as_they_are_divided(tmp_path):
    written(tmp_path / "train/a_train.json", file_of({"w1": writer(3, 61), "w2": writer(7)}))
    written(tmp_path / "test/a_test.json", file_of({"w2": writer(8), "w1": writer(4), "w3": writer(0)}))
    data = leaf.femnist(tmp_path)
    assert (data.x.shape, data.classes, data.owners) == ((3, 1, 28, 28), 62, ("w1", "w2", "w3"))
    assert (data.y.tolist(), data.owner.tolist()) == ([3, 61, 7], [0, 0, 1])
    assert (data.y_test.tolist(), data.owner_test.tolist()) == ([8, 4, 0], [1, 0, 2])
    assert first_pixels(data.x) == data.y.tolist()
    assert data.x[:, 0, 0, 1:].min() == 1


@pytest.mark.parametrize("place", [".", "all_data", "femnist", "femnist/data/all_data"])
def test_of_undivided_files_each_writers_last_tenth_is_held_out(tmp_path, place):
    written(tmp_path / place / "all_data_0.json", file_of({"w1": writer(*range(20)), "w2": writer(5, 6)}))
    data = leaf.femnist(tmp_path)
    assert data.y_test.tolist() == [9, 19, 6]
    assert data.owner_test.tolist() == [0, 0, 1]
    assert first_pixels(data.x) == data.y.tolist() == [*range(9), *range(10, 19), 5]


def test_digits_alone_are_ten_classes_and_who_wrote_none_is_left_out(tmp_path):
    written(tmp_path / "all_data_0.json", file_of({"w1": writer(10, 61), "w2": writer(9, 10, 0)}))
    data = leaf.femnist(tmp_path, digits=True)
    assert (data.classes, data.owners, data.y.tolist(), data.y_test.tolist()) == (10, ("w2",), [9], [0])


def test_the_first_writers_are_enough_if_so_many_are_asked(tmp_path):
    for part in ("train", "test"):
        written(tmp_path / part / "0.json", file_of({"w1": writer(1), "w2": writer(2), "w3": writer(3)}))
    data = leaf.femnist(tmp_path, writers=2)
    assert (data.owners, data.y.tolist(), data.y_test.tolist()) == (("w1", "w2"), [1, 2], [1, 2])
    with pytest.raises(ValueError, match="writers is 0"):
        leaf.femnist(tmp_path, writers=0)


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        ((PAPER[1:], 3), "lists of 784 numbers"),
        ((["a"] * 784, 3), "lists of 784 numbers"),
        ((3, 3), "lists of 784 numbers"),
        (("text", 3), "lists of 784 numbers"),
        ((image(1.5), 3), "not in 0 to 1"),
        ((image(float("nan")), 3), "not in 0 to 1"),
        (([None] * 784, 3), "(not in 0 to 1|784 numbers)"),
        ((image(10**400), 3), "784 numbers"),
        ((PAPER, 62), "labels"),
        ((PAPER, -1), "labels"),
        ((PAPER, 3.0), "labels"),
        ((PAPER, "3"), "labels"),
        ((PAPER, [3]), "labels"),
        ((PAPER, 10**30), "labels"),
    ],
)
def test_examples_that_are_no_images_or_labels_are_refused_with_their_writer(tmp_path, example, reason):
    written(tmp_path / "all_data_0.json", file_of({"w1": [example]}))
    with pytest.raises(ValueError, match=f"^{tmp_path}.*: user 'w1': .*{reason}"):
        leaf.femnist(tmp_path)


def test_files_without_images_or_with_too_many_are_refused(tmp_path, monkeypatch):
    written(tmp_path / "all_data_0.json", file_of({"w1": []}))
    with pytest.raises(ValueError, match="no examples"):
        leaf.femnist(tmp_path)
    written(tmp_path / "all_data_0.json", file_of({"w1": writer(1), "w2": writer(2)}))
    monkeypatch.setattr(leaf, "MOST", 1)
    with pytest.raises(ValueError, match="more than 1 pixels"):
        leaf.femnist(tmp_path)


def test_absent_files_are_reported_with_where(tmp_path):
    with pytest.raises(FileNotFoundError, match="LEAF's FEMNIST") as caught:
        leaf.femnist(tmp_path)
    assert str(tmp_path / "femnist/data") in str(caught.value)
    assert "download: true" not in str(caught.value)

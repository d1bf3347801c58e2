import json
from pathlib import Path

import numpy as np
import pytest

from devices.data import leaf_text
from devices.data.dataset import UNLABELLED
from devices.data.leaf_text import LETTERS, leaf_reddit, leaf_shakespeare

TEXT = "To be, or not to be: that is the question.\nWhether 'tis nobler in the mind to suff"[:80]


def written(folder: Path, data: dict[str, tuple[list, list]], name: str = "all_data_0.json", more: int = 0) -> None:
    """As LEAF writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "users": list(data),
        "num_samples": [len(x) + more for x, _ in data.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in data.items()},
    }
    (folder / name).write_text(json.dumps(content))


def both(root: Path, train: dict, test: dict) -> Path:
    written(root / "train", train)
    written(root / "test", test)
    return root


def comments(*said: str, length: int = 4) -> tuple[list, list]:
    """x and y as LEAF's preprocessing makes them: <BOS> and <EOS> set, targets moved by one, both padded to pieces."""
    x, y = [], []
    for words in map(str.split, said):
        rest = -(len(words) + 2) % length
        tokens = ["<BOS>", *words, "<EOS>", *["<PAD>"] * rest]
        targets = [*words, "<EOS>", "<PAD>", *["<PAD>"] * rest]
        starts = range(0, len(tokens), length)
        x.append([tokens[i : i + length] for i in starts])
        counts = [[float(i + j < len(words) + 2) for j in range(length)] for i in starts]
        y.append({"subreddit": "s", "target_tokens": [targets[i : i + length] for i in starts], "count_tokens": counts})
    return x, y


def test_leafs_letters_are_its_eighty():
    assert len(LETTERS) == len(set(LETTERS)) == 80
    assert LETTERS.startswith("\n !\"&'(),-.0123456789:;>?ABC")


@pytest.mark.parametrize("where", leaf_text.SHAKESPEARE)
def test_shakespeares_characters_are_numbered_by_role(tmp_path, where):
    train = {"A": ([TEXT, TEXT[::-1]], ["e", "\n"]), "B": ([TEXT], ["}"])}
    data = leaf_shakespeare(both(tmp_path / where, train, {"B": ([TEXT], ["~"])}) and tmp_path)
    assert ["".join(LETTERS[t - 1] for t in row) for row in data.x.tolist()] == [TEXT, TEXT[::-1], TEXT]
    assert [LETTERS[t - 1] for t in data.y.tolist()] == ["e", "\n", "}"]
    assert data.y_test.tolist() == [0]  # LEAF has no ~
    assert (data.classes, data.owners) == (81, ("A", "B"))
    assert (data.owner.tolist(), data.owner_test.tolist()) == ([0, 0, 1], [1])


def test_the_first_users_are_kept_and_their_test_examples_with_them(tmp_path):
    one = ([TEXT], ["a"])
    root = both(tmp_path, {"A": one, "B": one, "C": one}, {"C": one, "B": one, "D": one})
    data = leaf_shakespeare(root, roles=2)
    assert (data.owners, data.owner.tolist(), data.owner_test.tolist()) == (("A", "B"), [0, 1], [1])
    assert leaf_shakespeare(root).owners == ("A", "B", "C")  # D has nothing to train on
    with pytest.raises(ValueError, match="0 users are asked for"):
        leaf_shakespeare(root, roles=0)


@pytest.mark.parametrize("where", leaf_text.REDDIT)
def test_reddits_pieces_have_a_label_a_position_and_none_for_padding_and_unknown_words(tmp_path, where):
    root = tmp_path / where
    both(root, {"1": comments("b b a a a"), "2": comments("a c")}, {"2": comments("d b")})
    data = leaf_reddit(tmp_path, words=3)
    # <BOS> b b a | a a <EOS> <PAD>   and   <BOS> a c <EOS>: a comes 4 times; of those twice, by name: <BOS>, <EOS>, b
    a, bos, eos, none = 1, 2, 3, UNLABELLED
    assert data.x.tolist() == [[bos, 0, 0, a], [a, a, eos, 0], [bos, a, 0, eos]]
    assert data.y.tolist() == [[none, none, a, a], [a, eos, none, none], [a, none, eos, none]]
    assert data.x_test.tolist() == [[bos, 0, 0, eos]]
    assert data.y_test.tolist() == [[none, none, eos, none]]
    assert (data.classes, data.owners) == (4, ("1", "2"))
    assert (data.owner.tolist(), data.owner_test.tolist()) == ([0, 0, 1], [1])


def test_within_a_piece_the_label_is_the_next_token(tmp_path):
    said = comments("the cat sat on the mat and", "the dog too", "cat", length=5)
    data = leaf_reddit(both(tmp_path, {"1": said}, {"1": said}))
    known = data.y[:, :-1] != UNLABELLED
    np.testing.assert_array_equal(data.x[:, 1:][known], data.y[:, :-1][known])
    assert known.sum() == 13  # 8 + 4 + 2 words and <EOS>, but "the" before "mat" is the label of a last position


def test_a_piece_of_the_end_alone_has_no_label_and_is_left_out(tmp_path):
    said = comments("a b c")  # <BOS> a b c | <EOS> <PAD> <PAD> <PAD>, whose targets are all <PAD>
    assert len(said[0][0]) == 2
    data = leaf_reddit(both(tmp_path, {"1": said}, {"1": said}))
    assert len(data.x) == len(data.x_test) == len(data.owner) == 1


def test_reddits_parts_may_say_how_many_comments_the_whole_has(tmp_path):
    # LEAF's data/reddit/source/preprocess.py, create_leaf_json, copies num_samples into each part
    for part in ("train", "test"):
        written(tmp_path / part, {"1": comments("a b")}, more=2)
    assert len(leaf_reddit(tmp_path).x) == 1


@pytest.mark.parametrize("reader", [leaf_shakespeare, leaf_reddit])
def test_absent_or_undivided_files_are_reported_with_where_and_what_to_do(tmp_path, reader):
    written(tmp_path / "all_data", {"A": ([TEXT], ["a"])})
    with pytest.raises(FileNotFoundError) as caught:
        reader(tmp_path)
    for part in ("train and test", str(tmp_path), "data.root", "$FEDLAPSE_DATA"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([TEXT], ["ab"], "x are not texts with one character"),
        ([TEXT], [""], "x are not texts with one character"),
        ([TEXT], [3], "x are not texts with one character"),
        ([[TEXT]], ["a"], "x are not texts with one character"),
        ([TEXT, TEXT[1:]], ["a", "b"], "examples of unlike lengths"),
        ([TEXT[1:]], ["a"], "examples of another length"),
    ],
)
def test_what_is_no_example_of_shakespeare_is_refused_with_its_user(tmp_path, x, y, reason):
    both(tmp_path, {"good": ([TEXT], ["a"]), "bad": (x, y)}, {"good": ([TEXT], ["a"])})
    with pytest.raises(ValueError, match=f"train: user 'bad': {reason}"):
        leaf_shakespeare(tmp_path)


PIECE = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ("text", {"target_tokens": [PIECE]}, "not lists of pieces"),
        ([PIECE], {}, "not lists of pieces"),
        ([PIECE], "text", "not lists of pieces"),
        ([["a", 1, "c", "d"]], {"target_tokens": [PIECE]}, "not lists of pieces"),
        (["abcd"], {"target_tokens": [PIECE]}, "not lists of pieces"),
        ([PIECE], {"target_tokens": [PIECE[1:]]}, "examples of another length"),
        ([PIECE, PIECE], {"target_tokens": [PIECE]}, "not as many labels"),
        ([PIECE, PIECE[1:]], {"target_tokens": [PIECE, PIECE]}, "examples of unlike lengths"),
    ],
)
def test_what_is_no_comment_is_refused_with_its_user(tmp_path, x, y, reason):
    good = comments("a b")
    both(tmp_path, {"good": good, "bad": ([x], [y])}, {"good": good})
    with pytest.raises(ValueError, match=f"train: user 'bad': .*{reason}"):
        leaf_reddit(tmp_path)


def test_targets_of_another_length_than_the_pieces_are_refused(tmp_path):
    said = ([[PIECE]], [{"target_tokens": [PIECE[1:]]}])
    with pytest.raises(ValueError, match="differ in number or length"):
        leaf_reddit(both(tmp_path, {"1": said}, {"1": said}))


def test_files_without_examples_or_of_another_form_are_refused(tmp_path):
    good = ([TEXT], ["a"])
    both(tmp_path, {"A": ([], [])}, {"A": good})
    with pytest.raises(ValueError, match="train: no examples"):
        leaf_shakespeare(tmp_path)
    both(tmp_path, {"A": good}, {"B": good})  # test examples of strangers alone
    with pytest.raises(ValueError, match="test: no examples"):
        leaf_shakespeare(tmp_path)
    (tmp_path / "train/all_data_0.json").write_text("[]")
    with pytest.raises(ValueError, match=r"all_data_0\.json: not LEAF's JSON"):
        leaf_shakespeare(tmp_path)


def test_a_folder_with_too_many_tokens_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(leaf_text, "MOST", 100)
    both(tmp_path, {"A": ([TEXT], ["a"]), "B": ([TEXT], ["a"])}, {"A": ([TEXT], ["a"])})
    with pytest.raises(ValueError, match="train: more than 100 tokens; take fewer users"):
        leaf_shakespeare(tmp_path)
    assert leaf_shakespeare(tmp_path, roles=1).owners == ("A",)


def test_a_vocabulary_of_no_words_is_refused(tmp_path):
    with pytest.raises(ValueError, match="words is 0"):
        leaf_reddit(tmp_path, words=0)

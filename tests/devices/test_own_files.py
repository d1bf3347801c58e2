"""Files of users: tables, arrays, folders of images, and classes of torchvision.datasets."""

import lzma
import os
from pathlib import Path

import numpy as np
import polars
import pytest
from PIL import Image
from torch.utils.data import Subset

from devices.data.dataset import Mapped
from devices.data.own_files import file, folder, torchvision
from devices.data.recognised import recognised

TABLE = 'warm,place,"what, then"\n1,here,0.5\n-2,"over\nthere",1e3\n'


def test_a_table_has_whole_numbers_numbers_and_texts(tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    columns = file(tmp_path / "a.csv")
    assert {name: column.tolist() for name, column in columns.items()} == {
        "warm": [1, -2],
        "place": ["here", "over\nthere"],
        "what, then": [0.5, 1000.0],
    }
    assert [column.dtype.kind for column in columns.values()] == ["i", "U", "f"]


def test_csv_tsv_and_parquet_hold_the_same(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,y\n1,0.25,u\n2,0.5,v\n")
    (tmp_path / "a.tsv").write_text("a\tb\ty\n1\t0.25\tu\n2\t0.5\tv\n")
    polars.read_csv(tmp_path / "a.csv").write_parquet(tmp_path / "a.parquet")
    found = [recognised("t", file(tmp_path / f"a.{kind}"), {}, 0) for kind in ("csv", "tsv", "parquet")]
    for data in found:
        assert (data.x.tolist(), data.y.tolist(), data.classes) == ([[1, 0.25], [2, 0.5]], [0, 1], 2)


def test_a_column_of_lists_in_parquet_is_one_x(tmp_path):
    polars.DataFrame({"x": [[1.0, 2.0], [3.0, 4.0]], "y": [1, 0]}).write_parquet(tmp_path / "a.parquet")
    assert recognised("t", file(tmp_path / "a.parquet"), {}, 0).x.tolist() == [[1, 2], [3, 4]]


def test_test_examples_may_be_a_second_file_in_the_same_folder(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,0\n2,1\n")
    (tmp_path / "b.csv").write_text("a,y\n3,1\n")
    data = recognised("t", file(tmp_path / "a.csv", "b.csv"), {}, 0.5)
    assert (data.x.tolist(), data.x_test.tolist()) == ([[1], [2]], [[3]])


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("name", ["x", "a_longer_name_that_shifts_what_follows"])
def test_arrays_of_an_npz_file_are_mapped_where_they_lie(tmp_path, name, order):
    values = np.asarray(np.random.default_rng(1).random((5, 3, 2), np.float32), order=order)
    np.savez(tmp_path / "a.npz", **{name: values, "y": np.arange(5), "none": np.zeros((0, 2))})
    found = file(tmp_path / "a.npz")
    assert isinstance(found[name], np.memmap)
    np.testing.assert_array_equal(found[name], values)
    assert found["none"].shape == (0, 2)
    if order == "C":
        assert Mapped.of(found[name])


def test_a_compressed_npz_file_is_read(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.eye(3, dtype=np.float32), y=np.arange(3))
    data = recognised("t", file(tmp_path / "a.npz"), {}, 0)
    assert data.x.tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"a,y\n1\n", "row 2 has 1 columns, and the header 2"),
        ("a.csv", b"", "not a table"),
        ("a.csv", b'a,y\n"1', "not a table"),
        ("a.npz", b"PK\x03\x04", "not an npz file"),
        ("a.json", b"{}", "ends in .json; it must end in .npz, .csv, .tsv, .parquet"),
        ("a", b"", "ends in nothing"),
    ],
)
def test_a_file_that_is_no_table_says_what_is_wrong(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        file(tmp_path / name)


def test_objects_in_an_npz_file_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{}], object))
    with pytest.raises(ValueError, match="holds objects"):
        file(tmp_path / "a.npz")


def images(root, colours):
    for name, colour in colours.items():
        (root / name).mkdir(parents=True)
        Image.new("RGB", (4, 3), colour).save(root / name / "0.png")


def test_a_folder_of_images_has_a_folder_for_each_class(tmp_path):
    images(tmp_path, {"cat": (255, 0, 0), "dog": (0, 51, 0)})
    data = recognised("f", folder(tmp_path), {}, 0)
    assert (data.x.shape, data.y.tolist(), data.classes) == ((2, 3, 3, 4), [0, 1], 2)
    assert data.x[:, :, 0, 0].tolist() == [[255, 0, 0], [0, 51, 0]]


@pytest.mark.parametrize("test", ["test", "val"])
def test_a_folder_may_have_its_test_images_beside_the_others(tmp_path, test):
    images(tmp_path / "train", {"cat": "red", "dog": "blue"})
    images(tmp_path / test, {"cat": "red", "dog": "blue"})
    data = recognised("f", folder(tmp_path), {}, 0.5)
    assert (len(data.y), data.y_test.tolist()) == (2, [0, 1])


def test_classes_of_a_folder_must_be_the_same_in_both_parts(tmp_path):
    images(tmp_path / "train", {"cat": "red", "dog": "blue"})
    images(tmp_path / "test", {"cat": "red"})
    with pytest.raises(ValueError, match="class 'dog' is in one of train and test only"):
        folder(tmp_path)


def test_a_class_of_torchvision_that_does_not_exist_or_takes_no_such_option_is_refused(tmp_path):
    with pytest.raises(ValueError, match="torchvision.datasets has no class 'CIFAR99'"):
        torchvision("CIFAR99", tmp_path)
    with pytest.raises(ValueError, match="unexpected keyword argument 'colour'"):
        torchvision("CIFAR100", tmp_path, colour=3)


def test_options_go_to_the_class_and_its_parts_are_its_own():
    train, none = torchvision("FakeData", Path(), size=5, image_size=[1, 4, 4], num_classes=3)
    assert (len(train), none) == (5, None)


@pytest.mark.slow
def test_cifar10_by_torchvision_is_the_built_in_one(tmp_path):
    """The same images and labels as fedlapse's own reader, which normalises them."""
    from devices.data.cifar import DEVIATION, MEAN, cifar10

    root = Path(os.environ.get("FEDLAPSE_DATA", ""))
    packed = root / "cifar10/cifar-10-batches-py"
    if not packed.is_dir():
        pytest.skip("needs $FEDLAPSE_DATA with cifar10/cifar-10-batches-py")
    (tmp_path / "cifar-10-batches-py").mkdir()
    for source in packed.iterdir():
        content = source.read_bytes()
        unpacked = lzma.decompress(content) if source.suffix == ".xz" else content
        (tmp_path / "cifar-10-batches-py" / source.name.removesuffix(".xz")).write_bytes(unpacked)
    first, ours = range(500), cifar10(root, batches=1)
    parts = torchvision("CIFAR10", tmp_path)
    theirs = recognised("t", tuple(Subset(part, first) for part in parts), {}, 0)
    np.testing.assert_array_equal(theirs.y, ours.y[first])
    np.testing.assert_array_equal(theirs.y_test, ours.y_test[first])
    whole = ours.x[first] * DEVIATION[:, None, None] + MEAN[:, None, None]
    np.testing.assert_allclose(theirs.x / 255, whole, atol=1e-6)
    assert len(parts[0]) == 50_000

import gzip
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from devices.data import idx, qmnist
from devices.data.dataset import Dataset

DATA = Path(os.environ.get("FEDLAPSE_DATA", Path(__file__).parents[2] / "../shared/data"))
LABELS = [DATA / f"qmnist/qmnist-{part}-labels-idx2-int.gz" for part in qmnist.SUMS]
needs_qmnist = pytest.mark.skipif(
    not all(path.is_file() for path in LABELS),
    reason=f"QMNIST'S LABELS ARE NOT UNDER {DATA}: THE READER IS NOT TESTED ON REAL FILES (set $FEDLAPSE_DATA)",
)


@pytest.fixture(name="small_mnist")
def _small_mnist(monkeypatch) -> Dataset:
    """Images of one pixel, numbered, in place of MNIST's: the writers are real."""
    x = np.arange(60_000, dtype=np.float32).reshape(-1, 1, 1, 1)
    data = Dataset("mnist", x, np.zeros(60_000, np.int64), x[:10_000], np.zeros(10_000, np.int64), classes=10)
    monkeypatch.setattr(idx, "mnist", lambda root, download: data)
    return data


def rows(path: Path) -> np.ndarray:
    """As the README of QMNIST says: 12 bytes of header, then eight big-endian integers a row."""
    return np.frombuffer(gzip.open(path).read()[12:], ">i4").reshape(-1, 8)


@needs_qmnist
def test_each_image_has_the_writer_whom_its_row_names(small_mnist):
    data = qmnist.qmnist(DATA)
    table = rows(LABELS[0])
    x, owner = np.r_[data.x, data.x_test].ravel().astype(int), np.r_[data.owner, data.owner_test]
    np.testing.assert_array_equal(np.sort(x), np.arange(60_000))  # none lost, none twice
    assert [int(data.owners[k][-4:]) for k in owner] == table[x, 2].tolist()
    assert [data.owners[k][:-5] for k in owner] == [{0: "census", 4: "student"}[k] for k in table[x, 1].tolist()]


@needs_qmnist
def test_the_writers_are_as_many_as_qmnists_authors_count_and_each_is_tested_on_a_tenth(small_mnist):
    data = qmnist.qmnist(DATA)
    train, test = np.bincount(data.owner, minlength=539), np.bincount(data.owner_test, minlength=539)
    assert len(data.owners) == 539  # this and the two below: shared/data README
    assert ((train + test).min(), (train + test).max()) == (19, 131)
    np.testing.assert_array_equal(test, (train + test) // 10)


@needs_qmnist
def test_strangers_are_the_297_writers_of_the_test_images_and_wrote_nothing_else(small_mnist):
    data = qmnist.qmnist(DATA, strangers=True)
    assert (len(data.y), len(data.y_test), len(data.owners)) == (60_000, 10_000, 539 + 297)
    assert not np.intersect1d(data.owner, data.owner_test).size
    assert len(np.unique(data.owner_test)) == 297
    np.testing.assert_array_equal([int(data.owners[k][-4:]) for k in data.owner_test[:100]], rows(LABELS[1])[:100, 2])


@needs_qmnist
@pytest.mark.slow
def test_qmnists_classes_are_mnists_labels_so_their_rows_are_the_images():
    mnist = idx.mnist(DATA)
    np.testing.assert_array_equal(rows(LABELS[0])[:, 0], mnist.y)
    np.testing.assert_array_equal(rows(LABELS[1])[:10_000, 0], mnist.y_test)


@needs_qmnist
@pytest.mark.parametrize("place", ["", "QMNIST/raw"])
def test_unpacked_labels_are_found_where_torchvision_puts_them_too(tmp_path, small_mnist, place):
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    (tmp_path / place / LABELS[0].stem).write_bytes(gzip.decompress(LABELS[0].read_bytes()))
    assert len(qmnist.qmnist(tmp_path).owners) == 539


def test_a_series_that_no_domain_is_known_of_is_named_by_its_number():
    assert [qmnist._name(series * qmnist.MOST_WRITERS + 7) for series in (0, 1, 4, 6)] == [
        "census-0007",
        "census-0007",
        "student-0007",
        "series6-0007",
    ]


def test_absent_labels_are_reported_with_where_and_what_to_do(tmp_path, small_mnist):
    with pytest.raises(FileNotFoundError, match="QMNIST's labels") as caught:
        qmnist.qmnist(tmp_path)
    assert str(tmp_path / "qmnist") in str(caught.value)
    assert "download: true" in str(caught.value)


def test_labels_that_are_not_qmnists_are_refused(tmp_path, small_mnist):
    (tmp_path / "qmnist-train-labels-idx2-int.gz").write_bytes(gzip.compress(b"others"))
    with pytest.raises(ValueError, match=r"train-labels.*md5 .*; QMNIST's is 0058f8dd"):
        qmnist.qmnist(tmp_path)


def test_a_download_that_fails_says_so(tmp_path, small_mnist, monkeypatch):
    def offline(root: Path, what: str, download: bool) -> None:
        raise RuntimeError("no route")

    monkeypatch.setattr(qmnist, "tv", SimpleNamespace(datasets=lambda: SimpleNamespace(QMNIST=offline)))
    with pytest.raises(ValueError, match=r"could not be downloaded into .*\(no route\)"):
        qmnist.qmnist(tmp_path, download=True)


@needs_qmnist
def test_missing_labels_are_downloaded_into_root_and_then_read(tmp_path, small_mnist, monkeypatch):
    def torchvision_does(root: Path, what: str, download: bool) -> None:
        assert download
        (root / "QMNIST/raw").mkdir(parents=True, exist_ok=True)
        shutil.copy(LABELS[what == "test"], root / "QMNIST/raw")

    monkeypatch.setattr(qmnist, "tv", SimpleNamespace(datasets=lambda: SimpleNamespace(QMNIST=torchvision_does)))
    assert len(qmnist.qmnist(tmp_path, download=True, strangers=True).owners) == 836

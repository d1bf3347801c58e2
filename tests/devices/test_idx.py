import gzip
import hashlib
import os
import shutil
import struct
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from devices.data import idx

DATA = Path(os.environ.get("FEDLAPSE_DATA", Path(__file__).parents[2] / "../shared/data"))
RAW = DATA / "mnist/MNIST/raw"
needs_mnist = pytest.mark.skipif(
    not all((RAW / f"{name}.gz").is_file() for name in idx.MNIST.md5),
    reason=f"MNIST IS NOT UNDER {DATA}: THE READER IS NOT TESTED ON REAL FILES (set $FEDLAPSE_DATA)",
)
CLOTHES = DATA / "fashion-mnist/FashionMNIST/raw"
needs_fashion = pytest.mark.skipif(
    not all((CLOTHES / f"{name}.gz").is_file() for name in idx.FASHION.md5),
    reason=f"FASHION-MNIST IS NOT UNDER {DATA}: THE READER IS NOT TESTED ON REAL FILES (set $FEDLAPSE_DATA)",
)
SMALL = np.arange(12, dtype=np.uint8).reshape(2, 3, 2)


def idx_bytes(array: np.ndarray) -> bytes:
    """As the format is written down: 0, 0, type, dimensions; sizes and data, most significant byte first."""
    kind = {"uint8": 8, "int32": 12}[array.dtype.name]
    header = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def written(folder: Path, content: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(content)
    return path


def read(content: bytes, folder: Path) -> np.ndarray:
    return idx.read_idx(written(folder, content))


@settings(max_examples=40)
@given(
    hnp.arrays(st.sampled_from([np.uint8, np.int32]), hnp.array_shapes(max_dims=4, min_side=0, max_side=5)),
    st.booleans(),
)
def test_what_was_written_is_read_gzipped_or_not(tmp_path_factory, array, zipped):
    content = idx_bytes(array)
    back = read(gzip.compress(content) if zipped else content, tmp_path_factory.getbasetemp())
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype
    assert back.flags.writeable  # torch.from_numpy warns of anything else


@pytest.mark.parametrize("zipped", [False, True])
def test_no_file_that_was_cut_short_is_read(tmp_path, zipped):
    content = gzip.compress(idx_bytes(SMALL)) if zipped else idx_bytes(SMALL)
    for length in range(len(content)):
        with pytest.raises(ValueError, match=r"file: (truncated|wrong magic|type)"):
            read(content[:length], tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\3\4" + b"\0" * 20, "wrong magic"),
        (b"\0\0\x0d\1" + b"\0" * 8, "type 0x0d"),
        (b"\0\0\x08\0" + b"\0" * 8, "in 0 dimensions"),
        (b"\0\0\x08\5" + b"\0" * 24, "in 5 dimensions"),
        (b"\0\0\x08\1" + b"\xff" * 4, "absurd size"),
        (b"\0\0\x08\4" + b"\xff" * 16, "absurd size"),
        (idx_bytes(SMALL) + b"!", "trailing bytes"),
        (gzip.compress(idx_bytes(SMALL) + b"!", mtime=0), "trailing bytes"),
        (gzip.compress(idx_bytes(SMALL), mtime=0) + b"!", "1 trailing bytes after the gzip"),
        (gzip.compress(idx_bytes(SMALL), mtime=0)[:-8] + b"\0" * 8, "damaged gzip"),
    ],
)
def test_a_file_that_is_no_idx_file_is_refused_by_name_and_reason(tmp_path, content, reason):
    with pytest.raises(ValueError, match=f"file: .*{reason}"):
        read(content, tmp_path)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_with_the_reason(tmp_path_factory, content):
    try:
        array = read(b"\0\0\x08\1" + content, tmp_path_factory.getbasetemp())
    except ValueError as error:
        assert str(error).count("file: ") == 1  # noqa: PT017 - both ends are allowed, the refusal must name it
    else:
        assert len(array) == len(content) - 4


def test_a_file_that_unpacks_without_end_is_stopped_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(idx, "LIMIT", 1000)
    bomb = written(tmp_path, gzip.compress(b"\0" * 900_000))  # 900 bytes
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more than 1000 bytes"):
        idx.read_idx(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300_000  # never a third of what it would unpack to
    with pytest.raises(ValueError, match="1001 bytes"):
        read(b"\0" * 1001, tmp_path)


def test_absent_files_are_reported_with_where_and_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        idx.mnist(tmp_path)
    message = str(caught.value)
    for part in (
        str(tmp_path),
        str(tmp_path / "MNIST/raw"),
        str(tmp_path / "mnist/MNIST/raw"),
        "data.root",
        "$FEDLAPSE_DATA",
        "download: true",
    ):
        assert part in message


def test_a_reader_does_not_look_where_another_sets_files_lie(tmp_path):
    with pytest.raises(FileNotFoundError, match="the four Fashion-MNIST files") as caught:
        idx.fashion_mnist(tmp_path)
    assert str(tmp_path / "fashion-mnist/FashionMNIST/raw") in str(caught.value)
    assert str(tmp_path / "MNIST") not in str(caught.value)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_file_that_is_not_mnists_is_refused(tmp_path, ending):
    for name in idx.MNIST.md5:
        (tmp_path / f"{name}{ending}").write_bytes(idx_bytes(SMALL))
    with pytest.raises(ValueError, match=r"train-images.*md5 .* damaged or another one"):
        idx.mnist(tmp_path)


def fake_torchvision(download) -> SimpleNamespace:
    return SimpleNamespace(datasets=lambda: SimpleNamespace(MNIST=download))


def test_a_download_that_fails_says_so(tmp_path, monkeypatch):
    def offline(root: Path, download: bool) -> None:
        raise RuntimeError("no route")

    monkeypatch.setattr(idx, "tv", fake_torchvision(offline))
    with pytest.raises(ValueError, match=r"could not be downloaded into .*\(no route\)"):
        idx.mnist(tmp_path, download=True)


@needs_mnist
@pytest.mark.slow
def test_missing_files_are_downloaded_into_root_and_then_read(tmp_path, monkeypatch):
    def torchvision_does(root: Path, download: bool) -> None:
        assert download
        shutil.copytree(RAW, root / "MNIST/raw")

    monkeypatch.setattr(idx, "tv", fake_torchvision(torchvision_does))
    assert idx.mnist(tmp_path, download=True).x.shape == (60_000, 1, 28, 28)


@needs_mnist
@pytest.mark.slow
def test_mnist_has_the_counts_and_moments_that_are_known_of_it():
    data = idx.mnist(DATA)
    # class counts: shared/data README, from LeCun's files
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    test = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(data.y).tolist() == train
    assert np.bincount(data.y_test).tolist() == test
    # 0.1307 and 0.3081 are the mean and deviation of the training pixels, to four digits
    assert data.x.mean(dtype=np.float64) == pytest.approx(0, abs=2e-4)
    assert data.x.std(dtype=np.float64) == pytest.approx(1, abs=2e-4)
    assert data.x.min() == pytest.approx(-0.1307 / 0.3081)
    assert data.x_test.max() == pytest.approx((1 - 0.1307) / 0.3081)


@needs_mnist
@pytest.mark.slow
def test_of_mnist_the_first_examples_may_be_enough():
    whole, some = idx.mnist(DATA), idx.mnist(DATA, examples=6_316)
    assert np.array_equal(some.x, whole.x[:6_316])
    assert np.array_equal(some.y, whole.y[:6_316])
    assert len(some.y_test) == 10_000


@pytest.mark.parametrize("examples", [0, 60_001])
def test_more_or_fewer_than_there_are_is_refused(tmp_path, examples):
    with pytest.raises(ValueError, match=f"examples is {examples}; MNIST has 1 to 60000"):
        idx.mnist(tmp_path, examples=examples)


@needs_mnist
@pytest.mark.slow
@pytest.mark.parametrize("place", idx.MNIST.places)
def test_unpacked_files_are_found_in_each_place_and_nothing_is_written_there(tmp_path, place):
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    for name in idx.MNIST.md5:
        (tmp_path / place / name).write_bytes(gzip.decompress((RAW / f"{name}.gz").read_bytes()))
    before = sorted(tmp_path.rglob("*"))
    data = idx.mnist(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert data.y_test[:4].tolist() == [7, 2, 1, 0]  # the first test digits, as printed in every tutorial


@needs_mnist
def test_the_written_down_sums_of_the_unpacked_labels_are_those_of_the_real_files():
    for name in ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"):
        content = gzip.decompress((RAW / f"{name}.gz").read_bytes())
        assert hashlib.md5(content).hexdigest() == idx.MNIST.md5[name][1]


@needs_fashion
@pytest.mark.slow
def test_fashion_mnist_has_the_counts_and_moments_that_are_known_of_it():
    data = idx.fashion_mnist(DATA)
    assert np.bincount(data.y).tolist() == [6000] * 10  # as published: 6,000 and 1,000 a class
    assert np.bincount(data.y_test).tolist() == [1000] * 10
    assert data.x.mean(dtype=np.float64) == pytest.approx(0, abs=2e-4)  # 0.2860 and 0.3530 have four digits
    assert data.x.std(dtype=np.float64) == pytest.approx(1, abs=2e-4)
    assert data.y[:4].tolist() == [9, 0, 0, 3]  # boot, T-shirt, T-shirt, dress: the first of every tutorial


@needs_fashion
def test_the_written_down_sums_of_fashion_mnist_are_those_of_the_real_labels_packed_and_unpacked():
    for name in ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"):
        packed = (CLOTHES / f"{name}.gz").read_bytes()
        sums = tuple(hashlib.md5(content).hexdigest() for content in (packed, gzip.decompress(packed)))
        assert sums == idx.FASHION.md5[name]


@needs_mnist
def test_mnist_where_fashion_mnist_should_be_is_refused(tmp_path):
    for name in idx.MNIST.md5:
        (tmp_path / f"{name}.gz").symlink_to((RAW / f"{name}.gz").resolve())
    with pytest.raises(ValueError, match="Fashion-MNIST's is 8d4fb7e6c68d591d4c3dfef9ec88bf0d"):
        idx.fashion_mnist(tmp_path)

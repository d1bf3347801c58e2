import hashlib
import lzma
import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from devices.data import cifar

DATA = Path(os.environ.get("FEDLAPSE_DATA", Path(__file__).parents[2] / "../shared/data"))
RAW = DATA / "cifar10/cifar-10-batches-py"
needs_cifar = pytest.mark.skipif(
    not all((RAW / f"{name}.xz").is_file() for name in cifar.MD5),
    reason=f"CIFAR-10 IS NOT UNDER {DATA}: THE READER IS NOT TESTED ON REAL FILES (set $FEDLAPSE_DATA)",
)
PIXELS = np.arange(2 * 3072, dtype=np.uint32).astype(np.uint8).reshape(2, 3072)


def read(folder: Path, content: bytes, md5: str | None = None):
    path = folder / "batch"
    path.write_bytes(content)
    return cifar.read_batch(path, md5 or hashlib.md5(content).hexdigest())


class Harmful:
    """Unpickled, it would make a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder / "harm"),)


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_batch_is_read_channel_by_channel_row_by_row(tmp_path, protocol):
    x, y = read(tmp_path, pickle.dumps({"data": PIXELS, "labels": [3, 9]}, protocol))
    assert (x.shape, y.tolist(), y.dtype) == ((2, 3, 32, 32), [3, 9], np.int64)
    # as the CIFAR-10 page says: 1024 red values row by row, then green, then blue
    assert x[1, 2, 5, 7] == PIXELS[1, 2 * 1024 + 5 * 32 + 7]


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_no_pickle_is_opened_whose_md5_is_another(tmp_path, protocol):
    with pytest.raises(ValueError, match=r"batch: md5 .*; CIFAR-10's is 0000"):
        read(tmp_path, pickle.dumps({"data": Harmful(tmp_path)}, protocol), md5="0000")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("content", [b"", b"}", b"(lp0\n.", b"}.", pickle.dumps({"data": PIXELS, "labels": [1]}, 2)])
def test_a_pickle_of_something_else_is_refused_by_name(tmp_path, content):
    with pytest.raises(ValueError, match="batch: not a batch of CIFAR-10"):
        read(tmp_path, content)


def test_the_md5_is_that_of_the_unpacked_content_and_unpacking_has_a_limit(tmp_path, monkeypatch):
    content = pickle.dumps({"data": PIXELS, "labels": [3, 9]}, 2)
    x, _ = read(tmp_path, lzma.compress(content), hashlib.md5(content).hexdigest())
    np.testing.assert_array_equal(x.reshape(2, -1), PIXELS)
    monkeypatch.setattr(cifar, "LIMIT", 1000)
    with pytest.raises(ValueError, match="unpacks to more than 1000 bytes"):
        read(tmp_path, lzma.compress(bytes(5000)))


@pytest.mark.parametrize("batches", [0, 6, -1])
def test_batches_that_there_are_not_are_refused(tmp_path, batches):
    with pytest.raises(ValueError, match=f"batches is {batches}; CIFAR-10 has 1 to 5"):
        cifar.cifar10(tmp_path, batches=batches)


def test_absent_files_are_reported_with_where_and_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        cifar.cifar10(tmp_path)
    for part in (str(tmp_path / "cifar10/cifar-10-batches-py"), "6 files", "$FEDLAPSE_DATA", "download: true"):
        assert part in str(caught.value)


def test_a_download_that_fails_says_so(tmp_path, monkeypatch):
    def offline(root: Path, train: bool, download: bool) -> None:
        raise RuntimeError("no route")

    monkeypatch.setattr(cifar, "tv", SimpleNamespace(datasets=lambda: SimpleNamespace(CIFAR10=offline)))
    with pytest.raises(ValueError, match=r"could not be downloaded into .*\(no route\)"):
        cifar.cifar10(tmp_path, download=True)


@needs_cifar
@pytest.mark.slow
def test_the_first_batch_of_cifar10_is_as_it_is_known(tmp_path):
    for name in ("data_batch_1", "test_batch"):  # the others are not needed, packed or not
        (tmp_path / name).write_bytes(lzma.decompress((RAW / f"{name}.xz").read_bytes()))
    data = cifar.cifar10(tmp_path, batches=1)
    assert data.x.shape == data.x_test.shape == (10_000, 3, 32, 32)
    assert data.y[:6].tolist() == [6, 9, 9, 4, 1, 1]  # frog, truck, truck, deer, car, car: every tutorial's first
    assert np.bincount(data.y_test).tolist() == [1000] * 10
    # a fifth of the images, at random: their moments are those of all to about a hundredth
    np.testing.assert_allclose(data.x.mean((0, 2, 3), dtype=np.float64), 0, atol=0.02)
    np.testing.assert_allclose(data.x.std((0, 2, 3), dtype=np.float64), 1, atol=0.02)
    # the darkest value is 0, then less the mean, by the deviation
    np.testing.assert_allclose(data.x.min((0, 2, 3)), -cifar.MEAN / cifar.DEVIATION, rtol=1e-6)

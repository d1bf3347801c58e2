"""Arrays that lie in a file are mapped where they lie, and nobody copies them."""

import pickle
import tracemalloc

import numpy as np
import pytest

from devices.data.dataset import Dataset, Mapped
from devices.data.finite import check_finite
from emulator.ledger.canonical import digest

NUMBERS = np.arange(120, dtype=np.float32).reshape(10, 3, 4)


@pytest.fixture(params=["npy", "raw"])
def mapped(request, tmp_path):
    """The numbers in a file, behind a header of numpy's or of 20 bytes."""
    if request.param == "npy":
        np.save(tmp_path / "x.npy", NUMBERS)
        return lambda mode: np.load(tmp_path / "x.npy", mmap_mode=mode)
    (tmp_path / "x.raw").write_bytes(bytes(20) + NUMBERS.tobytes())
    return lambda mode: np.memmap(tmp_path / "x.raw", np.float32, mode, 20, NUMBERS.shape)


PARTS = {
    "all": lambda x: x,
    "some": lambda x: x[3:7],
    "one": lambda x: x[8],
    "another shape": lambda x: x[2:].reshape(-1, 12),
    "a plain array": lambda x: np.asarray(x)[1:],
    "a part of a part": lambda x: x[2:][1:][:3],
}


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())
def test_a_part_of_a_mapped_array_is_found_in_its_file(mapped, part, mode):
    place = Mapped.of(part(mapped(mode)))
    there = pickle.loads(pickle.dumps(place)).array("r")
    np.testing.assert_array_equal(there, part(NUMBERS))
    mapped("r+")[:] = 7  # it is no copy
    assert (there == 7).all()


def test_what_is_in_no_file_as_it_is_has_no_place_there(mapped, tmp_path):
    x = mapped("r")
    for array in (NUMBERS, NUMBERS[2:], x[::2], x[:, 1:], x.T, x + 1, mapped("c"), mapped("c")[1:], x[:0]):
        assert Mapped.of(array) is None
    assert Mapped.of(x[1:])
    for file in tmp_path.iterdir():
        file.unlink()
    assert Mapped.of(x[1:]) is None


def readings(folder, nbytes):
    """A data set whose examples are a file with a hole, which takes no room on the disk."""
    with (folder / "x.bin").open("wb") as file:
        file.truncate(nbytes)
    x = np.memmap(folder / "x.bin", np.float32, "r", shape=(nbytes // 4096, 1, 32, 32))
    y = np.arange(len(x)) % 2
    return Dataset("readings", x, y, np.asarray(x[:5]), y[:5], classes=2)


def test_a_mapped_data_set_is_never_copied(tmp_path, monkeypatch):
    """The data set is read, digested, handed over and mapped again with far less memory and disk than its own size."""
    monkeypatch.setattr("devices.data.finite.CHUNK", 1 << 18)
    (tmp_path / "shelf").mkdir()
    nbytes = 1 << 23
    data = readings(tmp_path, nbytes)
    tracemalloc.start()
    check_finite(data)
    known = digest(data.x)
    there = Dataset.taken_down(pickle.loads(pickle.dumps(data.put_away(tmp_path / "shelf"))))
    assert digest(there.x) == digest(data.x) == known
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < nbytes / 6
    assert sorted(file.name for file in (tmp_path / "shelf").iterdir()) == ["y.npy", "y_test.npy"]
    (tmp_path / "next").mkdir()  # of another pool of workers, for the same data set
    data.put_away(tmp_path / "next")
    assert sorted(file.name for file in (tmp_path / "next").iterdir()) == ["y.npy", "y_test.npy"]
    there.x[0] = 7  # torch wants memory that can be written to
    assert not data.x[0].any()
    assert not np.memmap(tmp_path / "x.bin", np.float32, "r").any()

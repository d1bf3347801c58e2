"""Uploads are read where they lie."""

from __future__ import annotations

import weakref

import numpy as np
import torch

from emulator.messages.codec import LazyTensors, Row, encode, unread, unstacked
from network.wire import payload


def test_an_upload_that_may_only_be_read_is_read_without_a_copy_and_stays_while_somebody_reads() -> None:
    """As those that Ray lends.  Of a copy a mean is taken in one thread."""
    data = encode({"weights": {"w": torch.arange(6.0).reshape(2, 3)}}).data
    lent = np.frombuffer(bytes(data), np.uint8)
    begin, gone = lent.ctypes.data, weakref.ref(lent)
    assert not lent.flags.writeable
    weights = unread(payload.trusted(lent.data), {})["weights"]
    assert isinstance(weights, LazyTensors)
    found = weights.in_place("w")
    assert found is not None
    assert 0 < found.data_ptr() - begin < len(data)
    del lent, weights
    assert gone() is not None
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
    del found
    assert gone() is None


def test_a_row_of_a_stack_reads_as_the_device_s_own_upload() -> None:
    draw = torch.Generator().manual_seed(1)
    stack = {"weights": {"w": torch.randn(3, 5, 7, generator=draw), "n": torch.tensor([4, 5, 6])}, "none": {}}
    view = payload.trusted(encode(stack).data)
    found = unstacked(view)
    assert found.keys() == stack.keys()
    for k in range(3):
        row, alone = Row(found["weights"], k), unread(view.row(k), {})["weights"]
        assert {*row} == {*alone}
        assert len(row) == 2
        assert torch.equal(row["w"], alone["w"])
        assert torch.equal(row["n"], alone["n"])
        assert row["w"].data_ptr() % payload.ALIGNMENT == 0


def test_a_row_of_a_stack_lies_in_the_message_and_whoever_reads_it_has_a_copy() -> None:
    data = bytearray(encode({"weights": {"w": torch.arange(12.0).reshape(3, 4)}}).data)
    row = Row(unstacked(payload.trusted(data))["weights"], 1)
    row["w"].zero_()
    assert row.in_place("w").tolist() == [4, 5, 6, 7]
    begin = np.frombuffer(data, np.uint8).ctypes.data
    assert begin < row.in_place("w").data_ptr() < begin + len(data)

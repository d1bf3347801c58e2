"""Uploads are read where they lie."""

from __future__ import annotations

import weakref

import numpy as np
import torch

from emulator.lab.codec import Unread, encode, unread
from network.wire import payload


def test_an_upload_that_may_only_be_read_is_read_without_a_copy_and_stays_while_somebody_reads() -> None:
    """As those that Ray lends.  Of a copy a mean is taken in one thread."""
    data = encode({"weights": {"w": torch.arange(6.0).reshape(2, 3)}}).data
    lent = np.frombuffer(bytes(data), np.uint8)
    begin, gone = lent.ctypes.data, weakref.ref(lent)
    assert not lent.flags.writeable
    weights = unread(payload.trusted(lent.data), {})["weights"]
    assert isinstance(weights, Unread)
    found = weights.in_place("w")
    assert found is not None
    assert 0 < found.data_ptr() - begin < len(data)
    del lent, weights
    assert gone() is not None
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
    del found
    assert gone() is None

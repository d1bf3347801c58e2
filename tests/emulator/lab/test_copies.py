"""What comes again is decoded once, and nobody can tell."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from emulator.lab.copies import POSSIBLE, Copies, Decoder
from network.wire import payload
from network.wire.payload import ALIGNMENT

pytestmark = pytest.mark.skipif(not POSSIBLE, reason="no memfd_create: each message is decoded anew")

LARGE = 100_000
MESSAGE: payload.Message = {
    "weights": {
        "a": np.arange(LARGE, dtype=np.float32).reshape(-1, 10),
        "b": np.array(7, np.int64),
        "c": np.zeros((0, 3), np.float16),
    },
    "none": {},
    "fisher": {"a": np.linspace(0, 1, 5)},
}


def plain(message: payload.Message) -> dict[str, dict[str, tuple[object, ...]]]:
    return {
        kind: {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}
        for kind, arrays in message.items()
    }


def test_a_copy_is_the_message() -> None:
    assert plain(Copies(MESSAGE).one()) == plain(MESSAGE)


def test_copies_are_apart_and_aligned() -> None:
    copies = Copies(MESSAGE)
    first, second = copies.one(), copies.one()
    first["weights"]["a"][...] = -1
    assert plain(second) == plain(copies.one()) == plain(MESSAGE)
    for array in second["weights"].values():
        assert array.__array_interface__["data"][0] % ALIGNMENT == 0


def test_a_copy_outlives_what_it_was_made_of() -> None:
    copy = Copies(MESSAGE).one()
    gc.collect()
    assert plain(copy) == plain(MESSAGE)


def test_each_time_the_message_is_as_it_was_written() -> None:
    decoder, data = Decoder(), memoryview(payload.encode(MESSAGE))
    for _ in range(4):  # anew, to be copied, a copy, another
        found = decoder(data)
        assert plain(found) == plain(MESSAGE)
        found["weights"]["a"] += 1
    assert decoder.copies is not None


def test_another_message_is_not_taken_for_the_last_one() -> None:
    decoder, messages = Decoder(), [{"weights": {"a": np.full(LARGE, k, np.float32)}} for k in range(2)]
    data = [memoryview(payload.encode(message)) for message in messages]
    for k in (0, 0, 0, 1, 0, 1, 1, 1):
        assert plain(decoder(data[k])) == plain(messages[k])


def test_what_is_no_longer_needed_is_closed() -> None:
    here = len(list(Path("/proc/self/fd").iterdir()))
    decoder = Decoder()
    for k in range(3):
        data = memoryview(payload.encode({"weights": {"a": np.full(LARGE, k, np.float32)}}))
        for _ in range(3):
            decoder(data)
    del decoder
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == here


def test_where_there_is_no_such_memory_messages_are_decoded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.lab.copies.POSSIBLE", False)
    monkeypatch.delattr(os, "memfd_create")
    decoder, data = Decoder(), memoryview(payload.encode(MESSAGE))
    assert all(plain(decoder(data)) == plain(MESSAGE) for _ in range(3))

"""A store that keeps some messages in the memory of this process's only GPU (see messages/flat.py), and all others in
files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from algorithms.algorithm import Message
from emulator.messages.codec import encode
from emulator.messages.files import Files
from emulator.messages.flat import FlatMessage, on_cpu
from emulator.messages.store import Ref
from network.wire import payload
from network.wire.form import Buffer


class Residents(Files):
    """The store of messages of a process that trains on one GPU itself and has no worker processes."""

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__(folders)
        self._tensors: dict[str, FlatMessage] = {}  # by digest

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        return super().put(*pieces, digest=digest or payload.digest(*pieces, threads=payload.ALL_CORES))

    def keep(self, ref: Ref, message: FlatMessage) -> Ref:
        """Keeps a message in the GPU's memory as long as a Ref to it exists, and returns `ref`; see
        messages.flat.Keeping."""
        self.hold(ref, lambda: self._tensors.setdefault(ref.digest, message))
        return ref

    def tensors(self, ref: Ref) -> FlatMessage | None:
        return self._tensors.get(ref.digest)

    def make_room(self) -> None:
        """Moves all messages that are in the GPU's memory to the computer's main memory."""
        with self._lock:  # another thread may release one
            for digest, message in self._tensors.items():
                self._tensors[digest] = on_cpu(message)

    def get(self, ref: Ref) -> memoryview:
        message = self.tensors(ref)
        if message is None:
            return super().get(ref)
        return memoryview(encode(cast(Message, on_cpu(message))).data)

    def has(self, ref: Ref) -> bool:
        return ref.digest in self._tensors or super().has(ref)

    def free(self, digest: str) -> None:
        self._tensors.pop(digest, None)
        super().free(digest)

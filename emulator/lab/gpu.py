"""Messages in the memory of the GPU on which the emulated devices train, if there is one, and room in that memory."""

from __future__ import annotations

from algorithms.algorithm import Message
from emulator.lab.lab import CPU, Lab
from emulator.messages import flat
from emulator.messages.codec import decode
from emulator.messages.store import Ref, Store

BROUGHT = 2  # messages that stay there: a round's download is the model that was just evaluated


def own(lab: Lab, store: Store, ref: Ref) -> Message:
    """Returns a private copy of the message, in the memory of the CPU or GPU on which the emulated devices train."""
    found = brought(lab, store, ref)
    if lab.on == CPU:
        return found
    return {kind: {name: value.clone() for name, value in tensors.items()} for kind, tensors in found.items()}


_there: dict[tuple[str, str], Message] = {}  # on a GPU, by place and digest: the messages brought last


def brought(lab: Lab, store: Store, ref: Ref) -> Message:
    """Returns the message in the memory of the CPU or GPU on which the emulated devices train.  On a GPU it must not be
    changed, because the next job reads it, too.  The server's own work stays on the CPU, because it mostly adds."""
    if lab.on == CPU:
        return decode(store.get(ref))
    key = lab.on, ref.digest
    if key not in _there:
        _stays(lab, ref, decode(store.get(ref)))
    return _there[key]


def bring(lab: Lab, ref: Ref, message: Message) -> None:
    """Copies a message to the GPU for the jobs that will read it there, because mapping and reading its file would take
    ten times as long.  Does nothing if devices train on the CPU."""
    if lab.on != CPU:
        as_read = {kind: {name: value.contiguous() for name, value in of.items()} for kind, of in message.items()}
        _stays(lab, ref, as_read)


def _stays(lab: Lab, ref: Ref, message: Message) -> None:
    there = moved(lab, message)
    while len(_there) >= BROUGHT:
        del _there[next(iter(_there))]
    _there[lab.on, ref.digest] = there


def moved(lab: Lab, message: Message) -> Message:
    """Returns the message in the memory of the CPU or GPU on which the emulated devices train."""
    return {kind: {name: value.to(lab.on) for name, value in of.items()} for kind, of in message.items()}


def full(error: BaseException) -> bool:
    """Returns true for an error that says that a GPU's memory is full."""
    from torch import OutOfMemoryError

    return isinstance(error, OutOfMemoryError) or isinstance(error.__context__, OutOfMemoryError)


def make_room(store: Store) -> None:
    """Frees memory of the GPU: drops the messages copied there and the recorded steps, and has the store move its
    uploads to the CPU."""
    from torch import cuda

    from algorithms.training import stack_graph

    _there.clear()
    stack_graph.forget()
    if kept := flat.keeping(store):
        kept.make_room()
    cuda.empty_cache()

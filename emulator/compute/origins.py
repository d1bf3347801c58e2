"""Which job makes each message, so that one whose bytes are gone can be made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from emulator.ledger.results import Job, plain_ref, read_ref, refs
from emulator.messages.store import Ref
from emulator.record.run import Run

Args = tuple[Any, ...]


class NoOrigin(RuntimeError):  # noqa: N818  what happened, not what went wrong
    """Nobody knows which job makes a message."""


@dataclass(frozen=True)
class Remake:
    """A job to be done again, its arguments, and the digests of what is wanted of it."""

    job: Job
    args: Args
    wanted: set[str] = field(default_factory=set)


class Origins:
    """The jobs that were done in some runs, by the digests of what they have made.

    They are to be noted in the order in which they were done: the first one that makes a message is its origin, so that
    none is made, by detours, from itself.
    """

    def __init__(self) -> None:
        self._of: dict[str, tuple[Job, Args]] = {}

    def note(self, job: Job, args: Sequence[Any], result: Any) -> None:
        """Remembers which job makes these messages, but for those that it was given itself."""
        given = {ref.digest for ref in refs(args)}
        origin = job, loose(args)
        for ref in refs(result):
            if ref.digest not in given:
                self._of.setdefault(ref.digest, origin)

    def __contains__(self, digest: object) -> bool:
        return digest in self._of

    def plan(self, missing: Sequence[Ref], here: Callable[[Ref], bool]) -> list[Remake]:
        """Returns the jobs that make these messages, and all messages that they need and that are not `here`.

        Each job comes after those whose messages it needs.  Raises NoOrigin.

        A run may have thousands of rounds, and each message rests on one of the round before; so no recursion.
        """
        found: list[Remake] = []
        begun: dict[int, Remake] = {}  # by its origin
        todo: list[Remake | Ref] = list(_absent(missing, here))
        while todo:
            each = todo.pop()
            if isinstance(each, Remake):  # all below it has been found
                found.append(each)
                continue
            if each.digest not in self._of:
                raise NoOrigin(f"nobody knows how to make {each.digest}")
            origin = self._of[each.digest]
            if again := begun.get(id(origin)):
                again.wanted.add(each.digest)
                continue
            again = begun[id(origin)] = Remake(origin[0], loose(origin[1]), {each.digest})
            todo += [again, *_absent(refs(again.args), here)]
        return found


def _absent(wanted: Iterator[Ref] | Sequence[Ref], here: Callable[[Ref], bool]) -> list[Ref]:
    return [ref for ref in wanted if not here(ref)]


def loose(args: Sequence[Any]) -> Args:
    """Returns a copy of the arguments with Refs that hold nothing (see messages.files.Holders)."""
    return read_args(plain_args(args))


def plain_args(args: Sequence[Any]) -> list[Any]:
    """A job's arguments as msgpack carries them."""
    return [_plain(arg) for arg in args]


def read_args(plain: Sequence[Any]) -> Args:
    """A job's arguments, from what `plain_args` made of them."""
    return tuple(_read(each) for each in plain)


def _plain(arg: Any) -> Any:
    match arg:
        case Run():
            return {"run": [arg.label, arg.seed]}
        case Ref():
            return {"ref": plain_ref(arg)}
        case dict():
            return {name: _plain(value) for name, value in arg.items()}
        case list() | tuple():
            return [_plain(each) for each in arg]
        case _:
            return arg


def _read(plain: Any) -> Any:
    match plain:
        case {"run": [label, seed]}:
            return Run(label, seed)
        case {"ref": [str(), int(), *_] as ref}:
            return read_ref(ref)
        case dict():
            return {name: _read(value) for name, value in plain.items()}
        case list():
            return tuple(_read(each) for each in plain)
        case _:
            return plain

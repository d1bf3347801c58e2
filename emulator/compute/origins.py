"""Remembers the job that made each message, so that a message whose bytes are gone can be computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from emulator.ledger.results import Job, plain_ref, read_ref, refs
from emulator.messages.store import Ref
from emulator.record.run import Run

Args = tuple[Any, ...]


class NoOrigin(RuntimeError):  # noqa: N818  an event, and not an error
    """The error that it is not known which job made a message."""


@dataclass(frozen=True)
class Remake:
    """A job to repeat, its arguments, and the digests of the messages that are wanted from its result."""

    job: Job
    args: Args
    wanted: set[str] = field(default_factory=set)


class Origins:
    """The jobs that made the messages of some runs, by the digests of the messages.

    Call `note` for jobs in the order in which they were done: the first job that makes a message is its origin, so that
    no message depends on itself.
    """

    def __init__(self) -> None:
        self._of: dict[str, tuple[Job, Args]] = {}

    def note(self, job: Job, args: Sequence[Any], result: Any) -> None:
        """Notes the job as the origin of the messages in its result, except those that are also among its arguments."""
        given = {ref.digest for ref in refs(args)}
        origin = job, loose(args)
        for ref in refs(result):
            if ref.digest not in given:
                self._of.setdefault(ref.digest, origin)

    def __contains__(self, digest: object) -> bool:
        return digest in self._of

    def plan(self, missing: Sequence[Ref], here: Callable[[Ref], bool]) -> list[Remake]:
        """Returns the jobs to repeat so that the `missing` messages exist again: those that made them, and those that
        made other messages which these jobs need as input and which are not `here`.

        Each job comes after the jobs whose messages it needs.  Raises NoOrigin if the job that made a message is not
        known.  A run may have thousands of rounds, each based on the last, so the search does not use recursion.
        """
        found: list[Remake] = []
        begun: dict[int, Remake] = {}  # by the identity of its origin
        todo: list[Remake | Ref] = list(_absent(missing, here))
        while todo:
            each = todo.pop()
            if isinstance(each, Remake):  # all its inputs have been found
                found.append(each)
                continue
            if each.digest not in self._of:
                raise NoOrigin(f"it is unknown how to make {each.digest}")
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
    """Returns a copy of a job's arguments whose Refs do not keep messages alive (see messages.files.Holders)."""
    return read_args(plain_args(args))


def plain_args(args: Sequence[Any]) -> list[Any]:
    """Returns a job's arguments as numbers, strings, lists and dicts, which msgpack can encode."""
    return [_plain(arg) for arg in args]


def read_args(plain: Sequence[Any]) -> Args:
    """Returns the arguments of a job from the plain form that `plain_args` made of them."""
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

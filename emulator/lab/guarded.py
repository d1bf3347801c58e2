"""Wraps an algorithm: errors in its code, and results of the wrong form, become a one-line message.

The line names the run, the round and the device, the method, the error, and the place in the algorithm's own file.
With FEDLAPSE_TRACEBACK=1 in the environment the whole traceback goes to stderr as well.
"""

from __future__ import annotations

import math
import os
import sys
import traceback
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.algorithm import (
    INTERFACE,
    Algorithm,
    Answer,
    Load,
    Message,
    Party,
    Phase,
    Reply,
    Request,
    Tensors,
    Work,
)
from algorithms.cohort import draw
from algorithms.course import Course
from algorithms.selection.past import Selection
from algorithms.staleness import Stale
from algorithms.training.torch_lock import TURN
from emulator.lab.faulty import Faulty
from emulator.messages.codec import finite
from emulator.record.run import AlgorithmFacts
from network.wire import payload
from scenarios.text.faults import in_one_line

if TYPE_CHECKING:
    import torch

TRACEBACK = "FEDLAPSE_TRACEBACK"
SHORT = 160  # letters of an error, so that the place that follows is never cut off
CAUGHT = (Exception, SystemExit)  # a user's code may raise anything; its message helps the user

Shapes = Mapping[str, tuple["torch.dtype", "torch.Size"]]  # by the tensor's name


@dataclass(frozen=True)
class Guarded:
    """An algorithm with the interface of algorithms.algorithm.Algorithm; its members are made from INTERFACE, below.

    Each member raises Faulty for the algorithm's own mistakes.  Non-finite values of an upload are not such a mistake:
    the server refuses that upload, and the run continues.
    """

    label: str
    algorithm: Any  # an Algorithm, or a substitute

    def fault(self, error: BaseException, asked: str, where: str = "") -> Faulty:
        """Returns the one-line form of an error from the algorithm's method `asked`.

        `where`: the round and the device, in words.
        """
        # Callers use try and except: entering a context manager would take longer than most of these calls.
        if isinstance(error, Faulty):
            return error
        if isinstance(error, _Unfit):
            return Faulty(self.label, where, f"{asked} {error}")
        if os.environ.get(TRACEBACK):
            traceback.print_exception(error)
        said = ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split()))))
        return Faulty(self.label, where, f"{asked} raised {in_one_line(said, SHORT)}{self._place(error)}")

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Runs the algorithm's course (algorithms/course.py) and checks its reply.  Only for algorithms whose class is
        stackable (algorithms/fedavg.py)."""
        try:
            return _reply((yield from self.algorithm.course(download, device)), self.algorithm, (device,))
        except CAUGHT as error:
            raise self.fault(error, "train()", _where((device,))) from None

    def _place(self, error: BaseException) -> str:
        """Returns file and line of an error, such as " (file:12)": the innermost one in the algorithm's own file,
        otherwise in any file but this one; "" if there is none."""
        lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        own = getattr(sys.modules.get(type(self.algorithm).__module__), "__file__", None)
        found = [one for one in lines if one[0] == own] or [one for one in lines if one[0] != __file__]
        return f" ({Path(found[-1][0]).name}:{found[-1][1]})" if found else ""


def unguarded(algorithm: Algorithm) -> Any:
    """Returns the algorithm without its guard."""
    return algorithm.algorithm if isinstance(algorithm, Guarded) else algorithm


def facts_of(algorithm: Algorithm) -> AlgorithmFacts:
    """Returns the properties of an algorithm that go into a record, so that a replay need not import it.  Raises
    Faulty."""
    own = unguarded(algorithm)
    stale = [own.staleness, float(own.a), float(own.b)] if isinstance(own, Stale) else None
    return AlgorithmFacts(algorithm.keeps_uncounted, algorithm.any_cohort_will_do, algorithm.cohort_rule, stale)


@dataclass(frozen=True)
class GuardedSelection:
    """A Selection (algorithms/selection/past.py) for the algorithm `label`; it raises Faulty for its own mistakes."""

    label: str
    selection: Selection

    @property
    def loss_power(self) -> int:
        return self.selection.loss_power

    def cohort(self, *args: Any) -> Sequence[str]:
        chosen: Sequence[str] = Guarded(self.label, self.selection).cohort(*args)  # type: ignore[attr-defined]
        return chosen


@dataclass(frozen=True)
class Unmade:
    """A substitute for an algorithm that could not be made: every use raises the reason."""

    why: Faulty

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own attributes, for example for copying and pickling
            raise AttributeError(name)
        raise self.why


class _Unfit(Exception):  # noqa: N818
    """A method returned a value of the wrong form; the error's message goes on after the method's name, as "train()
    "."""


def _where(args: Sequence[Any]) -> str:
    """Returns the round and the device of a call in words, from the first argument that has a round."""
    told = next(arg for arg in args if isinstance(arg, (int, Load, Party)))
    if isinstance(told, Party) and told.name != "server":
        return f", round {told.round}, device {told.name}"
    return f", round {told if isinstance(told, int) else told.round}"


def _kind_of(value: object) -> str:
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _model_of(party: Party) -> Shapes:
    from algorithms.training.tensors import tensors_of  # imports torch

    return _shapes(tensors_of(party.model))


def _shapes(tensors: Tensors) -> Shapes:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}


class _Forms:
    """The form of a round's uploads, which all devices share; the algorithm is asked for it once."""

    def __init__(self) -> None:
        self.asked: tuple[Any, ...] = ()
        self.shapes: dict[str, Shapes] = {}

    def __call__(self, algorithm: Algorithm, device: Party) -> Mapping[str, Shapes]:
        asked = algorithm, device.round, device.model
        if len(self.asked) != len(asked) or any(one is not other for one, other in zip(self.asked, asked, strict=True)):
            form = algorithm.upload_form(device.round, device.model)
            self.asked, self.shapes = asked, {kind: _shapes(tensors) for kind, tensors in form.items()}
        return self.shapes


_forms = _Forms()


# ---- checks of each kind of result; each takes the result, the algorithm, and the arguments of the call


def _form_of(found: Any, _algorithm: Algorithm, _args: Sequence[Any]) -> Message:
    _sendable(found, "returned")
    return dict(found)


def _state(found: Any, _algorithm: Algorithm, args: Sequence[Any]) -> Message:
    if not isinstance(found, Mapping) or "weights" not in found:
        kinds = f"a mapping with {_listed(found)}" if isinstance(found, Mapping) else _kind_of(found)
        raise _Unfit(f'must return {{"weights": ...}}, the model by the names of its tensors, not {kinds}')
    _sendable(found, "returned")
    server: Party = args[-1]
    _same(found["weights"], _model_of(server), "weights")
    for name, tensor in found["weights"].items():
        if not (finite(tensor) or payload.finite(tensor.cpu().numpy(), server.constants.get(name))):
            raise _Unfit(f"returned weights that are not finite ({name})")
    return dict(found)


def _cohort(found: Any, algorithm: Algorithm, args: Sequence[Any]) -> Sequence[str]:
    names: Sequence[str] = args[1]
    count: int = args[2]
    if isinstance(found, (str, Mapping)) or not hasattr(found, "__iter__"):
        raise _Unfit(f"must return a list of device names, not {_kind_of(found)}")
    chosen: Sequence[str] = found if isinstance(found, (list, tuple)) else list(found)
    if not (1 <= len(chosen) <= count or len(chosen) == len(names)):
        raise _Unfit(f"must return 1 to {count} of the names, or all of them; it returned {len(chosen)}")
    if chosen is names:
        return names
    for name in chosen:
        if not _is_among(name, names):
            raise _Unfit(f"must return some of the names that it is given; {name!r} is none of them")
    if len(set(chosen)) < len(chosen):
        raise _Unfit("must name each device once")
    if getattr(algorithm, "cohort_rule", "chosen") == "drawn" and list(chosen) != list(draw(*args[1:])):
        raise _Unfit('chose others than FedAvg draws, as cohort_rule says; set cohort_rule = "own" in its class')
    return chosen


def _is_among(name: Any, names: Sequence[str]) -> bool:
    """Returns true if `name` is one of these names, which are sorted and may be a million."""
    place = bisect_left(names, name) if isinstance(name, str) else len(names)
    return place < len(names) and names[place] == name


def _request(found: Any, algorithm: Algorithm, _args: Sequence[Any]) -> Request:
    if not isinstance(found, Request):
        raise _Unfit(f'must return a Request, as Request({{"weights": ...}}), not {_kind_of(found)}')
    if not isinstance(found.extra, Mapping):
        raise _Unfit(f"must give `extra` as a mapping of device names, not {_kind_of(found.extra)}")
    for message in (found.download, *found.extra.values()):
        _sendable(message, "sends")
        if unknown := set(message) - set(algorithm.downloads):
            known = _listed(algorithm.downloads)
            raise _Unfit(f"sends {_listed(unknown)}; `downloads` must name every kind, and has {known}")
    return found


def _reply(found: Any, algorithm: Algorithm, args: Sequence[Any]) -> Reply:
    if not isinstance(found, Reply):
        raise _Unfit(f'must return a Reply, as Reply({{"weights": ...}}, examples), not {_kind_of(found)}')
    device: Party = args[-1]
    _uploaded(found.upload, _forms(algorithm, device))
    if type(found.examples) is not int:
        raise _Unfit(f"must say how many `examples` it used as an int, not {_kind_of(found.examples)}")
    _sendable(found.memory, "keeps")
    _sendable(found.if_counted, "keeps")
    if found.memory and not algorithm.keeps_uncounted:
        raise _Unfit(f"keeps {_listed(found.memory)} in `memory`, but `keeps_uncounted` is False; it must be True")
    if found.model:
        _sendable({"model": found.model}, "returned")
        _same(found.model, _model_of(device), "a model")
    for what in ("leverage", "numbers"):
        _numbers(what, getattr(found, what))
    return found


def _uploaded(upload: Any, form: Mapping[str, Shapes]) -> None:
    _sendable(upload, "uploads")
    if set(upload) != set(form):
        raise _Unfit(f"uploads {_listed(upload)}; `upload_form` says {_listed(form)}")
    for kind, shapes in form.items():
        _same(upload[kind], shapes, kind)


def _numbers(what: str, told: Any) -> None:
    if not isinstance(told, Mapping):
        raise _Unfit(f"must give `{what}` as a mapping of numbers, not {_kind_of(told)}")
    for name, value in told.items():
        if not isinstance(name, str) or not isinstance(value, (int, float)):
            raise _Unfit(f"says a {what.rstrip('s')} of {name!r}: {value!r}; it must be a name and a number")


def _work(found: Any, _algorithm: Algorithm, _args: Sequence[Any]) -> Work:
    phases = tuple(found) if isinstance(found, (list, tuple)) else None
    if phases is None or not all(isinstance(phase, Phase) for phase in phases):
        raise _Unfit(f"must return a tuple of Phases, as (Phase(...),), not {_of_what(found)}")
    return phases


def _number(found: Any, _algorithm: Algorithm, _args: Sequence[Any]) -> float:
    number = float(found)
    if not 0 <= number < math.inf:
        raise _Unfit(f"must return a number that is 0 or more, and finite, not {number}")
    return number


def _of_what(found: Any) -> str:
    if not isinstance(found, (list, tuple)):
        return _kind_of(found)
    return f"{_kind_of(found)} with {next(_kind_of(one) for one in found if not isinstance(one, Phase))}"


def _sendable(message: Any, does: str) -> None:
    """Raises _Unfit unless the message consists of kinds of named tensors that can be encoded."""
    if not isinstance(message, Mapping):
        raise _Unfit(f"{does} {_kind_of(message)}; it must be a mapping of kinds, for example {{'weights': ...}}")
    for kind, tensors in message.items():
        if not isinstance(tensors, Mapping):
            raise _Unfit(f"{does} {kind!r} as {_kind_of(tensors)}; it must be a mapping of names to tensors")
        for name, tensor in tensors.items():
            if fault := _untravelled(tensor):
                raise _Unfit(f"{does} {name!r} of {kind!r} {fault}")


def _untravelled(tensor: Any) -> str | None:
    import torch

    if not isinstance(tensor, torch.Tensor):
        return f"as {_kind_of(tensor)}; it must be a tensor"
    if tensor.requires_grad:
        return "with its gradient's history; detach() it"
    return None if _travels(tensor.dtype) else f"as {tensor.dtype}; it must be one of {', '.join(payload.DTYPES)}"


@cache
def _travels(dtype: torch.dtype) -> bool:
    return str(dtype).removeprefix("torch.") in payload.DTYPES


def _same(tensors: Tensors, wanted: Shapes, kind: str) -> None:
    for name in sorted(map(str, tensors.keys() ^ wanted.keys())):
        what = f"without {name!r}" if name in wanted else f"with {name!r}, which the model has not"
        raise _Unfit(f"returned {kind} {what}")
    for name, (dtype, shape) in wanted.items():
        found = tensors[name]
        if (found.dtype, found.shape) != (dtype, shape):
            raise _Unfit(
                f"returned {kind} with {name!r} as {_form(found.dtype, found.shape)}; it must be {_form(dtype, shape)}"
            )


def _form(dtype: torch.dtype, shape: torch.Size) -> str:
    return f"{str(dtype).removeprefix('torch.')} {tuple(shape)}"


def _truth(found: Any, _algorithm: Algorithm, _args: Sequence[Any]) -> bool:
    if not isinstance(found, bool):
        raise _Unfit(f"must return True or False, not {_kind_of(found)}")
    return found


def _listed(kinds: Collection[Any]) -> str:
    return ", ".join(sorted(map(str, kinds))) or "nothing"


def _word(found: Any, _algorithm: Algorithm, _args: Sequence[Any]) -> str:
    if not isinstance(found, str):
        raise _Unfit(f"must return words, as 'train', not {_kind_of(found)}")
    return found


# ---- the members of a Guarded

LOOKS: Mapping[Answer, Callable[[Any, Algorithm, Sequence[Any]], Any]] = {
    "form": _form_of,
    "state": _state,
    "names": _cohort,
    "request": _request,
    "reply": _reply,
    "work": _work,
    "number": _number,
    "word": _word,
    "truth": _truth,
}


def _fact(name: str) -> property:
    def fact(self: Guarded) -> Any:
        try:
            return getattr(self.algorithm, name)
        except CAUGHT as error:
            raise self.fault(error, name) from None

    return property(fact)


def _method(name: str, look: Callable[[Any, Algorithm, Sequence[Any]], Any]) -> Callable[..., Any]:
    def method(self: Guarded, *args: Any) -> Any:
        try:
            return look(getattr(self.algorithm, name)(*args), self.algorithm, args)
        except CAUGHT as error:
            raise self.fault(error, f"{name}()", _where(args)) from None

    def in_turn(self: Guarded, *args: Any) -> Any:
        with TURN:
            from algorithms.training.seeding import seeded  # imports torch

            seeded(args[-1])
            return method(self, *args)

    return in_turn if look is _cohort else method  # a cohort rule may seed torch, while jobs draw from it


for _name, _answer in INTERFACE.items():
    setattr(Guarded, _name, _fact(_name) if _answer == "fact" else _method(_name, LOOKS[_answer]))

"""An algorithm whose every call is looked at: what its own code raises, or returns in the wrong form, is one line.

The line says which run, round and device, which half, what happened, and where in the algorithm's own file.
With FEDLAPSE_TRACEBACK=1 in the environment the whole traceback goes to stderr as well.
"""

from __future__ import annotations

import os
import sys
import traceback
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from algorithms.algorithm import Algorithm, Load, Message, Party, Phase, Reply, Request, Tensors, Training, Work
from network.wire import payload
from scenarios.text.faults import BadScenario, in_one_line

TRACEBACK = "FEDLAPSE_TRACEBACK"

Shapes = Mapping[str, tuple[torch.dtype, torch.Size]]  # by the tensor's name


class Faulty(BadScenario):
    """An algorithm's own code has failed: whose, where (", round 0, device pi-4-0"), and what it did.

    Its arguments are its parts: SimPy and pickle build exceptions anew from them.
    """

    def __init__(self, label: str, where: str, said: str) -> None:
        ValueError.__init__(self, label, where, said)

    def __str__(self) -> str:
        label, where, said = self.args
        return in_one_line(f"{label}{where}: {said}")

    def under(self, seed: int) -> Faulty:
        """The same, with the seed of the run in which it happened."""
        label, where, said = self.args
        return Faulty(label, f", seed {seed}{where}", said)


@dataclass(frozen=True)
class Vetted:
    """See algorithms.algorithm.Algorithm.  Every method raises Faulty for what is the algorithm's own mistake.

    Whether an upload is finite is the server's to say: it refuses that one, and the run goes on.
    """

    label: str
    algorithm: Algorithm

    @property
    def downloads(self) -> Collection[str]:
        return self.algorithm.downloads

    @property
    def uploads(self) -> Collection[str]:
        return self.algorithm.uploads

    @property
    def squares(self) -> Collection[str]:
        return self.algorithm.squares

    @property
    def sums_only(self) -> bool:
        return self.algorithm.sums_only

    @property
    def encodings(self) -> Mapping[str, str]:
        return self.algorithm.encodings

    def download_form(self, server: Party) -> Message:
        with self._blamed("download_form"):
            return _form_of(self.algorithm.download_form(server))

    def upload_form(self, round: int, model: nn.Module) -> Message:
        with self._blamed("upload_form", f", round {round}"):
            return _form_of(self.algorithm.upload_form(round, model))

    @property
    def training(self) -> Training:
        return self.algorithm.training

    def start(self, weights: Tensors, server: Party) -> Message:
        with self._blamed("start"):
            model = _shapes(weights)
            return _state(self.algorithm.start(weights, server), model)

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        with self._blamed("cohort", f", round {round}"):
            return _cohort(self.algorithm.cohort(round, names, count, seed), names, count)

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:
        with self._blamed("request", _at(server)):
            return _request(self.algorithm.request(state, names, server), self.downloads)

    def train(self, download: Message, device: Party) -> Reply:
        with self._blamed("train", _at(device)):
            form = self.algorithm.upload_form(device.round, device.model)
            wanted = {kind: _shapes(tensors) for kind, tensors in form.items()}
            return _reply(self.algorithm.train(download, device), wanted, _shapes(device.model.state_dict()))

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        with self._blamed("combine", _at(server)):
            model = _shapes(state["weights"])
            return _state(self.algorithm.combine(state, replies, server), model)

    def request_work(self, load: Load) -> Work:
        with self._blamed("request_work", f", round {load.round}"):
            return _work(self.algorithm.request_work(load))

    def device_work(self, load: Load) -> Work:
        with self._blamed("device_work", f", round {load.round}"):
            return _work(self.algorithm.device_work(load))

    def combine_work(self, load: Load) -> Work:
        with self._blamed("combine_work", f", round {load.round}"):
            return _work(self.algorithm.combine_work(load))

    def device_floats(self, load: Load) -> float:
        with self._blamed("device_floats", f", round {load.round}"):
            return float(self.algorithm.device_floats(load))

    @contextmanager
    def _blamed(self, half: str, where: str = "") -> Iterator[None]:
        try:
            yield
        except _Unfit as unfit:
            raise Faulty(self.label, where, f"{half}() {unfit}") from None
        except (Exception, SystemExit) as error:  # a user's own code may raise anything; its message is what helps
            if os.environ.get(TRACEBACK):
                traceback.print_exception(error)
            said = ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split()))))
            raise Faulty(self.label, where, f"{half}() raised {_short(said)}{self._place(error)}") from None

    def _place(self, error: BaseException) -> str:
        """Where it was raised: the innermost line of the algorithm's own file, or else of any but this."""
        lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        own = getattr(sys.modules.get(type(self.algorithm).__module__), "__file__", None)
        found = [one for one in lines if one[0] == own] or [one for one in lines if one[0] != __file__]
        return f" ({Path(found[-1][0]).name}:{found[-1][1]})" if found else ""


class _Unfit(Exception):  # noqa: N818
    """What a half returned has not the right form; the message goes on after "train() "."""


def _short(said: str) -> str:
    """So that the place, which comes after it, is never cut off."""
    return in_one_line(said, 160)


def _at(party: Party) -> str:
    return f", round {party.round}" + (f", device {party.name}" if party.name != "server" else "")


def _kind_of(value: object) -> str:
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _shapes(tensors: Tensors) -> Shapes:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}


def _form_of(found: Any) -> Message:
    _sendable(found, "returned")
    return dict(found)


def _state(found: Any, model: Shapes) -> Message:
    if not isinstance(found, Mapping) or "weights" not in found:
        kinds = f"a mapping with {_listed(found)}" if isinstance(found, Mapping) else _kind_of(found)
        raise _Unfit(f'must return {{"weights": ...}}, the model by the names of its tensors, not {kinds}')
    _sendable(found, "returned")
    _same(found["weights"], model, "weights")
    for name, tensor in found["weights"].items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise _Unfit(f"returned weights that are not finite ({name})")
    return dict(found)


def _cohort(found: Any, names: Sequence[str], count: int) -> Sequence[str]:
    if isinstance(found, (str, Mapping)) or not hasattr(found, "__iter__"):
        raise _Unfit(f"must return a list of device names, not {_kind_of(found)}")
    chosen: Sequence[str] = found if isinstance(found, (list, tuple)) else list(found)
    if not (1 <= len(chosen) <= count or len(chosen) == len(names)):
        raise _Unfit(f"must return 1 to {count} of the names, or all of them; it returned {len(chosen)}")
    if chosen is names:
        return names
    for name in chosen:
        place = bisect_left(names, name) if isinstance(name, str) else len(names)  # names are sorted, maybe a million
        if place == len(names) or names[place] != name:
            raise _Unfit(f"must return some of the names that it is given; {name!r} is none of them")
    if len(set(chosen)) < len(chosen):
        raise _Unfit("must name each device once")
    return chosen


def _request(found: Any, kinds: Collection[str]) -> Request:
    if not isinstance(found, Request):
        raise _Unfit(f'must return a Request, as Request({{"weights": ...}}), not {_kind_of(found)}')
    if not isinstance(found.extra, Mapping):
        raise _Unfit(f"must give `extra` as a mapping of device names, not {_kind_of(found.extra)}")
    for message in (found.download, *found.extra.values()):
        _sendable(message, "sends")
        if unknown := set(message) - set(kinds):
            raise _Unfit(f"sends {_listed(unknown)}; `downloads` must name every kind, and has {_listed(kinds)}")
    return found


def _reply(found: Any, wanted: Mapping[str, Shapes], model: Shapes) -> Reply:
    if not isinstance(found, Reply):
        raise _Unfit(f'must return a Reply, as Reply({{"weights": ...}}, examples), not {_kind_of(found)}')
    _sendable(found.upload, "uploads")
    if set(found.upload) != set(wanted):
        raise _Unfit(f"uploads {_listed(found.upload)}; `upload_form` says {_listed(wanted)}")
    for kind, shapes in wanted.items():
        _same(found.upload[kind], shapes, kind)
    if type(found.examples) is not int:
        raise _Unfit(f"must say how many `examples` it used as an int, not {_kind_of(found.examples)}")
    _sendable(found.memory, "keeps")
    _sendable(found.if_counted, "keeps")
    if found.model:
        _sendable({"model": found.model}, "returned")
        _same(found.model, model, "a model")
    for what in ("leverage", "numbers"):
        told = getattr(found, what)
        if not isinstance(told, Mapping):
            raise _Unfit(f"must give `{what}` as a mapping of numbers, not {_kind_of(told)}")
        for name, value in told.items():
            if not isinstance(name, str) or not isinstance(value, (int, float)):
                raise _Unfit(f"says a {what.rstrip('s')} of {name!r}: {value!r}; it must be a name and a number")
    return found


def _work(found: Any) -> Work:
    phases = tuple(found) if isinstance(found, (list, tuple)) else None
    if phases is None or not all(isinstance(phase, Phase) for phase in phases):
        raise _Unfit(f"must return a tuple of Phases, as (Phase(...),), not {_of_what(found)}")
    return phases


def _of_what(found: Any) -> str:
    if not isinstance(found, (list, tuple)):
        return _kind_of(found)
    return f"{_kind_of(found)} with {next(_kind_of(one) for one in found if not isinstance(one, Phase))}"


def _sendable(message: Any, does: str) -> None:
    """Raises _Unfit unless it is kinds of named tensors that can travel."""
    if not isinstance(message, Mapping):
        raise _Unfit(f"{does} {_kind_of(message)}; it must be a mapping of kinds, as {{'weights': ...}}")
    for kind, tensors in message.items():
        if not isinstance(tensors, Mapping):
            raise _Unfit(f"{does} {kind!r} as {_kind_of(tensors)}; it must be a mapping of names to tensors")
        for name, tensor in tensors.items():
            if fault := _untravelled(tensor):
                raise _Unfit(f"{does} {name!r} of {kind!r} {fault}")


def _untravelled(tensor: Any) -> str | None:
    if not isinstance(tensor, Tensor):
        return f"as {_kind_of(tensor)}; it must be a tensor"
    if tensor.requires_grad:
        return "with its gradient's history; detach() it"
    known = str(tensor.dtype).removeprefix("torch.") in payload.DTYPES
    return None if known else f"as {tensor.dtype}; it must be one of {', '.join(payload.DTYPES)}"


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


def _listed(kinds: Collection[Any]) -> str:
    return ", ".join(sorted(map(str, kinds))) or "nothing"

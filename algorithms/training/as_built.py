"""Restores a network to its state after construction, apart from its weights.

A forward pass may keep anything: buffers that are not saved, tensors, counters, lists, a hidden state, the content of a
hook's closure.  In a process one network serves all devices, runs and evaluations, one after another; each of them
begins with the network as it was built, and with its own weights (tensors.py).

It is restored in place: copying takes as long as some steps of a small network, and in a copy a hook that refers to its
network would refer to the wrong one.  Variables of modules and classes are not restored.
"""

from __future__ import annotations

import copy
import pickle
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import BuiltinMethodType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from algorithms.networks import FROZEN

KEY = "as_built"  # the network's own attribute
STAYS = "as_settled"  # another, of settled.py: {name of a tensor that is in no message: why}
MODE = "training"  # a layer's attribute: train mode or eval mode
STILL = (int, float, complex, str, bytes, type(None))
MAPPINGS, ROWS = (dict, OrderedDict, defaultdict), (list, deque)


def remember(model: nn.Module) -> nn.Module:
    """Returns the model, after recording its present state for `restore`."""
    if vars(model).get(KEY) is None:
        AsBuilt(model)
    return model


def restore(model: nn.Module) -> None:
    """Restores the recorded state of the model, including modes and hooks; its weights keep their values.  A model
    without a record does not change."""
    if (built := vars(model).get(KEY)) is not None:
        built.restore()


def has_changed(model: nn.Module) -> bool:
    """Returns true if anything reachable from the network differs from its record (`remember`), apart from weights and
    modes."""
    built: AsBuilt = vars(model)[KEY]
    return built.has_changed()


class _Place(NamedTuple):
    """Two functions for one value that is reachable from a network: `now` reads it, `put` replaces it."""

    now: Callable[[], Any]
    put: Callable[[Any], object]


class AsBuilt:
    """Everything that is reachable from a network, with its value after construction."""

    def __init__(self, model: nn.Module) -> None:
        vars(model)[KEY] = self
        stays = vars(model).get(STAYS, {})  # a frozen buffer is restored as all else is
        saved = [value for name, value in model.state_dict(keep_vars=True).items() if stays.get(name) != FROZEN]
        weights = (*model.parameters(), *saved)
        self.known: dict[int, Any] = {id(each): each for each in (self, *weights)}  # by id: what deepcopy must not copy
        self.memory = {each.untyped_storage().data_ptr() for each in weights if isinstance(each, Tensor)}
        self.trained = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
        self.tensors: list[tuple[Tensor, Tensor]] = []
        self.generators: list[tuple[_Place, Any]] = []  # random generators: the place of the state, and the state
        self.mappings: list[tuple[Any, dict[Any, Any]]] = []
        self.rows: list[tuple[Any, list[Any]]] = []
        self.sets: list[tuple[set[Any], set[Any]]] = []
        self.cells: list[tuple[CellType, Any]] = []  # of closures
        self.others: list[tuple[_Place, Any]] = []  # objects that only their own code can copy, by place, with a copy
        self._reach(model)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Drops the record from copies of the network."""
        return type(None), ()

    def restore(self) -> None:
        """Gives everything reachable from the network the value that it had after construction, except the weights."""
        for mapping, held in self.mappings:
            if mapping or held:
                mapping.clear()
                mapping.update(held)
        for row, values in self.rows:
            row.clear()
            row.extend(values)
        for found, were in self.sets:
            found.clear()
            found.update(were)
        for cell, value in self.cells:
            cell.cell_contents = value
        with torch.no_grad():
            for tensor, numbers in self.tensors:
                tensor.copy_(numbers)
        for place, state in self.generators:
            place.put(state)
        for parameter, wanted in self.trained:
            parameter.requires_grad_(wanted)
        if self.others:
            copies = copy.deepcopy([value for _, value in self.others], dict(self.known))
            for (place, _), value in zip(self.others, copies, strict=True):
                place.put(value)

    def has_changed(self) -> bool:
        """Returns true if anything reachable from the network differs from its value after construction, apart from
        weights and modes."""
        mappings = [(_without_mode(of), _without_mode(held)) for of, held in self.mappings]
        return not (
            all(of.keys() == held.keys() for of, held in mappings)
            and all(self._same(map(of.get, held), held.values()) for of, held in mappings)
            and all(len(row) == len(values) and self._same(row, values) for row, values in self.rows)
            and all(found == were for found, were in self.sets)
            and all(self._same([cell.cell_contents], [value]) for cell, value in self.cells)
            and all(torch.equal(tensor, numbers) for tensor, numbers in self.tensors)
            and all(_equal(place.now(), state) for place, state in self.generators)
            and all(parameter.requires_grad == wanted for parameter, wanted in self.trained)
            and all(_said(place.now()) == _said(value) for place, value in self.others)
        )

    def _same(self, found: Iterable[Any], were: Iterable[Any]) -> bool:
        """Returns true if each object in `found` is the one recorded in `were`, or a constant (a number, a string,
        bytes or None) equal to it.  Recorded objects outside `known` are skipped: they are restored as copies, if at
        all."""
        pairs = zip(found, were, strict=True)
        return all(
            one is was or (one == was if isinstance(was, STILL) else id(was) not in self.known) for one, was in pairs
        )

    def _reach(self, model: nn.Module) -> None:
        others: list[tuple[_Place, Any]] = []
        todo: list[tuple[_Place | None, Any]] = [(None, model)]
        while todo:
            place, value = todo.pop()
            if id(value) in self.known or isinstance(value, STILL):
                continue
            if (parts := self._parts(value)) is not None:
                self.known[id(value)] = value
                todo.extend(parts)
            elif place is not None:
                others.append((place, value))
        memo = dict(self.known)
        for place, value in others:
            with suppress(Exception):  # a file or a lock cannot be copied: it is not restored
                if (copied := copy.deepcopy(value, memo)) is not value:
                    self.others.append((place, copied))

    def _parts(self, value: Any) -> Sequence[tuple[_Place | None, Any]] | None:
        """Records a value, and returns the values to which it refers, each with its place (None if it need not be
        replaced there).  Returns None, without a record, if only the object's own code knows how it is copied."""
        if isinstance(value, Tensor):
            if value.layout is not torch.strided:
                return None
            if value.untyped_storage().data_ptr() not in self.memory:  # otherwise it is a view of a weight
                whole = torch.empty(0, dtype=value.dtype, device=value.device)  # as a view may hold one value twice
                whole.set_(value.untyped_storage())
                self.tensors.append((whole, whole.clone()))
            return []
        if (place := _state_of(value)) is not None:
            self.generators.append((place, place.now()))
            return []
        if type(value) in MAPPINGS:
            self.mappings.append((value, dict(value)))
            return [(_at(value, key), part) for key, part in value.items()]
        if type(value) in ROWS:
            self.rows.append((value, list(value)))
            return [(_at(value, k), part) for k, part in enumerate(value)]
        if type(value) is set:
            self.sets.append((value, set(value)))
            return []
        if isinstance(value, FunctionType):
            cells = map(self._cell, value.__closure__ or ())
            return [(None, value.__defaults__), (None, value.__kwdefaults__), (None, vars(value)), *cells]
        leads_to = _leads_to(value)
        return None if leads_to is None else [(None, part) for part in leads_to]

    def _cell(self, cell: CellType) -> tuple[_Place | None, Any]:
        try:
            value = cell.cell_contents
        except ValueError:  # the cell is empty
            return None, None
        self.cells.append((cell, value))
        return _Place(partial(getattr, cell, "cell_contents"), partial(setattr, cell, "cell_contents")), value


def _at(container: Any, key: Any) -> _Place:
    return _Place(partial(container.__getitem__, key), partial(container.__setitem__, key))


def _without_mode(mapping: Any) -> dict[Any, Any]:
    return {key: value for key, value in mapping.items() if key != MODE}


def _said(value: Any) -> bytes | None:
    """Returns an object's content as pickled bytes; None if it cannot be pickled."""
    try:
        return pickle.dumps(value)
    except Exception:  # its own code may raise anything
        return None


def _state_of(value: Any) -> _Place | None:
    """Returns the state of a random generator as a place; None for other values and for the process's own generators,
    which are seeded (seeding.py)."""
    match value:
        case torch.Generator():
            return _Place(value.get_state, value.set_state)
        case random.Random() if value is not random.random.__self__:  # type: ignore[attr-defined]
            return _Place(value.getstate, value.setstate)
        case np.random.Generator():
            held = value.bit_generator
            return _Place(partial(getattr, held, "state"), partial(setattr, held, "state"))
    return None


def _equal(state: Any, was: Any) -> bool:
    """Returns true if a generator's state equals an earlier one; false if they cannot be compared."""
    if isinstance(was, Tensor):
        return torch.equal(state, was)
    try:
        return bool(state == was)
    except ValueError:  # the states contain arrays
        return False


def _leads_to(value: Any) -> Sequence[Any] | None:
    """Returns the objects to which a value that is no container refers; None if only the value's own code knows how it
    is copied."""
    match value:
        case tuple():
            return value
        case MethodType():
            return [value.__self__, value.__func__]
        case BuiltinMethodType():
            return [value.__self__]
        case partial():
            return [value.func, value.args, value.keywords]
        case nn.Module():
            return [vars(value)]
    return [vars(value)] if _plain(value) else None


def _plain(value: Any) -> bool:
    """Returns true if everything that the object holds is in its __dict__."""
    kind: Any = type(value)
    known = type(getattr(value, "__dict__", None)) is dict and not isinstance(value, type | ModuleType)
    return known and kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__

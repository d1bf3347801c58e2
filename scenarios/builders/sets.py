"""Reads the data sets that scenarios may name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pydantic import ConfigDict, ValidationError, validate_call

from devices.data.dataset import Dataset
from devices.data.finite import check_finite
from scenarios.builders.plugins import UnknownName, thing
from scenarios.schema.scenario import Data
from scenarios.text.faults import BadScenario, did_you_mean

SETS: Mapping[str, str] = {  # imported on demand: some imports take a second
    "babble": "devices.data.babble:babble",
    "cifar10": "devices.data.cifar:cifar10",
    "digits": "devices.data.digits:digits",
    "fashion-mnist": "devices.data.idx:fashion_mnist",
    "femnist": "devices.data.leaf:femnist",
    "leaf-reddit": "devices.data.leaf_text:leaf_reddit",
    "leaf-shakespeare": "devices.data.leaf_text:leaf_shakespeare",
    "mnist": "devices.data.idx:mnist",
    "qmnist": "devices.data.qmnist:qmnist",
    "reddit": "devices.data.reddit:reddit",
    "shakespeare": "devices.data.shakespeare:shakespeare",
}
SET = ("data", "set")
OF_THE_DATA = ("root", "download")  # arguments of readers that are keys of their own


def dataset(said: Data) -> Dataset:
    """Returns the data that a scenario names.

    Raises BadScenario if files are missing or damaged, options are wrong, or a value is not finite.
    """
    made = _own(said.set, said.options) if ":" in said.set else _read(said)
    try:
        check_finite(made)
    except ValueError as error:
        raise BadScenario(str(error), SET) from None
    return made


def _read(said: Data) -> Dataset:
    """Returns a built-in data set.  Raises BadScenario."""
    reader = resolve_name(SETS[said.set])
    known = options_of(said.set)
    for name in said.options:
        if name not in known:
            takes = did_you_mean(name, known) if known else f"{said.set} takes none"
            raise BadScenario(f"there is no option {name!r}; {takes}", ("data", "options", name))
    options = dict(said.options)
    if "root" in signature(reader).parameters:
        options["root"] = _folder(said)
    if "download" in signature(reader).parameters:
        options["download"] = said.download
    try:
        made: Dataset = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(reader)(**options)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadScenario(f"{first['msg']}, not {first['input']!r}", ("data", "options", *first["loc"])) from None
    except (OSError, ValueError, RuntimeError) as error:
        raise BadScenario(" ".join(str(error).split()), ("data",)) from None
    return made


def options_of(name: str) -> list[str]:
    """Returns the options of a data set's reader, besides `root` and `download`."""
    return [option for option in signature(resolve_name(SETS[name])).parameters if option not in OF_THE_DATA]


def _folder(said: Data) -> Path:
    root = said.root or os.environ.get("FEDLAPSE_DATA") or "data"
    try:
        return Path(root).expanduser()
    except RuntimeError:
        raise BadScenario(f"there is no such home folder as in {root!r}", ("data", "root")) from None


def _own(path: str, options: Mapping[str, Any]) -> Dataset:
    from algorithms.training.seeding import seeded  # imports torch

    seeded(0)  # global generators draw the same in each run
    try:
        found = thing(path)
        made = found(**options) if callable(found) else found
    except UnknownName as error:
        raise BadScenario(str(error), SET) from None
    except (Exception, SystemExit) as error:  # a user's code may raise anything; its message helps the user
        said = " ".join(str(error).split())
        raise BadScenario(f"{path}() failed: {type(error).__name__}: {said}", SET) from None
    if not isinstance(made, Dataset):
        raise BadScenario(f"{path}() must return a devices.data.dataset.Dataset, not {type(made).__name__}", SET)
    return made
